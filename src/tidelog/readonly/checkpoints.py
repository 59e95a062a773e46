"""The checkpoints of a data directory that a reader needs: where logs start, and where they end.

The process that holds the directory writes high watermarks down every five seconds, as Kafka does:
a reader that goes by the file alone misses what clients were acknowledged since. tidelog can be
asked to do it now, Kafka cannot.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.datadir.metadata_files import CLEAN_SHUTDOWN_FILE
from tidelog.datadir.offset_checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
)
from tidelog.env.paths import is_uri
from tidelog.env.system_files import SystemFiles
from tidelog.env.unix_sockets import ring_in
from tidelog.errors import CorruptFile
from tidelog.readonly.read_files import reading
from tidelog.records.batch import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.env.files import FileSystem

_PATIENCE_MS: Final = 1000
"""How long a holder is waited for; one that was stopped, or hangs, must not stop its readers."""


class Lines(NamedTuple):
    """One log's lines in the checkpoints of its data directory.

    ``high_watermark`` is None where there is no line; ``log_start_offset`` is 0 then.
    ``end_offset``: the log end, which is known after a clean stop only; else the greatest number.
    """

    high_watermark: int | None
    log_start_offset: int
    end_offset: int = INT64_MAX

    @property
    def promised_end(self) -> int:
        """The offset below which nothing can be missing at the end of the log."""
        end = 0 if self.end_offset == INT64_MAX else self.end_offset
        return max(self.high_watermark or 0, end)

    def missing(self, offset: int) -> str:
        """Describe a log that ends at ``offset``, before that."""
        end = self.promised_end
        source = "the high watermark" if end == self.high_watermark else "the end at a clean stop"
        return f"offsets {offset} to {end - 1}, below {source}, are missing"


NO_LINES: Final = Lines(None, 0)


class Checkpoints(NamedTuple):
    """The offsets in a data directory's checkpoint files, by (topic, partition).

    ``log_ends`` are the recovery points of a directory that was shut down cleanly, and that nobody
    has opened since: all was flushed, so they are the ends of the logs.
    """

    high_watermarks: OffsetCheckpoint
    log_starts: OffsetCheckpoint
    log_ends: OffsetCheckpoint

    @classmethod
    def read(cls, data_dir: str, *, fs: FileSystem) -> Checkpoints:
        """Read the files, an absent one as empty.

        KafkaStorageError if high watermarks or log starts are malformed.
        """
        files = reading(fs)
        log_ends: OffsetCheckpoint = {}
        if files.exists(os.path.join(data_dir, CLEAN_SHUTDOWN_FILE)):
            with suppress(CorruptFile):  # the ends are then found as beside a writer
                log_ends = read_offsets(files, os.path.join(data_dir, RECOVERY_POINT_FILE))
        return cls(
            read_offsets(files, os.path.join(data_dir, HIGH_WATERMARK_FILE)),
            read_offsets(files, os.path.join(data_dir, LOG_START_OFFSET_FILE)),
            log_ends,
        )

    def lines_of(self, key: tuple[str, int]) -> Lines:
        """Return the lines of one log."""
        high_watermark, end_offset = self.high_watermarks.get(key), self.log_ends.get(key)
        ends = () if end_offset is None else (end_offset,)
        return Lines(high_watermark, self.log_starts.get(key, 0), *ends)


def ask_for_watermarks(fs: FileSystem, data_dirs: Iterable[str]) -> None:
    """Return once the holder of each directory has written them down, or does not answer.

    Only for directories on this machine's disk, and of this user's processes; others are as their
    files say.
    """
    files = reading(fs)
    for data_dir in data_dirs:
        if is_uri(data_dir) or not isinstance(files.at(data_dir), SystemFiles):
            continue
        ring_in(data_dir, _PATIENCE_MS, for_watermarks=True)
