"""A log as one snapshot of its files shows it: all answers belong to one moment.

It has what the cleaner examines and reads of a log, so a cleaning can be planned beside a writer.
Index files are read once, when the snapshot is taken, and taken as they are: what opening the log
after a crash would cut off or rebuild is not. Kafka has no such reader.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.codec.metadata_files import CLEAN_SHUTDOWN_FILE
from tidelog.errors import CorruptIndex, InvariantError, KafkaStorageError
from tidelog.log.producers.producer_state import ProducerStateConfig, ProducerStateManager
from tidelog.log.producers.replay import replay_producers
from tidelog.readonly.batch_walk import batches_between
from tidelog.readonly.log_snapshot import SnapshotOutdated, answer
from tidelog.readonly.partition_files import overlapping
from tidelog.readonly.read_only_segment import place_for
from tidelog.readonly.replayed_transactions import Snapshot, newest_snapshot, replay_transactions
from tidelog.readonly.time_lookup import first_batch_timestamp, greatest_timestamp
from tidelog.records.batch import INT64_MAX
from tidelog.records.file_records import FileRecords
from tidelog.segment.filenames import (
    SWAP_SUFFIX,
    TXN_INDEX_SUFFIX,
    transaction_index_file,
)
from tidelog.segment.segment import NO_FIRST_TIMESTAMP
from tidelog.segment.txn_index import TransactionIndex, TxnIndexSearchResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Self

    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileStat
    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.readonly.log_snapshot import LogSnapshot
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_segment import ReadOnlySegment
    from tidelog.records.file_records import Piece
    from tidelog.records.sound_offsets import OffsetBounds

T = TypeVar("T")


def answer_at_once(
    open_log: Callable[[], ReadOnlyLog],
    config: LogConfig,
    clock: Clock,
    question: Callable[[SnapshotLog], T],
) -> T:
    """Return the answer of one snapshot; where that is outdated, or shows damage, of another one.

    Args:
        open_log: opens the log, anew for each snapshot.
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
            with SnapshotLog(opened, config, clock) as log:
                return question(log)

    return answer(look, lambda: directory)


