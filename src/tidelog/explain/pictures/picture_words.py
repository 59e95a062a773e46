"""The sentences of a picture, shared by its forms: sizes, times, what plans would do, damage.

Names, paths and reasons come from outside; all text is safe to print and has one line.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from tidelog.codec.offset_text import offsets_text
from tidelog.env.moments import utc_text
from tidelog.explain.pictures.log_picture import OTHERS
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.explain.pictures.log_picture import (
        BatchSpan,
        DamagedSpan,
        EpochStart,
        LogPicture,
        ProducerLane,
        SegmentBlock,
        TransactionSpan,
    )

_NAMED_TRANSACTIONS: Final = 3
"""Open transactions that are named one by one."""
_NAMED_EPOCHS: Final = 6
"""Leader epochs that a sentence names."""


def time_text(ms: int) -> str:
    """Return milliseconds since the Unix epoch as ``2026-11-21 14:30:00.123 UTC``."""
    text = utc_text(ms)
    return f"{ms} ms" if text is None else f"{text}.{ms % 1000:03} UTC"


def times_text(first: int, last: int) -> str:
    """Return a range of times in ms, empty without any; a day that both share stands once."""
    if last < 0:
        return ""
    texts = [utc_text(ms) or f"{ms} ms" for ms in (first, last) if ms >= 0]
    if len(texts) == 1 or texts[0] == texts[1]:
        return f"{texts[-1]} UTC"
    day = texts[0][:11]
    after = texts[1].removeprefix(day) if " " in day else texts[1]
    return f"{texts[0]} to {after} UTC"


def summary(picture: LogPicture) -> str:
    """Return what is in the log, in one line without its name."""
    facts = picture.facts
    start, end = picture.part or (facts.log_start_offset, facts.log_end_offset)
    parts = [
        counted(end - start, "offset"),
        counted(len(facts.segments), "segment"),
        format_bytes(facts.size_bytes),
    ]
    if picture.part is not None:
        parts[:2] = [offsets_text(start, end)]
    if picture.has_batches:
        parts.insert(-1, counted(sum(span.batches for span in picture.spans), "batch"))
    times = times_text(*picture.times)
    return ", ".join(parts) + (f"; {times}" if times else "")


def block_text(block: SegmentBlock) -> str:
    """Return what a segment holds, or segments that are drawn as one."""
    name = "active segment" if block.is_active else "segment"
    if block.segments > 1:
        name = f"{block.segments:,} segments" + (", the last one active" * block.is_active)
    parts = [f"{name}, base offset {block.base_offset:,}", format_bytes(block.size_bytes)]
    held = block.contents
    if held is not None:
        parts += [counted(held.batches, "batch"), counted(held.records, "record")]
        parts.append(times_text(held.min_timestamp, held.max_timestamp))
    return "; ".join(part for part in parts if part)


def epoch_text(start: EpochStart) -> str:
    """Return where a leader epoch begins, or the newest of several drawn as one."""
    joined = f", {start.epochs:,} epochs" if start.epochs > 1 else ""
    return f"leader epoch {start.leader_epoch}{joined}, from offset {start.start_offset:,}"


def epochs_text(picture: LogPicture) -> str:
    """Return where the newest leader epochs begin; empty where that says nothing."""
    if picture.epochs_error:
        return f"leader epochs: unknown, {printable(picture.epochs_error)}"
    shown = picture.shown_epochs[-_NAMED_EPOCHS:]
    if not shown:
        return ""
    named = ", ".join(f"{one.leader_epoch} from offset {one.start_offset:,}" for one in shown)
    others = sum(one.epochs for one in picture.shown_epochs) - len(shown)
    return f"leader epochs: {named}" + (f" and {others:,} before" if others else "")


def span_text(span: BatchSpan) -> str:
    """Return what a batch holds, or batches that are drawn as one."""
    what = "marker" if span.markers == span.batches else "batch"
    parts = [
        offsets_text(span.start_offset, span.end_offset),
        counted(span.batches, what),
        counted(span.records, "record"),
        f"{span.size_bytes:,} bytes",
        ", ".join(
            name if span.batches == 1 else f"{name} {count:,}"
            for name, count in span.codecs.items()
        ),
    ]
    known = [f"{each}" for each in span.producers if each != OTHERS][:4]
    if known:
        more = len(span.producers) - len(known)
        others = f" and {more:,} more" if more else ""
        parts.append(f"producer{'s' * (len(known) > 1)} {', '.join(known)}{others}")
    if span.transactional:
        parts.append("transactional")
    if span.dropped:
        parts.append(f"compaction would drop {counted(span.dropped, 'record')}")
    parts.append(times_text(span.min_timestamp, span.max_timestamp))
    return "; ".join(part for part in parts if part)


def lane_name(lane: ProducerLane, room: int) -> str:
    """Return the name of a lane in at most ``room`` characters, as far as they suffice."""
    if lane.producer_id == OTHERS:
        return f"{lane.producers:,} other{'s' * (lane.producers > 1)}"
    names = (f"{word}{lane.producer_id}" for word in ("producer ", "id "))
    return next((name for name in names if len(name) <= room), f"{lane.producer_id}")


def transaction_text(txn: TransactionSpan) -> str:
    """Return who began a transaction and where; for several, where they lie."""
    who = "other producers" if txn.producer_id == OTHERS else f"producer {txn.producer_id}"
    if txn.count > 1:
        return (
            f"{txn.count:,} aborted transactions of {who},"
            f" offsets {txn.first_offset:,} to {txn.last_offset or 0:,}"
        )
    if txn.last_offset is not None:
        return f"aborted: {who}, first offset {txn.first_offset:,}, marker {txn.last_offset:,}"
    epoch = f", epoch {txn.producer_epoch}" if txn.producer_epoch >= 0 else ""
    since = f", since {time_text(txn.first_timestamp)}" if txn.first_timestamp >= 0 else ""
    return f"open: {who}{epoch}, first offset {txn.first_offset:,}{since}"


def damage_text(span: DamagedSpan) -> str:
    """Return where damage lies, and what is lost with it."""
    file = printable("/".join(span.path.split("/")[-2:]))
    if not span.size_bytes:
        return f"{printable(span.reason)}: after byte {span.byte:,} of {file}"
    lost = "no offsets"
    if span.start_offset < span.end_offset:
        lost = offsets_text(span.start_offset, span.end_offset)
    where = f"{span.size_bytes:,} bytes from byte {span.byte:,} of {file}"
    return f"{lost} unreadable, {where}: {printable(span.reason)}"


def checked_text() -> str:
    """Return what a picture without batches has checked, for readers who see no damage in it."""
    return (
        "checked: the end of each log, and that no segment is missing; batches and their checksums"
        " were not read: tidelog verify checks every byte"
    )


def losses(picture: LogPicture) -> Iterator[str]:
    """Yield what is damaged, lost or not drawn."""
    for span in picture.damaged:
        yield f"DAMAGED: {damage_text(span)}"
    if picture.facts.damage is not None and not picture.damaged:
        yield f"DAMAGED: {printable(picture.facts.damage)}"
    for hole in picture.facts.holes:
        yield f"LOST: {hole}"
    if picture.tail_bytes:
        yield (
            f"UNFINISHED: {picture.tail_bytes:,} bytes at the end hold no whole batch; opening the"
            " log cuts them off"
        )
    if picture.unplaced:
        yield (
            f"NOT SHOWN: {counted(picture.unplaced, 'batch')}, which do not lie where the files"
            " were when they were listed"
        )


def open_transactions(picture: LogPicture) -> Iterator[str]:
    """Yield a sentence for each open transaction that is drawn; the first holds readers back."""
    is_first = picture.facts.last_stable_offset < picture.facts.high_watermark
    for txn in picture.transactions:
        if txn.is_open:
            holds = ", which holds the last stable offset" if is_first else ""
            yield f"{transaction_text(txn)}{holds}"
            is_first = False


def named_transactions(picture: LogPicture) -> list[str]:
    """Return sentences for the first open transactions, and one for the others."""
    found = list(islice(open_transactions(picture), _NAMED_TRANSACTIONS))
    more = picture.opened - _NAMED_TRANSACTIONS
    return [*found, f"{more:,} more open transactions: tidelog txns"] if more > 0 else found


def retention_text(picture: LogPicture) -> str:
    """Return what retention would delete; empty where it was not asked."""
    if picture.retention_error:
        return f"retention: unknown, {printable(picture.retention_error)}"
    plan = picture.retention
    if plan is None:
        return ""
    if plan.deleted:
        reasons = ", ".join(dict.fromkeys(segment.reason for segment in plan.deleted))
        size = format_bytes(plan.freed_bytes)
        return (
            f"retention: would delete {counted(len(plan.deleted), 'segment')}, {size} ({reasons})"
        )
    held_by = plan.kept[0].held_by if plan.kept else ""
    return "retention: would delete nothing" + (f", held by {held_by}" if held_by else "")


def compaction_text(picture: LogPicture) -> str:
    """Return what a compaction would drop; empty where it was not asked."""
    if picture.compaction_error:
        return f"compaction: unknown, {printable(picture.compaction_error)}"
    plan = picture.compaction
    if plan is None:
        return "compaction: not compacted" if picture.is_planned else ""
    start, stats = plan.to_clean.offsets.first_dirty_offset, plan.stats
    if stats is None:
        held_by = plan.to_clean.held_by
        return f"compaction: nothing to clean from offset {start:,} on, held by {held_by}"
    causes = ", ".join(f"{count:,} {cause.value}" for cause, count in stats.dropped.items())
    dropped = stats.records_read - stats.records_written
    return (
        f"compaction: would clean offsets {start:,} to {max(plan.end_offset - 1, start):,} and drop"
        f" {dropped:,} of {counted(stats.records_read, 'record')},"
        f" {format_bytes(plan.freed_bytes)} of {format_bytes(stats.bytes_read)}"
        + (f" ({causes})" if causes else "")
    )
