"""Flushing a log and raising its recovery point. Kafka: ``UnifiedLog.flush`` and ``roll``.

Files are synced without the log's lock, so that appends continue meanwhile.
"""

from __future__ import annotations

import errno
import logging
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from tidelog.errors import KafkaStorageError
from tidelog.log.file_deletion import delete_snapshots
from tidelog.log.producers.producer_state import ProducerStateManager
from tidelog.log.producers.rebuild import rebuild_producer_state
from tidelog.log.producers.snapshot_files import SnapshotFiles
from tidelog.log.state import CHANGED_FILES
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileSystem
    from tidelog.log.segments import LogSegments
    from tidelog.log.state import LogState
    from tidelog.segment.segment import LogSegment

_log = logging.getLogger(__name__)

_PIECE_BYTES: Final = 1 << 20


def flush(state: LogState, *, force: bool = False) -> None:
    """Make every record durable; with ``force`` also an empty active segment's files."""
    log_end_offset = state.offsets.log_end_offset
    _flush_up_to(state, log_end_offset + 1 if force else log_end_offset, log_end_offset)


def flush_up_to(state: LogState, end_offset: int) -> None:
    """Make the records below ``end_offset`` durable."""
    _flush_up_to(state, end_offset, end_offset)


def flush_closed(state: LogState, end_offset: int) -> None:
    """Make the segments durable that end at or below ``end_offset``, and that they are closed.

    If a power cut took the name of the segment that begins there, the one before it would be
    appended to again. The producers there are made durable, too: without the records before them
    nothing else knows which transactions are open.
    """
    flush_up_to(state, end_offset)
    with state.context.guard.watch("flushing"):
        state.check_open()
        if end_offset in state.producers.snapshots.unsynced:
            state.producers.snapshots.sync(end_offset)
        _flush_files(state, end_offset, end_offset + 1, with_indexes=False)


def make_snapshots(state: LogState, offsets: Iterable[int]) -> None:
    """Make the snapshots that are missing at ``offsets``, the ends of closed segments, durably.

    A full disk leaves them out of a roll. One that was damaged since is made again, unless the
    archive has it as it was.
    """
    state.check_open()
    known, context = state.producers.snapshots, state.context
    archived_end = 0 if state.archived is None else state.archived.end
    wanted = {*offsets}
    missing = wanted.difference(known.offsets)
    with context.guard.watch("reading producer snapshots"):
        waiting = (offset for offset in wanted - missing if offset > archived_end)
        missing.update(offset for offset in waiting if not known.is_sound(offset))
    for offset in sorted(missing):
        files = SnapshotFiles(context.directory, context.fs)
        files.set_aside(set())  # else newer ones would be deleted
        producers = ProducerStateManager(
            context.directory,
            fs=context.fs,
            clock=context.clock,
            config=state.producers.config,
            snapshots=files,
        )
        with context.guard.watch("making a producer snapshot"):
            state.check_open()
            rebuild_producer_state(
                state.local.segments,
                producers,
                log_start_offset=state.offsets.log_start_offset,
                last_offset=offset,
                now_ms=context.clock.now_ms(),
                is_archived=True,
            )
            producers.take_snapshot()
        with state.lock:
            known.note(offset)


def flush_records(state: LogState) -> None:
    """Make every record durable, and the names of segments, but no index.

    One sync of a file where nothing rolled. The recovery point stays: a recovery builds the indexes
    again.
    """
    with state.context.guard.watch("flushing"):
        state.check_open()
        cuts, end = state.cuts, state.offsets.log_end_offset
        synced_to = state.synced[1] if state.synced[0] == cuts else 0
        start = max(synced_to, state.offsets.recovery_point)
        if start >= end:
            return
        _flush_files(state, start, end, with_indexes=False)
        with state.lock:
            if state.cuts == cuts:
                state.synced = cuts, end


def write_unflushed_again(state: LogState) -> None:
    """Write what is not known to be durable once more, as it is: the log, indexes and snapshots.

    After a sync that failed the system takes the bytes for written, so no later sync writes them.
    """
    start, fs = state.offsets.recovery_point, state.context.fs
    if start >= state.offsets.log_end_offset:
        return
    for segment in state.local.segments.from_floor(start):
        place = segment.translate_offset(start)
        if place is not None:
            _write_again(fs, segment.path, place.position, segment.size_bytes)
        for index in (segment.offset_index, segment.time_index, segment.txn_index):
            _write_again(fs, index.path)
    snapshots = state.producers.snapshots
    for offset in snapshots.offsets:
        _write_again(fs, snapshots.path(offset))


def _write_again(fs: FileSystem, path: str, position: int = 0, end: int | None = None) -> None:
    with suppress(FileNotFoundError), closing(fs.open(path, "r+")) as file:
        end = file.size() if end is None else end
        for at in range(position, end, _PIECE_BYTES):
            piece = file.pread(min(_PIECE_BYTES, end - at), at)
            if piece.count(0) < len(piece):  # else it is room that nothing was written to
                file.pwrite(piece, at)


