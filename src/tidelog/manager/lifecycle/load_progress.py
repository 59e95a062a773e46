"""How far the loading of logs has come, for metrics and progress bars."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple


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

    def __init__(self) -> None:
        self._lock = Lock()
        self._logs: dict[str, int] = {}
        self._all_logs: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._segments: dict[tuple[str, int], int] = {}
        self._partly: dict[tuple[str, int], int] = {}
        """The bytes that each thread of a directory has checked of the log that it is at."""
        self._done_bytes = 0
        self._done_logs = 0

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
