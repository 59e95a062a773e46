"""Records to the columns of a table in one walk: no places in between, and only what is wanted.

Owns the walk for what is usual: plain records that are all wanted. Must not know Arrow, nor what is
wrong with other records: the caller takes them another way, and learns the reason then. Kafka has
no such reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernels.copy_bytes import copy_piece
from tidelog.kernels.record import (
    NOWHERE,
    RecordPlaces,
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
"""What fits into microseconds."""

MOST_BYTES: Final = 2**31 - 1
"""What an int32 offset can reach."""

UNUSUAL: Final = -1
"""What the kernel returns for records that it does not take."""


@inlined
def _next_record(at: int, area_end: int) -> tuple[int, RecordPlaces, int]:
    """Return a status, the parts of the record at ``at``, and the address of its end."""
    status, record, end = record_bounds(at, area_end)
    if status != OK:
        return status, NOWHERE, at
    status, places = read_record(record, end)
    return status, places, end


@inlined
def _has_room(size: int, row: int, count: int, behind: int) -> bool:
    """Say whether a column is not wanted, or takes ``count`` rows more and ``behind`` after them.

    A count may be any number, so nothing is added to it.
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
    """Put a key or value behind ``filled`` bytes; return how many they are then, or UNUSUAL."""
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
    """Say where the last key or value ends."""
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
    """Fill columns with the records of ``areas``, in order; one without room is not wanted.

    Args:
        data: the bytes that the areas lie in.
        areas: as ``decode_records`` takes them.
        start_offset: inclusive; no record's offset lies below.
        end_offset: exclusive.
        refuse_headers: a record with headers is unusual.
        offsets: of the records; one place for each of them, or empty, as the next.
        micros: timestamps in microseconds.
        key_ends: where each key begins in ``keys``, and the last ends; one more place, or empty.
        keys: bytes of the keys, side by side; may be larger, what lies behind them is not kept.
        key_valid: 1 for each key, 0 for a null one; as many places as ``key_ends``.
        value_ends: as ``key_ends``, of the values, as the next.
        values: bytes of the values.
        value_valid: 1 for each value, 0 for a null one.

    Returns the number of records, or UNUSUAL if one is malformed or otherwise not as said, or does
    not fit; columns then hold anything.
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
        has_places = has_offsets and _has_room(micros.size, row, count, 0)
        has_keys = _has_room(key_ends.size, row, count, 1)
        has_values = _has_room(value_ends.size, row, count, 1)
        if status != OK or not (has_places and has_keys and has_values):
            return UNUSUAL
        at, area_end = first + start, first + areas[AREA_END, area]
        base_offset, base_timestamp = (
            areas[AREA_BASE_OFFSET, area],
            areas[AREA_BASE_TIMESTAMP, area],
        )
        is_append_time = areas[AREA_ATTRIBUTES, area] & LOG_APPEND_TIME
        for _ in range(count):
            status, places, at = _next_record(at, area_end)
            offset = add64(base_offset, places.offset_delta)
            millis = add64(base_timestamp, places.timestamp_delta)
            millis = areas[AREA_MAX_TIMESTAMP, area] if is_append_time else millis
            is_refused = refuse_headers and places.headers_count != 0
            is_shown = start_offset <= offset < end_offset and not is_refused
            has_time = micros.size == 0 or -MOST_MILLIS <= millis <= MOST_MILLIS
            if status != OK or not (is_shown and has_time):
                return UNUSUAL
            if offsets.size != 0:
                offsets[row] = offset
            if micros.size != 0:
                micros[row] = millis * MICROS
            at_byte, size = places.key_at, places.key_size
            key_bytes = _put(key_ends, keys, key_valid, row, key_bytes, data_end, at_byte, size)
            at_byte, size = places.value_at, places.value_size
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
