"""The offset checkpoints of a data directory, as a writer keeps them that loads a few logs only.

There are four files. In Kafka ``LogManager`` (recovery points, start offsets), ``ReplicaManager``
(high watermarks) and ``LogCleanerManager`` rewrite them whole; a short-lived writer must keep the
lines of logs that it did not load.
"""

from __future__ import annotations

import logging
import os
from threading import RLock
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import read_checkpoint, write_checkpoint
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.env.files import is_gone
from tidelog.errors import CorruptFile, InvalidArgument, InvalidTopic
from tidelog.segment.filenames import check_topic_name, log_directory_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log

_log = logging.getLogger(__name__)

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"
LOG_FILES: Final = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE)
"""Those that no cleaner writes."""
CHECKPOINT_FILES: Final = (*LOG_FILES, CLEANER_OFFSET_FILE)


def read_offsets(fs: FileSystem, path: str) -> OffsetCheckpoint:
    """Read a checkpoint file of offsets; raise KafkaStorageError if it is unreadable."""
    try:
        return read_checkpoint(fs, path)
    except InvalidArgument as error:
        raise CorruptFile(str(error)) from error


def cleaned_end(
    fs: FileSystem, data_dir: str, key: tuple[str, int], *, is_tolerant: bool = False
) -> int:
    """Return up to where compaction explains offsets that a log lacks, whatever its policy is now.

    That is its line in the cleaner's checkpoint, 0 without one. Errors and ``is_tolerant`` as of
    ``DirectoryCheckpoints``.
    """
    read = _read_tolerantly if is_tolerant else read_offsets
    return read(fs, os.path.join(data_dir, CLEANER_OFFSET_FILE)).get(key, 0)


