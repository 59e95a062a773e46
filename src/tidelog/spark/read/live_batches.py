"""The batches of a task's ranges, read where they lie, also while the log goes on changing.

Owns what a task does when offsets that were planned are gone by now. Must not know Spark or
Arrow. Nothing is skipped without a word: it is an error, or a warning where loss is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError, OffsetOutOfRange
from tidelog.spark.read.data_loss import DELETED, RECREATED, LossPolicy
from tidelog.spark.read.topic_partitions import PartitionDirectories

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import FileSystem
    from tidelog.records.file_records import Piece
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.read_plan import OffsetRange


class RangeReader:
    """Reads ranges of the logs in a data directory as ``options`` say."""

    def __init__(self, fs: FileSystem, options: ReadOptions) -> None:
        self._fs = fs
        self._options = options
        self._policy = LossPolicy(options.fail_on_data_loss)
        self._directories = PartitionDirectories(fs, options.path)

    def pieces(self, part: OffsetRange) -> Iterator[Piece]:
        """Yield the batches that hold offsets of ``part``; others may be in a piece's first, last.

        Raises:
            DataLoss: offsets are gone, and that is not accepted.
            CorruptMessage: the log is damaged; all before the damage was yielded.
            KafkaStorageError: the log went away while it was read, more than once.
        """
        start, failed_at = part.start_offset, -1
        while start < part.end_offset:
            try:
                for piece in self._pieces_from(part, start):
                    yield piece
                    start = int(piece.batches.last_offset[-1]) + 1 if len(piece.batches) else start
            except FileNotFoundError:
                self._policy.report(part.topic, part.partition, start, part.end_offset, DELETED)
                return
            except (OffsetOutOfRange, KafkaStorageError):
                # Segments went away under our hands. What the log holds now tells what is lost.
                if failed_at == start:
                    raise
                failed_at = start
                self._directories = PartitionDirectories(self._fs, self._options.path)
            else:
                return

    def _pieces_from(self, part: OffsetRange, start: int) -> Iterator[Piece]:
        place = part.topic, part.partition
        with self._directories.open(*place) as log:
            if part.topic_id is not None and self._directories.topic_id(*place) != part.topic_id:
                self._policy.report(*place, start, part.end_offset, RECREATED)
                return
            start, end = self._policy.held(log, start, part.end_offset)
            if start < end:
                yield from log.pieces(
                    start,
                    end,
                    committed=self._options.committed,
                    check_crc=self._options.verify_checksums,
                )
