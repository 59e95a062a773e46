"""What a picture of one log shows, as values: every form of it is drawn from these.

The axis of a picture is bytes: the ``.log`` files of a partition, one after the other. A
*position* is a byte on it, counted from the first byte of the first file. The size of a picture is
bounded, however large the log: neighbours are joined where there are more than fit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.cleaner.compaction_facts import CompactionFacts
from tidelog.codec.shown_rows import (
    BaseOffset,
    Batches,
    Named,
    OrMinus1,
    Range,
    Stored,
    TextOrEmpty,
    TimeOrMinus1,
    shown,
)
from tidelog.explain.describe import LogFacts
from tidelog.explain.segment_contents import SegmentContents
from tidelog.log.retention.shrunk_log import ShrunkLog
from tidelog.records.batch import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BLOCKS: Final = 256
"""Segments that are drawn one by one; more are joined to about this number of blocks."""
MAX_SPANS: Final = 2048
"""Batches that are drawn one by one."""
MAX_CELLS: Final = 1024
"""Equal parts of the axis: where there are more batches, those that begin in one are joined."""
MAX_TRANSACTIONS: Final = 512
"""Aborted transactions that are drawn one by one; the most open ones that are drawn."""
MAX_EPOCHS: Final = 256
"""Leader epochs that are drawn one by one; more are joined to about this number."""
MAX_LANES: Final = 8
"""Producers that are drawn with a line of their own."""
OTHERS: Final = -2
"""Stands for all producers without a line of their own."""


AxisPosition = Annotated[
    int,
    "Where it begins, in bytes from the start of the first `.log` file, the files one after the"
    " other.",
]
PlanError = Annotated[TextOrEmpty, "Why it could not be planned; null: no error."]
AxisBytes = Annotated[int, "Its size, in bytes."]


@dataclass(frozen=True, slots=True)
class SegmentBlock:
    """A segment, or neighbours joined.

    ``is_on_disk``: the disk has it, or the last of them; else only the archive has.
    """

    base_offset: BaseOffset
    end_offset: Annotated[int, "Base offset of the next block, or the log end offset."]
    position: AxisPosition
    size_bytes: AxisBytes
    segments: Annotated[int, "Number of segments that it joins."]
    is_active: Annotated[bool, "Whether the last segment is among them."]
    contents: Annotated[SegmentContents | None, "What it holds; null with `--brief`."] = None
    is_on_disk: bool = True

    @property
    def end_position(self) -> int:
        """Position after the last byte."""
        return self.position + self.size_bytes


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """A batch, or neighbours joined.

    The neighbours are of one block. Batches without a producer are left out of ``producers``.
    """

    start_offset: Annotated[int, "First offset."]
    end_offset: Annotated[int, "Offset after the last one."]
    position: AxisPosition
    size_bytes: AxisBytes
    batches: Annotated[int, "Number of batches that it joins."]
    records: Annotated[int, "Number of records."]
    markers: Annotated[int, "Number of control batches."]
    transactional: Annotated[int, "Number of batches of transactions, without markers."]
    codecs: Annotated[Batches, "Batches by codec."]
    producers: Annotated[
        dict[int, Annotated[int, "Number of batches."]], "Batches by id of the producer."
    ]
    min_timestamp: Annotated[TimeOrMinus1, "Least timestamp; -1: none."]
    max_timestamp: Annotated[TimeOrMinus1, "Greatest timestamp; -1: none."]
    dropped: Annotated[int, "Number of records that a compaction would drop."] = 0

    @property
    def end_position(self) -> int:
        """Position after the last byte."""
        return self.position + self.size_bytes


@dataclass(frozen=True, slots=True)
class TransactionSpan:
    """A transaction, or several aborted ones joined.

    ``OTHERS`` stands for several producers.
    """

    producer_id: Annotated[int, Range(OTHERS), "Its producer; -2: several."]
    first_offset: Annotated[int, "Offset of its first record."]
    last_offset: Annotated[int | None, "Offset of its marker; null: it is open."]
    producer_epoch: Annotated[OrMinus1, "Epoch of the producer; -1: not known."] = -1
    first_timestamp: Annotated[TimeOrMinus1, "Timestamp of its first record; -1: not known."] = -1
    count: Annotated[int, "Number of transactions that it joins."] = 1

    @property
    def is_open(self) -> bool:
        """Whether there is no marker."""
        return self.last_offset is None


@dataclass(frozen=True, slots=True)
class EpochStart:
    """Where a leader epoch begins, or the newest of neighbours joined."""

    leader_epoch: Annotated[int, Stored.INT32, "The epoch; of neighbours joined the newest."]
    start_offset: Annotated[
        int, "Its first offset in the log; of neighbours joined that of the oldest."
    ]
    epochs: Annotated[int, "Number of leader epochs that it joins."] = 1


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """Bytes without a valid batch."""

    position: AxisPosition
    size_bytes: Annotated[int, "How many bytes they are."]
    start_offset: Annotated[int, "First offset that is lost with them."]
    end_offset: Annotated[int, "Offset after the last one that is."]
    path: Annotated[str, "Path of the file."]
    byte: Annotated[int, "Where they begin in it, in bytes."]
    reason: Annotated[str, "What is wrong there."]

    @property
    def end_position(self) -> int:
        """Position after the last byte."""
        return self.position + self.size_bytes


class Mark(NamedTuple):
    """An offset that the log keeps, under one name or several."""

    names: tuple[str, ...]
    offset: int


class ProducerLane(NamedTuple):
    """The batches and transactions of one producer, or of all ``OTHERS``.

    ``producers`` is the number of producers. No transaction is in two lanes.
    """

    producer_id: int
    producers: int
    batches: int
    transactions: tuple[TransactionSpan, ...]


@dataclass(frozen=True, slots=True)
class LogPicture:
    """One partition, ready to be drawn.

    Its ``facts`` are shown too, before the rest. ``has_batches``: the batches were read; otherwise
    ``spans``, ``transactions``, ``damaged`` and the plans are empty. ``is_planned``: the plans were
    asked for; ``compaction`` is None also for a log that is not compacted. ``unplaced`` counts
    batches that lie in none of the segments as they were listed. ``producers`` is the number of
    producers, ``transactions`` are in order of their first offsets, and ``aborted`` and ``opened``
    count all of them. ``part`` are the offsets ``[start, end)`` that are shown; None: all.
    """

    facts: LogFacts
    recovery_point: Annotated[
        int | None, "Offset below which records were flushed; null: not known."
    ]
    blocks: Annotated[
        tuple[SegmentBlock, ...], "Its segments as they are drawn: neighbours are joined if many."
    ]
    spans: Annotated[
        tuple[BatchSpan, ...],
        Named("batchSpans"),
        "Its batches as they are drawn; empty with `--brief`.",
    ] = ()
    transactions: Annotated[
        tuple[TransactionSpan, ...], "Its open and aborted transactions as they are drawn."
    ] = ()
    aborted: Annotated[int, Named("abortedTransactions"), "Number of its aborted transactions."] = 0
    opened: Annotated[int, Named("openTransactions"), "Number of its open transactions."] = 0
    damaged: Annotated[
        tuple[DamagedSpan, ...],
        Named("damagedRanges"),
        "Bytes without a valid batch, in the middle of the log.",
    ] = ()
    retention: Annotated[ShrunkLog | None, "As of `plan retention`; null: not planned."] = None
    retention_error: PlanError = ""
    compaction: Annotated[CompactionFacts | None, "As of `plan compaction`; null: not planned."] = (
        None
    )
    compaction_error: PlanError = ""
    epochs: Annotated[
        tuple[EpochStart, ...],
        Named("leaderEpochs"),
        "Where its leader epochs begin, as they are drawn; empty with `--brief`.",
    ] = ()
    epochs_error: Annotated[
        TextOrEmpty, Named("leaderEpochsError"), "Why these are not known; null: they are."
    ] = ""
    has_batches: bool = False
    producers: int = 0
    unplaced: int = 0
    is_planned: bool = False
    part: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """Topic and partition, as in ``flights-0``."""
        return f"{self.facts.topic}-{self.facts.partition}"

    @property
    def total_bytes(self) -> int:
        """Length of the axis."""
        return self.blocks[-1].end_position if self.blocks else 0

    @property
    @shown(after="opened")
    def tail_bytes(self) -> int:
        """Bytes after the last batch, which a recovery would cut off."""
        ends = [span.end_position for span in self.spans]
        ends += [span.end_position for span in self.damaged]
        end = max(ends, default=0)
        return self.total_bytes - end if self.has_batches else 0

    @property
    def has_loss(self) -> bool:
        """Whether there is damage, or a hole."""
        return self.facts.has_loss or bool(self.damaged)

    @property
    def times(self) -> tuple[int, int]:
        """Least and greatest timestamp in ms, -1 without any."""
        held = [block.contents for block in self.blocks if block.contents is not None]
        least = [each.min_timestamp for each in held if each.min_timestamp >= 0]
        most = [each.max_timestamp for each in held if each.max_timestamp >= 0]
        return min(least, default=-1), max(most, default=-1)

    @property
    def codecs(self) -> dict[str, int]:
        """Batches by codec."""
        found: Counter[str] = Counter()
        for span in self.spans:
            found.update(span.codecs)
        return dict(sorted(found.items()))

    @property
    def shown_epochs(self) -> tuple[EpochStart, ...]:
        """The leader epochs to draw; none for a log whose only epoch is the first one, 0."""
        is_usual = len(self.epochs) == 1 and self.epochs[0].leader_epoch == 0
        return () if is_usual else self.epochs

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The offsets to point at, ascending; names of the same offset together."""
        facts = self.facts
        known = [
            ("log start", facts.log_start_offset),
            ("last stable offset", facts.last_stable_offset),
            ("high watermark", facts.high_watermark),
            ("log end", facts.log_end_offset),
        ]
        if self.recovery_point is not None:
            known.append(("recovery point", self.recovery_point))
        start, end = self.part or (0, INT64_MAX)
        names: dict[int, list[str]] = {}
        for name, offset in known:
            if not start <= offset <= end:
                continue
            names.setdefault(offset, []).append(name)
        return tuple(Mark(tuple(names[offset]), offset) for offset in sorted(names))


