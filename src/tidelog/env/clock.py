"""The time, from a clock that is passed in so that tests can control it. Kafka: ``Time``."""

from __future__ import annotations

import time
from typing import Final, NamedTuple, Protocol

MS_PER_S: Final = 1000
NS_PER_MS: Final = 1_000_000


class Clock(Protocol):
    """The wall clock, and a clock that never goes back. Source: Kafka Time."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch; may jump when the system clock is set."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an arbitrary moment; for durations only."""


class SystemClock:
    """The system clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // NS_PER_MS

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an arbitrary moment."""
        return time.monotonic_ns()


SYSTEM_CLOCK: Final[Clock] = SystemClock()


class ClockAt(NamedTuple):
    """A clock whose time of day is fixed, as plans assume it; its monotonic time runs."""

    time_ms: int

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return self.time_ms

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an arbitrary moment."""
        return SYSTEM_CLOCK.monotonic_ns()