class DirectoryCheckpoints:
    """The checkpoint files of one data directory; each write replaces a file durably.

    ``_lock`` guards the lines and the files. Raises KafkaStorageError if a file is unreadable.
    With ``is_tolerant`` a number that is none makes all offsets of its file 0, as in Kafka: who
    loads every log may do so, since that is where each is looked at. A writer that loads a few
    would write the zeros down for all.
    """

    def __init__(
        self,
        fs: FileSystem,
        data_dir: str,
        *,
        is_tolerant: bool = False,
    ) -> None:
        self._fs = fs
        self._data_dir = data_dir
        self.is_placed_here: Callable[[tuple[str, int]], bool] = lambda _: False
        """Whether the catalogue places a partition in this data directory."""
        self._lock = RLock()
        self._is_closed = False
        self._doubted: set[str] = set()
        read = _read_tolerantly if is_tolerant else read_offsets
        read(fs, self._path(CLEANER_OFFSET_FILE))  # only ``CleanerCheckpoints`` changes that one
        self._lines: dict[str, OffsetCheckpoint] = {
            name: read(fs, self._path(name)) for name in LOG_FILES
        }

    def exclusively(self, write: Callable[[], None]) -> None:
        """Call ``write`` while nobody else changes the lines; do nothing once closed.

        So a line of a log that is deleted meanwhile cannot come back.
        """
        with self._lock:
            if not self._is_closed:
                write()

    def close(self) -> None:
        """Let ``exclusively`` do nothing from now on: another process may hold the directory."""
        with self._lock:
            self._is_closed = True

    @property
    def is_in_doubt(self) -> bool:
        """Whether a file may hold other lines than are known, as its last write failed."""
        return bool(self._doubted)

    def recovery_point(self, key: tuple[str, int]) -> int:
        """Offset below which the log of ``key`` was flushed; 0 where no line says."""
        return self._lines[RECOVERY_POINT_FILE].get(key, 0)

    def log_start_offset(self, key: tuple[str, int]) -> int:
        """First offset a client may read; 0 (the first segment's base) where no line says."""
        return self._lines[LOG_START_OFFSET_FILE].get(key, 0)

    def high_watermark(self, key: tuple[str, int]) -> int:
        """Offset below which readers saw the log of ``key``; 0 where no line says."""
        return self._lines[HIGH_WATERMARK_FILE].get(key, 0)

    def write(self, logs: Mapping[tuple[str, int], Log]) -> None:
        """Write down the offsets of the loaded ``logs``.

        Recovery points go first: a high watermark that readers see must be flushed before.
        """
        self.write_recovery_points(logs)
        self.write_high_watermarks(logs)

    def write_recovery_points(self, logs: Mapping[tuple[str, int], Log]) -> None:
        """Write down up to where each of ``logs`` is flushed, after where they start.

        A recovery point is never below its log's start: what a deletion of records left before that
        may not be flushed. The start is read after it, since both may rise meanwhile.
        """
        lines = {key: log.recovery_point for key, log in logs.items()}
        self.write_log_starts(logs)
        self._merge(RECOVERY_POINT_FILE, logs, lines)

    def lower(self, key: tuple[str, int], offset: int) -> None:
        """Lower the recovery point and the start of a log to ``offset``, durably, if it is above.

        The recovery point goes first: what lies between the two need not be flushed.
        """
        for name in (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE):
            self._lower(name, key, offset)

    def lower_high_watermark(self, key: tuple[str, int], offset: int) -> None:
        """Lower up to where readers of a log see to ``offset``, durably, if it is above."""
        self._lower(HIGH_WATERMARK_FILE, key, offset)

    def _lower(self, name: str, key: tuple[str, int], offset: int) -> None:
        with self._lock:
            if self._lines[name].get(key, 0) > offset:
                self._merge(name, [key], {key: offset})

    def write_log_starts(self, logs: Mapping[tuple[str, int], Log]) -> None:
        """Write down where those of ``logs`` start that start within a segment."""
        lines = {
            key: log.local_log_start_offset
            for key, log in logs.items()
            if log.local_log_start_offset > log.segments.first_base_offset
        }
        self._merge(LOG_START_OFFSET_FILE, logs, lines)

    def write_high_watermarks(self, logs: Mapping[tuple[str, int], Log]) -> None:
        """Write down up to where readers of ``logs`` see."""
        # Those of groups first: else a record, and the position of a group after it, could come in
        # between, and a mirror of what the file says would have the position without the record.
        keys = sorted(logs, key=lambda key: key[0] not in INTERNAL_SETTINGS)
        lines = {key: logs[key].high_watermark for key in keys}
        self._merge(HIGH_WATERMARK_FILE, logs, lines)

    def forget(self, keys: Collection[tuple[str, int]]) -> None:
        """Remove the lines of ``keys`` from the files, durably.

        A line of a partition that is gone would cut a new one of the same name.
        """
        with self._lock:
            for name in LOG_FILES:
                if name in self._doubted or not self._lines[name].keys().isdisjoint(keys):
                    self._merge(name, keys, {})

    def _merge(
        self, name: str, replaced: Collection[tuple[str, int]], lines: OffsetCheckpoint
    ) -> None:
        """Replace the lines of ``replaced``; keep others as long as their partition lies here."""
        with self._lock:
            others = {
                key: offset for key, offset in self._lines[name].items() if key not in replaced
            }
            # The directory of a listed partition may be away for a moment, as one on a disk that is
            # not mounted is.
            kept = {
                key: offset
                for key, offset in others.items()
                if self.is_placed_here(key) or self._has_directory(key)
            }
            merged = dict(sorted({**kept, **lines}.items()))
            if (
                merged != self._lines[name]
                or name in self._doubted
                or not self._fs.exists(self._path(name))
            ):
                # An error or interrupt may come when the file is in place and ``_lines`` is not yet
                # the same: what was true before must then still replace it.
                self._doubted.add(name)
                write_checkpoint(self._fs, self._path(name), merged)
                self._lines[name] = merged
                self._doubted.discard(name)

    def _has_directory(self, key: tuple[str, int]) -> bool:
        """Return whether a line's partition lies here; True if in doubt.

        A damaged line may hold any name.
        """
        try:
            check_topic_name(key[0])
        except InvalidTopic:
            return False
        path = self._path(log_directory_name(*key))
        return not is_gone(self._fs, path) or self._fs.is_link(path)

    def _path(self, name: str) -> str:
        return os.path.join(self._data_dir, name)


def _read_tolerantly(fs: FileSystem, path: str) -> OffsetCheckpoint:
    try:
        return read_checkpoint(fs, path)
    except InvalidArgument as error:
        _log.warning("checkpoint-reset path=%s reason=%s", path, error)
        return {}