def picture_of_facts(facts: LogFacts, recovery_point: int | None = None) -> LogPicture:
    """Return a picture without batches: segments and offsets only."""
    return LogPicture(facts, recovery_point, join_segments(facts))


def join_epochs(found: Iterable[tuple[int, int]], facts: LogFacts) -> tuple[EpochStart, ...]:
    """Return the epochs, given with their first offsets, that have offsets in a log.

    Neighbours are joined where there are too many. The file may hold anything: an epoch that is not
    above the one before it, or begins outside of the log, is left out.
    """
    start, end = facts.log_start_offset, facts.log_end_offset
    starts: list[EpochStart] = []
    for epoch, first in found:
        last = starts[-1] if starts else None
        if first >= end or (last is not None and last.leader_epoch >= epoch):
            continue
        if last is not None and last.start_offset >= max(first, start):
            starts.pop()  # it has ended at or below the log start
        starts.append(EpochStart(epoch, max(first, start)))
    if len(starts) <= MAX_EPOCHS:
        return tuple(starts)
    joined: dict[int, EpochStart] = {}
    for one in starts:
        cell = (one.start_offset - start) * MAX_EPOCHS // (end - start)
        before = joined.get(cell)
        if before is not None:
            joined[cell] = EpochStart(
                one.leader_epoch, before.start_offset, epochs=before.epochs + 1
            )
        else:
            joined[cell] = one
    return tuple(joined.values())


