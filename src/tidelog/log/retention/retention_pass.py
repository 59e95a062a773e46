"""Deleting a log's oldest segments by start offset, size and age; ``retention`` has the rules.

The caller holds the log's lock. Kafka: ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.log.directory_guard import PASSING
from tidelog.log.file_deletion import delete_renamed, delete_snapshots, rename_to_deleted
from tidelog.log.flushing import roll_locked
from tidelog.log.retention.retention_rules import (
    DeletedSegment,
    SegmentFacts,
    below_start,
    deletable,
    expired,
)
from tidelog.segment.undo import UndoFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.config.log_config import LogConfig
    from tidelog.log.state import LogState
    from tidelog.segment.segment import LogSegment

_log = logging.getLogger(__name__)


def delete_old_segments_locked(
    state: LogState, now_ms: int, config: LogConfig
) -> list[DeletedSegment]:
    """Delete what the limits in ``config`` allow; return the deleted segments, oldest first.

    A compacted log, and one without a policy, only loses segments below its start.
    """
    deleted = delete_below_start_locked(state)
    if not config.is_deleted:
        return deleted
    limits, end = config.local_limits(), state.retention_end(config)
    which = "local " if config.is_archived else ""
    size_bytes = state.local.segments.size_bytes
    due = expired(segment_facts(state), limits, now_ms, size_bytes=size_bytes, end=end, which=which)
    gone = _delete(state, due)
    if gone and not config.is_archived and state.archived is not None:
        # Nothing is copied any more: what the archive has of older records goes, too.
        state.archived = state.archived.from_start(state.offsets.log_start_offset)
    return deleted + gone


def delete_archived_locked(state: LogState, end: int) -> list[DeletedSegment]:
    """Delete the archived segments below ``end`` to make room on the disk; return them."""
    end = min(end, state.deletable_end, state.archived_end)
    return _delete(
        state, deletable(segment_facts(state), end, lambda _: "share of the disk breach")
    )


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
            segment.first_batch_timestamp,
        )


def delete_below_start_locked(state: LogState) -> list[DeletedSegment]:
    """Delete the segments that end at or below the log start offset."""
    start = state.offsets.log_start_offset
    return _delete(state, below_start(segment_facts(state), state.deletable_end, start))


def _delete(state: LogState, due: list[DeletedSegment]) -> list[DeletedSegment]:
    """Delete the oldest segments; the log start moves before they leave the set.

    An OSError stops at the segment whose files cannot be renamed: it stays in the log, with all
    after it, for the next pass.
    """
    segments = state.local.segments.all
    if len(due) == len(segments) and not _is_active_replaced(state):
        due.pop()
    renamed: list[LogSegment] = []
    try:
        for segment, fact in zip(segments, due, strict=False):
            rename_to_deleted(state.context, segment, fact.reason)
            renamed.append(segment)
    finally:
        _take_out(state, renamed)
        delete_renamed(state.context, renamed)
    return due


def _is_active_replaced(state: LogState) -> bool:
    """Roll, since there is always an active segment; return whether the old one can be deleted.

    An empty one stays, and so does any that cannot be replaced because the disk is full: deleting
    the others makes room.
    """
    old = state.local.segments.active
    try:
        new = roll_locked(state)
    except OSError as error:
        if error.errno not in PASSING or isinstance(error, UndoFailed):
            raise
        _log.warning("roll-put-off directory=%s reason=%s", state.context.directory, error)
        return False
    return new.base_offset != old.base_offset


def _take_out(state: LogState, segments: Sequence[LogSegment]) -> None:
    """Raise the log start above ``segments``, the oldest, durably, and take them out of the set."""
    if not segments:
        return
    # The recovery point rises with the start, and no checkpoint has a start that is a segment's:
    # if they came back after a power cut, they would be in the log, perhaps torn.
    state.context.fs.sync_directory(state.context.directory)
    following = state.local.segments.higher(segments[-1].base_offset)
    if following is not None:
        increment_log_start_locked(state, following.base_offset)
    offsets = [segment.base_offset for segment in segments]
    for offset in offsets:
        state.local.segments.remove(offset)
    delete_snapshots(state.context, state.producers.snapshots, offsets)


def increment_log_start_locked(state: LogState, offset: int) -> bool:
    """Raise the log start offset to ``offset``; return whether it was lower."""
    if offset <= state.offsets.log_start_offset:
        return False
    state.epochs.truncate_from_start(offset)
    state.producers.on_log_start_offset_incremented(offset)
    state.move(state.offsets.with_log_start(offset))
    return True
