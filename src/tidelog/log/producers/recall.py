"""Remembering again, when a log is opened, which batches its producers have written last.

A snapshot holds only the last batch of each. A producer that was cut off from several answers
repeats all of those requests, in order: without the batches before the last one its first repeat
would be taken for a gap in its sequence, which ends it. Kafka's own broker ends it there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.lazy import np
from tidelog.log.producers.producer_entry import (
    BATCHES_TO_RETAIN,
    BatchMetadata,
)
from tidelog.records.record import advance_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.log.producers.producer_state import ProducerStateManager
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.segment.segment import LogSegment

RECALLED_BYTES: Final = 1 << 20
"""How much of the end of a log is looked at: more than any producer has in flight, mostly."""
RECENT_MS: Final = 15 * 60 * 1000
"""Producers give up after some minutes, so an older segment is not looked at."""

_log = logging.getLogger(__name__)


def recall_batches(
    producers: ProducerStateManager, segments: Sequence[LogSegment], now_ms: int
) -> None:
    """Complete what is known of producers from the end of a log, which may just have rolled.

    Nothing for a log that has no producers, or was not written lately. Damage ends it early, and
    so does an older segment that cannot be read: what is not remembered is as it is in Kafka.
    """
    wanted = {one.producer_id: one for one in producers.producers.values() if len(one.batches) == 1}
    found: dict[int, list[BatchMetadata]] = {producer_id: [] for producer_id in wanted}
    for segment, start in _tails(segments, now_ms) if wanted else ():
        try:
            rows = list(_of_producers(segment, start, wanted))
        except OSError as error:
            if segment is segments[-1]:
                raise
            # Kafka would not have read it: it must not keep the log from being opened.
            _log.warning("producers-not-recalled path=%s reason=%s", segment.path, error)
            break
        for producer_id, batches in found.items():
            batches[:0] = [batch for owner, batch in rows if owner == producer_id]
    for producer_id, entry in wanted.items():
        # Only if it ends as the snapshot does: then all before it is of the same epoch, in order.
        last = _without_gap(found[producer_id][-BATCHES_TO_RETAIN:])
        if last and last[-1].last_offset == entry.last_data_offset:
            producers.remember(producer_id, (*last[:-1], entry.batches[-1]))


def _tails(segments: Sequence[LogSegment], now_ms: int) -> Iterator[tuple[LogSegment, int]]:
    """Yield segments from the last one backwards, and where about ``RECALLED_BYTES`` begin."""
    left = RECALLED_BYTES
    for segment in reversed(segments):
        if left <= 0 or (segment.size_bytes and now_ms - segment.modified_ms > RECENT_MS):
            return
        yield segment, segment.size_bytes - left
        left -= segment.size_bytes


def _without_gap(batches: list[BatchMetadata]) -> list[BatchMetadata]:
    """Return the last ones that follow each other: damage may have taken some between."""
    first = len(batches) - 1
    while first > 0:
        if advance_sequence(batches[first - 1].last_sequence, 1) != batches[first].first_sequence:
            break
        first -= 1
    return batches[max(first, 0) :]


def _of_producers(
    segment: LogSegment, start: int, wanted: dict[int, ProducerStateEntry]
) -> Iterator[tuple[int, BatchMetadata]]:
    """Yield the batches of producers from the last indexed one at or before ``start`` on."""
    positions = segment.offset_index.entries().filled_values
    at = int(np.searchsorted(positions, start, side="right")) - 1
    position = int(positions[at]) if at >= 0 else 0
    # Nobody has checked the index of an older segment: garbage must not make a start read it whole.
    if max(start - RECALLED_BYTES, 0) <= position < segment.size_bytes:
        for piece in segment.file_records(position, segment.size_bytes).pieces():
            yield from _rows(piece.batches, wanted)


def _rows(
    batches: BatchColumns, wanted: dict[int, ProducerStateEntry]
) -> Iterator[tuple[int, BatchMetadata]]:
    chosen = batches.select(np.flatnonzero(np.isin(batches.producer_id, list(wanted))))
    fields = (
        chosen.producer_id,
        chosen.producer_epoch,
        chosen.base_sequence,
        chosen.base_offset,
        chosen.last_offset,
        chosen.max_timestamp,
        chosen.is_control,
    )
    for row in zip(*(field.tolist() for field in fields), strict=True):
        producer_id, epoch, sequence, base_offset, last_offset, timestamp, is_control = row
        if is_control or sequence < 0 or epoch != wanted[producer_id].producer_epoch:
            continue
        delta = last_offset - base_offset
        last_sequence = advance_sequence(sequence, delta)
        yield producer_id, BatchMetadata(last_sequence, last_offset, delta, timestamp)
