"""How far the loading of logs has come, for metrics and progress bars."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tidelog.env.clock import Clock

_NS_PER_MS: Final = 1_000_000


class LoadAmounts(NamedTuple):
    """How much is loaded, and of how much; bytes are those of the logs that have to be checked."""

    done_bytes: int
    all_bytes: int
    done_logs: int
    all_logs: int


class LoadProgress:
    """How much is still to be loaded, for metrics. ``_lock`` guards the counts.

    Bytes are counted where logs have to be checked, since there they are what takes time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._logs: dict[str, int] = {}
        self._all_logs: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._segments: dict[tuple[str, int], int] = {}
        self._partly: dict[tuple[str, int], int] = {}
        """The bytes that each thread of a directory has checked of the log that it is at."""
        self._done_bytes = 0
        self._done_logs = 0
        self._began_ns = clock.monotonic_ns()

    def add(self, directory: str, logs: int, size_bytes: int) -> None:
        """Note what a directory has to be loaded."""
        with self._lock:
            self._logs[directory] = self._all_logs[directory] = logs
            self._bytes[directory] = size_bytes

    def done(self, directory: str, size_bytes: int) -> tuple[int, int]:
        """Note that a log of that many bytes is loaded; return how many of how many are."""
        with self._lock:
            self._logs[directory] -= 1
            self._bytes[directory] -= size_bytes
            self._done_logs += 1
            self._done_bytes += size_bytes
            count = self._all_logs[directory]
            return count - self._logs[directory], count

    def checked(self, directory: str, thread: int, size_bytes: int) -> None:
        """Note how many bytes a thread has checked of the log that it is at."""
        with self._lock:
            self._partly[directory, thread] = size_bytes

    def done_of_all(self) -> LoadAmounts:
        """Return how much of all directories that have begun is loaded."""
        with self._lock:
            return LoadAmounts(
                self._done_bytes + sum(self._partly.values()),
                self._done_bytes + sum(self._bytes.values()),
                self._done_logs,
                sum(self._all_logs.values()),
            )

    def remaining_logs(self, directory: str) -> int:
        """Return how many logs of a directory are still to be loaded."""
        return self._logs.get(directory, 0)

    def segments_left(self, directory: str, thread: int, count: int) -> None:
        """Note how many segments a thread has still to check, of the log that it is at."""
        with self._lock:
            self._segments[directory, thread] = count

    def remaining_segments(self, directory: str) -> dict[int, int]:
        """Return how many segments each thread of a directory has still to check."""
        with self._lock:
            return {
                thread: count
                for (where, thread), count in sorted(self._segments.items())
                if where == directory
            }

    def remaining_bytes(self, directory: str) -> int:
        """Return how many bytes of a directory are still to be checked."""
        return self._bytes.get(directory, 0)

    def remaining_ms(self) -> int | None:
        """Return the time that the rest takes at the pace so far; None at the beginning."""
        spent_ms = (self._clock.monotonic_ns() - self._began_ns) // _NS_PER_MS
        with self._lock:
            left_bytes, left_logs = sum(self._bytes.values()), sum(self._logs.values())
            if self._done_bytes:
                return spent_ms * left_bytes // self._done_bytes
            return spent_ms * left_logs // self._done_logs if self._done_logs else None
