"""Reads the batches of a task's offset ranges while another process may change the log.

Segments may be deleted between planning and reading. Offsets lost that way are never skipped
silently: they fail the task, or are logged if ``failOnDataLoss`` is false.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError, OffsetOutOfRange, UnknownTopicOrPartition
from tidelog.spark.read.data_loss import DELETED, HINT, RECREATED, REPLAN_HINT, DataLossPolicy
from tidelog.spark.read.topic_partitions import PartitionDirectories

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tidelog.env.files import FileSystem
    from tidelog.records.file_records import Piece
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.read_plan import OffsetRange


_log = logging.getLogger(__name__)


class RangeReader:
    """Reads offset ranges from the logs of the data directories that ``options`` name.

    ``topics``: the topics that the ranges belong to, None: not known.
    """

    def __init__(
        self, fs: FileSystem, options: ReadOptions, topics: Collection[str] | None = None
    ) -> None:
        self._fs = fs
        self._topics = topics
        self._options = options
        hint = HINT if options.is_stream else REPLAN_HINT
        self._policy = DataLossPolicy(options.fail_on_data_loss, hint)
        self._on_damage = (
            partial(_log.warning, "damage-skipped %s") if options.skip_damage else None
        )
        self._directories = self._opened()

    def read(self, part: OffsetRange) -> Iterator[Piece]:
        """Yield the batches that hold offsets of ``part``.

        The first and the last batch may hold offsets outside of it.

        Raises:
            DataLoss: some of the offsets are lost, and ``failOnDataLoss`` is true.
            CorruptMessage: the log is damaged; all batches before the damage were yielded.
            KafkaStorageError: segments were deleted while they were read, more than once.
        """
        start, failed_at = part.start_offset, -1
        while start < part.end_offset:
            try:
                for piece in self._read_from(part, start):
                    yield piece
                    start = piece.batches.next_offset if len(piece.batches) else start
            except (OffsetOutOfRange, KafkaStorageError, UnknownTopicOrPartition) as error:
                # Segments were deleted while we were reading, or the partition was moved to another
                # of the directories: look again where it is, and what the log holds now.
                if failed_at != start:
                    failed_at = start
                    self._directories = self._opened()
                    continue
                if not isinstance(error, UnknownTopicOrPartition):
                    raise
                self._policy.report(part.topic, part.partition, start, part.end_offset, DELETED)
                return
            else:
                return

    def _opened(self) -> PartitionDirectories:
        return PartitionDirectories(
            self._fs, self._options.paths, self._on_damage, topics=self._topics
        )

    def _read_from(self, part: OffsetRange, start: int) -> Iterator[Piece]:
        partition = part.topic, part.partition
        with self._directories.open(*partition) as log:
            planned_id = part.topic_id
            if planned_id is not None and self._directories.topic_id_text(*partition) != planned_id:
                self._policy.report(*partition, start, part.end_offset, RECREATED)
                return
            start, end = self._policy.available(log, start, part.end_offset)
            if start < end:
                yield from log.decodable_pieces(
                    start,
                    end,
                    committed=self._options.committed,
                    check_crc=self._options.verify_checksums,
                )
