"""How fast partitions move between data directories: the limit, and the rates that are reached.

Kafka: ``ReplicationQuotaManager`` for ``replica.alter.log.dirs.io.max.bytes.per.second``.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.env.clock import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.clock import Clock
    from tidelog.segment.filenames import TopicPartition

MAX_WAIT_MS: Final = 1_000
"""The longest time between two looks at the limit, which may have changed."""
RATE_MS: Final = 10_000
"""A rate is that of this time up to now."""


class CopyThrottle:
    """Keeps what all copies of one kind, moves or those to an archive, take at or below a rate.

    The rate is that of the settings, ``configured``, until ``set_rate`` replaces it. ``_lock``
    guards the rate and when the bytes copied so far are paid for.
    """

    def __init__(self, clock: Clock, configured: Callable[[], int]) -> None:
        self._clock: Final = clock
        self._configured: Final = configured
        self._lock: Final = Lock()
        self._own_rate: int | None = None
        self._paid_ns = clock.monotonic_ns()
        self._paid_at_rate = 0

    @property
    def bytes_per_second(self) -> int:
        """The limit in force."""
        return self._configured() if self._own_rate is None else self._own_rate

    def set_rate(self, bytes_per_second: int | None) -> None:
        """Replace the limit, at once; None: that of the settings."""
        with self._lock:
            self._own_rate = bytes_per_second

    def count(self, size_bytes: int) -> None:
        """Note bytes that were copied."""
        with self._lock:
            rate = self._forget_other_rate()
            begun_ns = max(self._paid_ns, self._clock.monotonic_ns())
            self._paid_ns = begun_ns + size_bytes * 1_000_000_000 // rate

    def wait_ms(self) -> int:
        """Return how long to copy nothing, at most ``MAX_WAIT_MS``; 0: copy now."""
        with self._lock:
            self._forget_other_rate()
            left_ns = self._paid_ns - self._clock.monotonic_ns()
            return min(max(-(-left_ns // NS_PER_MS), 0), MAX_WAIT_MS)

    def _forget_other_rate(self) -> int:
        """Return the limit; one that has changed is free of the delay of the one before."""
        rate = self.bytes_per_second
        if rate != self._paid_at_rate:
            self._paid_at_rate = rate
            self._paid_ns = self._clock.monotonic_ns()
        return rate


class MoveRates:
    """The rate of each move during the last seconds. ``_lock`` guards the samples."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._lock: Final = Lock()
        self._samples: dict[TopicPartition, deque[tuple[int, int]]] = {}

    def begin(self, key: TopicPartition) -> None:
        """Note that a move begins, or resumes after a start."""
        with self._lock:
            self._samples[key] = deque([(self._now_ms(), 0)])

    def count(self, key: TopicPartition, size_bytes: int) -> None:
        """Note bytes that a move has copied."""
        with self._lock:
            samples = self._samples.get(key)
            if samples is not None:
                samples.append((self._now_ms(), samples[-1][1] + size_bytes))
                self._drop_old(samples)

    def end(self, key: TopicPartition) -> None:
        """Forget a move."""
        with self._lock:
            self._samples.pop(key, None)

    def bytes_per_second(self, key: TopicPartition) -> int:
        """Return the rate of a move, 0 before there is one."""
        with self._lock:
            samples = self._samples.get(key)
            if samples is None:
                return 0
            self._drop_old(samples)
            passed_ms = self._now_ms() - samples[0][0]
            return (samples[-1][1] - samples[0][1]) * 1_000 // passed_ms if passed_ms else 0

    def _drop_old(self, samples: deque[tuple[int, int]]) -> None:
        while len(samples) > 1 and samples[1][0] <= self._now_ms() - RATE_MS:
            samples.popleft()

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // NS_PER_MS
