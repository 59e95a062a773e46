"""What a picture of one log shows, as values: every form of it is drawn from these.

The axis of a picture is bytes: the ``.log`` files of a partition, one behind the other. A
*position* is a byte on it, counted from the first byte of the first file. The size of a picture is
bounded, however large the log: neighbours are joined where there are more than fit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.cleaner.compaction import CompactionFacts
    from tidelog.explain.describe import LogFacts
    from tidelog.explain.segment_contents import SegmentContents
    from tidelog.log.shrunk_log import ShrunkLog

MAX_BLOCKS: Final = 256
"""Segments that are drawn one by one; more are joined to about this number of blocks."""
MAX_SPANS: Final = 2048
"""Batches that are drawn one by one."""
MAX_CELLS: Final = 1024
"""Equal parts of the axis: where there are more batches, those that begin in one are joined."""
MAX_TRANSACTIONS: Final = 512
"""Aborted transactions that are drawn one by one; the most open ones that are drawn."""
MAX_LANES: Final = 8
"""Producers that are drawn with a line of their own."""
OTHERS: Final = -2
"""Stands for all producers without a line of their own."""


@dataclass(frozen=True, slots=True)
class SegmentBlock:
    """One segment, or neighbours joined: offsets ``[base_offset, end_offset)``.

    ``position`` and ``size_bytes`` are on the axis. ``contents`` is None where no batches were
    read; otherwise it counts the batches between log start and log end.
    """

    base_offset: int
    end_offset: int
    position: int
    size_bytes: int
    segments: int
    is_active: bool
    contents: SegmentContents | None = None

    @property
    def end_position(self) -> int:
        """Position behind the last byte."""
        return self.position + self.size_bytes


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """One batch, or neighbours of one block joined: offsets ``[start_offset, end_offset)``.

    ``codecs`` counts batches by Kafka's name of their codec, ``producers`` by producer id; batches
    without one are left out there. ``markers`` counts control batches. Timestamps are in ms, -1
    without any. ``dropped`` is how many records a compaction would drop.
    """

    start_offset: int
    end_offset: int
    position: int
    size_bytes: int
    batches: int
    records: int
    markers: int
    transactional: int
    codecs: Mapping[str, int]
    producers: Mapping[int, int]
    min_timestamp: int
    max_timestamp: int
    dropped: int = 0

    @property
    def end_position(self) -> int:
        """Position behind the last byte."""
        return self.position + self.size_bytes


@dataclass(frozen=True, slots=True)
class TransactionSpan:
    """A transaction that was aborted or is open, or several aborted ones joined (``count``).

    ``last_offset`` is that of the marker; None: the transaction is open. ``producer_epoch`` and
    ``first_timestamp`` (in ms) are -1 where they are not known. ``producer_id`` is ``OTHERS`` for
    joined transactions of several producers.
    """

    producer_id: int
    first_offset: int
    last_offset: int | None
    producer_epoch: int = -1
    first_timestamp: int = -1
    count: int = 1

    @property
    def is_open(self) -> bool:
        """Whether there is no marker."""
        return self.last_offset is None


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """Bytes without a valid batch; offsets ``[start_offset, end_offset)`` are lost with them.

    ``path`` and ``byte`` say where they begin; ``position`` and ``size_bytes`` are on the axis.
    """

    position: int
    size_bytes: int
    start_offset: int
    end_offset: int
    path: str
    byte: int
    reason: str

    @property
    def end_position(self) -> int:
        """Position behind the last byte."""
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
    """One log, ready to be drawn.

    ``recovery_point`` is None without a line in the checkpoint. ``has_batches``: the batches were
    read; otherwise ``spans``, ``transactions``, ``damaged`` and the plans are empty.
    ``is_planned``: the plans were asked for. A plan is None where it could not be made, and
    ``retention_error`` or ``compaction_error`` is the reason; ``compaction`` is None also for a log
    that is not compacted.
    ``unplaced`` counts batches that lie in none of the segments as they were listed.
    ``producers`` is the number of producers, ``transactions`` are in order of their first offsets,
    and ``aborted`` and ``opened`` count all of them.
    """

    facts: LogFacts
    blocks: tuple[SegmentBlock, ...]
    recovery_point: int | None = None
    has_batches: bool = False
    spans: tuple[BatchSpan, ...] = ()
    transactions: tuple[TransactionSpan, ...] = ()
    aborted: int = 0
    opened: int = 0
    producers: int = 0
    damaged: tuple[DamagedSpan, ...] = ()
    unplaced: int = 0
    is_planned: bool = False
    retention: ShrunkLog | None = None
    retention_error: str = ""
    compaction: CompactionFacts | None = None
    compaction_error: str = ""

    @property
    def name(self) -> str:
        """Topic and partition, as in ``flights-0``."""
        return f"{self.facts.topic}-{self.facts.partition}"

    @property
    def total_bytes(self) -> int:
        """Length of the axis."""
        return self.blocks[-1].end_position if self.blocks else 0

    @property
    def tail_bytes(self) -> int:
        """Bytes behind the last batch or damage; opening the log cuts them off."""
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
        names: dict[int, list[str]] = {}
        for name, offset in known:
            names.setdefault(offset, []).append(name)
        return tuple(Mark(tuple(names[offset]), offset) for offset in sorted(names))

    def as_json(self) -> dict[str, Any]:
        """Return the picture under camel-case names: what ``describe`` prints, and more."""
        retention, compaction = self.retention, self.compaction
        return {
            **self.facts.as_json(),
            "recoveryPoint": self.recovery_point,
            "blocks": [_camel(asdict(block)) for block in self.blocks],
            "batchSpans": [_camel(asdict(span)) for span in self.spans],
            "transactions": [_camel(asdict(txn)) for txn in self.transactions],
            "abortedTransactions": self.aborted,
            "openTransactions": self.opened,
            "tailBytes": self.tail_bytes,
            "damagedRanges": [_camel(asdict(span)) for span in self.damaged],
            "retention": None if retention is None else retention.as_json(),
            "retentionError": self.retention_error or None,
            "compaction": None if compaction is None else compaction.as_json(),
            "compactionError": self.compaction_error or None,
        }


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
                )
            )
        position, cell = position + segment.log_bytes, now
    return tuple(blocks)


def _camel(value: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, member in value.items():
        first, *others = name.split("_")
        key = first + "".join(word.capitalize() for word in others)
        is_nested = isinstance(member, dict) and name == "contents"
        found[key] = _camel(member) if is_nested else member
    return found
