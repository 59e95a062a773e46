"""Writes the cleaned segments of one cleaning and swaps them in for the old ones.

This is the only module that uses what ``Log`` offers for that: ``new_cleaned_segment``,
``delete_cleaned_segment``, ``replace_segments`` and ``split_segment``. A segment is flushed and
swapped in while the next one is being filled. Kafka: ``Cleaner.cleanSegments``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.cleaner.rewriting.background_writers import Job
from tidelog.errors import CleaningAborted, SegmentOffsetOverflow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.cleaner.rewriting.background_writers import BackgroundWriters
    from tidelog.cleaner.rewriting.record_filter import RetainedBatches
    from tidelog.cleaner.rewriting.segment_copy import SegmentCopier
    from tidelog.cleaner.throttle import CleanerIo
    from tidelog.log.log import Log
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.txn_index import AbortedTxn

SYNC_BYTES: Final = 128 << 20
"""Bytes after which a segment is synced early, so that its last sync, which blocks, is short."""

_log = logging.getLogger(__name__)


class SegmentSwapper:
    """Copies groups of segments, each into a new segment that replaces the group.

    When ``clean_segments`` returns, the last group may still be being swapped in; ``join`` waits
    for it. ``on_swapped`` is called with the end of each group once that is done.
    """

    def __init__(
        self,
        log: Log,
        copier: SegmentCopier,
        io: CleanerIo,
        writers: BackgroundWriters,
        on_swapped: Callable[[int], None],
    ) -> None:
        self._log: Final = log
        self._copier: Final = copier
        self._io: Final = io
        self._writers: Final = writers
        self._on_swapped: Final = on_swapped
        self._last_swap: Job | None = None

    def clean_segments(self, group: Sequence[LogSegment], end: int) -> None:
        """Copy a group; have the copy flushed and swapped in, after the group before.

        ``end``: up to where it is cleaned. On an abort or an error its new segment is deleted.
        Source: Kafka Cleaner.cleanSegments.
        """
        log = self._log
        cleaned = log.swap.new_cleaned_segment(group[0].base_offset)
        target = _CleanedSegment(log, cleaned, self._writers, self._check_last_swap)
        try:
            with log.watch("cleaning"):
                following = segments_after(log, group)
                self._copier.copy(group, following, log.active_producers(), target)
                self._io.check_done()
                target.join()
            self.join()
            self._last_swap = Job(lambda: swap_in(log, cleaned, group, end, self._on_swapped))
        except BaseException as error:
            target.wait()
            log.swap.delete_cleaned_segment(cleaned)
            if isinstance(error, SegmentOffsetOverflow):
                # After a crash, a .cleaned file makes the split's .swap files count as incomplete.
                self.join()
                split_overflowed(log, group, error)
            raise
        self._writers.submit(self._last_swap)

    def join(self) -> None:
        """Wait until the last group is swapped in; raise its error."""
        if self._last_swap is not None:
            self._last_swap.join()

    def wait(self) -> None:
        """As ``join``; its error is not raised."""
        if self._last_swap is not None:
            self._last_swap.wait()

    def _check_last_swap(self) -> None:
        """Raise the error of the last swap, if it has ended with one."""
        if self._last_swap is not None and self._last_swap.has_ended:
            self._last_swap.join()


def swap_in(
    log: Log,
    cleaned: LogSegment,
    group: Sequence[LogSegment],
    end: int,
    on_swapped: Callable[[int], None],
) -> None:
    """Flush a filled segment, then replace the group with it; call ``on_swapped`` with its end."""
    try:
        with log.watch("cleaning"):
            cleaned.become_inactive()
            # Before it replaces the group, whose files are the only durable copy until now.
            cleaned.flush()
            cleaned.set_modified_ms(group[-1].modified_ms)
    except BaseException:
        log.swap.delete_cleaned_segment(cleaned)
        raise
    try:
        log.swap.replace_segments([cleaned], group, end)
    except BaseException:
        if log.segments.get(cleaned.base_offset) is not cleaned:  # the log was closed, or failed
            cleaned.close_handlers()
        raise
    on_swapped(end)
    log.swap.delete_marks()


def split_overflowed(
    log: Log, group: Sequence[LogSegment], overflow: SegmentOffsetOverflow
) -> None:
    """Split the segments of the group whose offsets do not fit, and abort the cleaning.

    Without such a segment an offset in the middle of one is damaged; the caller raises that.
    """
    overflowed = [segment for segment in group if segment.has_overflow()]
    for segment in overflowed:
        _log.warning("segment-split path=%s reason=%s", segment.path, overflow)
        log.swap.split_segment(segment)
    if overflowed:
        raise CleaningAborted(
            f"{len(overflowed)} segments of {log.directory} had offsets that did not fit their"
            " indexes and were split; the log will be cleaned again"
        ) from overflow


def segments_after(log: Log, group: Sequence[LogSegment]) -> tuple[LogSegment, ...]:
    """Return the segments of ``log`` after those of ``group``."""
    return tuple(s for s in log.segments if s.base_offset > group[-1].base_offset)


class _CleanedSegment:
    """A new segment to which background writers append the retained batches, one write at a time.

    Every ``SYNC_BYTES`` a writer begins to sync what has been written. A disk error is reported to
    the log at once, even if the cleaning itself only raises CleaningAborted.
    """

    def __init__(
        self,
        log: Log,
        segment: LogSegment,
        writers: BackgroundWriters,
        check_last_swap: Callable[[], None],
    ) -> None:
        self._log: Final = log
        self._segment: Final = segment
        self._writers: Final = writers
        self._check_last_swap: Final = check_last_swap
        self._append: Job | None = None
        self._sync: Job | None = None
        self._unsynced_bytes = 0

    def append(self, retained: RetainedBatches) -> None:
        """Wait until the batches before are written, then begin to write these."""
        self._check_last_swap()
        self._join(self._append)
        if self._unsynced_bytes >= SYNC_BYTES:
            self._sync_early()
        self._unsynced_bytes += len(retained.data)
        self._append = Job(lambda: self._write(retained))
        self._writers.submit(self._append)

    def update_txn_index(self, aborted: Sequence[AbortedTxn]) -> None:
        """Append index entries for aborted transactions, after the batches before are written."""
        if aborted:
            self._join(self._append)
            self._segment.update_txn_index(aborted)

    def join(self) -> None:
        """Wait until all batches are written; raise the error of a write or sync."""
        self._join(self._append)
        self._join(self._sync)

    def wait(self) -> None:
        """Wait until no thread uses the segment any more."""
        for job in (self._append, self._sync):
            if job is not None:
                job.wait()

    def _sync_early(self) -> None:
        if self._sync is None or self._sync.has_ended:
            self._join(self._sync)
            self._sync = Job(self._flush)
            if self._writers.try_submit(self._sync):
                self._unsynced_bytes = 0
            else:
                self._sync = None

    def _write(self, retained: RetainedBatches) -> None:
        last_offset = int(retained.batches.last_offset[-1])
        with self._log.watch("cleaning"):
            self._segment.append(last_offset, retained.data, retained.batches)

    def _flush(self) -> None:
        with self._log.watch("cleaning"):
            self._segment.flush_records()

    def _join(self, job: Job | None) -> None:
        if job is not None:
            job.join()
