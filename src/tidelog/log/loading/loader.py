"""Opening a log's directory: what a crash left is finished or undone, then the log is loaded.

Kafka: ``LogLoader``.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.errors import (
    CorruptIndex,
    CorruptMessage,
    InvalidRecord,
    InvariantError,
    KafkaStorageError,
    RebuildableError,
    SegmentOffsetOverflow,
)
from tidelog.log.file_deletion import delete_renamed, delete_snapshots, rename_to_deleted
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.log.loading.load_watch import SILENT
from tidelog.log.loading.log_recovery import SegmentRecovery
from tidelog.log.offsets import LogOffsets
from tidelog.log.producers.rebuild import rebuild_producer_state
from tidelog.log.producers.recall import recall_batches
from tidelog.log.segments import LogSegments
from tidelog.log.split_overflow import split_overflowed_segment
from tidelog.records.batch import INT64_MAX
from tidelog.records.damage.contradiction import contradiction_from
from tidelog.segment.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    SegmentFileName,
    is_delete_directory,
    is_foreign_segment_file,
    is_index_file,
    log_file,
    parse_segment_file,
    replace_suffix,
)
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.segment.segment_tail import tail_end, wrong_index
from tidelog.segment.unfinished_end import ends_here

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from tidelog.log.context import LogContext
    from tidelog.log.contradicted import OpenContradiction
    from tidelog.log.leader_epoch import LeaderEpochCache
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.log.producers.producer_state import ProducerStateManager
    from tidelog.segment.segment import LogSegment

T = TypeVar("T")

_TEMPORARY: Final = (CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX)

_log = logging.getLogger(__name__)


def _segment_files(names: Iterable[str]) -> list[tuple[str, SegmentFileName]]:
    """Return the names of the files of segments and snapshots, with their parts."""
    return [(name, found) for name in names if (found := parse_segment_file(name)) is not None]


class LogCheckpoints(NamedTuple):
    """What the data directory's checkpoints hold about one log, and whether it was closed."""

    log_start_offset: int = 0
    recovery_point: int = 0
    is_clean: bool = True


class LoadedLog(NamedTuple):
    """A log that is ready for use; the high watermark still is the log start.

    ``contradiction``: what keeps it from taking appends; None: nothing does. ``emptied_from``:
    where its segments began, all deleted since they ended before the log start; None: none were.
    """

    segments: LogSegments
    offsets: LogOffsets
    contradiction: OpenContradiction | None = None
    emptied_from: int | None = None


