"""One record of magic 2 inside kernels.

Owns the order of a record's fields and every bound on them. Must not know arrays or batches:
addresses and numbers go in and out. Kafka: ``DefaultRecord``.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.kernels.columns import (
    BAD_HEADER,
    BAD_HEADERS_COUNT,
    BAD_KEY_LENGTH,
    BAD_RECORD_END,
    BAD_RECORD_LENGTH,
    BAD_VALUE_LENGTH,
    BAD_VARINT,
    OK,
)
from tidelog.kernels.jit import inlined, kernel
from tidelog.kernels.varint import read_varint, read_varlong


class RecordPlaces(NamedTuple):
    """Where the parts of a record lie, as addresses; sizes are -1 for null."""

    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int
    headers_count: int


NOWHERE = RecordPlaces(0, 0, 0, 0, 0, 0, 0, 0)


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
def _header_end(at: int, end: int) -> int:
    """Return the address after the header at ``at``, 0 if it is malformed."""
    key_size, used = read_varint(at, end - at)
    at += used
    if used == 0 or key_size < 0 or key_size > end - at:
        return 0
    at += key_size
    value_size, used = read_varint(at, end - at)
    at += used
    if used == 0 or value_size > end - at:
        return 0
    return at + max(value_size, 0)


@kernel(None)
def headers_end(at: int, end: int, count: int) -> int:
    """Return the address after ``count`` headers, 0 if one is malformed."""
    for _ in range(count):
        at = _header_end(at, end)
        if at == 0:
            break
    return at


@inlined
def _headers(at: int, end: int) -> tuple[int, int, int]:
    """Return a status, the number of headers, and the address of the first; checks them all."""
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
def read_record(at: int, end: int) -> tuple[int, RecordPlaces]:
    """Return a status and the parts of the record in ``[at, end)``, which must fill it exactly."""
    at += 1  # its attributes, which nobody reads
    timestamp_delta, used = read_varlong(at, end - at)
    if used == 0:
        return BAD_VARINT, NOWHERE
    at += used
    offset_delta, used = read_varint(at, end - at)
    if used == 0:
        return BAD_VARINT, NOWHERE
    status, key_size, key_at = _field(at + used, end, BAD_KEY_LENGTH)
    if status != OK:
        return status, NOWHERE
    status, value_size, value_at = _field(key_at + max(key_size, 0), end, BAD_VALUE_LENGTH)
    if status != OK:
        return status, NOWHERE
    status, count, headers_at = _headers(value_at + max(value_size, 0), end)
    return status, RecordPlaces(
        timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, count
    )
