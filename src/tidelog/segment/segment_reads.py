"""Reading one segment: lookups by offset and by timestamp, and slices of batches.

Every lookup takes a ``SegmentView`` once, which no append changes. Kafka: ``LogSegment``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tidelog.errors import CorruptMessage, InvalidArgument
from tidelog.lazy import np
from tidelog.records.batch import INT32_MAX, NO_TIMESTAMP
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.file_records import FileRecords, FileSlice
from tidelog.segment.header_scan import (
    BatchPosition,
    WalkStart,
    confirmed_position,
    find_batch,
    find_start,
    first_reaching,
    read_headers,
)
from tidelog.segment.index_entries import TimestampOffset
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.env.files import OpenFile
    from tidelog.records.array_rows import Bools, Bytes
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.file_records import Piece
    from tidelog.segment.index_entries import OffsetPosition
    from tidelog.segment.offset_index import OffsetIndex
    from tidelog.segment.time_index import TimeIndex
    from tidelog.segment.txn_index import TransactionIndex, TxnIndexSearchResult

_NEAR_BYTES: Final = 16 << 10
"""Bytes that a lookup reads first; an index entry is seldom further away than that."""


class OffsetLookup(Protocol):
    """Where to begin the search for an offset."""

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below ``offset``; (base offset, 0) if there is none."""


