"""Arrow columns as the tables that the record kernels read: offsets, nulls and slices.

Only numbers are copied; keys, values and headers stay in Arrow's buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.arrow.schema import HEADER_TYPE, HEADERS_TYPE
from tidelog.codec.varint import write_varint
from tidelog.errors import InvalidArgument, InvalidRecord, InvalidTimestamp, InvariantError
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.records.bulk_builder import RecordSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidelog.arrow.buffers import Bytes, Ints

_UNITS_IN_MS: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}
_MAX_SECONDS: Final = (2**63 - 1) // 1000
_HEADER_PARTS: Final = [(part.name, part.type) for part in HEADER_TYPE]
NO_BYTES: Final = np.empty(0, np.uint8)


class Slices(NamedTuple):
    """Slices of a buffer; a size of -1 is null."""

    data: Bytes
    at: Ints
    size: Ints


def record_source(batch: pa.RecordBatch, now_ms: int) -> RecordSource:
    """Return the records of a table with the columns key, value, headers and timestamp.

    Args:
        batch: a missing column counts as all null; ``value`` and ``key`` may be text. Types may be
            any that ``plain`` accepts, timestamps of any unit and time zone.
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
    array = plain(array)
    kind = array.type
    if pa.types.is_null(kind):
        nothing = np.zeros(len(array), np.int64)
        return Slices(NO_BYTES, nothing, nothing - 1)
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise InvalidArgument(f"keys and values must be text or binary, not {kind}; cast them")
    ends = _offsets(array).astype(np.int64)
    sizes = np.diff(ends)
    if array.null_count:
        sizes[~_is_valid(array)] = -1
    return Slices(_data(array), ends[:-1], sizes)


def plain(array: pa.Array) -> pa.Array:
    """Return text, bytes and headers with the offsets of 32 bits that the kernels read.

    Text and bytes may be large, views, of a fixed size or in a dictionary, and headers may hold
    such types. An array of any other type is returned as it is.

    Raises:
        InvalidArgument: one array holds 2 GiB or more, or Arrow has no cast for its type.
    """
    target = plain_type(array.type)
    if target == array.type:
        return array
    if pa.types.is_dictionary(array.type):
        # Arrow takes no views out of a dictionary, and Polars' categoricals have those.
        array = pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary))
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"a column of type {array.type} does not fit: {error}") from None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which the kernels read arrays of type ``kind``; it, if they cannot."""
    types = pa.types
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if (
        types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    ):
        return pa.binary()
    if types.is_list(kind) or types.is_large_list(kind):
        element = kind.value_type
        fields = list(element) if types.is_struct(element) else []
        # A cast takes the parts by their names, and one that it does not find is null.
        if [(part.name, plain_type(part.type)) for part in fields] == _HEADER_PARTS:
            return HEADERS_TYPE
    return kind


def timestamps(array: pa.Array, now_ms: int) -> Ints:
    """Return timestamps in ms, ``now_ms`` for null; -1 still means no timestamp.

    They may have any unit and any time zone, which changes how they are shown, not the instants.

    Raises:
        InvalidArgument: the type is another one, or has no time zone.
        InvalidTimestamp: one is before 1970, or in seconds and too many for ms.
    """
    if array.null_count == len(array):
        return np.full(len(array), now_ms, np.int64)
    kind = array.type
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        raise InvalidArgument(
            f"timestamps must have a time zone, as timestamp[us, UTC], not {kind}"
        )
    values = np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)
    if array.null_count:
        # The bytes under a null are arbitrary: they must not count as a time out of range.
        values = np.where(_is_valid(array), values, 0)
    millis = _in_ms(values, kind.unit)
    if array.null_count:
        millis[~_is_valid(array)] = now_ms
    if len(millis) and int(millis.min()) < -1:
        row = int(np.argmax(millis < -1))
        raise InvalidTimestamp(f"row {row} has a timestamp before 1970: {millis[row]} ms")
    return millis


def _in_ms(values: Ints, unit: str) -> Ints:
    """Return times in ms, rounded down."""
    if unit != "s":
        return values // _UNITS_IN_MS[unit]
    is_far = (values > _MAX_SECONDS) | (values < -_MAX_SECONDS)
    if is_far.any():
        row = int(is_far.argmax())
        raise InvalidTimestamp(f"row {row} has a timestamp too far away for ms: {values[row]} s")
    return values * 1000


def _encode_headers(array: pa.Array, table: Ints) -> Bytes:
    """Write the table's headers; return the buffer with their bytes."""
    if array.null_count == len(array):
        return NO_BYTES
    array = plain(array)
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
    if _lacks_name(array.values) and _lacks_name(array.flatten()):  # not of a list that is null
        raise InvalidRecord("a header has no name")


def _lacks_name(headers: pa.StructArray) -> bool:
    return bool(headers.null_count or headers.field(0).null_count)


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
