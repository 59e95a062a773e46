"""Rebuilding producer state from snapshots and the batches after them.

Kafka: ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.log.producers.replay import replay_producers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.log.producers.producer_state import ProducerStateManager
    from tidelog.log.segments import LogSegments
    from tidelog.records.file_records import Piece
    from tidelog.segment.segment import LogSegment

_log = logging.getLogger(__name__)


def rebuild_producer_state(
    segments: LogSegments,
    producers: ProducerStateManager,
    *,
    log_start_offset: int,
    last_offset: int,
    now_ms: int,
    is_archived: bool,
    after_clean_shutdown: bool = False,
    sync: bool = True,
) -> None:
    """Bring ``producers`` to ``last_offset`` (exclusive), which may lie before or after its own.

    The newest snapshot in range is loaded and the batches after it are replayed. Snapshots are
    left at the bases of the last two segments and at ``last_offset``. After a clean shutdown a log
    without any snapshot had no producers, so nothing is read. Without ``sync`` the snapshots become
    durable when the log is closed: one that a power cut takes is made again by the next start.

    Of a log that ``is_archived`` the archive may have records of transactions whose markers are
    here: the snapshot at the log start alone knows where they began.

    The batches are replayed also if no producer was active, unlike in Kafka: one that has expired
    may have a transaction that is open in the snapshot, or whose marker was truncated.

    CorruptMessage if a batch after the snapshot is invalid: what producers it had is unknown.
    """
    wanted = sorted({*(segment.base_offset for segment in segments.all[-2:]), last_offset})
    if after_clean_shutdown and producers.snapshots.latest is None:
        for offset in wanted:
            producers.map_end_offset = offset
            producers.take_snapshot_if_room(sync=sync)
        return
    producers.truncate_and_reload(log_start_offset, last_offset, now_ms, keeps_first=is_archived)
    if last_offset > producers.map_end_offset:
        _log.info(
            "producer-state-replayed directory=%s start_offset=%d end_offset=%d",
            *(producers.snapshots.directory, producers.map_end_offset, last_offset),
        )
        for segment in segments.overlapping(producers.map_end_offset, last_offset):
            start = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start
            if segment.base_offset in wanted:
                producers.take_snapshot_if_room(sync=sync)
            for piece in producer_pieces(segment, start, last_offset):
                replay_producers(producers, piece.batches_in_data, piece.data)
    producers.map_end_offset = last_offset
    producers.take_snapshot_if_room(sync=sync)


def producer_pieces(segment: LogSegment, start_offset: int, end_offset: int) -> Iterator[Piece]:
    """Yield the batches of one segment that hold offsets of [start, end), which may be empty.

    CorruptMessage if one of them is invalid: nobody knows which producer wrote it.
    """
    if start_offset >= end_offset:
        return
    first = segment.translate_offset(start_offset)
    if first is None:
        return
    last = segment.translate_offset(end_offset)
    end = segment.size_bytes if last is None else last.position
    yield from segment.file_records(first.position, end).whole_pieces()