class TimeLookup(Protocol):
    """Where to begin the search for a timestamp."""

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or before ``timestamp``; (-1, base offset) if none."""


class SegmentView(NamedTuple):
    """A segment as one reader sees it: bytes from ``size_bytes`` on do not exist for it."""

    base_offset: int
    file: OpenFile
    size_bytes: int
    offset_index: OffsetIndex
    time_index: TimeIndex


class FoundBatch(NamedTuple):
    """A batch, in what a reader sees, and the offsets that are possible from it on."""

    view: SegmentView
    batch: BatchPosition
    bounds: OffsetBounds


class SegmentRead(NamedTuple):
    """The result of a read; the caller must close ``slice``.

    ``first_offset_metadata`` is the base offset and location of the first batch; the base offset
    may be below the requested one. ``first_entry_incomplete``: max_bytes cut the first batch.
    ``bounds``: the offsets that batches of the slice may have.
    """

    slice: FileSlice
    first_offset_metadata: LogOffsetMetadata
    first_entry_incomplete: bool
    bounds: OffsetBounds


class BadEnd(NamedTuple):
    """The end of a file's valid batches; ``next_offset`` is the one after the last of them."""

    position: int
    next_offset: int


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in ms, its offset and its leader epoch (None if it has none)."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class SegmentSearch(ABC):
    """The lookups in a segment, for its owner and for readers beside it; none needs a lock.

    ``bounds`` are the offsets that batches of the segment may have. Where a search meets a batch
    that is not sound, it raises CorruptMessage, and names file and byte.

    Source: Kafka LogSegment.
    """

    base_offset: int

    @property
    @abstractmethod
    def offset_index(self) -> OffsetLookup:
        """Where to begin the search for an offset."""

    @property
    @abstractmethod
    def time_index(self) -> TimeLookup:
        """Where to begin the search for a timestamp."""

    @abstractmethod
    def extent(self) -> tuple[OpenFile, int]:
        """Return the .log file, and the bytes of it that can be read now."""

    @abstractmethod
    def largest_so_far(self) -> TimestampOffset:
        """Return the maximum timestamp with its offset; (-1, base offset) if there is none."""

    @property
    @abstractmethod
    def modified_ms(self) -> int:
        """Time of modification of the .log file, in ms since the epoch."""

    @property
    def max_timestamp(self) -> int:
        """Maximum timestamp of the segment in ms, -1 if it has none."""
        return self.largest_so_far().timestamp

    def largest_timestamp(self) -> int:
        """Return the maximum timestamp in ms; the file's modification time if there is none."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    def file_records(
        self, start: int = 0, end: int | None = None, *, bounds: OffsetBounds | None = None
    ) -> FileRecords:
        """Return the batches in bytes ``[start, end)``, by default up to the current end.

        ``bounds``: the offsets that they may have; None: any.
        """
        file, size_bytes = self.extent()
        return FileRecords(file, start, size_bytes if end is None else end, bounds=bounds)

    def position_before(self, offset: int) -> int:
        """Return a byte where a batch starts that is at or before the one of ``offset``."""
        file, size_bytes = self.extent()
        return confirmed_position(file, self.offset_index.lookup(offset), size_bytes)

    def records_from(self, offset: int, bounds: OffsetBounds) -> FileRecords:
        """Return the batches from the one that holds ``offset``, or the next one, on.

        Those before it are among them where headers do not show them to be sound.
        """
        file, size_bytes = self.extent()
        start = WalkStart(0, bounds)
        if offset > self.base_offset:
            start = self._start(file, size_bytes, offset, bounds)
        return FileRecords(file, start.position, size_bytes, bounds=start.bounds)

    def _start(
        self, file: OpenFile, size_bytes: int, offset: int, bounds: OffsetBounds
    ) -> WalkStart:
        """Return where a walk to the batch of ``offset`` begins.

        The search begins at an index entry before that of ``offset`` itself, since it is the batch
        before that shows a base offset to be right.
        """
        entry = self.offset_index.lookup(offset - 1)
        return find_start(file, entry, size_bytes, offset, bounds)

    def pieces_between(self, start: int, end: int, bounds: OffsetBounds) -> Iterator[Piece]:
        """Yield the batches that hold offsets of ``[start, end)``, checked."""
        records = self.records_from(start, bounds)
        for piece in records.pieces(check_crc=True):
            if found := piece.between(start, end):
                yield found
            if piece.batches.next_offset >= end:
                return
        self.check_end(records)

    def find_offset_by_timestamp(
        self,
        timestamp: int,
        starting_offset: int | None = None,
        bounds: OffsetBounds | None = None,
    ) -> TimestampAndOffset | None:
        """Return the first record at or above both ``timestamp`` (ms) and ``starting_offset``.

        Control records count, since they have timestamps too. Raises CorruptMessage, InvalidRecord.
        """
        from tidelog.records.decoding.to_damage import decode_to_damage  # noqa: PLC0415 - lookups decode

        start = self.base_offset if starting_offset is None else starting_offset
        known = self.time_index.lookup(timestamp)
        for piece in self._pieces_around(max(known.offset, start), bounds):
            batches = piece.batches_in_data
            is_hopeful = batches.max_timestamp >= timestamp
            is_hopeful &= batches.last_offset >= start
            hopeful = batches.select(is_hopeful)
            for group in decode_to_damage(piece.data, hopeful, group_bytes=_NEAR_BYTES):
                found = _first_of(group, (group.timestamp >= timestamp) & (group.offset >= start))
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self, bounds: OffsetBounds | None = None) -> TimestampAndOffset | None:
        """Return the first record with the maximum timestamp of the segment, possibly -1.

        None if the first batch with it has magic 0, or if compaction has removed the record.
        Source: Kafka UnifiedLog.fetchOffsetByTimestamp for MAX_TIMESTAMP.
        """
        largest = self.largest_so_far()
        for piece in self._pieces_around(largest.offset, bounds):
            batches = piece.batches_in_data
            chosen = np.flatnonzero(batches.max_timestamp == largest.timestamp)[:1]
            if len(chosen):
                return _first_with(piece.data, batches.select(chosen), largest.timestamp)
        return None

    def _pieces_around(self, offset: int, bounds: OffsetBounds | None) -> Iterator[Piece]:
        """Yield the batches from an index entry before that of ``offset`` on; first few of them."""
        file, size_bytes = self.extent()
        nearest, start = self.offset_index.lookup(offset), 0
        if nearest.position:
            entry = self.offset_index.lookup(nearest.offset - 1)
            start = confirmed_position(file, entry, size_bytes)
        bounds = bounds or OffsetBounds(self.base_offset)
        records = FileRecords(file, start, size_bytes, bounds=bounds)
        yield from records.pieces(first_bytes=_NEAR_BYTES, check_crc=True)
        self.check_end(records)

    def check_end(self, records: FileRecords) -> None:
        """Raise the error that has ended a walk to the end of the segment, if there is one."""
        records.check_complete()


class SegmentReader(SegmentSearch):
    """What else the owner of a segment reads in it.

    Source: Kafka LogSegment.
    """

    @abstractmethod
    def view(self) -> SegmentView:
        """Return the part of the segment that can be read now."""

    def extent(self) -> tuple[OpenFile, int]:
        """Return the .log file, and the bytes of it that can be read now."""
        view = self.view()
        return view.file, view.size_bytes

    @property
    @abstractmethod
    def txn_index(self) -> TransactionIndex:
        """The index of aborted transactions."""

    def translate_offset(self, offset: int, start_position: int = 0) -> BatchPosition | None:
        """Return the first batch whose last offset is at least ``offset``; None if there is none.

        ``start_position`` is the start of a batch known to be at or before it. Raises
        CorruptMessage.
        """
        return _translate(self.view(), offset, start_position)

    def position_of_cut(self, offset: int) -> int | None:
        """Return the byte from which on no batch is needed below ``offset``; None: all are.

        A batch that straddles ``offset`` is at or after it. Damage is not needed if all offsets
        below ``offset`` lie before it; else CorruptMessage, as what lies after it may be needed.
        """
        view = self.view()
        entry = view.offset_index.lookup(offset - 1)
        start = confirmed_position(view.file, entry, view.size_bytes)
        bounds = OffsetBounds(view.base_offset)
        records = FileRecords(view.file, start, view.size_bytes, bounds=bounds)
        reached = view.base_offset
        for piece in records.pieces(_NEAR_BYTES):
            reaches = piece.batches.last_offset >= offset
            if reaches.any():
                return int(piece.batches.position[int(reaches.argmax())])
            reached = piece.batches.next_offset
        if records.error is None:
            return None
        if reached < offset:
            raise records.error
        return records.next_position

    def find(self, offset: int, bounds: OffsetBounds) -> FoundBatch | None:
        """Return the first batch whose last offset is at least ``offset``; None if there is none.

        Its CRC is not compared if the headers are in order.
        """
        view = self.view()
        start = self._start(view.file, view.size_bytes, offset, bounds)
        if start.batch is not None:
            return FoundBatch(view, start.batch, start.bounds)
        records = FileRecords(view.file, start.position, view.size_bytes, bounds=start.bounds)
        batch = first_reaching(records, offset)
        if batch is None:
            records.check_complete()
            return None
        return FoundBatch(view, batch, bounds.after(batch.base_offset - 1))

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        max_position: int | None = INT32_MAX,
        *,
        bounds: OffsetBounds | None = None,
        min_one_batch: bool = False,
    ) -> SegmentRead | None:
        """Return a slice that starts with the batch of ``start_offset``, or the next one.

        Args:
            start_offset: first offset wanted.
            max_bytes: maximum size of the slice, which may end inside a batch.
            max_position: byte of the file at which the slice must end. The slice is empty if this
                is None, or at or below the batch found.
            bounds: the offsets that batches of the segment may have; those of the first batch,
                and of the ones that the search passed, are checked.
            min_one_batch: return the first batch whole, even if it exceeds ``max_bytes``.

        Returns:
            None if all offsets of the segment are below ``start_offset``.

        Raises:
            CorruptMessage: what begins there is no batch, or its offsets are impossible.
        """
        if max_bytes < 0:
            raise InvalidArgument(f"max_bytes is {max_bytes}; it must not be negative")
        found = self.find(start_offset, bounds or OffsetBounds(self.base_offset))
        if found is None:
            return None
        view, batch = found.view, found.batch
        limit = max(max_bytes, batch.size_bytes) if min_one_batch else max_bytes
        end = 0 if max_position is None else min(max_position, view.size_bytes)
        if batch.position < end < batch.position + batch.size_bytes:
            # Limits lie between batches, so this one seems to claim bytes of the next.
            records = FileRecords(view.file, batch.position, view.size_bytes, bounds=found.bounds)
            if next(records.pieces(check_crc=True), None) is None:
                records.check_complete()
        size = min(max(end - batch.position, 0), limit)
        place = LogOffsetMetadata(batch.base_offset, view.base_offset, batch.position)
        taken = FileSlice(view.file, batch.position, size)
        return SegmentRead(taken, place, limit < batch.size_bytes, found.bounds)

    def read_next_offset(self) -> int:
        """Return the offset after the last whole batch; the base offset if there is none.

        Walks from the last index entry to the end. Raises CorruptMessage.
        """
        view = self.view()
        next_offset = view.base_offset
        for batch in read_headers(view.file, self.tail_start(), view.size_bytes):
            next_offset = batch.last_offset + 1
        return next_offset

    def tail_start(self) -> int:
        """Return a byte at or after the last index entry where a batch starts.

        Where that entry points to no batch with its offset, the first byte: a walk from there meets
        what is damaged, if it is not the index.
        """
        view = self.view()
        first = None
        with suppress(CorruptMessage):
            first = _translate(view, view.offset_index.last_offset)
        return 0 if first is None else first.position

    def bad_end(self, start: int) -> BadEnd | None:
        """Return where the valid batches from byte ``start`` on end, None if all bytes are valid.

        Their offsets are not looked at.
        """
        view = self.view()
        records = FileRecords(view.file, start, view.size_bytes)
        next_offset = view.base_offset
        for piece in records.pieces(check_crc=True):
            next_offset = piece.batches.next_offset
        return BadEnd(records.next_position, next_offset) if records.trailing_bytes else None

    def fetch_upper_bound_offset(self, place: LogOffsetMetadata, size_bytes: int) -> int | None:
        """Return an indexed offset at or after the end of a fetch; None if unknown."""
        bound = self.view().offset_index.fetch_upper_bound(place.position, size_bytes)
        return None if bound is None else bound.offset

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """Return the aborted transactions of this segment that overlap ``[fetch, upper bound)``."""
        return self.txn_index.collect_aborted(fetch_offset, upper_bound_offset)


def _translate(view: SegmentView, offset: int, start_position: int = 0) -> BatchPosition | None:
    indexed = confirmed_position(view.file, view.offset_index.lookup(offset), view.size_bytes)
    start = max(indexed, start_position)
    return find_batch(view.file, start, view.size_bytes, offset)


def first_batch_timestamp(view: SegmentView) -> int:
    """Return the maximum timestamp of the first batch in ms, -1 if there is none.

    CorruptMessage if the first batch is invalid.
    """
    for piece in FileRecords(view.file, 0, view.size_bytes).whole_pieces(_NEAR_BYTES):
        return int(piece.batches.max_timestamp[0])
    return NO_TIMESTAMP


def largest_timestamp_after(view: SegmentView, position: int) -> TimestampOffset:
    """Return the maximum timestamp of the batches from ``position``, with its last offset.

    The first of equal timestamps counts; (-1, -1) if there is none. CorruptMessage if a batch is
    invalid: one after it could be later. Source: Kafka FileRecords.
    """
    return largest_timestamp_in(FileRecords(view.file, position, view.size_bytes).whole_pieces())


def largest_timestamp_in(pieces: Iterable[Piece]) -> TimestampOffset:
    """Return the maximum timestamp of batches, with the last offset of the first that has it."""
    largest = TimestampOffset(NO_TIMESTAMP, NO_TIMESTAMP)
    for piece in pieces:
        at = int(piece.batches.max_timestamp.argmax())
        timestamp = int(piece.batches.max_timestamp[at])
        if timestamp > largest.timestamp:
            largest = TimestampOffset(timestamp, int(piece.batches.last_offset[at]))
    return largest


def _first_with(data: Bytes, batch: BatchColumns, timestamp: int) -> TimestampAndOffset | None:
    """Return the first record of one batch with exactly this timestamp; None for magic 0."""
    from tidelog.records.decoding.to_damage import decode_to_damage  # noqa: PLC0415 - lookups decode

    if batch.magic[0] == 0:
        return None
    found = (
        _first_of(group, group.timestamp == timestamp) for group in decode_to_damage(data, batch)
    )
    return next(filter(None, found), None)


def _first_of(group: RecordColumns, fits: Bools) -> TimestampAndOffset | None:
    if not fits.any():
        return None
    at = int(np.argmax(fits))
    epoch = int(group.batches.leader_epoch[group.batch[at]])
    return TimestampAndOffset(
        int(group.timestamp[at]), int(group.offset[at]), None if epoch < 0 else epoch
    )
