"""What a rescue reports: what was copied of each partition, and what was left out and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import numpy as np

from tidelog.codec.shown_rows import LogEnd, LogStart, Named, PartitionNumber, TopicName

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.records.array_rows import Bools, Ints
    from tidelog.records.batch_columns import BatchColumns

MOST_LISTED: Final = 100
"""Ranges that are listed of one partition, of each kind; more are counted. A log may be damaged in
any number of places, and the report is held in memory."""


class LeftOut(NamedTuple):
    """A range of a file, or a file or directory, that is not in the copy.

    Offsets are ``[start_offset, end_offset)``, between the batches before and after it.
    """

    path: Annotated[str, Named("file"), "Path of the file or directory."]
    position: Annotated[
        int | None, Named("byte"), "Where in the file it begins, in bytes; null: all of it."
    ]
    size_bytes: Annotated[int, Named("bytes"), "How many bytes it has; 0: that is not known."]
    batches: Annotated[int, "Batches in it that can be read by themselves."]
    start_offset: Annotated[int | None, "First offset that it may have held; null: not known."]
    end_offset: Annotated[int | None, "Offset after the last one; null: not known."]
    reason: Annotated[str, "Why it was left out."]
    is_loss: Annotated[
        bool, Named("lost"), "Whether records may be missing for it; false: it holds none."
    ]

    def may_hold(self, start: int, end: int) -> bool:
        """Return whether it may have held some of offsets ``[start, end)``."""
        if self.start_offset is None or self.start_offset >= end:
            return False
        return self.end_offset is None or self.end_offset > start


class OffsetGap(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` that no batch with records of the copy has."""

    start_offset: Annotated[int, "First offset that is missing."]
    end_offset: Annotated[int, "Next offset that is there."]
    reason: Annotated[str, "What is known about them."]
    is_loss: Annotated[bool, Named("lost"), "Whether records seem to be missing."]


@dataclass(slots=True)
class RescuedPartition:
    """What was copied of one partition, and what was not.

    ``is_whole``: nothing that may have held records was left out.
    """

    topic: TopicName
    partition: PartitionNumber
    log_start_offset: LogStart = 0
    log_end_offset: LogEnd = 0
    segments: Annotated[int, "Segments of the copy."] = 0
    batches: Annotated[int, "Batches that were copied."] = 0
    records: Annotated[int, "Records in them, without markers of transactions."] = 0
    markers: Annotated[int, "Batches of these that are markers of transactions."] = 0
    size_bytes: Annotated[int, "Their size, in bytes."] = 0
    is_whole: Annotated[
        bool,
        Named("whole"),
        "Whether nothing was left out that may have held records, and none seem to be missing.",
    ] = True
    left_out_count: Annotated[int, Named("leftOutCount"), "What was left out, in pieces."] = 0
    left_out_batches: Annotated[int, "Readable batches that were left out."] = 0
    left_out_bytes: Annotated[int, "Bytes that were left out."] = 0
    left_out: Annotated[
        tuple[LeftOut, ...], "What was left out and why: the first 100 pieces of each kind."
    ] = ()
    gap_count: Annotated[int, "Gaps in the offsets of the copy."] = 0
    gap_offsets: Annotated[int, "Offsets in them."] = 0
    gaps: Annotated[tuple[OffsetGap, ...], "The gaps: the first 100 of each kind."] = ()
    open_transactions: Annotated[int, "Transactions that are open in the copy."] = 0
    open_from: Annotated[
        int | None, "First offset of the first of them, where readers of committed records stop."
    ] = None

    def leave_out(self, what: LeftOut) -> None:
        """Take note of what is not in the copy."""
        self.left_out_count += 1
        self.left_out_batches += what.batches
        self.left_out_bytes += what.size_bytes
        self.is_whole &= not what.is_loss
        if sum(one.is_loss == what.is_loss for one in self.left_out) < MOST_LISTED:
            self.left_out += (what,)

    def excuse(self, reason: str) -> None:
        """Take nothing for a loss, and say why."""
        if not self.is_whole:
            self.is_whole = True
            self.left_out = tuple(
                one._replace(reason=reason, is_loss=False) for one in self.left_out
            )
            self.gaps = tuple(one._replace(reason=reason, is_loss=False) for one in self.gaps)

    def skip(
        self, starts: Ints, ends: Ints, is_loss: Bools, named: Callable[[int, int], OffsetGap]
    ) -> None:
        """Take note of gaps, in order: all are counted, and the first of each kind are listed."""
        self.gap_count += len(starts)
        self.gap_offsets += int((ends - starts).sum())
        self.is_whole &= not is_loss.any()
        for kind in (True, False):
            room = MOST_LISTED - sum(one.is_loss == kind for one in self.gaps)
            chosen = np.flatnonzero(is_loss == kind)[: max(room, 0)]
            found = map(named, starts[chosen].tolist(), ends[chosen].tolist())
            self.gaps = tuple(sorted([*self.gaps, *found]))

    def add(self, batches: BatchColumns, records: int) -> None:
        """Count batches that were copied; their gaps are noted before."""
        self.batches += len(batches)
        self.records += records
        self.markers += int(batches.is_control.sum())
        self.size_bytes += int(batches.size.sum())
        self.log_end_offset = batches.next_offset


@dataclass(frozen=True, slots=True)
class Rescued:
    """What a rescue has copied, by partition, and what of the directories it left out."""

    partitions: tuple[RescuedPartition, ...]
    entries: tuple[LeftOut, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out that may have held records."""
        parts_are = all(one.is_whole for one in self.partitions)
        return parts_are and not any(one.is_loss for one in self.entries)
