"""One .log file with its indexes: appends and everything else that changes it.

Kafka: ``LogSegment``.
"""

from __future__ import annotations

import logging
from threading import Lock, RLock
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument, SegmentOffsetOverflow, TidelogError
from tidelog.kernels import rows
from tidelog.records.batch import INT32_MAX, INT64_MAX
from tidelog.segment import roll, segment_recovery
from tidelog.segment.header_scan import confirmed_position
from tidelog.segment.index_entries import TIME_INDEX_ENTRY, TimestampOffset
from tidelog.segment.indexing import IndexState, plan_entries, plan_few
from tidelog.segment.segment_files import SegmentFiles
from tidelog.segment.segment_reads import (
    SegmentReader,
    SegmentView,
    first_batch_timestamp,
    largest_timestamp_after,
)
from tidelog.segment.undo import UndoFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from random import Random

    from tidelog.codec.layout import Buffer
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.segment.indexing import FewEntries, PlannedEntries
    from tidelog.segment.offset_index import OffsetIndex
    from tidelog.segment.roll import RollParams
    from tidelog.segment.segment_recovery import RecoveryObserver
    from tidelog.segment.time_index import TimeIndex
    from tidelog.segment.txn_index import AbortedTxn, TransactionIndex

    _Tail = tuple[IndexState | None, int | None, int]
    """What an append changes in memory, except the entries of the indexes: the state that these
    are planned from, the first timestamp, and the size."""

NO_FIRST_TIMESTAMP: Final = 2**63 - 1
"""``first_batch_timestamp`` of a segment whose first batch has no timestamp."""

_log = logging.getLogger(__name__)


