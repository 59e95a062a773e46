"""Record areas, the uncompressed bytes after batch headers, decoded to rows.

A kernel or its plain-Python equivalent does this; ``unpacked`` prepares areas of compressed batches
and old formats. Kafka: ``DefaultRecordBatch.uncompressedIterator``.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidRecord
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.records.batch import BATCH_HEADER, BatchFlags, wrap_int64
from tidelog.records.record import MIN_RECORD_BYTES, scan_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.record import RecordSpan

AREA_FROM_BATCH: Final = (
    rows.RECORDS_COUNT,
    rows.BASE_OFFSET,
    rows.BASE_TIMESTAMP,
    rows.MAX_TIMESTAMP,
    rows.ATTRIBUTES,
)
"""Fields that an area copies from its batch, in the order of the area's rows from the count on."""
_area_fields: Final = itemgetter(*AREA_FROM_BATCH)
_RECORD_WORK: Final = 40
assert rows.AREA_COUNT + len(AREA_FROM_BATCH) == rows.AREA_COLUMNS


def decoding_work(records: int) -> int:
    """Return the work of decoding records in plain code, about 5 us each, as for ``use_kernels``.

    A negative number, as a damaged header may state, counts as none.
    """
    return max(records, 0) * _RECORD_WORK


def areas_of(batches: BatchColumns) -> Ints:
    """Return the record areas of uncompressed v2 batches, as input of the record kernels."""
    areas = np.empty((rows.AREA_COLUMNS, len(batches)), np.int64)
    areas[rows.AREA_START] = batches.position + BATCH_HEADER.size
    areas[rows.AREA_END] = batches.end
    areas[rows.AREA_COUNT :] = batches.array[AREA_FROM_BATCH, :]
    return areas


def area_of(row: Sequence[int], unpacked_bytes: int | None = None) -> Ints:
    """Return the area of one uncompressed v2 batch, given by its 14 fields.

    Of a compressed one, whose records were unpacked into ``unpacked_bytes``, its area in these.
    """
    position = row[rows.POSITION]
    bounds = position + BATCH_HEADER.size, position + row[rows.SIZE]
    if unpacked_bytes is not None:
        bounds = 0, unpacked_bytes
    return np.array(bounds + _area_fields(row), np.int64)[:, np.newaxis]


def decode_areas(data: Bytes, areas: Ints, batch_positions: Ints) -> Ints:
    """Decode record areas; an impossible count is rejected before memory is allocated."""
    lengths = areas[rows.AREA_END] - areas[rows.AREA_START]
    counts = areas[rows.AREA_COUNT]
    impossible = (counts < 0) | (counts > lengths // MIN_RECORD_BYTES)
    if impossible.any():
        first = int(np.argmax(impossible))
        decode_areas(data, np.ascontiguousarray(areas[:, :first]), batch_positions)
        reason = f"{counts[first]} records do not fit in {lengths[first]} bytes"
        raise InvalidRecord(reason, int(batch_positions[first]))
    if not use_kernels(decoding_work(int(counts.sum()))):
        return _decode_plain(byte_view(data), areas, batch_positions)
    from tidelog.kernels.decode_kernel import decode_records  # noqa: PLC0415 - compiles when imported

    out = np.empty((rows.RECORD_COLUMNS, int(counts.sum())), np.int64)
    _, status, area, _ = decode_records(data, areas, out)
    if status < 0:
        raise InvalidRecord(rows.STATUS_TEXT[status], int(batch_positions[area]))
    return out


def decode_whole_records(data: Bytes, area: Ints) -> tuple[Ints, int, str]:
    """Decode the records of one area up to the first that is incomplete or malformed.

    Returns the rows, the bytes they take from the area's start, and the error of the next record,
    empty if there is none.
    """
    start, end, count = area[: rows.AREA_COUNT + 1, 0].tolist()
    most = min(count, (end - start) // MIN_RECORD_BYTES)
    if not use_kernels(decoding_work(most)):
        return _decode_whole_plain(byte_view(data), area[:, 0].tolist())
    from tidelog.kernels.decode_kernel import decode_records  # noqa: PLC0415 - compiles when imported

    out = np.empty((rows.RECORD_COLUMNS, most), np.int64)
    found, status, _, position = decode_records(data, area, out)
    if status == rows.OK:
        return out, end - start, ""
    return np.ascontiguousarray(out[:, :found]), position - start, rows.STATUS_TEXT[status]


def _decode_whole_plain(view: memoryview, area: list[int]) -> tuple[Ints, int, str]:
    start, end, count = area[: rows.AREA_COUNT + 1]
    found: list[tuple[int, ...]] = []
    at, reason = start, ""
    # Other bytes follow the area; an incomplete record must not be read into them.
    view = view[:end]
    while len(found) < count and at < end and not reason:
        try:
            span = scan_record(view, at, end)
            found.append(_row_of(span, 0, area))
            at = span.next_position
        except InvalidRecord as error:
            reason = error.reason
    array = np.array(found, np.int64).reshape(-1, rows.RECORD_COLUMNS).T.copy()
    return array, at - start, reason


def decode_before_damage(data: Bytes, area: Ints) -> Ints:
    """Decode the records of one area up to the first that is malformed.

    If bytes are left over after the last record, that record counts as malformed, as in Kafka.
    """
    found, _, _ = _decode_whole_plain(byte_view(data), area[:, 0].tolist())
    return found[:, : max(int(area[rows.AREA_COUNT, 0]) - 1, 0)].copy()


def _decode_plain(view: memoryview, areas: Ints, batch_positions: Ints) -> Ints:
    """Do the same as the decode kernel; raise InvalidRecord with the batch's position."""
    found: list[tuple[int, ...]] = []
    for index, area in enumerate(areas.T.tolist()):
        try:
            found.extend(_decode_area(view, index, area))
        except InvalidRecord as error:
            raise InvalidRecord(error.reason, int(batch_positions[index])) from error
    if not found:
        return np.empty((rows.RECORD_COLUMNS, 0), np.int64)
    return np.array(found, np.int64).T.copy()


def _decode_area(view: memoryview, index: int, area: list[int]) -> Iterator[tuple[int, ...]]:
    at, end, count = area[: rows.AREA_COUNT + 1]
    for _ in range(count):
        span = scan_record(view, at, end)
        yield _row_of(span, index, area)
        at = span.next_position
    if count and at != end:
        raise InvalidRecord("bytes are left over after the last record", at)


def _row_of(span: RecordSpan, index: int, area: list[int]) -> tuple[int, ...]:
    base_offset, base_timestamp, max_timestamp, attributes = area[rows.AREA_COUNT + 1 :]
    timestamp = wrap_int64(base_timestamp + span.timestamp_delta)
    return (
        wrap_int64(base_offset + span.offset_delta),
        max_timestamp if attributes & BatchFlags.LOG_APPEND_TIME else timestamp,
        *span[2:8],
        index,
    )
