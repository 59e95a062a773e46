"""Slices of a buffer copied into one contiguous buffer with offsets, as Arrow requires.

Used for keys, values, and the names and values of headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernels.copy_bytes import copy_piece
from tidelog.kernels.record_kernel import read_header
from tidelog.kernels.rows import (
    BAD_ARGUMENT,
    BAD_HEADER,
    BAD_LENGTH,
    HEADER_COLUMNS,
    HEADER_NAME_AT,
    HEADER_NAME_SIZE,
    HEADER_VALUE_AT,
    HEADER_VALUE_SIZE,
)
from tidelog.kernels.runtime.intrinsics import address_of
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT64S,
    WRITABLE_BYTES,
    WRITABLE_INT32S,
    WRITABLE_TABLE,
    inlined,
    kernel,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_BYTES: Final = 2**31 - 1
"""Greatest value of an int32 offset."""


@inlined
def _piece_status(at: int, length: int, data_size: int, filled: int, out_size: int) -> int:
    """Return the status that prevents a slice from being copied, or 0."""
    if at < 0 or length > data_size - at:
        return BAD_ARGUMENT
    if length > MOST_BYTES - filled:
        return BAD_LENGTH
    return BAD_ARGUMENT if length > out_size - filled else 0


@kernel(
    f"int64({BYTES}, {INT64S}, {INT64S}, {WRITABLE_INT32S}, {WRITABLE_BYTES}, {WRITABLE_BYTES})"
)
def gather(
    data: npt.NDArray[np.uint8],
    at: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int32],
    out: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.uint8],
) -> int:
    """Copy the slices ``data[at:at + size]`` into ``out``, contiguously.

    ``offsets``, one element longer than the slices, is filled with where each begins and the last
    ends. ``valid`` is filled with 1 for each slice, 0 for a null one (negative size). ``out`` may
    be larger than the slices; bytes after them are undefined. Returns the number of nulls;
    BAD_LENGTH if the slices total more than 2**31 - 1 bytes; BAD_ARGUMENT if a slice is outside
    ``data`` or ``out`` is too small.
    """
    count = at.size
    if size.size != count or offsets.size <= count or valid.size < count:
        return BAD_ARGUMENT
    source, target = address_of(data), address_of(out)
    nulls = 0
    filled = 0
    for index in range(count):
        offsets[index] = filled
        length = size[index]
        if length < 0:
            valid[index] = 0
            nulls += 1
            continue
        start = at[index]
        status = _piece_status(start, length, data.size, filled, out.size)
        if status < 0:
            return status
        copy_piece(target + filled, out.size - filled, source + start, data.size - start, length)
        valid[index] = 1
        filled += length
    offsets[count] = filled
    return nulls


@kernel(f"int64({BYTES}, {INT64S}, {INT64S}, {WRITABLE_INT32S}, {WRITABLE_TABLE})")
def header_positions(
    data: npt.NDArray[np.uint8],
    headers_at: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int32],
    out: npt.NDArray[np.int64],
) -> int:
    """Fill one column of ``out`` for each header of each record, ``HEADER_NAME_AT`` and so on.

    ``offsets``, one element longer than the records, is filled with the index of each record's
    first header. Returns the number of headers; BAD_HEADER if one is malformed; BAD_ARGUMENT if the
    arrays are inconsistent (``out`` needs one column per header).
    """
    records = headers_at.size
    if counts.size != records or offsets.size <= records or out.shape[0] < HEADER_COLUMNS:
        return BAD_ARGUMENT
    first = address_of(data)
    end = first + data.size
    column = 0
    for record in range(records):
        offsets[record] = column
        count = counts[record]
        if headers_at[record] < 0 or count < 0 or count > out.shape[1] - column:
            return BAD_ARGUMENT
        at = first + headers_at[record]
        for _ in range(count):
            name_at, name_size, value_at, value_size = read_header(at, end)
            if name_at == 0:
                return BAD_HEADER
            out[HEADER_NAME_AT, column] = name_at - first
            out[HEADER_NAME_SIZE, column] = name_size
            out[HEADER_VALUE_AT, column] = value_at - first
            out[HEADER_VALUE_SIZE, column] = value_size
            at = value_at + max(value_size, 0)
            column += 1
    offsets[records] = column
    return column
