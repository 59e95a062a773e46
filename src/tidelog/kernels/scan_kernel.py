"""Batch headers found in a buffer or a file, checked, and laid out as columns.

Batches of magic 0 and 1 are left to plain code. Kafka: ``ByteBufferLogInputStream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernels.hashing.crc import crc_between
from tidelog.kernels.rows import (
    ANY_OFFSET,
    ATTRIBUTES,
    BAD_ARGUMENT,
    BAD_CRC,
    BAD_LENGTH,
    BAD_MAGIC,
    BAD_OFFSETS,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_COLUMNS,
    CONTROL_BIT,
    CRC,
    CRC_FROM,
    FULL,
    HEADER_BYTES,
    LAST_OFFSET,
    LEADER_EPOCH,
    LEGACY,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP,
    OK,
    POSITION,
    PREFIX_BYTES,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS_COUNT,
    SIZE,
    SMALLEST_LENGTH,
)
from tidelog.kernels.runtime.intrinsics import (
    add64,
    address_of,
    call_pread,
    copy_exact,
    load8,
    load16_be,
    load32_be,
    load64_be,
)
from tidelog.kernels.runtime.jit import (
    BYTES,
    WRITABLE_BYTES,
    WRITABLE_TABLE,
    called,
    inlined,
    kernel,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


BEHIND_BYTES: Final = 64 << 10
"""Bytes read past the end of a range, for the batch that begins in it and ends after it."""


@inlined
def _whole_batch(address: int, room: int) -> tuple[int, int]:
    """Return the size of the batch at ``address`` and a status; 0 and OK if it is cut short."""
    if room < LOG_OVERHEAD:
        return 0, OK
    length = load32_be(address + 8)
    if length < SMALLEST_LENGTH:
        return 0, BAD_LENGTH
    if room < PREFIX_BYTES:
        return 0, OK
    magic = load8(address + 16)
    if magic > 2:
        return 0, BAD_MAGIC
    if room < LOG_OVERHEAD + length:
        return 0, OK
    if magic < 2:
        return 0, LEGACY
    if length < HEADER_BYTES - LOG_OVERHEAD:
        return 0, BAD_LENGTH
    return LOG_OVERHEAD + length, OK


@inlined
def _stored_crc(address: int) -> int:
    """Return the CRC in a batch's header, unsigned."""
    return load32_be(address + 17) & 0xFFFF_FFFF


@called
def _walk(
    first: int,
    start: int,
    end: int,
    shift: int,
    check_crc: bool,  # noqa: FBT001 - numba takes arguments by position
    lowest: int,
    end_offset: int,
    out: npt.NDArray[np.int64],
    count: int,
) -> tuple[int, int, int]:
    """Fill the columns of ``out`` from ``count`` on, as ``walk_batches`` does.

    The bytes begin at address ``first``; ``shift`` is added to the positions in ``out``. Returns
    the total number of columns filled, the position in the bytes, and the status.
    """
    at = start
    while True:
        address = first + at
        size, status = _whole_batch(address, end - at)
        if size == 0:
            return count, at, status
        if count == out.shape[1]:
            return count, at, FULL
        crc = _stored_crc(address)
        if check_crc and crc != crc_between(address + CRC_FROM, address + size):
            return count, at, BAD_CRC
        base_offset = load64_be(address)
        last_offset = add64(base_offset, load32_be(address + 23))
        if lowest != ANY_OFFSET:
            if base_offset < lowest or last_offset < base_offset or last_offset >= end_offset:
                return count, at, BAD_OFFSETS
            lowest = last_offset + 1
        out[POSITION, count] = at + shift
        out[SIZE, count] = size
        out[BASE_OFFSET, count] = base_offset
        out[LAST_OFFSET, count] = last_offset
        out[LEADER_EPOCH, count] = load32_be(address + 12)
        out[MAGIC, count] = 2
        out[ATTRIBUTES, count] = load16_be(address + 21)
        out[BASE_TIMESTAMP, count] = load64_be(address + 27)
        out[MAX_TIMESTAMP, count] = load64_be(address + 35)
        out[PRODUCER_ID, count] = load64_be(address + 43)
        out[PRODUCER_EPOCH, count] = load16_be(address + 51)
        out[BASE_SEQUENCE, count] = load32_be(address + 53)
        out[RECORDS_COUNT, count] = load32_be(address + 57)
        out[CRC, count] = crc
        count += 1
        at += size


