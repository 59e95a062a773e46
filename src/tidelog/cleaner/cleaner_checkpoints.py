"""The file ``cleaner-offset-checkpoint`` of each data directory: how far each log was cleaned.

Kafka: ``OffsetCheckpointFile``, as ``LogCleanerManager`` uses it.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import read_checkpoint, write_checkpoint
from tidelog.datadir.offset_checkpoints import CLEANER_OFFSET_FILE
from tidelog.errors import InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from contextlib import AbstractContextManager

    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.env.files import FileSystem

_log = logging.getLogger(__name__)


class CleanerCheckpoints:
    """The checkpoint files of all data directories.

    Lines of partitions that ``known`` does not return are dropped with the next change; where it
    returns None, as by default, all are kept. ``_lock`` makes each read-modify-write of a file
    atomic.
    """

    def __init__(
        self, fs: FileSystem, known: Callable[[], Container[tuple[str, int]] | None] = lambda: None
    ) -> None:
        self._fs: Final = fs
        self._known: Final = known
        self._lock: Final = Lock()
        self._doubted: set[str] = set()
        """Data directories whose last write failed: the file may be in place, but not durable."""
        self._last: dict[str, OffsetCheckpoint] = {}
        """What each file held when it was last read or written."""
        self.lowerings = 0
        """How many lines were lowered: what was read before is too high for a log."""

    def read(self, data_directory: str) -> OffsetCheckpoint:
        """Return the offsets by topic and partition; none, with a warning, if it is unreadable.

        A log without a line counts as never cleaned, which costs work but no records.
        """
        try:
            return self._parsed(data_directory)
        except OSError as error:
            return _nothing(data_directory, error)

    def _read_to_change(self, data_directory: str) -> OffsetCheckpoint:
        """Return the lines as they are durable; OSError if they cannot be read for now.

        A line that was taken for none would come back, and a log that was truncated, or made again,
        count as clean up to it: tombstones would be dropped, and what they delete would stay.
        """
        if data_directory in self._doubted:
            self._fs.sync_directory(data_directory)
            self._doubted.discard(data_directory)
        return self._parsed(data_directory)

    def _parsed(self, data_directory: str) -> OffsetCheckpoint:
        try:
            found = read_checkpoint(self._fs, f"{data_directory}/{CLEANER_OFFSET_FILE}")
        except (KafkaStorageError, InvalidArgument) as error:
            found = _nothing(data_directory, error)
        self._last[data_directory] = found
        return found

    def lower_to_end(
        self, data_directory: str, key: tuple[str, int], log_end_offset: int, offset: int
    ) -> None:
        """Lower the line of a partition to ``offset`` if the log ends below it.

        All logs of a directory are asked about as they are loaded: the file is not read for each.
        """
        lines = self._last.get(data_directory)
        if lines is None:
            lines = self._read_to_change(data_directory)
        if lines.get(key, 0) > log_end_offset:
            self.lower(data_directory, key, offset)

    def lower(self, data_directory: str, key: tuple[str, int], offset: int) -> None:
        """Lower the line of a partition to ``offset`` if it is above.

        Source: Kafka LogCleanerManager.maybeTruncateCheckpoint.
        """
        line = self._read_to_change(data_directory).get(key)
        if line is not None and line > offset:
            self.change(data_directory, lambda lines: lines.update({key: offset}))
            self.lowerings += 1

    def drop(self, data_directory: str, keys: Iterable[tuple[str, int]]) -> None:
        """Remove the lines of logs that are deleted, or about to be created."""
        gone = self._read_to_change(data_directory).keys() & set(keys)
        if gone:
            self.change(data_directory, lambda lines: [lines.pop(key, None) for key in gone])

    def carry(
        self,
        key: tuple[str, int],
        source_directory: str,
        target_directory: str,
        failing: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        """Write the line of a log into the file of a data directory that is to hold it.

        ``drop`` removes it from the source's file once the log has left. ``failing`` makes the
        context in which the file of a directory is read or written.

        Source: Kafka LogCleanerManager.alterCheckpointDir.
        """
        with failing(source_directory):
            offset = self._read_to_change(source_directory).get(key)
        with failing(target_directory):
            if offset is None:
                # One that could not be removed there when the log had left, and was not lowered
                # since, does not hold for what is in the log now.
                self.drop(target_directory, [key])
            else:
                self.change(target_directory, lambda lines: lines.update({key: offset}))

    def change(self, data_directory: str, change: Callable[[OffsetCheckpoint], object]) -> None:
        """Apply ``change`` to the lines of a file and make that durable.

        An OSError leaves the file unchanged.
        """
        known = self._known()
        with self._lock:
            old = self._read_to_change(data_directory)
            new = {key: old[key] for key in old if known is None or key in known}
            change(new)
            path = f"{data_directory}/{CLEANER_OFFSET_FILE}"
            if new != old or not self._fs.exists(path):
                self._doubted.add(data_directory)
                self._last.pop(data_directory, None)
                write_checkpoint(self._fs, path, new)
                self._last[data_directory] = new
                self._doubted.discard(data_directory)


def _nothing(data_directory: str, error: Exception) -> OffsetCheckpoint:
    path = f"{data_directory}/{CLEANER_OFFSET_FILE}"
    _log.warning("cleaner-checkpoint-unreadable path=%s reason=%s", path, error)
    return {}
