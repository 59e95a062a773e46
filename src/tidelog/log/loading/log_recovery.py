"""Recovery of segments that may be incomplete: checked, truncated at a bad batch, reindexed.

Kafka: ``LogLoader.recoverSegment`` and ``recoverLog``.
"""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from tidelog.log.contradicted import OpenContradiction
from tidelog.log.loading.cut_keeper import CutKeeper, KeepCuts
from tidelog.log.loading.load_watch import Loss, ProgressMeter
from tidelog.log.producers.producer_state import ProducerStateManager
from tidelog.log.producers.rebuild import rebuild_producer_state
from tidelog.log.producers.replay import epoch_changes, replay_producers
from tidelog.log.producers.snapshot_files import SnapshotFiles
from tidelog.records.batch import INT64_MAX
from tidelog.segment.checked_batches import Helpers
from tidelog.segment.filenames import producer_snapshot_file
from tidelog.segment.segment_recovery import (
    Check,
    ContradictedOffsets,
    Cut,
    Treatment,
    look_through,
)
from tidelog.segment.segment_tail import tail_end
from tidelog.segment.unfinished_end import only_zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tidelog.log.context import LogContext
    from tidelog.log.leader_epoch import EpochEntry, LeaderEpochCache
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.log.producers.producer_state import ProducerStateConfig
    from tidelog.log.segments import LogSegments
    from tidelog.records.array_rows import Bytes
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.damage.contradiction import Contradiction
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.txn_index import AbortedTxn

_log = logging.getLogger(__name__)


class _Observer:
    """Feeds recovered batches to producer state, and keeps their epochs until all are accepted."""

    def __init__(
        self, epochs: LeaderEpochCache, producers: ProducerStateManager, meter: ProgressMeter
    ) -> None:
        self._epochs = epochs
        self._producers = producers
        self._meter = meter
        self._new_epochs: list[EpochEntry] = []
        self.seen_bytes = 0

    def observe(
        self, batches: BatchColumns, data: Bytes, aborted: Callable[[AbortedTxn], object]
    ) -> None:
        """Record good batches, and report the transactions that they abort."""
        size_bytes = int(batches.size.sum())
        self.seen_bytes += size_bytes
        self._meter.advance(size_bytes)
        latest = self._new_epochs[-1] if self._new_epochs else self._epochs.latest
        self._new_epochs += epoch_changes(batches, -1 if latest is None else latest.epoch)
        replay_producers(self._producers, batches, data, aborted)

    def assign_epochs(self) -> None:
        """Write down the epochs that were seen."""
        self._epochs.assign_all(self._new_epochs)


