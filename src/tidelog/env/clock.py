"""What time it is, as a value that is passed in.

Owns the ``Clock`` protocol and the machine's own clock. Must not know who asks. Kafka: ``Time``.
"""

from __future__ import annotations

import time
from typing import Final, Protocol


class Clock(Protocol):
    """The time of day, and a time that never goes back. Source: Kafka Time."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch; may jump when the machine's clock is set."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds since some fixed moment; for durations only."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        """Return nanoseconds since some fixed moment."""
        return time.monotonic_ns()


SYSTEM_CLOCK: Final[Clock] = SystemClock()
