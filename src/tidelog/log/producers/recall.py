"""Remembering again, when a log is opened, which batches its producers have written last.

A snapshot holds only the last batch of each. A producer that was cut off from several answers
repeats all of those requests, in order: without the batches before the last one its first repeat
would be taken for a gap in its sequence, which ends it. Kafka's own broker ends it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.log.producers.producer_entry import (
    BATCHES_TO_RETAIN,
    BatchMetadata,
)
from tidelog.records.record import advance_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.log.producers.producer_state import ProducerStateManager
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.segment.segment import LogSegment

RECALLED_BYTES: Final = 1 << 20
"""How much of the end of a log is looked at: more than any producer has in flight, mostly."""
RECENT_MS: Final = 15 * 60 * 1000
"""Producers give up after some minutes, so an older log is not looked at."""


def recall_batches(producers: ProducerStateManager, segment: LogSegment, now_ms: int) -> None:
    """Complete what is known of producers from the end of the active segment.

    Nothing for a log that has no producers, or was not written lately. Damage ends it early: what
    is not remembered is as it is in Kafka.
    """
    wanted = {one.producer_id: one for one in producers.producers.values() if len(one.batches) == 1}
    if not wanted or not segment.size_bytes or now_ms - segment.modified_ms > RECENT_MS:
        return
    found: dict[int, list[BatchMetadata]] = {producer_id: [] for producer_id in wanted}
    for batches in _tail(segment):
        for producer_id, batch in _of_producers(batches, wanted):
            found[producer_id].append(batch)
    for producer_id, entry in wanted.items():
        # Only if it ends as the snapshot does: then all before it is of the same epoch, in order.
        last = found[producer_id][-BATCHES_TO_RETAIN:]
        if last and last[-1].last_offset == entry.last_data_offset:
            producers.remember(producer_id, (*last[:-1], entry.batches[-1]))


def _tail(segment: LogSegment) -> Iterator[BatchColumns]:
    """Yield the batches in about the last ``RECALLED_BYTES`` of a segment."""
    positions = segment.offset_index.entries().filled_values
    at = int(np.searchsorted(positions, segment.size_bytes - RECALLED_BYTES, side="right")) - 1
    start = int(positions[at]) if at >= 0 else 0
    for piece in segment.file_records(start, segment.size_bytes).pieces():
        yield piece.batches


def _of_producers(
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