@kernel(f"UniTuple(int64, 3)({BYTES}, int64, int64, boolean, int64, int64, {WRITABLE_TABLE})")
def walk_batches(
    data: npt.NDArray[np.uint8],
    start: int,
    end: int,
    check_crc: bool,  # noqa: FBT001 - numba takes arguments by position
    lowest: int,
    end_offset: int,
    out: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fill one column of ``out`` for each whole batch in ``data[start:end]``.

    Offsets must lie in ``[lowest, end_offset)`` and rise from batch to batch, unless ``lowest`` is
    ``ANY_OFFSET``: no CRC covers the base offset.

    Returns the number of batches, the position after the last of them, and why the walk stopped: OK
    (too few bytes left for a whole batch), FULL, LEGACY, or the error of the next batch. ``start``
    must be the first byte of a batch. Source: Kafka ByteBufferLogInputStream.
    """
    if start < 0 or end < start or end > data.size or out.shape[0] < BATCH_COLUMNS:
        return 0, start, BAD_ARGUMENT
    return _walk(address_of(data), start, end, 0, check_crc, lowest, end_offset, out, 0)


@kernel(
    f"UniTuple(int64, 3)(int64, int64, int64, int64, int64, int64, int64, {WRITABLE_BYTES},"
    f" {WRITABLE_BYTES}, {WRITABLE_TABLE})"
)
def walk_file(
    pread: int,
    descriptor: int,
    start: int,
    stop: int,
    end: int,
    lowest: int,
    end_offset: int,
    buffer: npt.NDArray[np.uint8],
    controls: npt.NDArray[np.uint8],
    out: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fill one column of ``out`` for each batch that begins in bytes ``[start, stop)`` of a file.

    The kernel reads the file itself, without the interpreter lock, and checks every CRC.

    Args:
        pread: the address of C's ``pread``.
        descriptor: the file's descriptor, which must stay open during the call.
        start: the first byte of a batch.
        stop: batches that begin here or later are not wanted.
        end: byte after the last one that may be read.
        lowest: as for ``walk_batches``.
        end_offset: as for ``walk_batches``.
        buffer: scratch space to read into.
        controls: filled with the bytes of the control batches, contiguously.
        out: filled with positions in the file.

    Returns the number of batches, the position in the file after the last of them, and the number
    of bytes used of ``controls``. The walk stops at anything that is not a valid batch of magic 2
    that fits in the buffer, on a read error, and when ``out`` or ``controls`` is full. The caller
    continues in plain code, which reports the reason.
    """
    position, count, used = start, 0, 0
    if start < 0 or stop > end or buffer.size == 0 or out.shape[0] < BATCH_COLUMNS:
        return 0, start, 0
    first = address_of(buffer)
    while position < stop:
        wanted = min(buffer.size, end - position, stop - position + BEHIND_BYTES)
        filled = call_pread(pread, descriptor, first, wanted, position)
        known = count
        count, walked, status = _walk(
            first, 0, filled, position, True, lowest, end_offset, out, known
        )
        while count > known and out[POSITION, count - 1] >= stop:
            count -= 1
            walked = out[POSITION, count] - position
        if count > known and lowest != ANY_OFFSET:
            lowest = out[LAST_OFFSET, count - 1] + 1
        for index in range(known, count):
            if out[ATTRIBUTES, index] & CONTROL_BIT == 0:
                continue
            size = out[SIZE, index]
            at = out[POSITION, index]
            if used + size > controls.size:
                return index, at, used
            copy_exact(address_of(controls) + used, first + at - position, size)
            used += size
        position += walked
        if walked == 0 or status != OK:
            break
    return count, position, used
