"""Writing the offset checkpoints of every data directory from its open logs.

Kafka: ``LogManager.checkpointLogRecoveryOffsets``, ``checkpointLogStartOffsets`` and
``ReplicaManager.checkpointHighWatermarks``.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import PASSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.segment.filenames import TopicPartition

    Write = Callable[[DirectoryCheckpoints, Mapping[tuple[str, int], Log]], None]

_log = logging.getLogger(__name__)


class OffsetCheckpointing:
    """Checkpoints the offsets of all open logs, a file of each directory at a time."""

    def __init__(self, log_dirs: LogDirs, registry: LogRegistry) -> None:
        self._log_dirs = log_dirs
        self._registry = registry
        self._told: dict[tuple[str, Write], str] = {}
        """Why a file could not be written when that was tried last; it is tried for each reader."""

    def write(self, log_dir: LogDir, write: Write = DirectoryCheckpoints.write) -> None:
        """Checkpoint a directory's offsets in all files, or in the one that ``write`` writes.

        Raises KafkaStorageError; unless the disk was full the directory is offline then.
        """
        checkpoints = log_dir.checkpoints
        try:
            checkpoints.exclusively(
                lambda: write(checkpoints, self._registry.to_checkpoint(log_dir.path))
            )
        except OSError as error:
            # ENOTDIR: it is the data directory itself that something has taken the place of.
            if error.errno not in PASSING or error.errno == errno.ENOTDIR:
                self._log_dirs.take_offline(log_dir.path, error)
            raise KafkaStorageError(f"writing checkpoints of {log_dir.path}: {error}") from error

    def write_if_ahead(self, key: TopicPartition, log: Log) -> None:
        """Checkpoint the directory of a log if its files give offsets above those of the log.

        To be called after a truncation: the log may grow past what counts as flushed, and a power
        cut take a part of that. A pass that computed its lines before is waited for. Raises as
        ``write``; the next call writes it then.
        """
        log_dir = self._log_dirs.of(log)
        lines = log_dir.checkpoints

        def write() -> None:
            if (
                lines.is_in_doubt
                or lines.recovery_point(key) > log.recovery_point
                or lines.log_start_offset(key) > log.local_log_start_offset
                or lines.high_watermark(key) > log.high_watermark
            ):
                self.write(log_dir)

        lines.exclusively(write)

    def checkpoint_recovery_points(self) -> None:
        """Checkpoint up to where each log is flushed."""
        self._write_everywhere(DirectoryCheckpoints.write_recovery_points)

    def checkpoint_log_start_offsets(self) -> None:
        """Checkpoint where logs start that start within a segment."""
        self._write_everywhere(DirectoryCheckpoints.write_log_starts)

    def checkpoint_high_watermarks(self) -> None:
        """Checkpoint up to where readers see; readers of other processes go by this."""
        self._write_everywhere(DirectoryCheckpoints.write_high_watermarks)

    def _write_everywhere(self, write: Write) -> None:
        """Rewrite a file of each directory; an error in one must not stop the others."""
        for log_dir in self._log_dirs:
            one = log_dir.path, write
            try:
                self.write(log_dir, write)
                self._told.pop(one, None)
            except KafkaStorageError as error:
                if self._told.get(one) != str(error):
                    self._told[one] = str(error)
                    _log.error("checkpoint-failed directory=%s reason=%s", log_dir.path, error)
