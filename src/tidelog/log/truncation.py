"""Truncating a log at an offset, or fully.

Segments, snapshots, epochs, producers and offsets follow each other in an order that a crash may
interrupt anywhere. The caller holds the log's lock. Kafka: ``UnifiedLog.truncateTo`` and
``truncateFullyAndStartAt``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.errors import CommitPending, InvalidArgument
from tidelog.log.file_deletion import delete_snapshots
from tidelog.log.producers.rebuild import producer_pieces, rebuild_producer_state
from tidelog.log.producers.replay import check_markers
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry
    from tidelog.log.state import LogState

_log = logging.getLogger(__name__)


def truncate_to_locked(state: LogState, offset: int) -> bool:
    """Drop all records from ``offset`` on; return whether there were any."""
    if offset < 0:
        raise InvalidArgument(f"cannot truncate to the negative offset {offset}")
    offsets = state.offsets
    if offset < offsets.high_watermark:
        _log.warning(
            "truncated-below-high-watermark directory=%s offset=%d high_watermark=%d",
            *(state.context.directory, offset, offsets.high_watermark),
        )
    if offset >= offsets.log_end_offset:
        state.epochs.truncate_from_end(offsets.log_end_offset)
        return False
    _check_not_pinned(state)
    kept = state.contradiction
    if kept is not None and offset > kept.next_offset:
        raise kept.error(state.context.log_name)
    if state.local.segments.first_base_offset > offset:
        truncate_fully_locked(state, offset)
        return True
    _check_replayable(state, offset)
    if state.archived is not None and offset < state.archived.end:
        # What comes here next is not what the archive has: nothing counts as archived any more.
        state.archived = state.archived._replace(equal_end=0)
    with state.cutting():
        removed = state.local.truncate_to(offset)
        state.end_contradiction()
        with _all_or_offline(state):
            removed_bases = [segment.base_offset for segment in removed]
            delete_snapshots(state.context, state.producers.snapshots, removed_bases)
            state.epochs.truncate_from_end(offset)
            # If records of lower epochs come here, one that came back would begin in their midst.
            state.epochs.flush_if_room()
            _settle(state, offset, min(offset, offsets.log_start_offset))
    return True


def truncate_fully_locked(
    state: LogState, offset: int, producers: Sequence[ProducerSnapshotEntry] = ()
) -> None:
    """Drop all records and continue at ``offset``, with what is known of producers there."""
    if offset < 0:
        raise InvalidArgument(f"cannot start at the negative offset {offset}")
    _check_not_pinned(state)
    state.archived = None  # another log begins
    with state.cutting():
        state.local.truncate_fully_and_start_at(offset, state.offsets.log_end_offset)
        state.end_contradiction()
        with _all_or_offline(state):
            state.epochs.truncate_all()
            state.producers.truncate_fully_and_start_at(offset, producers)
            _settle(state, offset, offset, high_watermark=offset)


def _check_not_pinned(state: LogState) -> None:
    """Raise CommitPending while a committed transaction is to be written after a pinned offset."""
    if state.pinned_from is not None:
        raise CommitPending(
            f"a committed transaction is not yet applied from offset {state.pinned_from} on"
        ).of_log(state.context.log_name)


def _check_replayable(state: LogState, offset: int) -> None:
    """Raise, with nothing changed, if producers cannot be rebuilt at ``offset``.

    CorruptMessage for a batch that is damaged, else as ``read_marker`` for a marker.
    """
    snapshots = state.producers.snapshots.offsets
    start = state.offsets.log_start_offset
    start = max((at for at in snapshots if start < at <= offset), default=start)
    for segment in state.local.segments.overlapping(start, offset):
        for piece in producer_pieces(segment, max(segment.base_offset, start), offset):
            check_markers(piece.batches_in_data, piece.data)


def _all_or_offline(state: LogState) -> AbstractContextManager[None]:
    """Take the log offline on any error of the body, a full disk too; reopening it repairs it.

    A truncation that stopped half-way leaves the log end above the records, where the next append
    would leave a gap. ``LocalLog`` has undone what it raises for, or does the same.
    """
    return state.context.guard.watch("truncating", must_finish=True)


def _settle(
    state: LogState, log_end_offset: int, log_start_offset: int, high_watermark: int | None = None
) -> None:
    rebuild_producer_state(
        state.local.segments,
        state.producers,
        log_start_offset=log_start_offset,
        last_offset=log_end_offset,
        now_ms=state.context.clock.now_ms(),
        is_archived=state.context.config.remote_storage_enable,
    )
    # A deleted snapshot must not come back after a crash, when the log has grown past it.
    state.context.fs.sync_directory(state.context.directory)
    active = state.local.segments.active
    log_end = LogOffsetMetadata(log_end_offset, active.base_offset, active.size_bytes)
    offsets = state.offsets.truncated(log_end, log_start_offset, high_watermark)
    # The replay has found ended transactions again, also those that are replicated.
    state.producers.on_high_watermark_updated(offsets.high_watermark)
    state.move(offsets)
