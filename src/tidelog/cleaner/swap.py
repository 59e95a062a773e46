"""New segments of a cleaning: filled, made durable, put in the place of the old ones.

Owns the order of these steps, and that a segment is made durable and swapped in while the next one
is filled already. Must not know what a segment is filled with (``segment_copy``). Kafka:
``Cleaner.cleanSegments``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.cleaner.background_writers import Job
from tidelog.errors import CleaningAborted, SegmentOffsetOverflow
from tidelog.segment.filenames import CLEANED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.cleaner.background_writers import Aside
    from tidelog.cleaner.record_filter import Filtered
    from tidelog.cleaner.segment_copy import Copier
    from tidelog.cleaner.throttle import Pace
    from tidelog.log.log import Log
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.txn_index import AbortedTxn

SYNC_BYTES: Final = 128 << 20
"""So the last sync of a large segment, which all has to wait for, finds little left to do."""

_log = logging.getLogger(__name__)


class Swaps:
    """Copies groups of segments, each into a new one that takes their place.

    When ``clean`` returns the last group may still be on its way; ``settle`` waits for it.
    """

    def __init__(self, log: Log, copier: Copier, pace: Pace, aside: Aside) -> None:
        self._log: Final = log
        self._copier: Final = copier
        self._pace: Final = pace
        self._aside: Final = aside
        self._last: Job | None = None

    def clean(self, group: Sequence[LogSegment]) -> None:
        """Copy a group, and have it made durable and swapped in, behind the one before.

        On an abort or an error its new segment is deleted.
        """
        log = self._log
        new = log.new_cleaned_segment(group[0].base_offset)
        target = _SegmentTarget(log, new, self._aside, self._check_last)
        try:
            with log.watch("cleaning"):
                self._copier.copy(group, behind(log, group), log.producers.producers, target)
                self._pace.check()
                target.join()
            self.settle()
            self._last = Job(lambda: self._put_in_place(new, group))
        except BaseException as error:
            target.wait()
            log.delete_cleaned_segment(new)
            if isinstance(error, SegmentOffsetOverflow):
                # A .cleaned file left by a crash would call the split's .swap files incomplete.
                self.settle()
                self._split(group, error)
            raise
        self._aside.give(self._last)

    def settle(self) -> None:
        """Wait until the last group is in place."""
        if self._last is not None:
            self._last.join()

    def _check_last(self) -> None:
        """Raise what went wrong with the last group, as soon as that is known."""
        if self._last is not None and self._last.has_ended:
            self._last.join()

    def _put_in_place(self, new: LogSegment, group: Sequence[LogSegment]) -> None:
        """Make a filled segment durable, then swap it in."""
        log = self._log
        try:
            with log.watch("cleaning"):
                new.become_inactive()
                new.flush()
                new.set_modified_ms(group[-1].modified_ms)
        except BaseException:
            log.delete_cleaned_segment(new)
            raise
        try:
            log.replace_segments([new], group)
        except BaseException:
            if new.has_suffix(CLEANED_SUFFIX):  # refused: the log was closed, or failed, meanwhile
                new.close_handlers()
            raise

    def _split(self, group: Sequence[LogSegment], overflow: SegmentOffsetOverflow) -> None:
        """Split the segments with offsets that do not fit; none: one in the middle is damaged."""
        log = self._log
        overflowed = [segment for segment in group if segment.has_overflow()]
        for segment in overflowed:
            _log.warning("segment-split path=%s reason=%s", segment.path, overflow)
            log.split_segment(segment)
        if overflowed:
            raise CleaningAborted(f"a segment of {log.directory} was split") from overflow


def behind(log: Log, group: Sequence[LogSegment]) -> tuple[LogSegment, ...]:
    """Return the segments of ``log`` behind those of ``group``."""
    return tuple(s for s in log.segments if s.base_offset > group[-1].base_offset)


class _SegmentTarget:
    """A segment that batches are appended to, one piece after the other, by helping threads.

    Every ``SYNC_BYTES`` they begin to make durable what is there by then. A disk that fails is
    known to the log at once, though an abort may be all that the cleaning raises.
    """

    def __init__(
        self, log: Log, segment: LogSegment, aside: Aside, check: Callable[[], None]
    ) -> None:
        self._log: Final = log
        self._segment: Final = segment
        self._aside: Final = aside
        self._check: Final = check
        self._append: Job | None = None
        self._sync: Job | None = None
        self._unsynced_bytes = 0

    def append(self, filtered: Filtered) -> None:
        """Begin to write some batches, when those before are written."""
        self._check()
        self._join(self._append)
        if self._unsynced_bytes >= SYNC_BYTES:
            self._sync_early()
        self._unsynced_bytes += len(filtered.data)
        self._append = Job(lambda: self._write(filtered))
        self._aside.give(self._append)

    def name_aborted(self, aborted: Sequence[AbortedTxn]) -> None:
        """Write the index entries of transactions, behind the batches before."""
        if aborted:
            self._join(self._append)
            self._segment.update_txn_index(aborted)

    def join(self) -> None:
        """Wait until all is written; raise what went wrong."""
        self._join(self._append)
        self._join(self._sync)

    def wait(self) -> None:
        """Wait until nothing is done to the segment any more."""
        for job in (self._append, self._sync):
            if job is not None:
                job.wait()

    def _sync_early(self) -> None:
        if self._sync is None or self._sync.has_ended:
            self._join(self._sync)
            self._sync = Job(self._flush)
            if self._aside.offer(self._sync):
                self._unsynced_bytes = 0
            else:
                self._sync = None

    def _write(self, filtered: Filtered) -> None:
        last_offset = int(filtered.batches.last_offset[-1])
        with self._log.watch("cleaning"):
            self._segment.append(last_offset, filtered.data, filtered.batches)

    def _flush(self) -> None:
        with self._log.watch("cleaning"):
            self._segment.flush_records()

    def _join(self, job: Job | None) -> None:
        if job is not None:
            job.join()
