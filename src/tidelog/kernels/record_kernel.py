"""Parsing of one record of magic 2 inside kernels, with every bound checked.

Functions take and return addresses and numbers, not arrays. Kafka: ``DefaultRecord``.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.kernels.rows import (
    BAD_ARGUMENT,
    BAD_COUNT,
    BAD_HEADER,
    BAD_HEADERS_COUNT,
    BAD_KEY_LENGTH,
    BAD_RECORD_END,
    BAD_RECORD_LENGTH,
    BAD_VALUE_LENGTH,
    BAD_VARINT,
    FULL,
    OK,
    SMALLEST_RECORD_BYTES,
)
from tidelog.kernels.runtime.jit import called, inlined
from tidelog.kernels.varint_kernel import read_varint, read_varlong


class RecordSpan(NamedTuple):
    """The fields of a record; ``_at`` are addresses, and a size of -1 is null."""

    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int
    headers_count: int


NO_SPAN = RecordSpan(0, 0, 0, 0, 0, 0, 0, 0)


@inlined
def area_status(start: int, end: int, size: int, count: int, free: int) -> int:
    """Return the status that prevents decoding an area into ``free`` columns, or OK."""
    if start < 0 or end < start or end > size:
        return BAD_ARGUMENT
    if count < 0:
        return BAD_COUNT
    if min(count, (end - start) // SMALLEST_RECORD_BYTES) > free:
        return FULL
    return OK


@inlined
def record_bounds(address: int, area_end: int) -> tuple[int, int, int]:
    """Return a status and the addresses of the record's first byte and of its end."""
    size, used = read_varint(address, area_end - address)
    if used == 0:
        return BAD_VARINT, 0, 0
    at = address + used
    if size < 0 or size > area_end - at:
        return BAD_RECORD_LENGTH, 0, 0
    return OK, at, at + size


@inlined
def _field(at: int, end: int, too_long: int) -> tuple[int, int, int]:
    """Return a status, the size of the key or value at ``at``, and the address of its bytes."""
    size, used = read_varint(at, end - at)
    if used == 0:
        return BAD_VARINT, 0, 0
    at += used
    if size > end - at:
        return too_long, 0, 0
    return OK, max(size, -1), at


@inlined
def read_header(at: int, end: int) -> tuple[int, int, int, int]:
    """Return address and size of a header's name and of its value; all 0 if it is malformed."""
    name_size, used = read_varint(at, end - at)
    name_at = at + used
    if used == 0 or name_size < 0 or name_size > end - name_at:
        return 0, 0, 0, 0
    at = name_at + name_size
    value_size, used = read_varint(at, end - at)
    value_at = at + used
    if used == 0 or value_size > end - value_at:
        return 0, 0, 0, 0
    return name_at, name_size, value_at, max(value_size, -1)


@called
def headers_end(at: int, end: int, count: int) -> int:
    """Return the address after ``count`` headers, or 0 if one is malformed."""
    for _ in range(count):
        name_at, _size, value_at, value_size = read_header(at, end)
        if name_at == 0:
            return 0
        at = value_at + max(value_size, 0)
    return at


@inlined
def check_headers(at: int, end: int) -> tuple[int, int, int]:
    """Check all headers; the record must end after them.

    Return a status, their number, and the address of the first.
    """
    count, used = read_varint(at, end - at)
    if used == 0:
        return BAD_VARINT, 0, 0
    at += used
    if count < 0 or count > end - at:
        return BAD_HEADERS_COUNT, 0, 0
    after = at if count == 0 else headers_end(at, end, count)
    if after == 0:
        return BAD_HEADER, 0, 0
    return OK if after == end else BAD_RECORD_END, count, at


@inlined
def read_record(at: int, end: int) -> tuple[int, RecordSpan]:
    """Return a status and the fields of the record, which must occupy ``[at, end)`` exactly."""
    at += 1  # the record's attributes are unused
    timestamp_delta, used = read_varlong(at, end - at)
    if used == 0:
        return BAD_VARINT, NO_SPAN
    at += used
    offset_delta, used = read_varint(at, end - at)
    if used == 0:
        return BAD_VARINT, NO_SPAN
    status, key_size, key_at = _field(at + used, end, BAD_KEY_LENGTH)
    if status != OK:
        return status, NO_SPAN
    status, value_size, value_at = _field(key_at + max(key_size, 0), end, BAD_VALUE_LENGTH)
    if status != OK:
        return status, NO_SPAN
    status, count, headers_at = check_headers(value_at + max(value_size, 0), end)
    return status, RecordSpan(
        timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, count
    )
