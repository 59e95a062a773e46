"""How fast a cleaner goes, and when it has to stop.

Owns the size of pieces, the check for an abort before each, and the throttle. Must not know what
is read. Kafka: ``Throttler`` and ``LogCleaner.CleanerThread.checkDone``.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.clock import Clock

CHECK_EVERY_NS: Final = 300_000_000
_NS_PER_MS: Final = 1_000_000


class Throttle:
    """Keeps the bytes of all cleaners together at or below a rate, on average.

    ``sleep_ms`` waits. ``_lock`` guards the counts; nobody sleeps with it held. Source: Kafka
    Throttler.
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

    def take(self, size_bytes: int) -> None:
        """Count bytes read or written; sleep when they came too fast."""
        wait_ms = 0
        with self._lock:
            self.total_bytes += size_bytes
            self._observed_bytes += size_bytes
            now_ns = self._clock.monotonic_ns()
            elapsed_ns = now_ns - self._period_start_ns
            if elapsed_ns > CHECK_EVERY_NS and self._observed_bytes:
                due_ns = self._observed_bytes / self.bytes_per_second * 1e9
                wait_ms = max(round((due_ns - elapsed_ns) / _NS_PER_MS), 0)
                self._period_start_ns = now_ns + wait_ms * _NS_PER_MS
                self._observed_bytes = 0
        if wait_ms:
            self._sleep_ms(wait_ms)


class Pace:
    """What one cleaner does before each piece of ``piece_bytes``.

    ``check`` raises when it has to stop.
    """

    def __init__(
        self, piece_bytes: int, check: Callable[[], None], throttle: Throttle | None = None
    ) -> None:
        self.piece_bytes: Final = piece_bytes
        self.check: Final = check
        self._throttle: Final = throttle

    def step(self, size_bytes: int) -> None:
        """Stop if that was asked for; else count so many bytes, and wait if need be."""
        self.check()
        self.took(size_bytes)

    def took(self, size_bytes: int) -> None:
        """Count bytes that were read or written."""
        if self._throttle is not None:
            self._throttle.take(size_bytes)
