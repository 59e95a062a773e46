"""Reads what the picture of a log shows, without a lock, also beside a writer.

All batch headers are read, and checksums compared. What is after damage is shown too.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.errors import CorruptMessage, InvalidRecord, KafkaStorageError, TidelogError
from tidelog.explain.pictures.batch_spans import DroppedCounter, SpanGatherer
from tidelog.explain.pictures.joined_transactions import join_transactions
from tidelog.explain.pictures.log_picture import (
    MAX_TRANSACTIONS,
    DamagedSpan,
    EpochStart,
    LogPicture,
    TransactionSpan,
    join_epochs,
    join_segments,
    with_dropped,
)
from tidelog.explain.plans.retention_plan import plan_retention
from tidelog.log.producers.reader_transactions import Transactions
from tidelog.manager.compaction_plan import compaction_to_plan, plan_compaction
from tidelog.readonly.replayed_transactions import begun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.cleaner.rewriting.filter_result import DroppedRecords
    from tidelog.explain.describe import LogFacts, SegmentFacts
    from tidelog.explain.plans.plan_terms import Planning
    from tidelog.readonly.missing.damaged_range import DamagedRange, OnDamage
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.file_records import Piece


def take_picture(
    open_log: Callable[[OnDamage | None], ReadOnlyLog],
    describe: Callable[[ReadOnlyLog], LogFacts],
    *,
    recovery_point: int | None = None,
    planning: Planning | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> LogPicture:
    """Read a log and return its picture.

    Args:
        open_log: opens the log; with a callback, past damage, which is reported to it.
        describe: returns the facts of an open log.
        recovery_point: the line of the checkpoint.
        planning: what the plans of retention and compaction depend on; None: no plans.
        on_progress: called with the bytes whose batches are read, and those of the log.

    Raises KafkaStorageError, UnknownTopicOrPartition, OffsetOutOfRange.
    """
    with open_log(None) as log:
        facts = describe(log)
        try:
            read = _read_batches(log, facts, on_progress)
        except CorruptMessage:
            read = None
        epochs, epochs_error = _epochs(log, facts)
    damaged: list[DamagedRange] = []
    if read is None:
        with open_log(damaged.append) as log:
            read = _read_batches(log, facts, on_progress)
    picture = replace(
        read,
        recovery_point=recovery_point,
        damaged=tuple(_damaged_spans(facts, read, damaged)),
        epochs=epochs,
        epochs_error=epochs_error,
    )
    return picture if planning is None else _with_plans(picture, open_log, planning)


class PicturePart(NamedTuple):
    """A part of a segment that is drawn alone: its offsets, and its bytes in the file."""

    segment: SegmentFacts
    offsets: tuple[int, int]
    first_byte: int
    size_bytes: int


def take_part(
    open_log: Callable[[OnDamage], ReadOnlyLog],
    describe: Callable[[ReadOnlyLog], LogFacts],
    offset: int,
    max_bytes: int,
) -> LogPicture:
    """Return the picture of the batches from an offset on, in its segment.

    Args:
        open_log: opens the log, past damage, which is reported to the callback.
        describe: returns the facts of an open log.
        offset: where to begin; the log start if it is below.
        max_bytes: how much to read at most, in bytes; a larger batch is read all the same.

    Its transactions are those that these batches show. Raises as ``take_picture``.
    """
    damaged: list[DamagedRange] = []
    with open_log(damaged.append) as log:
        facts = describe(log)
        part = _part_from(log, facts, max(offset, facts.log_start_offset), max_bytes)
        if part is None:
            return LogPicture(replace(facts, segments=()), None, (), part=(offset, offset))
        damaged.clear()
        base, end = part.offsets
        shown = replace(part.segment, base_offset=base, end_offset=end, log_bytes=part.size_bytes)
        facts = replace(facts, segments=(shown,), size_bytes=part.size_bytes, holes=())
        picture = _read_batches(log, facts, part=part)
    spans = [
        DamagedSpan(
            position=max(each.position - part.first_byte, 0),
            size_bytes=each.end - each.position,
            start_offset=each.start_offset,
            end_offset=each.end_offset,
            path=each.path,
            byte=each.position,
            reason=each.reason,
        )
        for each in damaged
        if each.end_offset > base and each.start_offset <= end
    ]
    return replace(picture, damaged=tuple(spans))


def _part_from(
    log: ReadOnlyLog, facts: LogFacts, offset: int, max_bytes: int
) -> PicturePart | None:
    """Return what of the segment is drawn; None if there is no batch from ``offset`` on."""
    held = [one for one in facts.segments if one.base_offset <= offset < one.end_offset]
    if not held:
        return None
    [segment] = held
    stop = min(segment.end_offset, facts.log_end_offset)
    first_byte = last_byte = None
    end = offset
    for piece in log.pieces(offset, stop, check_crc=False):
        batches = piece.batches
        if first_byte is None:
            first_byte = int(batches.position[0])
            offset = min(offset, max(batches.first_offset, segment.base_offset))
        count = int(np.searchsorted(batches.end, first_byte + max_bytes, "right"))
        if count < len(batches):
            batches = batches.slice(0, max(count, 1) if last_byte is None else count)
        if len(batches):
            last_byte, end = int(batches.end[-1]), batches.next_offset
        if last_byte is not None and count < len(piece.batches):
            break
    if first_byte is None or last_byte is None:
        return None
    return PicturePart(segment, (offset, min(end, stop)), first_byte, last_byte - first_byte)


def _read_batches(
    log: ReadOnlyLog,
    facts: LogFacts,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    part: PicturePart | None = None,
) -> LogPicture:
    """Return the picture with what the batches say; CorruptMessage unless damage is skipped."""
    blocks = join_segments(facts)
    gatherer = SpanGatherer(facts.segments, blocks, 0 if part is None else part.first_byte)
    transactions = Transactions()
    is_followed, done = True, 0
    ends = (log.log_start_offset, log.log_end_offset) if part is None else part.offsets
    for piece in log.pieces(*ends):
        gatherer.add(piece.batches)
        if is_followed:
            try:
                transactions.follow(piece)
            except (InvalidRecord, CorruptMessage):
                is_followed = False  # a marker that cannot be read
        done += int(piece.batches.size.sum())
        on_progress(done, facts.size_bytes)
    spans = gatherer.finish()
    aborted = [TransactionSpan(*txn[:3]) for txn in transactions.aborted]
    return LogPicture(
        facts,
        None,
        tuple(
            replace(block, contents=held)
            for block, held in zip(blocks, gatherer.contents, strict=True)
        ),
        has_batches=True,
        spans=spans,
        transactions=join_transactions(aborted, spans) + tuple(_open_spans(log, transactions)),
        aborted=len(aborted),
        opened=len(transactions.open),
        producers=gatherer.producers,
        unplaced=gatherer.unplaced,
        part=None if part is None else part.offsets,
    )


def _epochs(log: ReadOnlyLog, facts: LogFacts) -> tuple[tuple[EpochStart, ...], str]:
    """Return the leader epochs, or why they are not known: the rest is drawn all the same."""
    try:
        return join_epochs(log.leader_epochs(), facts), ""
    except KafkaStorageError as error:
        return (), str(error)


def _open_spans(log: ReadOnlyLog, transactions: Transactions) -> Iterator[TransactionSpan]:
    """Yield the open transactions, by their first offsets."""

    def pieces(start: int, end: int) -> Iterator[Piece]:
        with suppress(CorruptMessage):
            yield from log.quiet_pieces(start, end)

    first = sorted(transactions.open.items(), key=lambda item: item[1])[:MAX_TRANSACTIONS]
    for txn in begun(dict(first), pieces):
        epoch, since = txn.producer_epoch, txn.first_timestamp
        yield TransactionSpan(txn.producer_id, txn.first_offset, None, epoch, since)


def _damaged_spans(
    facts: LogFacts, picture: LogPicture, damaged: list[DamagedRange]
) -> Iterator[DamagedSpan]:
    """Yield damaged ranges with their places on the axis."""
    starts = {}
    position = 0
    for segment in facts.segments:
        starts[segment.base_offset] = position, segment.log_bytes
        position += segment.log_bytes
    for each in damaged:
        start, size = starts.get(_base_offset(each.path), (picture.total_bytes, 0))
        first, end = min(each.position, size), min(each.end, size)
        yield DamagedSpan(
            position=start + first,
            size_bytes=max(end - first, 0),
            start_offset=each.start_offset,
            end_offset=each.end_offset,
            path=each.path,
            byte=each.position,
            reason=each.reason,
        )


def _base_offset(path: str) -> int:
    digits = os.path.basename(path).partition(".")[0]
    return int(digits) if digits.isdecimal() else -1


def _with_plans(
    picture: LogPicture,
    open_log: Callable[[OnDamage | None], ReadOnlyLog],
    planning: Planning,
) -> LogPicture:
    """Return the picture with what retention and compaction would take."""
    config, lines, clock, pinned_from = planning
    counter = DroppedCounter(picture.spans)

    def open_strictly() -> ReadOnlyLog:
        return open_log(None)

    def count_anew() -> Callable[[DroppedRecords], None]:
        nonlocal counter
        counter = DroppedCounter(picture.spans)
        return counter.add

    picture = replace(picture, is_planned=True)
    try:
        plan = plan_retention(open_strictly, config, clock, pinned_from=pinned_from)
        picture = replace(picture, retention=plan)
    except TidelogError as error:
        picture = replace(picture, retention_error=str(error))
    if not config.is_compacted:
        return picture
    compaction = compaction_to_plan(clock)
    try:
        planned = plan_compaction(
            open_strictly, config, lines, clock, compaction, on_answer=count_anew
        )
    except TidelogError as error:
        return replace(picture, compaction_error=str(error))
    return replace(picture, compaction=planned, spans=with_dropped(picture.spans, counter.counts))
