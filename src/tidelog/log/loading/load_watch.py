"""Progress and losses that loading a log reports. Kafka writes the same to its application log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.env.clock import NS_PER_MS

if TYPE_CHECKING:
    from tidelog.env.clock import Clock
    from tidelog.env.files import OpenFile


class RecoveryProgress(NamedTuple):
    """How far the recovery of one log is; ``left_ms`` is an estimate, None before there is one."""

    directory: str
    done_bytes: int
    total_bytes: int
    left_ms: int | None


class Loss(NamedTuple):
    """Bytes ``[position, end)`` of a .log file that are about to be deleted, and why.

    ``file`` may be read until the call that brings this returns. ``is_segment``: the whole segment
    goes, good batches too, because the log ends before it. ``from_offset`` is the offset after the
    last record that stays in the segment. ``kept_in`` is the cut file that keeps
    the bytes; None: nothing does.
    """

    path: str
    base_offset: int
    file: OpenFile
    position: int
    end: int
    from_offset: int
    reason: str
    is_segment: bool
    kept_in: str | None = None


class LoadWatcher:
    """Is notified of what happens to logs while they are loaded; this one ignores it.

    Called on the thread that loads the log.
    """

    def progressed(self, progress: RecoveryProgress) -> None:
        """Take note that some more of a log was checked."""

    def recovering(self, directory: str, segments_left: int) -> None:
        """Take note of how many segments of a log are still to be checked."""

    def applied(self, txn: str, done_bytes: int, total_bytes: int) -> None:
        """Take note of how much of a committed transaction is in the logs."""

    def losing(self, loss: Loss) -> None:
        """Take note that bytes will be cut off, or a segment removed."""


SILENT: Final = LoadWatcher()


class ProgressMeter:
    """Counts the bytes that one log's recovery has checked, and reports to the watcher."""

    def __init__(self, directory: str, watcher: LoadWatcher, clock: Clock) -> None:
        self._directory = directory
        self._watcher = watcher
        self._clock = clock
        self._total_bytes = 0
        self._done_bytes = 0
        self._started_ns = 0

    def expect(self, size_bytes: int) -> None:
        """Take note of bytes that will be checked."""
        if not self._total_bytes:
            self._started_ns = self._clock.monotonic_ns()
        self._total_bytes += size_bytes

    def take_back(self, size_bytes: int) -> None:
        """Take note of bytes that will be checked again."""
        self._done_bytes -= size_bytes

    def advance(self, size_bytes: int) -> None:
        """Count bytes that were checked, and report."""
        self._done_bytes += size_bytes
        left_ms = None
        if self._done_bytes:
            passed_ns = self._clock.monotonic_ns() - self._started_ns
            left_bytes = max(self._total_bytes - self._done_bytes, 0)
            left_ms = passed_ns * left_bytes // self._done_bytes // NS_PER_MS
        self._watcher.progressed(
            RecoveryProgress(self._directory, self._done_bytes, self._total_bytes, left_ms)
        )
