"""Records extracted to the columns of a table in a single pass.

This is the fast path of a read: uncompressed records, all of them in range. Anything else,
including malformed records, is left to the caller, which decodes it in separate steps and reports
what is wrong. Kafka has no equivalent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernels.copy_bytes import copy_piece
from tidelog.kernels.record_kernel import (
    NO_SPAN,
    RecordSpan,
    area_status,
    read_record,
    record_bounds,
)
from tidelog.kernels.rows import (
    AREA_ATTRIBUTES,
    AREA_BASE_OFFSET,
    AREA_BASE_TIMESTAMP,
    AREA_COLUMNS,
    AREA_COUNT,
    AREA_END,
    AREA_MAX_TIMESTAMP,
    AREA_START,
    LOG_APPEND_TIME,
    OK,
)
from tidelog.kernels.runtime.intrinsics import add64, address_of
from tidelog.kernels.runtime.jit import (
    BYTES,
    TABLE,
    WRITABLE_BYTES,
    WRITABLE_INT32S,
    WRITABLE_INT64S,
    inlined,
    kernel,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MICROS: Final = 1000
MOST_MILLIS: Final = (2**63 - 1) // MICROS
"""Greatest timestamp, in ms, that can be expressed in microseconds as an int64."""

MOST_BYTES: Final = 2**31 - 1
"""Greatest value of an int32 offset."""

UNUSUAL: Final = -1
"""Returned for records that the kernel does not handle."""


@inlined
def _next_record(at: int, area_end: int) -> tuple[int, RecordSpan, int]:
    """Return a status, the fields of the record at ``at``, and the address of its end."""
    status, record, end = record_bounds(at, area_end)
    if status != OK:
        return status, NO_SPAN, at
    status, span = read_record(record, end)
    return status, span, end


@inlined
def _has_room(size: int, row: int, count: int, behind: int) -> bool:
    """Return whether a column is omitted, or has room for ``count`` more rows plus ``behind``.

    ``count`` may be any int64, so nothing is added to it.
    """
    return size == 0 or count <= size - row - behind


@inlined
def _put(
    ends: npt.NDArray[np.int32],
    out: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.uint8],
    row: int,
    filled: int,
    data_end: int,
    source: int,
    size: int,
) -> int:
    """Copy a key or value behind ``filled`` bytes; return the new size, or UNUSUAL."""
    if ends.size == 0:
        return 0
    length = max(size, 0)
    room = out.size - filled
    if length > room:
        return UNUSUAL
    ends[row] = filled
    valid[row] = size >= 0
    copy_piece(address_of(out) + filled, room, source, data_end - source, length)
    return filled + length


@inlined
def _close(ends: npt.NDArray[np.int32], row: int, filled: int) -> None:
    """Set the end of the last key or value."""
    if ends.size != 0:
        ends[row] = filled


@kernel(
    f"int64({BYTES}, {TABLE}, int64, int64, boolean, {WRITABLE_INT64S}, {WRITABLE_INT64S},"
    f" {WRITABLE_INT32S}, {WRITABLE_BYTES}, {WRITABLE_BYTES},"
    f" {WRITABLE_INT32S}, {WRITABLE_BYTES}, {WRITABLE_BYTES})"
)
def extract(
    data: npt.NDArray[np.uint8],
    areas: npt.NDArray[np.int64],
    start_offset: int,
    end_offset: int,
    refuse_headers: bool,  # noqa: FBT001 - numba takes arguments by position
    offsets: npt.NDArray[np.int64],
    micros: npt.NDArray[np.int64],
    key_ends: npt.NDArray[np.int32],
    keys: npt.NDArray[np.uint8],
    key_valid: npt.NDArray[np.uint8],
    value_ends: npt.NDArray[np.int32],
    values: npt.NDArray[np.uint8],
    value_valid: npt.NDArray[np.uint8],
) -> int:
    """Fill columns with the records of ``areas``, in order; an empty column is omitted.

    Args:
        data: the bytes that the areas refer to.
        areas: as for ``decode_records``.
        start_offset: least offset, inclusive; a record below it is unusual.
        end_offset: greatest offset, exclusive.
        refuse_headers: whether a record with headers is unusual.
        offsets: offset of each record; one element per record, or empty, like the next.
        micros: timestamps in microseconds.
        key_ends: where each key begins in ``keys`` and the last one ends; one element more than
            records, or empty.
        keys: the keys, contiguous; may be larger than needed, bytes after the last key are
            undefined.
        key_valid: 1 for a key, 0 for null; as many elements as ``key_ends``.
        value_ends: as ``key_ends``, for the values, like the next two.
        values: the values, contiguous.
        value_valid: 1 for a value, 0 for null.

    Returns the number of records, or UNUSUAL if a record is malformed, does not meet these
    conditions or does not fit; the columns are then undefined.
    """
    first = address_of(data)
    data_end = first + data.size
    key_bytes, value_bytes, row = 0, 0, 0
    has_flags = key_ends.size <= key_valid.size and value_ends.size <= value_valid.size
    is_small = max(keys.size, values.size) <= MOST_BYTES
    if areas.shape[0] < AREA_COLUMNS or not (has_flags and is_small):
        return UNUSUAL
    for area in range(areas.shape[1]):
        count, start = areas[AREA_COUNT, area], areas[AREA_START, area]
        status = area_status(start, areas[AREA_END, area], data.size, count, count)
        has_offsets = _has_room(offsets.size, row, count, 0)
        has_fixed = has_offsets and _has_room(micros.size, row, count, 0)
        has_keys = _has_room(key_ends.size, row, count, 1)
        has_values = _has_room(value_ends.size, row, count, 1)
        if status != OK or not (has_fixed and has_keys and has_values):
            return UNUSUAL
        at, area_end = first + start, first + areas[AREA_END, area]
        base_offset, base_timestamp = (
            areas[AREA_BASE_OFFSET, area],
            areas[AREA_BASE_TIMESTAMP, area],
        )
        is_append_time = areas[AREA_ATTRIBUTES, area] & LOG_APPEND_TIME
        for _ in range(count):
            status, span, at = _next_record(at, area_end)
            offset = add64(base_offset, span.offset_delta)
            millis = add64(base_timestamp, span.timestamp_delta)
            millis = areas[AREA_MAX_TIMESTAMP, area] if is_append_time else millis
            is_refused = refuse_headers and span.headers_count != 0
            is_shown = start_offset <= offset < end_offset and not is_refused
            has_time = micros.size == 0 or -MOST_MILLIS <= millis <= MOST_MILLIS
            if status != OK or not (is_shown and has_time):
                return UNUSUAL
            if offsets.size != 0:
                offsets[row] = offset
            if micros.size != 0:
                micros[row] = millis * MICROS
            at_byte, size = span.key_at, span.key_size
            key_bytes = _put(key_ends, keys, key_valid, row, key_bytes, data_end, at_byte, size)
            at_byte, size = span.value_at, span.value_size
            value_bytes = _put(
                value_ends, values, value_valid, row, value_bytes, data_end, at_byte, size
            )
            if min(key_bytes, value_bytes) < 0:
                return UNUSUAL
            row += 1
        if count > 0 and at != area_end:
            return UNUSUAL
    _close(key_ends, row, key_bytes)
    _close(value_ends, row, value_bytes)
    return row
