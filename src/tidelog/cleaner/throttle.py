"""The rate limit that all cleaners share, and how each of them reads and writes under it.

Kafka: ``Throttler`` and ``LogCleaner.CleanerThread.checkDone``.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.env.clock import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.clock import Clock

CHECK_INTERVAL_NS: Final = 300_000_000
STOP_POLL_MS: Final = 10
"""The longest single sleep: a throttled cleaner that has to stop does so within this time."""


class Throttler:
    """Keeps the bytes that all cleaners read and write at or below a rate, on average.

    ``_lock`` guards the rate, the counts and the period; no thread sleeps while it holds it.
    Source: Kafka Throttler.

    Args:
        bytes_per_second: the rate; negative: no limit.
        clock: measures the periods.
        sleep_ms: sleeps for a number of milliseconds.
    """

    def __init__(
        self, bytes_per_second: float, clock: Clock, sleep_ms: Callable[[int], None]
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self.total_bytes = 0
        self._clock: Final = clock
        self._sleep_ms: Final = sleep_ms
        self._lock: Final = Lock()
        self._period_start_ns = clock.monotonic_ns()
        self._observed_bytes = 0

    def update_rate(self, bytes_per_second: float) -> None:
        """Replace the rate. A new rate starts a new period, free of the old one's delay."""
        with self._lock:
            if bytes_per_second != self.bytes_per_second:
                self.bytes_per_second = bytes_per_second
                self._period_start_ns = self._clock.monotonic_ns()
                self._observed_bytes = 0

    def maybe_throttle(self, observed_bytes: int, check_done: Callable[[], None]) -> None:
        """Count bytes read or written; sleep if they came faster than the rate allows.

        ``check_done`` is called before each ``STOP_POLL_MS`` of sleep; what it raises ends the
        sleep and is passed on. The bytes stay counted, so that the rate holds for the others.
        """
        wait_ms = 0
        with self._lock:
            self.total_bytes += observed_bytes
            self._observed_bytes += observed_bytes
            now_ns = self._clock.monotonic_ns()
            elapsed_ns = now_ns - self._period_start_ns
            if elapsed_ns > CHECK_INTERVAL_NS and self._observed_bytes:
                rate = self.bytes_per_second
                due_ns = 0 if rate < 0 else self._observed_bytes / rate * 1e9
                wait_ms = max(round((due_ns - elapsed_ns) / NS_PER_MS), 0)
                self._period_start_ns = now_ns + wait_ms * NS_PER_MS
                self._observed_bytes = 0
        while wait_ms > 0:
            check_done()
            step_ms = min(wait_ms, STOP_POLL_MS)
            self._sleep_ms(step_ms)
            wait_ms -= step_ms


class CleanerIo:
    """How one cleaner reads and writes: in pieces, throttled, until it has to stop.

    Args:
        piece_bytes: bytes to read at a time, and to gather before they are written.
        check_done: raises CleaningAborted when the cleaning has to stop. Source: Kafka checkDone.
        throttler: the limit shared with other cleaners; None for no limit.
        watch_read: called with the bytes of each read.
    """

    def __init__(
        self,
        piece_bytes: int,
        check_done: Callable[[], None],
        throttler: Throttler | None = None,
        watch_read: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.piece_bytes: Final = piece_bytes
        self.check_done: Final = check_done
        self._throttler: Final = throttler
        self._watch_read: Final = watch_read

    def on_read(self, size_bytes: int) -> None:
        """Stop if requested; else count bytes that were read, and sleep as long as they require."""
        self.check_done()
        self._watch_read(size_bytes)
        self._throttle(size_bytes)

    def on_write(self, size_bytes: int) -> None:
        """Count bytes that were written; sleep as long as they require, unless asked to stop."""
        self._throttle(size_bytes)

    def _throttle(self, size_bytes: int) -> None:
        if self._throttler is not None:
            self._throttler.maybe_throttle(size_bytes, self.check_done)
