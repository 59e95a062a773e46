"""Columns of header names and values encoded to the bytes of each record's headers.

The columns have the layout of Arrow lists, given by offsets. Kafka: ``DefaultRecord.writeTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernels.copy_bytes import copy_piece
from tidelog.kernels.rows import BAD_ARGUMENT, HEADERS_AT, HEADERS_COUNT, RECORD_COLUMNS
from tidelog.kernels.runtime.intrinsics import address_of, number
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT32S,
    WRITABLE_BYTES,
    WRITABLE_TABLE,
    inlined,
    kernel,
)
from tidelog.kernels.varint_kernel import write_varint

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_LENGTH_BYTES: Final = 10
"""Greatest size in bytes of a header without its name and value."""


@inlined
def _is_slice(start: int, end: int, size: int) -> bool:
    """Return whether ``[start, end)`` lies within ``size`` bytes or elements."""
    return 0 <= start <= end <= size


@inlined
def _write_part(at: int, end: int, source: int, room: int, size: int) -> int:
    """Write a name or value (size -1: null) after its length; return the address after it."""
    at = write_varint(at, size)
    if size > 0:
        copy_piece(at, end - at, source, room, size)
        at += size
    return at


@kernel(
    f"int64({INT32S}, {BYTES}, {BYTES}, {INT32S}, {BYTES}, {INT32S}, {BYTES}, {WRITABLE_TABLE}, "
    f"{WRITABLE_BYTES})"
)
def encode_headers(
    lists: npt.NDArray[np.int32],
    present: npt.NDArray[np.uint8],
    names: npt.NDArray[np.uint8],
    name_offsets: npt.NDArray[np.int32],
    values: npt.NDArray[np.uint8],
    value_offsets: npt.NDArray[np.int32],
    value_valid: npt.NDArray[np.uint8],
    table: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> int:
    """Write the headers of each record into ``out``; fill HEADERS_AT and HEADERS_COUNT.

    Args:
        lists: index of each record's first header among all headers; one element more than records.
        present: 0 for a record whose list is null, which has no headers.
        names: all names, contiguous.
        name_offsets: where each name begins; one element more than headers.
        values: all values, contiguous.
        value_offsets: where each value begins; one element more than headers.
        value_valid: 0 for a header whose value is null.
        table: one column per record.
        out: ``MOST_LENGTH_BYTES`` per header plus its name and value is always enough.

    Returns the number of bytes written, or BAD_ARGUMENT if the arrays are inconsistent.
    """
    records, headers = lists.size - 1, value_valid.size
    if table.shape[0] < RECORD_COLUMNS or min(present.size, table.shape[1]) < records:
        return BAD_ARGUMENT
    if min(name_offsets.size, value_offsets.size) <= headers:
        return BAD_ARGUMENT
    names_first, values_first = address_of(names), address_of(values)
    first = at = address_of(out)
    end = first + out.size
    for record in range(records):
        begin, after = number(lists[record]), number(lists[record + 1])
        if not _is_slice(begin, after, headers):
            return BAD_ARGUMENT
        table[HEADERS_AT, record] = at - first
        table[HEADERS_COUNT, record] = after - begin if present[record] else 0
        for header in range(begin, after if present[record] else begin):
            name, name_end = number(name_offsets[header]), number(name_offsets[header + 1])
            value, value_end = number(value_offsets[header]), number(value_offsets[header + 1])
            if not (
                _is_slice(name, name_end, names.size) and _is_slice(value, value_end, values.size)
            ):
                return BAD_ARGUMENT
            if name_end - name + value_end - value > end - at - MOST_LENGTH_BYTES:
                return BAD_ARGUMENT
            at = _write_part(at, end, names_first + name, names.size - name, name_end - name)
            size = value_end - value if value_valid[header] else -1
            at = _write_part(at, end, values_first + value, values.size - value, size)
    return at - first
