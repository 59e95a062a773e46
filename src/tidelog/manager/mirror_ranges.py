"""What a mirror copies of a partition: whole batches of the source, staged beside the target.

A range is copied at once, or in parts by several processes.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import (
    InconsistentTopicId,
    MirrorDiverged,
    UnsupportedForMessageFormat,
)
from tidelog.records.array_rows import every
from tidelog.records.batch import MAGIC_V2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.staging.bundle import BundleWriter
    from tidelog.staging.staged_run import StagedRun

    StageRanges = Callable[[str, Sequence["MirrorRange"]], "StagedRanges"]
    """Reads ranges and stages their batches, each with its offsets, for a transaction of this id.
    Where it fails, the caller deletes what was staged."""


class MirrorRange(NamedTuple):
    """The batches of a partition that are new: those with all offsets below ``end_offset``.

    ``topic_id``: the topic's id in the source, None: unknown. ``mirror_end``: the log end of the
    mirror. ``start_offset``: the same, or the log start of the source if that is greater.
    ``segment_bytes``: the ``segment.bytes`` of the mirror.
    """

    topic: str
    partition: int
    topic_id: UUID | None
    mirror_end: int
    start_offset: int
    end_offset: int
    segment_bytes: int


@dataclass(slots=True)
class CopiedBatches:
    """What was copied of a range: batches with offsets ``[start_offset, end_offset)``, if any."""

    start_offset: int = 0
    end_offset: int = 0
    batches: int = 0
    size_bytes: int = 0

    def add(self, other: CopiedBatches) -> None:
        """Count batches that follow."""
        if other.batches:
            self.start_offset = self.start_offset if self.batches else other.start_offset
            self.end_offset = other.end_offset
            self.batches += other.batches
            self.size_bytes += other.size_bytes


class StagedRanges(NamedTuple):
    """The runs that were staged, in order of ranges and offsets, and what each range has."""

    runs: Sequence[StagedRun]
    copied: Sequence[CopiedBatches]


@contextmanager
def opened(directory: ReadOnlyDirectory, whole: MirrorRange) -> Iterator[ReadOnlyLog]:
    """Open the log of a range; raise InconsistentTopicId if it is not the one that was planned."""
    with directory.open(whole.topic, whole.partition) as log:
        # Asked for after the log was opened: an id never comes back.
        check_topic_id(directory, whole.topic, whole.partition, whole.topic_id)
        yield log


def check_topic_id(
    directory: ReadOnlyDirectory, topic: str, partition: int, topic_id: UUID | None
) -> None:
    """Raise InconsistentTopicId unless a partition has the id; None: it is unknown."""
    found = directory.topic_id(topic, partition)
    if topic_id not in {None, found}:
        raise InconsistentTopicId(
            f"topic {topic} has id {found} in {directory.name}, and had {topic_id} when the mirror"
            " was planned: it was created again, or this process sees another directory"
        )


def copy_batches(
    log: ReadOnlyLog,
    whole: MirrorRange,
    writer: BundleWriter | None,
    part: tuple[int, int] | None = None,
    on_read: Callable[[CopiedBatches], None] = lambda _: None,
) -> CopiedBatches:
    """Give the batches of a range to a writer; return what they are.

    Args:
        log: the log of the source, as it is now: what retention deletes meanwhile is left out.
        whole: the range.
        writer: None: only count.
        part: only the batches with base offsets in ``[start, end)``; None: all. A batch across the
            start of the range belongs to the first part.
        on_read: called after each piece that is read.

    Raises:
        MirrorDiverged: a batch lies across the end of the mirror.
        UnsupportedForMessageFormat: a batch has magic 0 or 1.
        CorruptMessage: a batch is damaged.
        KafkaStorageError: the disk failed, or segments were deleted while they were read.
    """
    start, end = part or (whole.start_offset, whole.end_offset)
    floor = start if start > whole.start_offset else 0
    copied = CopiedBatches()
    start = max(start, log.log_start_offset)
    # The log start may lie in a batch that belongs to this part, after all of its offsets.
    read_end = max(end, start + 1)
    for piece in log.pieces(start, read_end) if start < whole.end_offset else ():
        batches = piece.batches_in_data
        is_ours = (batches.base_offset >= floor) & (batches.base_offset < end)
        batches = batches.select(is_ours & (batches.last_offset < whole.end_offset))
        if not len(batches):
            continue
        if not every(batches.magic == MAGIC_V2):
            raise UnsupportedForMessageFormat(
                f"{log.directory} holds batches of magic 0 or 1, which have no leader epochs"
            )
        first, last = batches.first_offset, int(batches.last_offset[-1])
        if first < whole.mirror_end:
            raise MirrorDiverged(
                *(whole.topic, whole.partition, whole.mirror_end),
                "the source has a batch across this offset",
            )
        data = bytes(piece.data[int(batches.position[0]) : batches.next_position])
        if writer is not None:
            writer.append(whole.topic, whole.partition, data, segment_bytes=whole.segment_bytes)
        copied.add(CopiedBatches(first, last + 1, len(batches), len(data)))
        on_read(copied)
    return copied
