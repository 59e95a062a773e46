"""The offset checkpoints of a data directory, as a writer keeps them that loads a few logs only.

Owns which of the four files say what, and which lines stay. Must not know how a log moves its
offsets. Kafka: ``LogManager`` (recovery points, start offsets), ``ReplicaManager`` (high
watermarks) and ``LogCleanerManager`` rewrite whole files; a short-lived writer must keep the lines
of logs it did not load.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import read_checkpoint, write_checkpoint
from tidelog.errors import InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"
CHECKPOINT_FILES: Final = (
    RECOVERY_POINT_FILE,
    LOG_START_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    CLEANER_OFFSET_FILE,
)


def read_offsets(fs: FileSystem, path: str) -> OffsetCheckpoint:
    """Read a checkpoint file of offsets; raise KafkaStorageError for one that does not read."""
    try:
        return read_checkpoint(fs, path)
    except InvalidArgument as error:
        raise KafkaStorageError(str(error)) from error


class DirectoryCheckpoints:
    """The checkpoint files of one data directory; each write replaces a file durably.

    Raises KafkaStorageError where a file does not read. Kafka goes on with offsets of 0 then; a
    writer that loads a few logs would write that down for all.
    """

    def __init__(self, fs: FileSystem, data_dir: str) -> None:
        self._fs = fs
        self._data_dir = data_dir
        self._lines: dict[str, OffsetCheckpoint] = {
            name: read_offsets(fs, self._path(name)) for name in CHECKPOINT_FILES
        }

    def recovery_point(self, key: tuple[str, int]) -> int:
        """Offset below which the log of ``key`` was flushed; 0 where no line says."""
        return self._lines[RECOVERY_POINT_FILE].get(key, 0)

    def log_start_offset(self, key: tuple[str, int]) -> int:
        """First offset a client may read; 0 (the first segment's base) where no line says."""
        return self._lines[LOG_START_OFFSET_FILE].get(key, 0)

    def write(self, logs: Mapping[tuple[str, int], Log]) -> None:
        """Write down the offsets of the loaded ``logs``.

        Recovery points go first: a high watermark that readers see must be flushed before.
        """
        recovery_points = {key: log.recovery_point for key, log in logs.items()}
        self._merge(RECOVERY_POINT_FILE, logs, recovery_points)
        log_starts = {
            key: log.log_start_offset
            for key, log in logs.items()
            if log.log_start_offset > log.segments.first_base_offset
        }
        self._merge(LOG_START_OFFSET_FILE, logs, log_starts)
        high_watermarks = {key: log.high_watermark for key, log in logs.items()}
        self._merge(HIGH_WATERMARK_FILE, logs, high_watermarks)

    def forget(self, keys: Collection[tuple[str, int]]) -> None:
        """Remove the lines of ``keys`` from all four files, durably.

        A line of a partition that is gone would cut a new one of the same name.
        """
        for name in CHECKPOINT_FILES:
            if not self._lines[name].keys().isdisjoint(keys):
                self._merge(name, keys, {})

    def _merge(
        self, name: str, replaced: Collection[tuple[str, int]], lines: OffsetCheckpoint
    ) -> None:
        """Replace the lines of ``replaced``; keep others as long as their directory exists."""
        kept = {
            key: offset
            for key, offset in self._lines[name].items()
            if key not in replaced and self._fs.exists(self._path(f"{key[0]}-{key[1]}"))
        }
        merged = {**kept, **lines}
        if merged != self._lines[name] or not self._fs.exists(self._path(name)):
            write_checkpoint(self._fs, self._path(name), merged)
            self._lines[name] = merged

    def _path(self, name: str) -> str:
        return os.path.join(self._data_dir, name)