class SegmentRecovery:
    """Recovers segments of one log while it is loaded; not thread safe."""

    def __init__(
        self,
        context: LogContext,
        segments: LogSegments,
        epochs: LeaderEpochCache,
        *,
        config: ProducerStateConfig,
        log_start_offset: int,
        watcher: LoadWatcher,
        keep_cuts: KeepCuts = KeepCuts.IF_SPACE,
        cuts_contradictions: bool = False,
        threads: int = 1,
    ) -> None:
        self.contradiction: OpenContradiction | None = None
        """What was found past the recovery point, and left in the log."""
        self._context = context
        self._segments = segments
        self._epochs = epochs
        self._config = config
        self._log_start_offset = log_start_offset
        self._watcher = watcher
        self._meter = ProgressMeter(context.directory, watcher, context.clock)
        self._keeper = CutKeeper(context, keep_cuts)
        self._cuts_contradictions = cuts_contradictions
        self._snapshots: SnapshotFiles | None = None
        self._set_aside: set[int] = set()
        self._helpers = Helpers(context.scheduler, threads)

    def recover(self, segment: LogSegment, end_offset: int = INT64_MAX) -> int:
        """Check and re-index one segment; return the bytes cut off its end.

        Producer state is rebuilt up to the segment in a manager of its own, so that the log's can
        later be built from scratch; the snapshot left behind spares the next segment that work.
        A contradiction of offsets that one batch explains is left as it is, as what is flushed is
        believed. ``end_offset`` is the base offset of the next segment.
        """
        self._meter.expect(segment.size_bytes)
        try:
            return self._recover(segment, partial(self._keep_cut, segment), end_offset)
        finally:
            self._drop_snapshots()

    def _recover(
        self,
        segment: LogSegment,
        on_cut: Callable[[Cut], None],
        end_offset: int,
        is_kept: Callable[[Contradiction], bool] = lambda _: True,
    ) -> int:
        """Recover a segment; ``is_kept`` is asked about a contradiction that one batch explains."""
        how = Check(end_offset, self._helpers)
        try:
            return self._recover_once(segment, on_cut, how)
        except ContradictedOffsets as error:
            found = error.contradiction
            keeps = found.is_explained and not self._cuts_contradictions and is_kept(found)
        if keeps:
            where = segment.path, found.position
            _log.warning("contradiction-kept path=%s position=%d reason=%s", *where, found.reason)
        treated = how._replace(treatment=Treatment(found, keeps))
        return self._recover_once(segment, on_cut, treated)

    def _recover_once(self, segment: LogSegment, on_cut: Callable[[Cut], None], how: Check) -> int:
        context = self._context
        producers = ProducerStateManager(
            context.directory,
            fs=context.fs,
            clock=context.clock,
            config=self._config,
            snapshots=self._known_snapshots(),
        )
        rebuild_producer_state(
            self._segments,
            producers,
            log_start_offset=self._log_start_offset,
            last_offset=segment.base_offset,
            now_ms=context.clock.now_ms(),
            is_archived=context.config.remote_storage_enable,
            sync=False,
        )
        observer = _Observer(self._epochs, producers, self._meter)
        size_bytes = segment.size_bytes
        try:
            with self._keeper.cutting(segment):
                cut_bytes = segment.recover(observer, on_cut, how)
        except ContradictedOffsets:
            self._meter.take_back(observer.seen_bytes)
            raise
        observer.assign_epochs()
        self._meter.advance(size_bytes - observer.seen_bytes)
        if how.treatment is not None:
            # A damaged last batch counts by its number of offsets: no replay must meet it.
            producers.map_end_offset = max(producers.map_end_offset, end_of(segment, how.treatment))
        producers.take_snapshot(sync=False)
        return cut_bytes

    def _known_snapshots(self) -> SnapshotFiles:
        """Return the snapshots in the directory, which is listed for the first segment only."""
        if self._snapshots is None:
            self._snapshots = SnapshotFiles(self._context.directory, self._context.fs)
            self._snapshots.set_aside(self._set_aside)
        return self._snapshots

    def keep_removed(self, segment: LogSegment, reason: str) -> bool:
        """Keep a segment that is about to be deleted, and report it to the watcher.

        Returns whether it is kept, so that its ``.log`` file is no longer there.
        """
        size_bytes = segment.size_bytes
        with closing(self._context.fs.open(segment.path)) as file:
            kept_in = self._keeper.keep_whole(segment)
            where = segment.path, segment.base_offset, file, 0, size_bytes
            what = segment.base_offset, reason
            self._watcher.losing(Loss(*where, *what, is_segment=True, kept_in=kept_in))
        if kept_in is not None:
            self._keeper.describe(kept_in, segment, reason)
        return kept_in is not None

    def _keep_cut(self, segment: LogSegment, cut: Cut) -> None:
        kept_in = self._keeper.keep_end(segment, cut)
        where = segment.path, segment.base_offset, cut.file, cut.position, cut.end
        what = cut.next_offset, cut.reason
        self._watcher.losing(Loss(*where, *what, is_segment=False, kept_in=kept_in))

    def recover_from(
        self,
        recovery_point: int,
        remove: Callable[[Sequence[LogSegment]], None],
        *,
        keeping_behind: Collection[int] = (),
    ) -> Sequence[LogSegment]:
        """Recover all segments from the one that holds ``recovery_point`` on.

        Where bytes have to be cut the log ends, and ``remove`` is called with the segments after
        that, if there are any. It removes them durably before the bytes are cut: if a crash comes
        in between, the next recovery still finds the bytes, and does the same again. Returns those
        segments; their producer snapshots are still there.
        Segments are kept only after those whose base offset is in ``keeping_behind``: as in Kafka,
        which recovers a segment without an index when it opens it, and finds nothing to cut later.
        """
        try:
            return self._recover_from(recovery_point, remove, keeping_behind)
        finally:
            self._drop_snapshots()

    def _drop_snapshots(self) -> None:
        """Delete the snapshots that speak of more than was found, and were not made again."""
        directory, fs = self._context.directory, self._context.fs
        for offset in sorted(self._set_aside):
            with suppress(FileNotFoundError, IsADirectoryError):
                fs.delete(producer_snapshot_file(directory, offset))
        self._set_aside.clear()

    def _recover_from(
        self,
        recovery_point: int,
        remove: Callable[[Sequence[LogSegment]], None],
        keeping_behind: Collection[int],
    ) -> Sequence[LogSegment]:
        unflushed = self._segments.from_floor(recovery_point) or self._segments.all
        self._trim_before(unflushed)
        self._meter.expect(sum(segment.size_bytes for segment in unflushed))
        for number, segment in enumerate(unflushed):
            self._watcher.recovering(self._context.directory, len(unflushed) - number)
            behind = unflushed[number + 1 :]
            ends_log = segment.base_offset not in keeping_behind
            cuts: list[Cut] = []
            removed = behind if ends_log else ()
            self._recover(
                segment,
                partial(self._end_log, segment, removed, remove, cuts),
                _end_offset(behind),
                partial(self._is_kept, segment, behind, recovery_point),
            )
            self._forget_if_cut(segment)
            if cuts and ends_log:
                _log.warning(
                    "log-cut directory=%s base_offset=%d cut_bytes=%d segments_removed=%d",
                    *(self._context.directory, segment.base_offset),
                    *(cuts[0].end - cuts[0].position, len(behind)),
                )
                return behind
            self._warn_of_gap(segment, behind)
        return ()

    def _is_kept(
        self,
        segment: LogSegment,
        behind: Sequence[LogSegment],
        recovery_point: int,
        found: Contradiction,
    ) -> bool:
        """Return whether a contradiction stays in the log: it is the only one, and no torn end.

        Below the recovery point that does not matter, as what was flushed is believed. Past it, a
        power cut may have taken the first bytes of the last batch, which hold its offset.
        """
        following = found.following_offset
        if following is not None and following <= recovery_point:
            return True
        is_torn_end = found.is_torn_end and found.next_offset >= recovery_point
        for number, later in enumerate(behind):
            self._watcher.recovering(self._context.directory, len(behind) - number)
            end_offset = _end_offset(behind[number + 1 :])
            looked = look_through(later.view(), Check(end_offset, self._helpers))
            if looked.contradiction is not None:
                return False
            is_torn_end = is_torn_end and not looked.end
            if looked.end < later.size_bytes:
                break  # the log will end there
        if is_torn_end:
            return False
        self.contradiction = OpenContradiction(segment.base_offset, segment.path, found)
        return True

    def end_of_log(self) -> int:
        """Return the offset after the last segment, whose last batch may be a damaged one."""
        active, kept = self._segments.active, self.contradiction
        is_here = kept is not None and kept.base_offset == active.base_offset
        if kept is not None and is_here and kept.found.following_offset is None:
            return kept.found.end_offset
        return active.read_next_offset()

    def _forget_if_cut(self, segment: LogSegment) -> None:
        """Forget a contradiction of a segment that was cut before it for another reason."""
        kept = self.contradiction
        is_here = kept is not None and kept.base_offset == segment.base_offset
        if kept is not None and is_here and segment.size_bytes <= kept.found.position:
            self.contradiction = None

    def _trim_before(self, unflushed: Sequence[LogSegment]) -> None:
        """Trim the segment before those to be recovered, if all it has too much are zeros.

        A roll that had nothing to flush trimmed it, and a power cut may have undone that.
        """
        before = self._segments.lower(unflushed[0].base_offset)
        if before is None or tail_end(before.view()) is not None:
            return
        view, bad = before.view(), before.bad_end(0)
        if bad is None:
            return
        cut = Cut(view.file, bad.position, view.size_bytes, bad.next_offset, "")
        if _is_untrimmed(cut, unflushed[0]):
            self._meter.expect(before.size_bytes)
            self._recover(before, lambda _cut: None, unflushed[0].base_offset)

    def _end_log(
        self,
        segment: LogSegment,
        behind: Sequence[LogSegment],
        remove: Callable[[Sequence[LogSegment]], None],
        cuts: list[Cut],
        cut: Cut,
    ) -> None:
        """Keep what is about to be cut, then remove the segments after it; add it to ``cuts``.

        Not for zeros that a roll would have trimmed: the log continues after them.
        """
        if behind and _is_untrimmed(cut, behind[0]):
            return
        cuts.append(cut)
        self._keep_cut(segment, cut)
        if behind:
            remove(behind)

    def _warn_of_gap(self, segment: LogSegment, behind: Sequence[LogSegment]) -> None:
        """Report offsets that no segment holds. They are not searched for, as in Kafka.

        A compacted log has such gaps by right, and so may a follower's.
        """
        if not behind or self._context.config.is_compacted:
            return
        end = segment.read_next_offset()
        if end < behind[0].base_offset:
            _log.warning(
                "offset-gap directory=%s start_offset=%d end_offset=%d",
                *(self._context.directory, end, behind[0].base_offset),
            )


def _end_offset(behind: Sequence[LogSegment]) -> int:
    """Return where the offsets of a segment end, given those after it."""
    return behind[0].base_offset if behind else INT64_MAX


def end_of(segment: LogSegment, treatment: Treatment) -> int:
    """Return the offset after a recovered segment, whose last batch may be a damaged one."""
    found = treatment.contradiction
    is_last = found.following_offset is None and segment.size_bytes > found.position
    return found.end_offset if treatment.keeps and is_last else segment.read_next_offset()


def _is_untrimmed(cut: Cut, following: LogSegment) -> bool:
    """Return whether all that is cut is unused space, and no record before ``following`` is lost.

    Segments are preallocated with ``preallocate``, and trimmed when the next one begins.
    """
    is_complete = cut.next_offset == following.base_offset
    return is_complete and only_zeros(cut.file, cut.position, cut.end)
