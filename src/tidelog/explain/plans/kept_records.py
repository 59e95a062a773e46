"""Why records that a cleaning would not drop stay in a log, and until when."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from tidelog.explain.printable_text import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.record import Record


class StaysAs(Enum):
    """Why a record stays."""

    LAST = "last of its key"
    TOMBSTONE = "tombstone"
    NOT_CLEANED = "not cleaned yet"


class KeptRecord(NamedTuple):
    """A record that stays: ``until_ms`` is when a cleaning may drop it, None if that is unknown."""

    offset: int
    reason: StaysAs
    text: str
    until_ms: int | None = None


def kept_records(
    log: ReadOnlyLog, facts: CompactionFacts, records: Iterable[Record]
) -> Iterator[KeptRecord]:
    """Yield why each record stays; ``facts`` are of the plan that would not drop it."""
    end = facts.end_offset
    for record in records:
        if record.offset >= end:
            text = f"not cleaned yet: the cleaning ends at {end:,}, limited by {facts.limited_by}"
            yield KeptRecord(record.offset, StaysAs.NOT_CLEANED, text)
        elif record.value is None:
            yield _tombstone(record.offset, _horizon(log, record.offset))
        else:
            text = f"the last record below {end:,} that has the key"
            yield KeptRecord(record.offset, StaysAs.LAST, text)


def _tombstone(offset: int, horizon_ms: int | None) -> KeptRecord:
    text = "a tombstone, kept for delete.retention.ms after it is first cleaned"
    if horizon_ms is not None:
        text = f"a tombstone, which a cleaning after {format_time(horizon_ms)} drops"
    return KeptRecord(offset, StaysAs.TOMBSTONE, text, horizon_ms)


def _horizon(log: ReadOnlyLog, offset: int) -> int | None:
    """Return the delete horizon of the batch of a record, in ms; None: it has none yet."""
    for piece in log.pieces(offset, offset + 1):
        batches = piece.batches
        is_it = batches.has_delete_horizon & (batches.last_offset >= offset)
        is_it &= batches.base_offset <= offset
        if is_it.any():
            return int(batches.base_timestamp[is_it][0])
    return None
