"""Deleting a log's oldest segments by start offset, size and age; ``retention`` has the rules.

The caller holds the log's lock. Kafka: ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.log.file_deletion import delete_snapshots
from tidelog.log.flushing import roll_locked
from tidelog.log.retention import (
    DeletedSegment,
    SegmentFacts,
    count_below_start,
    count_beyond_size,
    count_expired,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.log.state import LogState


def delete_old_segments_locked(state: LogState, now_ms: int) -> list[DeletedSegment]:
    """Delete what retention allows; return the deleted segments, oldest first.

    A compacted log, and one without a policy, only loses segments below its start.
    """
    deleted = delete_below_start_locked(state)
    if state.context.config.is_deleted:
        deleted += _delete_beyond_size(state) + _delete_expired(state, now_ms)
    return deleted


def segment_facts(state: LogState) -> Iterator[SegmentFacts]:
    """Yield what retention asks about each segment, oldest first."""
    view = state.view
    following = [segment.base_offset for segment in view.segments[1:]]
    ends = [*following, view.offsets.log_end_offset]
    last = len(ends) - 1
    for number, (segment, end) in enumerate(zip(view.segments, ends, strict=True)):
        yield SegmentFacts(
            segment.base_offset,
            end,
            segment.size_bytes,
            number == last,
            segment.largest_timestamp,
        )


def delete_below_start_locked(state: LogState) -> list[DeletedSegment]:
    """Delete the segments that end at or below the log start offset."""
    start = state.offsets.log_start_offset
    count = count_below_start(segment_facts(state), state.offsets.high_watermark, start)
    return _delete(state, count, f"log start offset {start} breach")


def _delete_beyond_size(state: LogState) -> list[DeletedSegment]:
    limit = state.context.config.retention_bytes
    size_bytes = state.local.segments.size_bytes
    if limit < 0 or size_bytes < limit:
        return []
    facts = segment_facts(state)
    count = count_beyond_size(facts, state.offsets.high_watermark, size_bytes - limit)
    return _delete(state, count, f"log retention size {limit} breach")


def _delete_expired(state: LogState, now_ms: int) -> list[DeletedSegment]:
    limit_ms = state.context.config.retention_ms
    if limit_ms < 0:
        return []
    watermark = state.offsets.high_watermark
    count = count_expired(segment_facts(state), watermark, now_ms, limit_ms)
    return _delete(state, count, f"log retention time {limit_ms}ms breach")


def _delete(state: LogState, count: int, reason: str) -> list[DeletedSegment]:
    """Delete the ``count`` oldest segments; the log start moves before they leave the set."""
    segments = state.local.segments.all
    doomed = list(segments[:count])
    if not doomed:
        return []
    if count == len(segments):
        # There is always an active segment; when the last one is empty, rolling replaces it.
        roll_locked(state)
        if state.local.segments.active.base_offset == doomed[-1].base_offset:
            doomed.pop()
    if not doomed:
        return []
    facts = list(segment_facts(state))[: len(doomed)]
    deleted = [DeletedSegment(*fact[:3], reason) for fact in facts]
    following = state.local.segments.higher(doomed[-1].base_offset)
    if following is not None:
        increment_log_start_locked(state, following.base_offset)
    state.local.remove(doomed, reason)
    offsets = [segment.base_offset for segment in doomed]
    delete_snapshots(state.context, state.producers.snapshots, offsets)
    return deleted


def increment_log_start_locked(state: LogState, offset: int) -> bool:
    """Raise the log start offset to ``offset``; return whether it was lower."""
    if offset <= state.offsets.log_start_offset:
        return False
    state.epochs.truncate_from_start(offset)
    state.producers.on_log_start_offset_incremented(offset)
    state.move(state.offsets.with_log_start(offset))
    return True
