"""Fetches from a log: from an offset to a slice of a file, as far as the isolation allows.

They work on a tuple of segments and the offsets, taken once, and so need no lock. Kafka:
``LocalLog.read``, ``UnifiedLog.read`` and ``collectAbortedTransactions``.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidelog.env.attempts import Closable
from tidelog.errors import OffsetOutOfRange
from tidelog.log.reading.committed import AbortedFilter, AbortedTransaction, without_aborted
from tidelog.log.reading.offset_lookup import SearchedLog
from tidelog.log.reading.record_count import check_range, count_records
from tidelog.log.segments import segments_from
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.decoding.to_damage import ascending
from tidelog.records.file_records import FileRecords
from tidelog.records.isolation import Isolation
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.segment.txn_index import collect_aborted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tidelog.errors import CorruptMessage
    from tidelog.log.offsets import LogOffsets
    from tidelog.log.reading.record_count import RecordCount
    from tidelog.log.segments import SegmentTuple
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.file_records import FileSlice, Piece
    from tidelog.records.record import Record
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.txn_index import AbortedTxn

    OnHole = Callable[[tuple[int, int]], object]
    """Called with offsets ``[start, end)`` that no segment holds, before what follows them."""


@dataclass(frozen=True)
class FetchData(Closable):
    """What a read found; close it, or use it in a ``with``, to release the file.

    ``slice`` may begin with a batch that starts below the offset asked for, and may end inside a
    batch; None when there was nothing to read. ``first_offset`` is where the first batch begins.
    ``is_first_batch_cut``: not even the first batch is whole. ``aborted``: with READ_COMMITTED, the
    transactions to skip, possibly more than needed. ``bounds``: the offsets that its batches may
    have; those of the first one were checked. Source: Kafka FetchDataInfo.
    """

    first_offset: LogOffsetMetadata
    slice: FileSlice | None = None
    is_first_batch_cut: bool = False
    aborted: tuple[AbortedTransaction, ...] | None = None
    bounds: OffsetBounds | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes in the slice."""
        return 0 if self.slice is None else self.slice.size

    def read(self) -> bytes:
        """Return the bytes."""
        return b"" if self.slice is None else self.slice.read()

    def batches(self) -> tuple[Piece | None, CorruptMessage | None]:
        """Return the whole batches, checked, and the problem after them if one is invalid."""
        if self.slice is None:
            return None, None
        start, size = self.slice.position, self.slice.size
        records = FileRecords(self.slice.file, start, start + size, bounds=self.bounds)
        piece = next(records.pieces(size, check_crc=True), None)
        return piece, records.error

    def close(self) -> None:
        """Release the file."""
        if self.slice is not None:
            self.slice.close()


