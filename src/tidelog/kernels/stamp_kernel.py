"""Offsets and leader epoch written into the headers of accepted batches.

The CRC does not cover these twelve bytes. Kafka: ``LogValidator`` and
``DefaultRecordBatch.setLastOffset``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernels.rows import (
    BAD_ARGUMENT,
    BASE_OFFSET,
    BATCH_COLUMNS,
    HEADER_BYTES,
    LAST_OFFSET,
    LEADER_EPOCH,
    POSITION,
)
from tidelog.kernels.runtime.intrinsics import add64, address_of, store32_be, store64_be, subtract64
from tidelog.kernels.runtime.jit import WRITABLE_BYTES, WRITABLE_TABLE, inlined, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@inlined
def _can_stamp(position: int, size: int, delta: int) -> bool:
    """Return whether a header at ``position`` is inside the data and its offset delta is valid."""
    return 0 <= position <= size - HEADER_BYTES and 0 <= delta <= 2**31 - 1


@kernel(f"int64({WRITABLE_BYTES}, {WRITABLE_TABLE}, int64, int64)")
def stamp_batches(
    data: npt.NDArray[np.uint8],
    batches: npt.NDArray[np.int64],
    base_offset: int,
    leader_epoch: int,
) -> int:
    """Assign offsets from ``base_offset`` on, and the leader epoch, to the batches in ``data``.

    ``batches`` has one column per batch, as filled by ``walk_batches``; its offsets and epochs are
    updated too. Each batch keeps its last offset delta. Returns the next offset, or BAD_ARGUMENT,
    with nothing written, if a header is outside ``data`` or a delta is negative.
    """
    if batches.shape[0] < BATCH_COLUMNS or base_offset < 0:
        return BAD_ARGUMENT
    for index in range(batches.shape[1]):
        delta = subtract64(batches[LAST_OFFSET, index], batches[BASE_OFFSET, index])
        if not _can_stamp(batches[POSITION, index], data.size, delta):
            return BAD_ARGUMENT
    first = address_of(data)
    for index in range(batches.shape[1]):
        header = first + batches[POSITION, index]
        delta = subtract64(batches[LAST_OFFSET, index], batches[BASE_OFFSET, index])
        last_offset = add64(base_offset, delta)
        store64_be(header, base_offset)
        store32_be(header + 12, leader_epoch)
        batches[BASE_OFFSET, index] = base_offset
        batches[LAST_OFFSET, index] = last_offset
        batches[LEADER_EPOCH, index] = leader_epoch
        base_offset = add64(last_offset, 1)
    return base_offset
