"""A log as one snapshot of its files shows it: all answers belong to one moment.

It has what the cleaner examines and reads of a log, so a cleaning can be planned beside a writer.
Index files are read once, when the snapshot is taken, and taken as they are: what opening the log
after a crash would cut off or rebuild is not. Kafka has no such reader.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.datadir.metadata_files import CLEAN_SHUTDOWN_FILE
from tidelog.errors import CorruptIndex, KafkaStorageError
from tidelog.log.producers.producer_state import ProducerStateConfig, ProducerStateManager
from tidelog.log.producers.replay import replay_producers
from tidelog.log.producers.snapshot_files import SnapshotFiles
from tidelog.readonly.held_files import HeldFiles, SnapshotOutdated, outdated_if_gone
from tidelog.readonly.log_snapshot import answer
from tidelog.readonly.partition_files import overlapping
from tidelog.readonly.read_only_segment import ReadOnlySegment
from tidelog.readonly.replayed_transactions import Snapshot, newest_snapshot, replay_transactions
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.segment.filenames import (
    SWAP_SUFFIX,
    TXN_INDEX_SUFFIX,
    transaction_index_file,
)
from tidelog.segment.segment import NO_FIRST_TIMESTAMP
from tidelog.segment.txn_index import TransactionIndex, TxnIndexSearchResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileStat
    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.readonly.log_snapshot import LogSnapshot
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.file_records import Piece
    from tidelog.segment.index_entries import TimestampOffset

T = TypeVar("T")

_FIRST_BYTES: Final = 16 << 10
"""Bytes read for the first batch of a segment; a larger one takes another read."""


def answer_at_once(
    open_log: Callable[[], ReadOnlyLog],
    config: LogConfig,
    clock: Clock,
    question: Callable[[SnapshotLog], T],
) -> T:
    """Return the answer of one snapshot; where that is outdated, or shows damage, of another one.

    Args:
        open_log: opens the log, again for each snapshot.
        config: the settings in force.
        clock: its time of day is that of the answer.
        question: is asked at least once, and must not keep the log.

    Raises:
        CorruptMessage: two snapshots in a row show the same damage.
        KafkaStorageError: the disk failed, or the files changed during every one of ``MAX_LOOKS``
            attempts.
        UnknownTopicOrPartition: the log was deleted.
    """
    directory = ""

    def look(_: int) -> T:
        nonlocal directory
        with open_log() as opened:
            directory = opened.directory
            return question(SnapshotLog(opened, config, clock))

    return answer(look, lambda: directory)


class SnapshotSegment(ReadOnlySegment):
    """A segment of a ``SnapshotLog``, or the empty one that opening an empty log makes.

    ``size_bytes`` are those of whole, valid batches.
    """

    def __init__(
        self,
        log: SnapshotLog,
        there: ReadOnlySegment,
        *,
        end_offset: int,
        size_bytes: int,
        modified_ms: int,
        txn_index: TransactionIndex | CorruptIndex | None = None,
    ) -> None:
        super().__init__(
            *(there.directory, there.base_offset, size_bytes, there.suffix),
            held=there.held,
            bounds=there.bounds,
            is_active=there.is_active,
        )
        self._log: Final = log
        self._there: Final = there
        self._end_offset: Final = end_offset
        self._modified_ms: Final = modified_ms
        self._txn_index: Final = txn_index

    @property
    def modified_ms(self) -> int:
        """Time of modification of the .log file, in ms since the epoch."""
        return self._modified_ms

    @cached_property
    def max_timestamp(self) -> int:
        """Maximum timestamp in ms, -1 if there is none."""
        return super().max_timestamp

    def largest_so_far(self, *, with_index: bool = True) -> TimestampOffset:
        """Return the maximum timestamp with its offset; see ``ReadOnlySegment``."""
        found = super().largest_so_far(with_index=with_index)
        if self.size_bytes and not self._log.is_unchanged(self._there):
            # The index was perhaps that of a replacement.
            return super().largest_so_far(with_index=False)
        return found

    def first_batch_timestamp(self) -> int:
        """Return the first batch's greatest timestamp in ms, a very late one if there is none."""
        for piece in self.file_records().pieces(_FIRST_BYTES):
            timestamp = int(piece.batches.max_timestamp[0])
            return timestamp if timestamp >= 0 else NO_FIRST_TIMESTAMP
        return NO_FIRST_TIMESTAMP

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """Return the transactions of its index that overlap offsets of [fetch, upper bound)."""
        if self._txn_index is None:
            return TxnIndexSearchResult((), is_complete=False)
        if isinstance(self._txn_index, CorruptIndex):
            raise KafkaStorageError(f"{self._txn_index}; a recovery of the log would rebuild it")
        return self._txn_index.collect_aborted(fetch_offset, upper_bound_offset)

    def read_next_offset(self) -> int:
        """Return the offset after its last batch, or where the next segment begins."""
        return self._end_offset


