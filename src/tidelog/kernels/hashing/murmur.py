"""Partitions of a column of keys, as chosen by Kafka's producers.

Kafka: ``Utils.murmur2`` and ``BuiltInPartitioner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernels.rows import BAD_ARGUMENT
from tidelog.kernels.runtime.intrinsics import address_of, load8, load32, multiply64
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT64S,
    WRITABLE_INT32S,
    inlined,
    kernel,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SEED: Final = 0x9747_B28C
FACTOR: Final = 0x5BD1_E995
MASK32: Final = 0xFFFF_FFFF


@inlined
def _multiplied(value: int) -> int:
    """Return the low 32 bits of ``value`` times the factor."""
    return multiply64(value, FACTOR) & MASK32


@inlined
def _last_bytes(address: int, size: int) -> int:
    """Return one to three bytes as a little-endian number."""
    value = load8(address)
    if size > 1:
        value |= load8(address + 1) << 8
    if size > 2:
        value |= load8(address + 2) << 16
    return value


@inlined
def murmur2(address: int, size: int) -> int:
    """Return Kafka's murmur2 of ``size`` bytes, unsigned."""
    state = SEED ^ size
    end = address + size
    while end - address >= 4:
        word = _multiplied(load32(address))
        state = _multiplied(state) ^ _multiplied(word ^ word >> 24)
        address += 4
    if address < end:
        state = _multiplied(state ^ _last_bytes(address, end - address))
    state = _multiplied(state ^ state >> 13)
    return state ^ state >> 15


@kernel(f"int64({BYTES}, {INT64S}, {INT64S}, int64, {WRITABLE_INT32S})")
def partition_keys(
    data: npt.NDArray[np.uint8],
    at: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    partitions: int,
    out: npt.NDArray[np.int32],
) -> int:
    """Write the partition of each key ``data[at:at + size]`` into ``out``, -1 for a null key.

    Among 2**31 partitions that is the hash itself.

    Returns the number of null keys (negative size), which the caller assigns to partitions, or
    BAD_ARGUMENT if a key is outside ``data`` or ``partitions`` is not a valid count. Source: Kafka
    BuiltInPartitioner.partitionForKey.
    """
    if not 1 <= partitions <= 2**31 or size.size != at.size or out.size < at.size:
        return BAD_ARGUMENT
    first = address_of(data)
    nulls = 0
    for index in range(at.size):
        length = size[index]
        if length < 0:
            out[index] = -1
            nulls += 1
            continue
        if at[index] < 0 or length > data.size - at[index]:
            return BAD_ARGUMENT
        out[index] = (murmur2(first + at[index], length) & 0x7FFF_FFFF) % partitions
    return nulls