class LogView(NamedTuple):
    """One log at one moment: segments ascending, and their offsets."""

    segments: SegmentTuple
    offsets: LogOffsets

    def limit(self, isolation: Isolation) -> LogOffsetMetadata:
        """Return the end (exclusive) of what ``isolation`` shows."""
        if isolation is Isolation.LOG_END:
            return self.offsets.log_end
        if isolation is Isolation.READ_UNCOMMITTED:
            return self.offsets.high_watermark_metadata
        return self.offsets.last_stable

    def read(
        self, start_offset: int, max_bytes: int, isolation: Isolation, *, min_one_batch: bool
    ) -> FetchData:
        """Read from ``start_offset`` on; see ``Log.read``."""
        offsets = self.offsets
        segments = segments_from(self.segments, start_offset)
        if not segments or not offsets.log_start_offset <= start_offset <= offsets.log_end_offset:
            raise OffsetOutOfRange(start_offset, offsets.log_start_offset, offsets.log_end_offset)
        aborted: tuple[AbortedTransaction, ...] | None = None
        if isolation is Isolation.READ_COMMITTED:
            aborted = ()
        limit = self.limit(isolation)
        if start_offset >= limit.offset:
            place = limit if start_offset == limit.offset else LogOffsetMetadata(start_offset)
            return FetchData(place, aborted=aborted)
        limit = resolve(self, limit)
        for index, segment in enumerate(segments):
            found = segment.read(
                *(start_offset, max_bytes, _end_position(segment, limit)),
                bounds=self.bounds_at(segments, index),
                min_one_batch=min_one_batch,
            )
            if found is None:
                continue
            place, size_bytes = found.first_offset_metadata, found.slice.size
            if not size_bytes:
                found.slice.close()
                return FetchData(place, None, found.first_entry_incomplete, aborted)
            if aborted is not None:
                with _closed_on_error(found.slice):
                    upper = self._upper_bound(segments[index:], place, size_bytes)
                    aborted = self._to_skip(segment, start_offset, upper)
            is_cut = found.first_entry_incomplete
            return FetchData(place, found.slice, is_cut, aborted, found.bounds)
        return FetchData(offsets.log_end, aborted=aborted)

    def bounds_at(self, segments: Sequence[LogSegment], index: int) -> OffsetBounds:
        """Return the offsets that batches of a segment may have; ``segments`` reach to the last."""
        is_last = index + 1 == len(segments)
        end = self.offsets.log_end_offset if is_last else segments[index + 1].base_offset
        return OffsetBounds(segments[index].base_offset, end)

    @property
    def searched(self) -> SearchedLog:
        """What a lookup by time or target needs."""
        bounded = [
            (each, self.bounds_at(self.segments, at)) for at, each in enumerate(self.segments)
        ]
        return SearchedLog(bounded, self.offsets.log_start_offset, self.offsets.log_end_offset)

    def count_records(self, start_offset: int | None, end_offset: int | None) -> RecordCount:
        """Count what the offsets of a range hold; see ``Log.count_records``."""
        offsets = self.offsets
        start_offset = offsets.log_start_offset if start_offset is None else start_offset
        end_offset = offsets.high_watermark if end_offset is None else end_offset
        check_range(start_offset, end_offset, offsets.log_start_offset, offsets.log_end_offset)
        segments = segments_from(self.segments, start_offset)
        if not segments:
            segments = self.segments
        aborted = self._to_skip(segments[0], start_offset, end_offset)
        shown_by = AbortedFilter(aborted)
        pieces = (
            (piece, shown_by.is_shown(piece.batches))
            for index, segment in enumerate(segments)
            if segment.base_offset < end_offset
            for piece in segment.pieces_between(
                start_offset, end_offset, self.bounds_at(segments, index)
            )
        )
        return count_records(pieces, start_offset, end_offset)

    def _upper_bound(
        self, segments: tuple[LogSegment, ...], place: LogOffsetMetadata, size_bytes: int
    ) -> int:
        """Return an offset that is surely above all that was read from the first segment."""
        upper = segments[0].fetch_upper_bound_offset(place, size_bytes)
        if upper is not None:
            return upper
        return segments[1].base_offset if len(segments) > 1 else self.offsets.log_end_offset

    def aborted_txns(
        self, first: LogSegment, start_offset: int, upper_bound: int
    ) -> list[AbortedTxn]:
        """Return the aborted transactions of a range that ``first`` and later segments index."""
        aborting = self.segments.aborting_from(first.base_offset)
        return collect_aborted(aborting, start_offset, upper_bound)

    def _to_skip(
        self, first: LogSegment, start_offset: int, upper_bound: int
    ) -> tuple[AbortedTransaction, ...]:
        found = self.aborted_txns(first, start_offset, upper_bound)
        return tuple(AbortedTransaction(txn.producer_id, txn.first_offset) for txn in found)


@contextmanager
def _closed_on_error(held: FileSlice) -> Iterator[None]:
    """Release the slice if its reader will not get it: an index may be deleted meanwhile."""
    try:
        yield
    except BaseException:
        held.close()
        raise


def resolve(view: LogView, place: LogOffsetMetadata) -> LogOffsetMetadata:
    """Find segment and position of an offset that came without them.

    The offset stays the one asked for; the position is that of the batch that holds it, or of the
    next one when compaction removed it. (Kafka takes over that batch's base offset, which can put
    the high watermark below the log start.) Below the first segment the place stays unknown.
    """
    if not place.is_offset_only:
        return place
    log_end = view.offsets.log_end
    if place.offset >= log_end.offset:
        return log_end if place.offset == log_end.offset else place
    segments = segments_from(view.segments, place.offset)
    if not segments:
        return place
    for index, segment in enumerate(segments):
        found = segment.find(place.offset, view.bounds_at(segments, index))
        if found is not None:
            return LogOffsetMetadata(place.offset, segment.base_offset, found.batch.position)
    return LogOffsetMetadata(place.offset, log_end.segment_base_offset, log_end.position)


def iterate(
    read: Callable[[int], FetchData],
    start_offset: int,
    on_hole: OnHole = lambda _: None,
) -> Iterator[RecordColumns]:
    """Yield the records from ``start_offset`` on, in order, until ``read`` finds nothing more.

    Control batches, and the transactions that ``read`` returns as aborted, are left out. Raises
    CorruptMessage at the first bad batch, after all records before it.
    """
    offset = next_offset = start_offset
    while True:
        with read(offset) as found:
            piece, error = found.batches()
            base_offset = found.first_offset.segment_base_offset
        if offset < base_offset:
            on_hole((offset, base_offset))
        if piece is not None:
            shown = without_aborted(piece.batches_in_data, found.aborted or ())
            next_offset = yield from ascending(piece.data, shown, next_offset)
            offset = piece.batches.next_offset
        if error is not None:
            raise error
        if piece is None:
            return


def each_record(found: Iterable[RecordColumns]) -> Iterator[Record]:
    """Yield records one by one."""
    # A generator refuses a second thread. Two threads in one ``chain`` free each other's iterators
    # while they run, which ends the process.
    for columns in found:
        yield from columns.records()


def _end_position(segment: LogSegment, limit: LogOffsetMetadata) -> int | None:
    """Return the byte up to which ``segment`` may be read; None: nothing of it."""
    if segment.base_offset < limit.segment_base_offset:
        return segment.size_bytes
    return limit.position if segment.base_offset == limit.segment_base_offset else None