class SnapshotSegment:
    """A segment of a ``SnapshotLog``; ``segment`` is None for the one that an empty log gets."""

    def __init__(
        self,
        log: SnapshotLog,
        segment: ReadOnlySegment | None,
        base_offset: int,
        *,
        end_offset: int = 0,
        size_bytes: int = 0,
        modified_ms: int = 0,
        txn_index: TransactionIndex | CorruptIndex | None = None,
    ) -> None:
        self._log: Final = log
        self._segment: Final = segment
        self._end_offset: Final = end_offset
        self._txn_index: Final = txn_index
        self.base_offset: Final = base_offset
        self.size_bytes: Final = size_bytes
        """Bytes of whole, valid batches."""
        self.modified_ms: Final = modified_ms
        """Time of modification of the .log file, in ms since the epoch."""

    @property
    def path(self) -> str:
        """The ``.log`` file's path."""
        return self._there.path

    @property
    def _there(self) -> ReadOnlySegment:
        if self._segment is None:
            raise InvariantError(f"{self._log.directory} has no segment")
        return self._segment

    def largest_timestamp(self) -> int:
        """Return the greatest timestamp in ms, the file's time of change if there is none."""
        return self._largest_timestamp

    @cached_property
    def _largest_timestamp(self) -> int:
        if self._segment is None:
            return self._log.now_ms  # when opening the log would make it
        timestamp = self._log.greatest_timestamp(self._segment)
        return timestamp if timestamp >= 0 else self.modified_ms

    def first_batch_timestamp(self) -> int:
        """Return the first batch's greatest timestamp in ms, a very late one if there is none."""
        if self._segment is None:
            return NO_FIRST_TIMESTAMP
        timestamp = first_batch_timestamp(self._log.snapshot, self._segment)
        return timestamp if timestamp >= 0 else NO_FIRST_TIMESTAMP

    def position_before(self, offset: int) -> int:
        """Return a byte where a batch starts that is at or before the one of ``offset``."""
        return self._log.position_before(self._there, offset)

    def file_records(self, start: int = 0, *, bounds: OffsetBounds | None = None) -> FileRecords:
        """Return the batches from byte ``start`` on; valid until those of another are asked for."""
        return self._log.file_records(self._there, start, self.size_bytes, bounds)

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """Return the transactions of its index that overlap offsets of [fetch, upper bound)."""
        if self._txn_index is None:
            return TxnIndexSearchResult((), is_complete=False)
        if isinstance(self._txn_index, CorruptIndex):
            raise KafkaStorageError(f"{self._txn_index}; a recovery of the log would rebuild it")
        return self._txn_index.collect_aborted(fetch_offset, upper_bound_offset)

    def read_next_offset(self) -> int:
        """Return the offset behind its last batch, or where the next segment begins."""
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
        first = sum(segment.base_offset <= start_offset for segment in self.all) - 1
        return tuple(part for part in self.all[max(first, 0) :] if part.base_offset < end_offset)


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
        self.log_end_offset: Final = log.log_end_offset
        self.high_watermark: Final = log.log_end_offset
        self._end_position: Final = log.end_position
        self._clock: Final = clock
        self.now_ms: Final = clock.now_ms()
        self._reading = ExitStack()
        self._there: Final = _without_replaced(self.snapshot)
        self._known: Final = self._newest_producers()
        self.segments: Final = SnapshotSegments(self._read_segments())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reading.close()

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    def greatest_timestamp(self, segment: ReadOnlySegment) -> int:
        """Return a segment's greatest timestamp in ms, -1 without any."""
        is_active = segment is self._there[-1]
        find = partial(greatest_timestamp, self.snapshot, segment, is_active=is_active)
        found = find(with_index=True)
        try:
            self._stat(segment)
        except SnapshotOutdated:  # the index was perhaps that of a replacement
            return find(with_index=False)
        return found

    def position_before(self, segment: ReadOnlySegment, offset: int) -> int:
        """Return a byte where a batch starts that is at or before the one of ``offset``."""
        with self.snapshot.opened(segment) as file:
            return place_for(file, segment.hints(self.snapshot.fs), offset).position

    def file_records(
        self, segment: ReadOnlySegment, start: int, end: int, bounds: OffsetBounds | None = None
    ) -> FileRecords:
        """Return the batches in bytes [start, end) of a segment, until the next call."""
        self._reading.close()
        file = self._reading.enter_context(self.snapshot.opened(segment))
        return FileRecords(file, start, end, bounds=bounds)

    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """Return the producers that opening the log would find, by id.

        They come from the newest readable snapshot of producers and the batches behind it. Raises
        InvalidTxnState and InvalidRecord for what no broker writes.
        """
        producers = ProducerStateManager(
            self.directory,
            fs=self.snapshot.fs,
            clock=self._clock,
            config=ProducerStateConfig(),
            names=(),
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
        """End (exclusive) of what is decided."""
        known = self._known or Snapshot(self.log_start_offset, [])
        found = replay_transactions(known, self.log_end_offset, self._pieces)
        return found.last_stable_offset

    @property
    def pinned_from(self) -> None:
        """None: only the owner of the log knows what a commit has still to write."""

    def _pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Yield pieces of the batches that hold offsets of [start, end)."""
        for segment in overlapping(self._there, start, end):
            with self.snapshot.opened(segment) as file:
                place = place_for(file, segment.hints(self.snapshot.fs), start)
                position, bounds = place.position, self.snapshot.bounds_of(segment, place.before)
                for piece in FileRecords(file, position, bounds=bounds).whole_pieces():
                    if found := batches_between(piece, start, end):
                        yield found
                    if int(piece.batches.last_offset[-1]) + 1 >= end:
                        break

    # What lies beside the records

    def _read_segments(self) -> tuple[SnapshotSegment, ...]:
        """Read the indexes of transactions, of the same segments whose records are held.

        Files may be replaced meanwhile; the .log file is the first of a segment to be renamed.
        """
        if not self._there:
            return (SnapshotSegment(self, None, self.log_end_offset),)
        before, names = self._stats(), self._txn_index_names()
        indexes = [self._read_txn_index(segment, names) for segment in self._there]
        if names != self._txn_index_names() or before[:-1] != self._stats()[:-1]:
            raise SnapshotOutdated(f"segments of {self.directory} were replaced")
        ends = [*(segment.base_offset for segment in self._there[1:]), self.log_end_offset]
        return tuple(
            SnapshotSegment(
                self,
                segment,
                segment.base_offset,
                end_offset=end,
                size_bytes=(
                    self._end_position if segment is self._there[-1] else segment.size_bytes
                ),
                modified_ms=stat.mtime_ms,
                txn_index=index,
            )
            for segment, end, stat, index in zip(self._there, ends, before, indexes, strict=True)
        )

    def _stats(self) -> list[FileStat]:
        return [self._stat(segment) for segment in self._there]

    def _stat(self, segment: ReadOnlySegment) -> FileStat:
        """Return size and time of a segment, which is the one whose records are held."""
        try:
            stat = self.snapshot.fs.stat(segment.path)
        except FileNotFoundError:
            raise SnapshotOutdated(f"{segment.path} was deleted or renamed") from None
        is_active = segment is self._there[-1]
        if stat.size_bytes < segment.size_bytes or (
            stat.size_bytes > segment.size_bytes and not is_active
        ):
            raise SnapshotOutdated(f"{segment.path} was replaced")
        return stat

    def _txn_index_names(self) -> frozenset[str]:
        try:
            names = self.snapshot.fs.list(self.directory)
        except FileNotFoundError:
            raise SnapshotOutdated(f"{self.directory} was deleted") from None
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
                    index.all_aborted()
                except FileNotFoundError:
                    raise SnapshotOutdated(f"{path} was deleted or renamed") from None
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
            end = max(end, _end_offset(snapshot, segment))
    return tuple(kept)


def _end_offset(snapshot: LogSnapshot, segment: ReadOnlySegment) -> int:
    """Return the offset behind the last batch of a segment."""
    end = segment.base_offset
    with snapshot.opened(segment) as file:
        position, before = place_for(file, segment.hints(snapshot.fs), INT64_MAX)
        bounds = snapshot.bounds_of(segment, before)
        for piece in FileRecords(file, position, bounds=bounds).whole_pieces():
            end = int(piece.batches.last_offset[-1]) + 1
    return end
