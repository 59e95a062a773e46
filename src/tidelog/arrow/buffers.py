"""Arrow arrays gathered from positions and sizes in a byte buffer.

New memory comes from Arrow's pool, which reuses its pages; arrays allocated by NumPy would be
mapped and zeroed again for every table. A kernel copies if kernels are loaded, else NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.errors import InvalidArgument, InvariantError
from tidelog.kernels.rows import STATUS_TEXT
from tidelog.kernels.runtime.gate import use_kernels

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Ints = NDArray[np.int64]

SLACK: Final = 64
"""Extra bytes after a data buffer, so that the copying kernel can move whole words at its end."""

MAX_DATA: Final = 2**31 - 1
"""Maximum size in bytes of one array, whose offsets are int32."""


class Gathered(NamedTuple):
    """The three buffers of a binary or string array.

    ``data`` ends where the values end: Arrow writes what follows them in a buffer, up to a multiple
    of 64 bytes, to streams and files, and here that is memory that nobody has set.
    """

    validity: pa.Buffer | None
    offsets: pa.Buffer
    data: pa.Buffer
    null_count: int
    length: int

    def array(self, kind: pa.DataType) -> pa.Array:
        """Return the array of type ``kind`` over these buffers."""
        buffers = [self.validity, self.offsets, self.data]
        return pa.Array.from_buffers(kind, self.length, buffers, self.null_count)


def new_array(length: int, dtype: type[np.generic]) -> tuple[pa.Buffer, NDArray[Any]]:
    """Return an Arrow buffer for ``length`` values and a NumPy array over the same memory."""
    size = length * np.dtype(dtype).itemsize
    buffer = pa.allocate_buffer(size)
    return buffer, np.frombuffer(buffer, dtype)


def gather(data: Bytes, at: Ints, size: Ints) -> Gathered:
    """Concatenate copies of the slices ``data[at : at + size]``; a size of -1 is null.

    Raises:
        InvalidArgument: the slices exceed the maximum size of an Arrow array.
    """
    total = int(np.maximum(size, 0).sum())
    if total > MAX_DATA:
        raise InvalidArgument(f"{total} bytes exceed the limit of {MAX_DATA} of one Arrow array")
    offsets_buffer, offsets = new_array(len(at) + 1, np.int32)
    data_buffer, copied = new_array(total + SLACK, np.uint8)
    out = Slots(offsets, copied, np.empty(len(at), np.uint8))
    copy = _gather_by_kernel if use_kernels(total + 8 * len(at)) else gather_plain
    nulls = copy(data, at, size, out)
    validity = bitmap(out.valid) if nulls else None
    return Gathered(validity, offsets_buffer, data_buffer.slice(0, total), nulls, len(at))


class Slots(NamedTuple):
    """Output of ``gather``: ends, bytes, and 1 for each slice that is not null."""

    offsets: NDArray[np.int32]
    data: Bytes
    valid: Bytes


def gather_plain(data: Bytes, at: Ints, size: Ints, out: Slots) -> int:
    """Fill the slots; return the number of nulls. Reference for the kernel ``gather``."""
    lengths = np.maximum(size, 0)
    ends = np.cumsum(lengths)
    out.offsets[0] = 0
    out.offsets[1:] = ends
    np.greater_equal(size, 0, out=out.valid, casting="unsafe")
    total = int(ends[-1]) if len(ends) else 0
    # Byte i of the output is byte at[k] + (i - start of slice k) of the input.
    out.data[:total] = data[np.arange(total) + np.repeat(at - (ends - lengths), lengths)]
    return len(at) - int(np.count_nonzero(out.valid))


def _gather_by_kernel(data: Bytes, at: Ints, size: Ints, out: Slots) -> int:
    from tidelog.kernels.gather import gather as kernel  # noqa: PLC0415 - compiles when imported

    nulls = int(kernel(data, at, size, *out))
    if nulls < 0:
        raise InvariantError(f"slices: {STATUS_TEXT[nulls]}")
    return nulls


def bitmap(valid: NDArray[Any]) -> pa.Buffer:
    """Return Arrow's validity bitmap of an array that is nonzero where a value is present."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def fixed(kind: pa.DataType, values: NDArray[Any]) -> pa.Array:
    """Return an Arrow array with a copy of ``values``, which have no nulls and the right width."""
    buffer, out = new_array(len(values), values.dtype.type)
    out[:] = values
    return pa.Array.from_buffers(kind, len(values), [None, buffer], 0)