class LogSegment(SegmentReader):
    """A segment; ``base_offset`` is at or below the offset of its first record.

    There is one writer at a time, under the lock of the log: ``append`` and everything else that
    changes files. Readers (``read``, ``translate_offset``, the lookups) need no lock: what they see
    is published after it is written. ``_lock`` guards the maximum timestamp, which a reader may be
    the first to load. ``_files_lock`` keeps ``flush``, which may run on any thread, apart from
    changes of the indexes and from ``close`` and ``delete``; the .log file itself is synced
    without it.

    Source: Kafka LogSegment.
    """

    def __init__(
        self,
        base_offset: int,
        config: LogConfig,
        files: SegmentFiles,
        clock: Clock,
        jitter_ms: int,
    ) -> None:
        self.base_offset = base_offset
        self.config: Final = config
        self.jitter_ms: Final = jitter_ms
        self.created_ms = clock.now_ms()
        self._clock: Final = clock
        self._files: Final = files
        self._size_bytes = files.size_at_open
        self._first_timestamp: int | None = None
        self._index_state: IndexState | None = None
        """None: the maximum timestamp is still to be read."""
        self._is_closed = False
        self._is_recovered = False
        self._lock: Final = Lock()
        self._files_lock: Final = RLock()

    @classmethod
    def open(
        cls,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        fs: FileSystem,
        clock: Clock,
        rng: Random,
        suffix: str = "",
        preallocate: bool = False,
        names: Collection[str] | None = None,
    ) -> LogSegment:
        """Open the segment with this base offset; its .log file is created if missing.

        Args:
            directory: of the partition.
            base_offset: of the segment.
            config: sizes and interval of the indexes are fixed by it for the segment's lifetime.
            fs: the file system of the directory.
            clock: gives the creation time of the segment.
            rng: draws the jitter of time-based rolls.
            suffix: appended to the usual names of the files.
            preallocate: allocate a new .log file in full.
            names: the names in the directory, if known: existing files are then opened only when
                they are needed.

        Raises KafkaStorageError for a .log file of 2 GiB or more.
        """
        files = SegmentFiles.open(
            fs,
            directory,
            base_offset,
            suffix=suffix,
            # Kafka's minimum, 4 bytes, has no room for an entry.
            index_bytes=max(config.segment_index_bytes, TIME_INDEX_ENTRY.size),
            preallocated_bytes=config.segment_size_bytes if preallocate else 0,
            names=names,
        )
        return cls(base_offset, config, files, clock, _jitter_ms(config, rng))

    def __repr__(self) -> str:
        return f"LogSegment({self.path!r}, size_bytes={self._size_bytes})"

    # Properties

    @property
    def size_bytes(self) -> int:
        """Bytes of records; a preallocated file is longer."""
        return self._size_bytes

    @property
    def path(self) -> str:
        """The path of the .log file."""
        return self._files.log_path

    @property
    def offset_index(self) -> OffsetIndex:
        """The index from offsets to positions."""
        return self._files.offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The index from timestamps to offsets."""
        return self._files.time_index

    @property
    def txn_index(self) -> TransactionIndex:
        """The index of aborted transactions."""
        return self._files.txn_index

    @property
    def is_open(self) -> bool:
        """Whether the .log file has a descriptor, as it does once it was read or written."""
        return self._files.is_open

    @property
    def modified_ms(self) -> int:
        """Time of modification of the .log file, in ms since the epoch."""
        return self._files.modified_ms

    def set_modified_ms(self, modified_ms: int) -> None:
        """Set the time of modification, as the cleaner does for the segment it has written."""
        self._files.set_modified_ms(modified_ms)

    def largest_so_far(self) -> TimestampOffset:
        """Return the maximum timestamp with its offset; at first from the time index."""
        return self._load_index_state().largest

    def _load_index_state(self) -> IndexState:
        known = self._index_state
        if known is not None:
            return known
        with self._lock:
            if self._index_state is None:
                self._index_state = IndexState(0, *self.time_index.last_entry)
            return self._index_state

    def first_batch_timestamp(self) -> int:
        """Return the first batch's maximum timestamp in ms; ``NO_FIRST_TIMESTAMP`` if none."""
        timestamp = self._load_first_timestamp()
        return timestamp if timestamp >= 0 else NO_FIRST_TIMESTAMP

    def view(self) -> SegmentView:
        """Return the part of the segment that can be read now."""
        return SegmentView(
            self.base_offset, self._files.log, self._size_bytes, self.offset_index, self.time_index
        )

    def has_overflow(self) -> bool:
        """Whether the last offset does not fit the segment, as in files of old Kafka versions."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self._fits(next_offset - 1)

    def should_roll(
        self, incoming: RollParams, config: LogConfig | None = None, *, only_if_full: bool = False
    ) -> bool:
        """Return whether to roll before ``incoming``; ``config``: the log's current settings.

        ``only_if_full``: whatever these are.
        """
        files = self._files
        indexable = not files.offset_index.is_full and not files.time_index.is_full
        state = roll.SegmentState(
            self.base_offset,
            self._size_bytes,
            self.created_ms,
            self.jitter_ms,
            self._load_first_timestamp(),
            indexable,
        )
        if only_if_full:
            return roll.must_roll(state, incoming)
        return roll.should_roll(state, incoming, config or self.config)

    # Writing

    def append(
        self,
        largest_offset: int,
        data: Buffer,
        batches: BatchColumns,
        aborted: Sequence[AbortedTxn] = (),
    ) -> None:
        """Write batches at the end, and index entries where they are due.

        On failure, or an interrupt, nothing changes: what was written is truncated again. Once
        ``size_bytes`` has grown the append stands.

        Args:
            largest_offset: last offset of the last batch.
            data: contiguous batches and nothing else.
            batches: their headers.
            aborted: the transactions whose abort markers are among the batches.

        Raises:
            SegmentOffsetOverflow: ``largest_offset`` does not fit the segment; roll first.
            InvalidArgument: the file would exceed 2 GiB, ``batches`` do not cover ``data``, or no
                offset would be left for the next record.
            OSError: from the disk; the segment is unchanged.
            UndoFailed: from the disk, and what was written could not be truncated.
        """
        count = len(batches)
        if not count:
            return
        position, size, few = self._size_bytes, len(data), batches.few
        total = int(batches.size.sum()) if few is None else sum([row[rows.SIZE] for row in few])
        self._check_append(largest_offset, size, count, total)
        state = self._index_state or self._load_index_state()
        interval_bytes = self.config.index_interval_bytes
        plan = (
            plan_entries(state, batches, position, interval_bytes)
            if few is None
            else plan_few(state, few, position, interval_bytes)
        )
        first_timestamp = self._first_timestamp
        if position == 0:
            first_timestamp = batches.row(0)[rows.MAX_TIMESTAMP]
        with self._files_lock:
            self._write(data, plan, aborted, (plan.after, first_timestamp, position + size))

    def update_txn_index(self, aborted: Sequence[AbortedTxn]) -> None:
        """Add transactions whose abort markers are in this segment."""
        with self._files_lock:
            self.txn_index.append_all(aborted)

    def recover(
        self,
        observer: RecoveryObserver | None = None,
        on_cut: Callable[[segment_recovery.Cut], None] | None = None,
        how: segment_recovery.Check = segment_recovery.USUAL_CHECK,
    ) -> int:
        """Check every batch, truncate at the first bad one and rebuild the indexes.

        Returns the number of bytes truncated. ``on_cut`` is called before that. If it or the
        observer raises, all files stay unchanged.

        Raises:
            ContradictedOffsets: offsets contradict each other, and ``how`` has no treatment.
            SegmentOffsetOverflow: a batch's last offset does not fit; split the segment.
        """
        before = self._size_bytes
        interval_bytes = self.config.index_interval_bytes
        found = segment_recovery.check(self.view(), interval_bytes, observer, how)
        if found.reason:
            where = self.path, found.valid_bytes
            _log.warning("segment-truncated path=%s position=%d reason=%s", *where, found.reason)
        if on_cut is not None and found.valid_bytes < before:
            reason = found.reason or "the file ends inside a batch"
            cut = self._files.log, found.valid_bytes, before, found.next_offset, reason
            on_cut(segment_recovery.Cut(*cut))
        self.reindex(found)
        if found.valid_bytes < before:
            # Later recoveries may begin after this segment: the bytes must not come back then.
            self.flush_records()
        self._is_recovered = True
        return before - found.valid_bytes

    def reindex(self, found: segment_recovery.Recovered) -> None:
        """Replace the indexes by those of ``found``, and truncate the file to its valid bytes."""
        self.txn_index.reset()
        self._replace_lookups(found)
        self.txn_index.append_all(found.aborted)
        self._size_bytes = found.valid_bytes
        self._files.cut_log(found.valid_bytes)
        self._first_timestamp = None
        self._end_lookups(found)

    def rebuild_lookups(self) -> None:
        """Make offset and time index again, of the batches up to the first bad one.

        Records and transaction index do not change. Raises ContradictedOffsets and
        SegmentOffsetOverflow, as ``recover``.
        """
        found = segment_recovery.check(self.view(), self.config.index_interval_bytes, None)
        self._replace_lookups(found)
        self._end_lookups(found)

    def truncate_to(self, offset: int) -> int:
        """Remove all batches with offsets at or above ``offset``; return the bytes truncated.

        A batch that straddles ``offset`` is removed whole. The indexes regain their full size.
        """
        bytes_cut = self.cut_records(offset)
        self.truncate_indexes(offset)
        return bytes_cut

    def cut_records(self, offset: int) -> int:
        """Do the first half of ``truncate_to``, which on an OSError has changed nothing.

        The indexes still point after the end: ``truncate_indexes`` follows.
        """
        position = self.position_of_cut(offset)
        if position is None:
            return 0
        self._files.cut_log(position)
        bytes_cut = self._size_bytes - position
        self._size_bytes = position
        return bytes_cut

    def truncate_indexes(self, offset: int) -> None:
        """Do the second half of ``truncate_to``; after an OSError the segment must be recovered."""
        with self._files_lock:
            for index in (self.offset_index, self.time_index, self.txn_index):
                index.truncate_to(offset)
            self.resize_indexes()
        if self._size_bytes == 0:
            self.created_ms = self._clock.now_ms()
            self._first_timestamp = None
        self._reload_largest()

    def resize_indexes(self) -> None:
        """Extend the indexes to their full size, as the active segment needs."""
        with self._files_lock:
            self.offset_index.resize()
            self.time_index.resize()

    def become_active(self) -> None:
        """Open the .log file for appends, and let the indexes grow with them."""
        with self._files_lock:
            self._files.writable_log()
            self.offset_index.grow()
            self.time_index.grow()

    def become_inactive(self) -> None:
        """Index the maximum timestamp and trim all files: there will be no more appends."""
        with self._files_lock:
            self._append_last_time_entry()
            self.offset_index.seal()
            self.time_index.seal()
            self._files.cut_log(self._size_bytes)

    def sanity_check(self, names: Collection[str] | None = None) -> None:
        """Raise CorruptIndex if the transaction index is damaged; nothing else checks it.

        As in Kafka, a missing time index is created empty and not rebuilt. ``names``: the names in
        the directory, if known.
        """
        if not self._files.is_there(self.time_index.path, names):
            self.time_index.create()
            self.time_index.seal()
        self.txn_index.sanity_check()

    def has_offset_index(self, names: Collection[str] | None = None) -> bool:
        """Return whether the offset index exists; without it the segment is recovered.

        ``names``: the names in the directory, if known.
        """
        return self._files.is_there(self.offset_index.path, names)

    # Files

    def flush(self) -> None:
        """Make all appended batches and the indexes durable.

        May run on any thread; raises OSError if the segment is closed or deleted meanwhile.
        """
        self.flush_records()
        with self._files_lock:
            if not self._is_closed:
                self._files.sync_indexes()
                self._is_recovered = False

    def flush_records(self) -> None:
        """Make the appended batches durable, but not the indexes; otherwise as ``flush``."""
        self._files.log.sync()

    def close(self) -> None:
        """Index the maximum timestamp, trim all files, make them durable and close them.

        A second call does nothing. All files are tried before the first error is raised.
        """
        with self._files_lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._index_state is not None:
                try:
                    self._append_last_time_entry()
                except (OSError, TidelogError) as error:
                    _log.warning("last-time-entry-missing path=%s reason=%s", self.path, error)
            # Indexes that a recovery found to be right were not written, perhaps never synced.
            self._files.close(self._size_bytes, syncs_indexes=self._is_recovered)

    def close_handlers(self) -> None:
        """Close all files without writing anything, as after a disk failure."""
        with self._files_lock:
            self._files.close_handlers()
            if not self._is_closed:
                self._is_closed = True
                self._files.close_log()

    def delete(self) -> None:
        """Close and delete the files; missing ones are ignored. Slices stay readable."""
        with self._files_lock:
            self.close_handlers()
            self._files.delete()

    def has_suffix(self, suffix: str) -> bool:
        """Return whether the names of the files end in ``suffix``."""
        return self.path.endswith(suffix)

    def change_suffix(self, old: str, new: str) -> None:
        """Rename all files so that they end in ``new`` instead of ``old``."""
        with self._files_lock:
            self._files.change_suffix(old, new)

    def moved_to(self, directory: str) -> None:
        """Record that the partition's directory was renamed."""
        self._files.moved_to(directory)

    # Inside

    def _replace_lookups(self, found: segment_recovery.Recovered) -> None:
        """Replace the entries of offset and time index; ``_end_lookups`` writes the files."""
        self.offset_index.reset()
        self.time_index.reset()
        self._set_largest(None)
        found.write_to(self.view())

    def _end_lookups(self, found: segment_recovery.Recovered) -> None:
        self._set_largest(TimestampOffset(*found.state[1:]))
        self._append_last_time_entry()
        self.offset_index.trim()
        self.time_index.trim()

    def _write(
        self,
        data: Buffer,
        plan: PlannedEntries | FewEntries,
        aborted: Sequence[AbortedTxn],
        tail: _Tail,
    ) -> None:
        """Write batches and entries, then publish ``tail``; or do neither."""
        if self._is_recovered:
            # An unfinished truncation may be all that ended the file here: without a sync, a power
            # cut could put the old records back in the place of these.
            self.flush()
        files = self._files
        log, offset_index, time_index = files.writable_log(), files.offset_index, files.time_index
        counts = None
        has_entries = plan.has_entries
        if has_entries or not self._size_bytes:  # the first batch makes the files
            counts = offset_index.create(), time_index.create()
        txns = files.txn_index.mark() if aborted else None
        before = self._index_state, self._first_timestamp, self._size_bytes
        log.pin()  # so that truncating does not need another descriptor
        try:
            log.pwrite(data, self._size_bytes)
            if has_entries:
                plan.append_to(offset_index, time_index)
            if aborted:
                files.txn_index.append_all(aborted)
            self._publish(tail)
        except BaseException as error:
            if self._size_bytes == tail[-1]:
                raise  # an interrupt, and readers may have seen the batches
            self._publish(before)
            if counts is not None:
                offset_index.keep(counts[0])
                time_index.keep(counts[1])
            try:
                log.truncate(self._size_bytes)
                log.sync()  # else a power cut could bring back what is refused now
                if txns is not None:
                    files.txn_index.go_back(txns)
            except OSError as undoing:
                raise UndoFailed(undoing, self.path) from error
            raise
        finally:
            log.unpin()

    def _publish(self, tail: _Tail) -> None:
        """Take what an append has changed as ours, the size last: it is what readers see."""
        self._index_state, self._first_timestamp, self._size_bytes = tail

    def _check_append(self, largest_offset: int, size: int, count: int, total: int) -> None:
        if not self._fits(largest_offset):
            raise SegmentOffsetOverflow(self.base_offset, largest_offset)
        if largest_offset >= INT64_MAX:
            raise InvalidArgument(f"offset {largest_offset} leaves no offset for the next record")
        if size != total:
            raise InvalidArgument(f"{count} batches do not cover {size} bytes")
        if self._size_bytes + size > INT32_MAX:
            raise InvalidArgument(f"{self.path} cannot grow by {size} bytes: it would exceed 2 GiB")

    def _fits(self, offset: int) -> bool:
        return 0 <= offset - self.base_offset <= INT32_MAX

    def _set_largest(self, largest: TimestampOffset | None) -> None:
        with self._lock:
            self._index_state = None if largest is None else IndexState(0, *largest)

    def _reload_largest(self) -> None:
        indexed = self.time_index.last_entry
        view, entry = self.view(), self.offset_index.lookup(indexed.offset)
        later = largest_timestamp_after(view, confirmed_position(view.file, entry, view.size_bytes))
        self._set_largest(later if later.timestamp > indexed.timestamp else indexed)

    def _append_last_time_entry(self) -> None:
        largest = self.largest_so_far()
        self.time_index.maybe_append(largest.timestamp, largest.offset, skip_full_check=True)

    def _load_first_timestamp(self) -> int:
        known = self._first_timestamp
        if known is None:
            view = self.view()
            known = first_batch_timestamp(view)
            if view.size_bytes:
                self._first_timestamp = known
        return known


def _jitter_ms(config: LogConfig, rng: Random) -> int:
    limit = min(config.segment_jitter_ms, config.max_segment_ms)
    return rng.getrandbits(31) % limit if limit else 0
