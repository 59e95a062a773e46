"""How often segments were flushed, and how long that took. Kafka: ``LogFlushStats``."""

from __future__ import annotations

from threading import Lock

from tidelog.env.clock import NS_PER_MS


class FlushTimes:
    """Sums over all logs that share it. ``_lock`` guards them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spent_ns = 0
        self.count = 0

    def add(self, spent_ns: int) -> None:
        """Count one flush of a segment."""
        with self._lock:
            self.count += 1
            self._spent_ns += spent_ns

    @property
    def total_ms(self) -> float:
        """How long all of them took together."""
        return self._spent_ns / NS_PER_MS