class LogLoader:
    """Loads one log; ``names``: what its directory holds, if known. Source: Kafka LogLoader."""

    def __init__(
        self,
        context: LogContext,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        checkpoints: LogCheckpoints,
        watcher: LoadWatcher = SILENT,
        *,
        keep_cuts: KeepCuts = KeepCuts.IF_SPACE,
        cuts_contradictions: bool = False,
        recovery_threads: int = 1,
        keeps_epoch_at_end: bool = False,
        names: Sequence[str] | None = None,
    ) -> None:
        self._context = context
        self._fs = context.fs
        self._names = names
        self._keeps_epoch_at_end = keeps_epoch_at_end
        self._without_index: set[int] = set()
        self._emptied_from: int | None = None
        self._found_names: frozenset[str] = frozenset()
        self._found_bytes = 0
        self._epochs = epochs
        self._producers = producers
        self._checkpoints = checkpoints
        self._segments = LogSegments()
        self._recovery = SegmentRecovery(
            context,
            self._segments,
            epochs,
            config=producers.config,
            log_start_offset=checkpoints.log_start_offset,
            watcher=watcher,
            keep_cuts=keep_cuts,
            cuts_contradictions=cuts_contradictions,
            threads=recovery_threads,
        )

    def load(self) -> LoadedLog:
        """Run all steps; raises OSError, and InvalidTxnState for a log no Kafka writes.

        KafkaStorageError: bytes below the recovery point are damaged so that the log's end, or its
        producers, cannot be determined. Nothing was cut: good records may lie after them.
        """
        try:
            return self._load()
        except BaseException as error:
            for segment in self._segments:
                segment.close_handlers()
            if isinstance(error, CorruptMessage | InvalidRecord):
                reason = f"{error}; a recovery of {self._context.name} would cut the log there"
                raise KafkaStorageError(reason) from error
            raise

    def _load(self) -> LoadedLog:
        self._complete_swaps()
        if is_delete_directory(self._context.name):
            self._retry_on_overflow(self._load_segment_files)
            if not self._segments.all:
                self._segments.add(self._context.open_segment(0))
            next_offset = recovery_point = 0
        else:
            recovery_point, next_offset = self._retry_on_overflow(self._load_and_recover)
            self._segments.active.become_active()
        offsets = self._settle(next_offset, recovery_point)
        self._read_marks(offsets.log_end_offset)
        kept = self._recovery.contradiction
        return LoadedLog(self._segments, offsets, kept, self._emptied_from)

    def _settle(self, next_offset: int, recovery_point: int) -> LogOffsets:
        """Bring epochs and producers in line with what the segments hold."""
        checkpointed_start = self._checkpoints.log_start_offset
        # One that has no record yet begins at the end itself.
        self._epochs.truncate_from_end(next_offset + self._keeps_epoch_at_end)
        self._epochs.truncate_from_start(checkpointed_start)
        start = max(checkpointed_start, self._segments.first_base_offset)
        if not self._producers.is_empty:
            raise InvariantError("Producer state must be empty during log initialization")
        self._producers.snapshots.delete_strays(self._segments.base_offsets, self._list())
        rebuild_producer_state(
            self._segments,
            self._producers,
            log_start_offset=start,
            last_offset=next_offset,
            now_ms=self._context.clock.now_ms(),
            is_archived=self._context.config.remote_storage_enable,
            after_clean_shutdown=self._checkpoints.is_clean,
            sync=False,
        )
        recall_batches(self._producers, self._segments.all, self._context.clock.now_ms())
        if not self._checkpoints.is_clean:
            self._producers.snapshots.unsynced.update(self._producers.snapshots.offsets)
            self._sync_losses()
        active = self._segments.active
        # The log of a directory that waits for deletion ends at 0, wherever it starts.
        end = max(next_offset, start)
        return LogOffsets(
            log_start_offset=start,
            high_watermark_metadata=LogOffsetMetadata(start),
            log_end=LogOffsetMetadata(end, active.base_offset, active.size_bytes),
            recovery_point=min(max(recovery_point, start), end),
        )

    def _sync_losses(self) -> None:
        """Make a deletion durable: the file must not come back once the log has grown.

        Above all that is a snapshot of records that were cut off. One that was made again, of the
        same records, may come back.
        """
        snapshots = self._producers.snapshots
        kept = {name for name in self._list() if not name.endswith(SNAPSHOT_SUFFIX)}
        kept.update(snapshots.path(offset).rpartition("/")[2] for offset in snapshots.offsets)
        if self._segments.size_bytes < self._found_bytes or not kept.issuperset(self._found_names):
            self._fs.sync_directory(self._context.directory)

    # Files that a crash left half-way

    def _complete_swaps(self) -> None:
        """Finish or undo the replacement of segments that a crash interrupted."""
        names = self._list()
        self._found_names = frozenset(names)
        for name in names:
            if is_foreign_segment_file(name):
                _log.warning("foreign-file-ignored path=%s", self._context.path(name))
        if not any(name.endswith(_TEMPORARY) for name in names):
            return
        self._names = None
        swaps = self._remove_temporary_files(names)
        with ExitStack() as held:
            opened = []
            for found in swaps:
                if found.kind == LOG_SUFFIX:
                    opened.append(self._context.open_segment(found.offset, suffix=SWAP_SUFFIX))
                    held.callback(opened[-1].close_handlers)
            if opened:
                first = min(segment.base_offset for segment in opened)
                end = max(segment.read_next_offset() for segment in opened)
                self._delete_replaced(first, end)
                # Without its ``.swap`` name a segment replaces nothing: one that came back then
                # would hold its records again.
                self._fs.sync_directory(self._context.directory)
            for segment in opened:
                segment.close()
        for name, found in _segment_files(self._fs.list(self._context.directory)):
            if found.state == SWAP_SUFFIX:
                path = self._context.path(name)
                _log.info("swap-completed path=%s", path)
                self._fs.rename(path, replace_suffix(path, SWAP_SUFFIX, ""))

    def _read_marks(self, log_end_offset: int) -> None:
        """Note up to where the marks of cleaned segments say that the log is clean.

        That of a segment that has another size since, as after a truncation by Kafka, says nothing;
        nor does one of offsets of later segments, which a cleaning has not replaced, or which were
        written since.
        """
        for name, found in _segment_files(name for name in self._list() if "-" in name):
            if found.cleaned is not None and not found.state:
                end_offset, size_bytes = found.cleaned
                segment = self._segments.get(found.offset)
                behind = self._segments.higher(found.offset)
                limit = log_end_offset if behind is None else behind.base_offset
                is_same = segment is not None and segment.size_bytes == size_bytes
                self._context.marks[name] = min(end_offset, limit) if is_same else 0

    def _list(self) -> Sequence[str]:
        """Return the names in the directory, listed again after each change."""
        if self._names is None:
            self._names = self._fs.list(self._context.directory)
        return self._names

    def _remove_temporary_files(self, names: Sequence[str]) -> list[SegmentFileName]:
        """Delete what never became part of the log; return the complete new files.

        Swap files at or above the lowest ``.cleaned`` offset are not complete: new segments are
        renamed ``.swap`` from the last to the first.
        """
        found = _segment_files(sorted(names))
        cleaned = (each.offset for _, each in found if each.state == CLEANED_SUFFIX)
        incomplete_from = min(cleaned, default=None)
        complete, has_incomplete = [], False
        for name, each in found:
            if each.state != SWAP_SUFFIX:
                continue
            if incomplete_from is None or each.offset < incomplete_from:
                complete.append(each)
            else:
                has_incomplete = True
                self._delete("leftover-deleted path=%s", name, logging.INFO)
        if has_incomplete:
            # They count as complete once the ``.cleaned`` files are gone: if one of them came back,
            # its records would be in the log twice.
            self._fs.sync_directory(self._context.directory)
        for name, each in found:
            if each.state and each.state != SWAP_SUFFIX:
                self._delete("leftover-deleted path=%s", name, logging.INFO)
        empty = {each.offset for each in complete if self._is_empty(each)}
        for name, each in found:
            if each.state == SWAP_SUFFIX and each.offset in empty:
                self._delete("empty-replacement-deleted path=%s", name, logging.WARNING)
        return [each for each in complete if each.offset not in empty]

    def _is_empty(self, swap: SegmentFileName) -> bool:
        """Return whether an empty .log file would replace one with records.

        A replacement deletes that one first, so all that it replaces are still there: leaving it
        out loses nothing. Kafka puts the empty file in its place.
        """
        if swap.kind != LOG_SUFFIX:
            return False
        old, new = (
            log_file(self._context.directory, swap.offset, end) for end in ("", SWAP_SUFFIX)
        )
        if not self._fs.exists(old):
            return False
        with closing(self._fs.open(new)) as file:  # not a FIFO, say
            return not file.size() and self._fs.stat(old).size_bytes > 0

    def _delete_replaced(self, start_offset: int, end_offset: int) -> None:
        """Delete the files of old segments in [start, end), which swap files replace."""
        for name, found in _segment_files(self._fs.list(self._context.directory)):
            if found.state != SWAP_SUFFIX and start_offset <= found.offset < end_offset:
                self._delete("replaced-file-deleted path=%s", name, logging.INFO)

    def _delete(self, message: str, name: str, level: int) -> None:
        """Delete a file; leave a directory of such a name alone."""
        path = self._context.path(name)
        if not self._fs.is_link(path) and self._fs.stat(path).is_directory:
            _log.warning("foreign-file-ignored path=%s", path)
            return
        _log.log(level, message, path)
        self._fs.delete(path)

    # Segments

    def _retry_on_overflow(self, step: Callable[[], T]) -> T:
        """Run ``step``; split each segment that turns out to hold offsets too far apart."""
        while True:
            try:
                return step()
            except SegmentOffsetOverflow as error:
                self._split(error.base_offset)

    def _split(self, base_offset: int) -> None:
        self._names = None
        _log.info("segment-split directory=%s base_offset=%d", self._context.directory, base_offset)
        segment = self._segments.get(base_offset) or self._context.open_segment(base_offset)
        self._segments.add(segment)
        replaced = split_overflowed_segment(self._context, self._segments, segment)
        stale = [old.base_offset for old in replaced]
        delete_snapshots(self._context, self._producers.snapshots, stale)

    def _load_and_recover(self) -> tuple[int, int]:
        # Parts of a segment that recovery has split are opened as any other, so that those below
        # the recovery point get the indexes that they lack.
        self._load_segment_files()
        return self._recover_log()

    def _load_segment_files(self) -> None:
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        self._without_index.clear()
        self._found_bytes = 0
        names = sorted(self._list())
        found = _segment_files(names)
        bases = {each.offset for _, each in found if (each.kind, each.state) == (LOG_SUFFIX, "")}
        for name, each in found:
            if is_index_file(name) and each.offset not in bases:
                self._delete("orphaned-index-deleted path=%s", name, logging.WARNING)
        unflushed_from = self._first_unflushed(bases)
        there = frozenset(names)
        for base_offset, end_offset in pairwise([*sorted(bases), INT64_MAX]):
            will_be_recovered = base_offset >= unflushed_from
            self._load_segment(base_offset, end_offset, there, will_be_recovered=will_be_recovered)

    def _first_unflushed(self, bases: set[int]) -> float:
        """Return the base of the first segment that ``_recover_log`` will check; inf for none."""
        if self._checkpoints.is_clean:
            return inf
        recovery_point = self._checkpoints.recovery_point
        return max((base for base in bases if base <= recovery_point), default=-inf)

    def _load_segment(
        self,
        base_offset: int,
        end_offset: int,
        names: Collection[str],
        *,
        will_be_recovered: bool,
    ) -> None:
        """Open a segment, and recover it if it needs that and would not be recovered anyway.

        Those past the recovery point wait for their turn, so that they are read only once: the
        segment before one of them may end in bytes that never reached the disk, and is truncated
        then.
        """
        segment = self._context.open_segment(base_offset, names=names)
        self._found_bytes += segment.size_bytes
        try:
            if self._reason_to_recover(segment, names, is_last=end_offset == INT64_MAX):
                if will_be_recovered:
                    self._without_index.add(base_offset)
                else:
                    self._names = None
                    self._recovery.recover(segment, end_offset)
        except BaseException:
            segment.close_handlers()
            raise
        self._segments.add(segment)

    def _reason_to_recover(
        self, segment: LogSegment, names: Collection[str], *, is_last: bool
    ) -> str:
        """Return what is wrong with a segment's indexes, an empty string if nothing is.

        A missing time index is only made again, and the contents of offset and time indexes are not
        looked at: the log's own recovery does that where it matters.
        """
        checkpoints = self._checkpoints
        path = log_file(self._context.directory, segment.base_offset)
        if not segment.has_offset_index(names):
            is_odd = checkpoints.is_clean or segment.base_offset < checkpoints.recovery_point
            is_new = is_last and not segment.size_bytes  # its index files come with a record
            level = logging.ERROR if is_odd and not is_new else logging.INFO
            _log.log(level, "offset-index-missing path=%s", path)
            return "no offset index"
        try:
            segment.sanity_check(names)
        except CorruptIndex as error:
            _log.warning("index-corrupt path=%s reason=%s", path, error)
            return str(error)
        return ""

    # The log's end

    def _repair_end(self, active: LogSegment) -> int:
        """Cut an unfinished end although the shutdown was clean; return the log end.

        Kafka would append after it. Damage that is not just that stays, as in Kafka: good records
        may lie after it. But a log that ends where none can is cut: nothing could be appended to
        it. Kafka takes such an end, which does not fit 64 bits, to be below the log start, and
        deletes the log whole.
        """
        try:
            start = active.tail_start()
            bad = active.bad_end(start)
        except (CorruptMessage, InvalidRecord):
            start, bad = 0, active.bad_end(0)
        is_torn = bad is not None and ends_here(active.view().file, bad.position)
        if is_torn and active.bad_end(0) == bad:
            self._cut_clean(active)
            bad = None
        found = contradiction_from(active.file_records(start), active.base_offset)
        path = active.path
        if found is not None and found.is_explained and bad is None:
            what = path, found.position, found.reason
            _log.warning("clean-log-damaged path=%s position=%d reason=%s", *what)
            # A damaged last batch does not say where the log ended. The checkpoint does.
            is_last = found.following_offset is None
            return max(found.end_offset, self._checkpoints.recovery_point if is_last else 0)
        next_offset = 0 if found is None else found.next_offset
        if bad is not None:
            next_offset = max(next_offset, bad.next_offset)
            _log.warning("clean-log-damaged path=%s position=%d", path, bad.position)
        if not next_offset <= active.read_next_offset() <= INT64_MAX:
            self._cut_clean(active)
        return active.read_next_offset()

    def _cut_clean(self, active: LogSegment) -> None:
        cut_bytes = self._recovery.recover(active)
        _log.warning("clean-log-cut path=%s cut_bytes=%d", active.path, cut_bytes)

    def _recover_log(self) -> tuple[int, int]:
        """Check what may not be whole; return recovery point and next offset (both exclusive)."""
        checkpoints, segments = self._checkpoints, self._segments
        if not checkpoints.is_clean:
            self._names = None
        if not checkpoints.is_clean and segments.all:
            removed = self._recovery.recover_from(
                checkpoints.recovery_point,
                partial(self._remove, reason="the log was cut before it"),
                keeping_behind=self._without_index,
            )
            self._delete_snapshots(removed)
        end = self._checked_end()
        start = checkpoints.log_start_offset
        if end is not None and end < start:
            _log.warning(
                "log-emptied directory=%s log_end_offset=%d log_start_offset=%d",
                *(self._context.directory, end, start),
            )
            removed = segments.all
            self._emptied_from = segments.first_base_offset
            self._remove(removed, "log start offset beyond the end")
            self._delete_snapshots(removed)
            self._epochs.clear_and_flush()
            self._producers.truncate_fully_and_start_at(start)
        is_kept = end is None or end >= start
        if not segments.all:
            segments.add(self._context.open_segment(start, preallocate=True))
            end = segments.active.read_next_offset()
        assert end is not None
        if checkpoints.is_clean and is_kept:
            return end, end
        kept = self._recovery.contradiction
        # Each start must find a contradiction again that the log was not freed from.
        limit = end if kept is None else min(kept.next_offset, end)
        return min(checkpoints.recovery_point, limit), end

    def _checked_end(self) -> int | None:
        """Return the offset after the last segment, which is made whole; None without segments."""
        if not self._segments.all:
            return None
        active = self._segments.active
        if self._checkpoints.is_clean:
            end = tail_end(active.view())
            if end is None:
                end = self._repair_end(active)
                self._repair_indexes(active, end)
            return end
        return self._recovery.end_of_log()

    def _repair_indexes(self, active: LogSegment, end_offset: int) -> None:
        """Make the indexes of the last segment again if they point to nothing in it.

        Kafka relies on them: it lets the log end where the segment begins, if the last entry is
        beyond its records, and no append is in order after such an entry.
        """
        path = wrong_index(active.view(), end_offset)
        if path is not None:
            reason = "its last entry points to nothing in the segment"
            _log.warning("index-corrupt path=%s reason=%s", path, reason)
            with suppress(RebuildableError):  # contradicted offsets stay in the log
                active.rebuild_lookups()

    def _remove(self, segments: Sequence[LogSegment], reason: str) -> None:
        """Delete segments, durably; nobody reads those that are kept: their indexes go at once.

        The last one is first, so that what a crash leaves of the log has no hole.
        """
        self._names = None
        context, others = self._context, []
        for segment in reversed(segments):
            is_kept = self._recovery.keep_removed(segment, reason)
            self._segments.remove(segment.base_offset)
            if is_kept:
                segment.delete()
            else:
                context.leaving.add(segment)
                rename_to_deleted(context, segment, reason)
                others.append(segment)
            # Else a power cut could bring back this one, above the log's new end, and not the next.
            self._fs.sync_directory(context.directory)
        delete_renamed(context, others)

    def _delete_snapshots(self, segments: Iterable[LogSegment]) -> None:
        offsets = [segment.base_offset for segment in segments]
        delete_snapshots(self._context, self._producers.snapshots, offsets)
