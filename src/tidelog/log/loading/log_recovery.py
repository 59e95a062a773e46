"""Recovery of segments that may be incomplete: checked, truncated at a bad batch, reindexed.

Kafka: ``LogLoader.recoverSegment`` and ``recoverLog``.
"""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from tidelog.log.loading.cut_keeper import CutKeeper, KeepCuts
from tidelog.log.loading.load_watch import Loss, ProgressMeter
from tidelog.log.producers.producer_state import ProducerStateManager
from tidelog.log.producers.rebuild import rebuild_producer_state
from tidelog.log.producers.replay import epoch_changes, replay_producers
from tidelog.segment.checked_batches import Helpers
from tidelog.segment.filenames import producer_snapshot_file
from tidelog.segment.segment_recovery import Cut
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
    from tidelog.records.memory import BatchColumns
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
        for entry in self._new_epochs:
            self._epochs.assign(entry.epoch, entry.start_offset)


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
        threads: int = 1,
    ) -> None:
        self._context = context
        self._segments = segments
        self._epochs = epochs
        self._config = config
        self._log_start_offset = log_start_offset
        self._watcher = watcher
        self._meter = ProgressMeter(context.directory, watcher, context.clock)
        self._keeper = CutKeeper(context, keep_cuts)
        self._set_aside: set[int] = set()
        self._helpers = Helpers(context.scheduler, threads)

    def recover(self, segment: LogSegment) -> int:
        """Check and re-index one segment; return the bytes cut off its end.

        Producer state is rebuilt up to the segment in a manager of its own, so that the log's can
        later be built from scratch; the snapshot left behind spares the next segment that work.
        """
        self._meter.expect(segment.size_bytes)
        try:
            return self._recover(segment, partial(self._keep_cut, segment))
        finally:
            self._drop_snapshots()

    def _recover(self, segment: LogSegment, on_cut: Callable[[Cut], None]) -> int:
        context = self._context
        producers = ProducerStateManager(
            context.directory, fs=context.fs, clock=context.clock, config=self._config
        )
        producers.snapshots.set_aside(self._set_aside)
        rebuild_producer_state(
            self._segments,
            producers,
            log_start_offset=self._log_start_offset,
            last_offset=segment.base_offset,
            now_ms=context.clock.now_ms(),
            sync=False,
        )
        observer = _Observer(self._epochs, producers, self._meter)
        size_bytes = segment.size_bytes
        cut_bytes = segment.recover(observer, on_cut, self._helpers)
        observer.assign_epochs()
        self._meter.advance(size_bytes - observer.seen_bytes)
        producers.take_snapshot(sync=False)
        return cut_bytes

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

        Where bytes have to be cut the log ends, and ``remove`` is called with the segments behind
        that, if there are any. It removes them durably before the bytes are cut: if a crash comes
        in between, the next recovery still finds the bytes, and does the same again. Returns those
        segments; their producer snapshots are still there.
        Segments are kept only behind those whose base offset is in ``keeping_behind``: as in Kafka,
        which recovers a segment without an index when it opens it, and finds nothing to cut later.
        """
        try:
            return self._recover_from(recovery_point, remove, keeping_behind)
        finally:
            self._drop_snapshots()

    def _drop_snapshots(self) -> None:
        """Delete the snapshots that speak of more than was found, and were not made anew."""
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
            self._recover(segment, partial(self._end_log, segment, removed, remove, cuts))
            if cuts and ends_log:
                _log.warning(
                    "log-cut directory=%s base_offset=%d cut_bytes=%d segments_removed=%d",
                    *(self._context.directory, segment.base_offset),
                    *(cuts[0].end - cuts[0].position, len(behind)),
                )
                return behind
            self._warn_of_gap(segment, behind)
        return ()

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
            self._recover(before, lambda _cut: None)

    def _end_log(
        self,
        segment: LogSegment,
        behind: Sequence[LogSegment],
        remove: Callable[[Sequence[LogSegment]], None],
        cuts: list[Cut],
        cut: Cut,
    ) -> None:
        """Keep what is about to be cut, then remove the segments behind it; add it to ``cuts``.

        Not for zeros that a roll would have trimmed: the log goes on behind them.
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


def _is_untrimmed(cut: Cut, following: LogSegment) -> bool:
    """Return whether all that is cut is unused space, and no record before ``following`` is lost.

    Segments are preallocated with ``preallocate``, and trimmed when the next one begins.
    """
    is_complete = cut.next_offset == following.base_offset
    return is_complete and only_zeros(cut.file, cut.position, cut.end)
