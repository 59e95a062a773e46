"""The checkpoints of a data directory that a reader needs: high watermarks and log starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tidelog.datadir.offset_checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    read_offsets,
)
from tidelog.readonly.log_end import Lines
from tidelog.readonly.read_files import reading

if TYPE_CHECKING:
    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.env.files import FileSystem


class Checkpoints(NamedTuple):
    """The offsets in a data directory's checkpoint files, by (topic, partition)."""

    high_watermarks: OffsetCheckpoint
    log_starts: OffsetCheckpoint

    @classmethod
    def read(cls, data_dir: str, *, fs: FileSystem) -> Checkpoints:
        """Read both files, an absent one as empty; KafkaStorageError if one is malformed."""
        files = reading(fs)
        return cls(
            read_offsets(files, os.path.join(data_dir, HIGH_WATERMARK_FILE)),
            read_offsets(files, os.path.join(data_dir, LOG_START_OFFSET_FILE)),
        )

    def lines_of(self, key: tuple[str, int]) -> Lines:
        """Return the lines of one log."""
        return Lines(self.high_watermarks.get(key), self.log_starts.get(key, 0))
