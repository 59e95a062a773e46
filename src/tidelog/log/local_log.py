"""The segments of one log on disk: append to the last, roll, truncate, replace, delete.

Offsets are passed in as values, and the caller holds the log's lock. Kafka: ``LocalLog``.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING

from tidelog.env.attempts import try_all
from tidelog.errors import InvariantError
from tidelog.log.file_deletion import (
    delete_renamed,
    rename_to_deleted,
)
from tidelog.segment.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    cleaned_mark_file,
    log_file,
    offset_index_file,
    time_index_file,
    transaction_index_file,
)
from tidelog.segment.undo import undone_on_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import ExitStack

    from tidelog.log.context import LogContext
    from tidelog.log.segments import LogSegments
    from tidelog.segment.segment import LogSegment

_log = logging.getLogger(__name__)


class LocalLog:
    """The files of one log, as an ordered set of segments. Source: Kafka LocalLog."""

    def __init__(self, context: LogContext, segments: LogSegments) -> None:
        self.context = context
        self.segments = segments

    def roll(self, new_base_offset: int, *, recovery_point: int) -> LogSegment:
        """Start a new active segment at ``new_base_offset``, which is at or above the log's end.

        Empty segments that begin there or above it are replaced.
        """
        active = self.segments.active
        if new_base_offset <= active.base_offset:
            return self._replace_empty(new_base_offset)
        self._delete_leftovers(new_base_offset)
        active.become_inactive()
        if recovery_point >= new_base_offset:
            # A recovery would begin at the new segment: it would not see that a power cut has
            # brought back what was trimmed here, or taken the last entry of the time index.
            active.flush()
        with undone_on_error(active.path) as undo:
            # A file of a segment that is not in the set would be one of the log after a kill.
            undo.callback(self._delete_unless_added, new_base_offset)
            segment = self.context.open_segment(new_base_offset, preallocate=True)
            self.segments.add(segment)
        return segment

    def _delete_unless_added(self, base_offset: int) -> None:
        if self.segments.get(base_offset) is None:
            self._delete_leftovers(base_offset)

    def _replace_empty(self, base_offset: int) -> LogSegment:
        """Replace the segments from ``base_offset`` on, all empty, by a new one.

        An index without room for one entry asks for a roll of an empty segment; and a roll over a
        gap of offsets that no record followed leaves one above the log's end. What is kept of that
        would put the log's end above the gap at the next start, so its removal is durable first.

        If the new segment cannot be made, the old ones stay, under their own names: what is
        appended to a file named ``.deleted`` would be deleted by the next start.
        """
        active = self.segments.active
        old = [segment for segment in self.segments if segment.base_offset >= base_offset]
        if any(segment.size_bytes for segment in old):
            raise InvariantError(f"{active} cannot be rolled to {base_offset}")
        is_behind_gap = active.base_offset > base_offset
        if not is_behind_gap:
            _log.warning(
                "empty-segment-replaced directory=%s base_offset=%d",
                *(self.context.directory, base_offset),
            )
        with undone_on_error(active.path) as undo:
            self._rename(old[::-1], "rolled while empty", undo)
            self._delete_leftovers(base_offset)
            undo.callback(self._delete_leftovers, base_offset)
            new = self.context.open_segment(base_offset, preallocate=not is_behind_gap)
            if is_behind_gap:
                self._sync_directory()
        self.segments.replace([new], old)
        delete_renamed(self.context, old)
        return new

    def _rename(self, segments: Iterable[LogSegment], reason: str, undo: ExitStack) -> None:
        """Rename the files of segments to ``.deleted``, each durably before the next."""
        for segment in segments:
            rename_to_deleted(self.context, segment, reason)
            undo.callback(segment.change_suffix, DELETED_SUFFIX, "")
            # Without it, a power cut could undo only some of the renames: segments would be missing
            # between those that are left.
            self._sync_directory()

    def _delete_leftovers(self, base_offset: int) -> None:
        for path_of in (log_file, offset_index_file, time_index_file, transaction_index_file):
            path = path_of(self.context.directory, base_offset)
            if self.context.fs.exists(path):
                _log.warning("leftover-deleted path=%s", path)
                self.context.fs.delete(path)

    def truncate_to(self, offset: int) -> list[LogSegment]:
        """Drop all from ``offset`` on; return the segments removed whole.

        The first segment begins at or below ``offset``. A batch that straddles it is dropped
        too. The last segment is removed first, and all is durable on return: a crash leaves a
        prefix of the log, never one with a hole where new records were to be. CorruptMessage if the
        place of ``offset`` cannot be found; nothing was changed then.

        Until the records are cut an error is undone. After that it takes the log offline, as
        indexes and offsets have to follow.
        """
        kept = self.segments.from_floor(offset)[0]
        kept.position_of_cut(offset)
        removed = [segment for segment in self.segments if segment.base_offset > offset]
        path = self.context.directory
        with self.context.guard.watch("truncating"), undone_on_error(path) as undo:
            # The last to be called: a power cut must not put back the names that were taken back.
            undo.callback(self._sync_directory)
            self._rename(removed[::-1], f"truncation to offset {offset}", undo)
            kept.cut_records(offset)
        with self.context.guard.watch("truncating", must_finish=True):
            self.segments.replace((), removed)
            delete_renamed(self.context, removed)
            kept.truncate_indexes(offset)
            # Else a power cut could bring the old records back in the place of later ones.
            kept.flush()
        return removed

    def truncate_fully_and_start_at(self, offset: int, log_end_offset: int) -> list[LogSegment]:
        """Drop everything and continue with one empty segment at ``offset``; return the removed.

        The first segment is removed first, as by retention: a crash leaves no hole between those
        that are left. Only a new segment in the midst of the last one is made when that is gone, as
        readers should always find a segment. An error is undone.
        """
        removed = list(self.segments)
        *others, last = removed
        reason = f"full truncation to offset {offset}"
        path = self.context.directory
        with self.context.guard.watch("truncating"), undone_on_error(path) as undo:
            undo.callback(self._sync_directory)  # as in ``truncate_to``
            is_behind = offset > last.base_offset and offset >= log_end_offset
            self._rename(others if is_behind else removed, reason, undo)
            undo.callback(self._delete_leftovers, offset)
            new = self.context.open_segment(offset, preallocate=True)
            if is_behind:
                self._rename([last], reason, undo)
            self._sync_directory()
        self.segments.replace([new], removed)
        delete_renamed(self.context, removed)
        return removed

    def replace_segments(
        self,
        new: Sequence[LogSegment],
        old: Sequence[LogSegment],
        cleaned_end: int | None = None,
    ) -> list[LogSegment]:
        """Replace ``old`` by ``new`` (complete, named ``.cleaned``); return those removed for good.

        ``cleaned_end``: up to where the new one is clean. A mark beside it has that until the
        cleaner's checkpoint does: else, after a crash, what it lacks would pass for lost once the
        log is compacted no longer.

        New segments are renamed ``.swap`` from the last to the first: so after a crash a ``.swap``
        counts only if no ``.cleaned`` with a lower offset is left. Between the steps the directory
        is synced, as Kafka does only at the end: else a power cut could keep the renames of old
        segments and lose those of the new. A reader sees the old ones or the new ones, never both.

        Any error takes the log offline, a full disk too: a second try would rename what the first
        left under names of its own. Opening the log again finishes the replacement or undoes it.
        Source: Kafka LocalLog.replaceSegments.
        """
        with self.context.guard.watch("replacing segments", must_finish=True):
            if cleaned_end is None:
                return self._replace(new, old)
            (segment,) = new
            where = self.context.directory, segment.base_offset
            mark = cleaned_mark_file(*where, cleaned_end, segment.size_bytes)
            # As long as the segment is ``.cleaned``, loading deletes it.
            self.context.fs.open(mark + SWAP_SUFFIX, "w").close()
            replaced = self._replace(new, old)
            self.context.fs.rename(mark + SWAP_SUFFIX, mark)
            self.context.marks[os.path.basename(mark)] = cleaned_end
            return replaced

    def _replace(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> list[LogSegment]:
        arriving = sorted(new, key=lambda segment: segment.base_offset)
        held = set(self.segments.base_offsets)
        leaving = sorted(
            (segment for segment in old if segment.base_offset in held),
            key=lambda segment: segment.base_offset,
        )
        for segment in reversed(arriving):
            segment.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            self._sync_directory()
        self.segments.replace(arriving, leaving)
        self.context.leaving.update(leaving)
        for segment in leaving:
            rename_to_deleted(self.context, segment, "replaced")
        delete_renamed(self.context, leaving)
        self._sync_directory()
        for segment in arriving:
            segment.change_suffix(SWAP_SUFFIX, "")
        self._sync_directory()
        bases = {segment.base_offset for segment in arriving}
        return [segment for segment in leaving if segment.base_offset not in bases]

    def flush(self, start_offset: int, end_offset: int, *, with_indexes: bool = True) -> None:
        """Make the offsets in [start, end) durable, and the names of new segments among them.

        Needs no lock. A segment that is deleted meanwhile needs no flushing. Raises EBADF if the
        log is closed meanwhile, and perhaps ENOENT if its directory is renamed or deleted.
        """
        unflushed = self.segments.overlapping(start_offset, end_offset)
        for segment in unflushed:
            try:
                if with_indexes:
                    self._flush_segment(segment)
                else:
                    segment.flush_records()
            except OSError as error:
                is_gone = self.segments.get(segment.base_offset) is not segment
                if error.errno != errno.EBADF or not is_gone:
                    raise
        if any(segment.base_offset >= start_offset for segment in unflushed):
            self._sync_directory()

    def _flush_segment(self, segment: LogSegment) -> None:
        """Make a segment durable with its indexes, and note how long that took."""
        began_ns = self.context.clock.monotonic_ns()
        segment.flush()
        self.context.flush_times.add(self.context.clock.monotonic_ns() - began_ns)

    def _sync_directory(self) -> None:
        self.context.fs.sync_directory(self.context.directory)

    def close(self) -> None:
        """Close all segments, durably with their names; then the first error is raised.

        Those that wait for deletion are closed without a flush.
        """
        self._close_leaving()
        try_all(segment.close for segment in self.segments)
        self._sync_directory()

    def close_handlers(self) -> None:
        """Close all files without writing anything."""
        self._close_leaving()
        for segment in self.segments:
            segment.close_handlers()

    def _close_leaving(self) -> None:
        for segment in tuple(self.context.leaving):
            segment.close_handlers()

    def delete_all(self) -> None:
        """Delete all segments now, and what is left in the directory, and the directory."""
        self._close_leaving()
        segments = list(self.segments)
        self.segments.clear()
        for segment in segments:
            segment.delete()
        context = self.context
        for name in context.fs.list(context.directory):
            context.fs.delete(context.path(name))
        context.fs.delete_directory(context.directory)
        # Else a log of this name could come back after a power cut, with records that were deleted.
        context.fs.sync_directory(context.parent)