def producer_lanes(picture: LogPicture) -> tuple[ProducerLane, ...]:
    """Return the lanes to draw: open transactions first, then by aborted ones and batches."""
    batches: Counter[int] = Counter()
    for span in picture.spans:
        batches.update(span.producers)
    txns: dict[int, list[TransactionSpan]] = {}
    for txn in picture.transactions:
        txns.setdefault(txn.producer_id, []).append(txn)

    def weight(producer_id: int) -> tuple[bool, int, int, int]:
        own = txns.get(producer_id, [])
        aborted = sum(txn.count for txn in own if not txn.is_open)
        return any(txn.is_open for txn in own), aborted, batches[producer_id], -producer_id

    known = sorted({*batches, *txns} - {OTHERS}, key=weight, reverse=True)
    chosen = sorted(known[:MAX_LANES])
    lanes = [ProducerLane(each, 1, batches[each], tuple(txns.get(each, ()))) for each in chosen]
    rest = [*known[MAX_LANES:], OTHERS]
    count = picture.producers - len(chosen)
    if count > 0:
        together = [txn for each in rest for txn in txns.get(each, ())]
        lanes.append(
            ProducerLane(OTHERS, count, sum(batches[each] for each in rest), tuple(together))
        )
    return tuple(lanes)


def spans_of(picture: LogPicture, lane: ProducerLane) -> list[BatchSpan]:
    """Return the spans with batches of a lane's producers."""
    if lane.producer_id != OTHERS:
        return [span for span in picture.spans if lane.producer_id in span.producers]
    chosen = {each.producer_id for each in producer_lanes(picture)} - {OTHERS}
    return [span for span in picture.spans if span.producers.keys() - chosen]


def with_dropped(spans: tuple[BatchSpan, ...], dropped: list[int]) -> tuple[BatchSpan, ...]:
    """Return the spans, each with the number of its records that a compaction would drop."""
    return tuple(
        replace(span, dropped=count) if count else span
        for span, count in zip(spans, dropped, strict=True)
    )


def join_segments(facts: LogFacts) -> tuple[SegmentBlock, ...]:
    """Return the blocks of a log: its segments or, where there are too many, neighbours joined."""
    total = sum(segment.log_bytes for segment in facts.segments)
    is_joined = len(facts.segments) > MAX_BLOCKS
    blocks: list[SegmentBlock] = []
    position, cell = 0, -1
    for segment in facts.segments:
        now = position * MAX_BLOCKS // total if total else 0
        if is_joined and now == cell:
            last = blocks[-1]
            blocks[-1] = replace(
                last,
                end_offset=segment.end_offset,
                size_bytes=last.size_bytes + segment.log_bytes,
                segments=last.segments + 1,
                is_active=segment.is_active,
                is_on_disk=segment.is_on_disk,
            )
        else:
            blocks.append(
                SegmentBlock(
                    base_offset=segment.base_offset,
                    end_offset=segment.end_offset,
                    position=position,
                    size_bytes=segment.log_bytes,
                    segments=1,
                    is_active=segment.is_active,
                    is_on_disk=segment.is_on_disk,
                )
            )
        position, cell = position + segment.log_bytes, now
    return tuple(blocks)