def _flush_up_to(state: LogState, end_offset: int, recovery_point: int) -> None:
    """Flush segments without the lock, then raise the recovery point under it.

    Once more, if the log was cut meanwhile: what has come in place of the cut is not flushed. And
    if a roll has trimmed the last segment meanwhile: a recovery would begin after it.
    """
    is_done = False
    state.check_open()
    while not is_done and end_offset > state.offsets.recovery_point:
        with state.context.guard.watch("flushing"):
            state.check_open()
            cuts, before = state.cuts, state.offsets
            if _log.isEnabledFor(logging.DEBUG):
                _log_flush(state, end_offset, recovery_point)
            flushed_to = min(recovery_point, state.flushable_end)
            segments = state.local.segments
            last = segments.floor(flushed_to)
            _flush_files(state, before.recovery_point, end_offset)
            with state.lock:
                is_done = state.cuts == cuts and not _is_rolled(segments, last, flushed_to)
                if is_done and flushed_to > state.offsets.recovery_point:
                    state.move(state.offsets.with_recovery_point(flushed_to))
                    state.last_flush_ms = state.context.clock.now_ms()
    state.epochs.flush_if_dirty()


def _is_rolled(segments: LogSegments, last: LogSegment | None, offset: int) -> bool:
    """Whether ``last``, which held ``offset`` or ended there, is followed by a segment now."""
    is_there = last is not None and segments.get(last.base_offset) is last
    return is_there and segments.floor(offset) is not last


def _log_flush(state: LogState, end_offset: int, recovery_point: int) -> None:
    """Log what is about to be flushed; times in ms. Source: Kafka UnifiedLog.flush."""
    log_end_offset = state.offsets.log_end_offset
    _log.debug(
        "%s Flushing log up to offset %d (%s) with recovery point %d, last flushed: %d,"
        " current time: %d, unflushed: %d",
        *(state.context.ident, end_offset),
        "inclusive" if end_offset > log_end_offset else "exclusive",
        *(recovery_point, state.last_flush_ms, state.context.clock.now_ms()),
        log_end_offset - state.offsets.recovery_point,
    )


def _flush_files(
    state: LogState, start_offset: int, end_offset: int, *, with_indexes: bool = True
) -> None:
    """Flush a range of offsets; KafkaStorageError if the log is closed meanwhile.

    It is repeated if the directory was renamed meanwhile, and ends if the directory was deleted.
    EBADF and ENOENT of files that were closed or moved do not mean that the disk has failed.
    """
    while True:
        directory = state.context.directory
        try:
            state.local.flush(start_offset, end_offset, with_indexes=with_indexes)
        except OSError as error:
            if error.errno not in CHANGED_FILES:
                raise
            state.wait_for_change()
            if directory != state.context.directory:
                continue
            if error.errno == errno.EBADF or state.context.fs.exists(directory):
                state.check_open()
                raise
            _log.info("flush-of-vanished-directory directory=%s", directory)
        return


def roll_locked(
    state: LogState, expected_next_offset: int | None = None, *, syncs_snapshot: bool = False
) -> LogSegment:
    """Start a new active segment at the log's end or, if that is higher, where records will begin.

    Producer state is kept beside it, unsynced unless ``syncs_snapshot``; a task syncs that and
    flushes what came before, in this order, so that the recovery point never passes a snapshot that
    may be lost. A full disk may leave the snapshot out.

    An empty active segment above the new base, which the last roll has put after a gap of offsets,
    is replaced, and its snapshot is deleted.
    """
    offsets = state.offsets
    new_base = max(expected_next_offset or 0, offsets.log_end_offset)
    is_back = new_base < state.local.segments.active.base_offset
    segment = state.local.roll(new_base, recovery_point=offsets.recovery_point)
    if is_back:
        snapshots = state.producers.snapshots
        above = [offset for offset in snapshots.offsets if offset > new_base]
        delete_snapshots(state.context, snapshots, above)
        state.producers.return_to(new_base)
        offsets = offsets.with_place_forgotten()
    log_end = LogOffsetMetadata(offsets.log_end_offset, segment.base_offset, segment.size_bytes)
    state.producers.map_end_offset = new_base
    snapshot = state.producers.take_snapshot_if_room(sync=syncs_snapshot)
    state.move(offsets.with_log_end(log_end))
    _log.info("log-rolled directory=%s base_offset=%d", state.context.directory, new_base)

    def sync_and_flush() -> None:
        if snapshot in state.producers.snapshots.unsynced:
            with state.context.guard.watch("flushing a producer snapshot"):
                # Before the recovery point passes it: a recovery begins there, and trusts the
                # snapshot.
                state.producers.snapshots.sync(snapshot)
        flush_up_to(state, new_base)

    def sync_and_flush_while_open() -> None:
        try:
            if not state.is_closed:
                sync_and_flush()
        except KafkaStorageError:
            if not state.is_closed:  # else closing makes all durable, or raises
                raise

    state.context.scheduler.schedule("flush-log", sync_and_flush_while_open)
    return segment


def take_back_gap(state: LogState) -> None:
    """Roll to the log's end if the active segment lies after a gap that no record has followed.

    Else the next start would take the gap for one in the log. What the disk refuses now is left to
    the next roll.
    """
    active = state.local.segments.active
    if active.size_bytes or active.base_offset <= state.offsets.log_end_offset:
        return
    try:
        with state.context.guard.watch("taking back a roll"):
            roll_locked(state)
    except KafkaStorageError as error:
        _log.warning("roll-put-off directory=%s reason=%s", state.context.directory, error)
