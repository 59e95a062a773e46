"""Arrow columns as the tables that the record kernels read: offsets, nulls and slices.

Only numbers are copied; keys, values and headers stay in Arrow's buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.arrow.schema import HEADER_TYPE, TIMESTAMP_TYPE
from tidelog.codec.varint import write_varint
from tidelog.errors import InvalidArgument, InvalidRecord, InvalidTimestamp, InvariantError
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.records.bulk_builder import RecordSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidelog.arrow.buffers import Bytes, Ints

_MICROS: Final = 1000
NO_BYTES: Final = np.empty(0, np.uint8)


class Slices(NamedTuple):
    """Slices of a buffer; a size of -1 is null."""

    data: Bytes
    at: Ints
    size: Ints


def record_source(batch: pa.RecordBatch, now_ms: int) -> RecordSource:
    """Return the records of a table with the columns key, value, headers and timestamp.

    Args:
        batch: a missing column counts as all null; ``value`` and ``key`` may be text.
        now_ms: the timestamp of records without one.

    Raises:
        InvalidArgument: a column's type is not valid for records.
        InvalidRecord: a header has no name.
        InvalidTimestamp: a timestamp is before 1970.
    """
    keys = slices(column(batch, "key"))
    values = slices(column(batch, "value"))
    table = np.zeros((rows.RECORD_COLUMNS, batch.num_rows), np.int64)
    table[rows.TIMESTAMP] = timestamps(column(batch, "timestamp"), now_ms)
    table[rows.KEY_AT], table[rows.KEY_SIZE] = keys.at, keys.size
    table[rows.VALUE_AT], table[rows.VALUE_SIZE] = values.at, values.size
    headers = _encode_headers(column(batch, "headers"), table)
    return RecordSource(table, keys.data, values.data, headers)


def column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column; all nulls if the table does not have it."""
    index = batch.schema.get_field_index(name)
    return pa.nulls(batch.num_rows) if index < 0 else batch.column(index)


def slices(array: pa.Array) -> Slices:
    """Return the slice of each value of a binary or text array; else raise InvalidArgument."""
    kind = array.type
    if pa.types.is_null(kind):
        nothing = np.zeros(len(array), np.int64)
        return Slices(NO_BYTES, nothing, nothing - 1)
    if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        array = array.cast(pa.binary())
    elif not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise InvalidArgument(f"keys and values must be text or binary, not {kind}; cast them")
    ends = _offsets(array).astype(np.int64)
    sizes = np.diff(ends)
    if array.null_count:
        sizes[~_is_valid(array)] = -1
    return Slices(_data(array), ends[:-1], sizes)


def timestamps(array: pa.Array, now_ms: int) -> Ints:
    """Return timestamps in ms, ``now_ms`` for null; -1 still means no timestamp."""
    if array.null_count == len(array):
        return np.full(len(array), now_ms, np.int64)
    if array.type != TIMESTAMP_TYPE:
        raise InvalidArgument(f"timestamps must be {TIMESTAMP_TYPE}, not {array.type}")
    buffer = array.buffers()[1]
    micros = np.frombuffer(buffer, np.int64, len(array), array.offset * 8)
    millis = micros // _MICROS
    if array.null_count:
        millis[~_is_valid(array)] = now_ms
    if len(millis) and int(millis.min()) < -1:
        row = int(np.argmax(millis < -1))
        raise InvalidTimestamp(f"row {row} has a timestamp before 1970: {millis[row]} ms")
    return millis


def _encode_headers(array: pa.Array, table: Ints) -> Bytes:
    """Write the table's headers; return the buffer with their bytes."""
    if array.null_count == len(array):
        return NO_BYTES
    _check_headers(array)
    if not use_kernels(array.nbytes):
        return encode_headers_plain(array, table)
    from tidelog.kernels.record_headers import (  # noqa: PLC0415 - compiles when imported
        MOST_LENGTH_BYTES,
        encode_headers,
    )

    names, values = array.values.field(0), array.values.field(1)
    name_data, value_data = _data(names), _data(values)
    room = name_data.size + value_data.size + MOST_LENGTH_BYTES * len(names)
    out = np.empty(room, np.uint8)
    used = encode_headers(
        _offsets(array),
        _is_valid(array).view(np.uint8),
        name_data,
        _offsets(names),
        value_data,
        _offsets(values),
        _is_valid(values).view(np.uint8),
        table,
        out,
    )
    if used < 0:
        raise InvariantError(f"headers did not fit: {rows.STATUS_TEXT[used]}")
    return out[:used]


def encode_headers_plain(lists: pa.Array, table: Ints) -> Bytes:
    """Encode headers one at a time; reference for ``kernels.record_headers.encode_headers``."""
    out = bytearray()
    for record, pairs in enumerate(lists.to_pylist()):
        table[rows.HEADERS_AT, record] = len(out)
        table[rows.HEADERS_COUNT, record] = len(pairs or ())
        for name, value in (pair.values() for pair in pairs or ()):
            for part in (name.encode(), value):
                write_varint(out, -1 if part is None else len(part))
                out += part or b""
    return np.frombuffer(bytes(out), np.uint8)


def _check_headers(array: pa.Array) -> None:
    kind = array.type
    is_list = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)
    parts = [part.type for part in kind.value_type.fields] if is_list else []
    if parts != [part.type for part in HEADER_TYPE.fields]:
        raise InvalidArgument(f"headers must be list<{HEADER_TYPE}>, not {kind}")
    if array.values.null_count or array.values.field(0).null_count:
        raise InvalidRecord("a header has no name")


def _offsets(array: pa.Array) -> NDArray[np.int32]:
    """Return a copy of the offsets at which the values start, and the last one ends."""
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * 4).copy()


def _data(array: pa.Array) -> Bytes:
    buffer = array.buffers()[2]
    return NO_BYTES if buffer is None or not buffer.size else np.frombuffer(buffer, np.uint8)


def _is_valid(array: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