class SnapshotSegments:
    """The segments of a log, in order; at least one."""

    def __init__(self, segments: tuple[SnapshotSegment, ...]) -> None:
        self.all: Final = segments

    def __iter__(self) -> Iterator[SnapshotSegment]:
        return iter(self.all)

    @property
    def active(self) -> SnapshotSegment:
        """The last one."""
        return self.all[-1]

    def overlapping(self, start_offset: int, end_offset: int) -> tuple[SnapshotSegment, ...]:
        """Return the segments that may hold offsets of [start, end)."""
        return tuple(overlapping(self.all, start_offset, end_offset))


class SnapshotLog:
    """A log at one moment, with the settings in force; used by one thread, within a ``with``.

    The high watermark is the log end, as it is once a process that is the only replica has opened
    the log. Reads raise SnapshotOutdated where the snapshot no longer serves.
    """

    def __init__(self, log: ReadOnlyLog, config: LogConfig, clock: Clock) -> None:
        self.directory: Final = log.directory
        self.topic: Final = log.topic
        self.partition: Final = log.partition
        self.config: Final = config
        self.snapshot: Final = log.snapshot
        self.log_start_offset: Final = log.log_start_offset
        self.disk_and_archive: Final = log.disk_and_archive
        self.log_end_offset: Final = log.log_end_offset
        self.high_watermark: Final = log.log_end_offset
        self._end_position: Final = log.end_position
        self._clock: Final = clock
        self.now_ms: Final = clock.now_ms()
        self._there: Final = _without_replaced(self.snapshot)
        self._known: Final = self._newest_producers()
        self.segments: Final = SnapshotSegments(self._read_segments())

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """Return the producers that opening the log would find, by id.

        They come from the newest readable snapshot of producers and the batches after it. Raises
        InvalidTxnState and InvalidRecord for what no broker writes.
        """
        producers = ProducerStateManager(
            self.directory,
            fs=self.snapshot.fs,
            clock=self._clock,
            config=ProducerStateConfig(),
            snapshots=SnapshotFiles(self.directory, self.snapshot.fs, ()),
        )
        known = self._known
        if known is None and self._was_shut_down_cleanly():
            return {}  # as when it is opened: such a log had none
        start = Snapshot(self.log_start_offset, []) if known is None else known
        producers.load_snapshot(start.offset, start.entries, self.now_ms)
        for piece in self._pieces(start.offset, self.log_end_offset):
            replay_producers(producers, piece.batches_in_data, piece.data)
        return producers.producers

    def _was_shut_down_cleanly(self) -> bool:
        above = os.path.dirname(self.directory)
        return self.snapshot.fs.exists(os.path.join(above, CLEAN_SHUTDOWN_FILE))

    def _newest_producers(self) -> Snapshot | None:
        start, end = self.log_start_offset, self.log_end_offset
        return newest_snapshot(self.snapshot.fs, self.directory, start, end)

    @cached_property
    def last_stable_offset(self) -> int:
        """End (exclusive) of what is decided; CorruptMessage where damage hides it."""
        known = self._known or Snapshot(self.log_start_offset, [])
        found = replay_transactions(known, self.log_end_offset, self._pieces)
        if found.damage is not None:
            raise found.damage
        return found.last_stable_offset

    @property
    def pinned_from(self) -> None:
        """None: only the owner of the log knows what a commit has still to write."""

    def _pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Yield pieces of the batches that hold offsets of [start, end)."""
        for segment in overlapping(self._there, start, end):
            yield from segment.pieces_between(start, end, segment.bounds)

    # What lies beside the records

    def _read_segments(self) -> tuple[SnapshotSegment, ...]:
        """Read the indexes of transactions, of the same segments whose records are held.

        Files may be replaced meanwhile; the .log file is the first of a segment to be renamed.
        """
        if not self._there:
            held, end = HeldFiles(self.snapshot.fs), self.log_end_offset
            empty = ReadOnlySegment(
                self.directory, end, 0, held=held, bounds=OffsetBounds(end), is_active=True
            )
            now_ms = self.now_ms
            return (SnapshotSegment(self, empty, end_offset=end, size_bytes=0, modified_ms=now_ms),)
        before, names = self._stats(), self._txn_index_names()
        indexes = [self._read_txn_index(segment, names) for segment in self._there]
        if names != self._txn_index_names() or before[:-1] != self._stats()[:-1]:
            raise SnapshotOutdated(f"segments of {self.directory} were replaced")
        ends = [*(segment.base_offset for segment in self._there[1:]), self.log_end_offset]
        sizes = [*(segment.size_bytes for segment in self._there[:-1]), self._end_position]
        return tuple(
            SnapshotSegment(
                self,
                segment,
                end_offset=end,
                size_bytes=size_bytes,
                modified_ms=stat.mtime_ms,
                txn_index=index,
            )
            for segment, end, size_bytes, stat, index in zip(
                self._there, ends, sizes, before, indexes, strict=True
            )
        )

    def _stats(self) -> list[FileStat]:
        return [self._stat(segment) for segment in self._there]

    def is_unchanged(self, segment: ReadOnlySegment) -> bool:
        """Return whether a file of the snapshot is still there, and as large as it was."""
        try:
            self._stat(segment)
        except SnapshotOutdated:
            return False
        return True

    def _stat(self, segment: ReadOnlySegment) -> FileStat:
        """Return size and time of a segment, which is the one whose records are held."""
        with outdated_if_gone(segment.path):
            stat = self.snapshot.fs.stat(segment.path)
        is_active = segment is self._there[-1]
        if stat.size_bytes < segment.size_bytes or (
            stat.size_bytes > segment.size_bytes and not is_active
        ):
            raise SnapshotOutdated(f"{segment.path} was replaced")
        return stat

    def _txn_index_names(self) -> frozenset[str]:
        with outdated_if_gone(self.directory):
            names = self.snapshot.fs.list(self.directory)
        ends = (TXN_INDEX_SUFFIX, TXN_INDEX_SUFFIX + SWAP_SUFFIX)
        return frozenset(name for name in names if name.endswith(ends))

    def _read_txn_index(
        self, segment: ReadOnlySegment, names: Collection[str]
    ) -> TransactionIndex | CorruptIndex | None:
        """Read a segment's index of transactions; None where there is none.

        An unreadable one is an error only once it is needed. After the .log file of a
        replacement, its index may still wait to be renamed.
        """
        for suffix in dict.fromkeys((segment.suffix, SWAP_SUFFIX)):
            path = transaction_index_file(self.directory, segment.base_offset, suffix)
            if os.path.basename(path) in names:
                index = TransactionIndex(self.snapshot.fs, path, segment.base_offset, exists=True)
                try:
                    with outdated_if_gone(path):
                        index.all_aborted()
                except CorruptIndex as error:
                    return error
                return index
        return None


def _without_replaced(snapshot: LogSnapshot) -> tuple[ReadOnlySegment, ...]:
    """Return the segments without those whose replacement is complete, as opening the log would.

    A replacement begins with the name of the first segment that it replaces.
    """
    kept: list[ReadOnlySegment] = []
    end = 0
    for segment in snapshot.segments:
        if segment.base_offset < end:
            continue
        kept.append(segment)
        if segment.suffix == SWAP_SUFFIX:
            end = max(end, segment.next_offset())
    return tuple(kept)
