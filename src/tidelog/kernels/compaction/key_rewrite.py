"""Batches rewritten without the records that compaction removes.

The verdicts on records and the actions for batches are inputs. Kafka: ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernels.batch_headers import header_fields, write_header
from tidelog.kernels.compaction.key_rows import (
    AREA,
    COPIED,
    DROPPED,
    EMPTIED,
    END,
    KEY_COLUMNS,
    MARK_EMPTIED,
    OFFSET,
    REST_AT,
    RETAIN_EMPTY,
    REWRITTEN,
    STAYS,
    TIMESTAMP,
    UNMAPPED,
    VALUE_SIZE,
    VERDICT,
)
from tidelog.kernels.compaction.key_walk import DELETE_HORIZON
from tidelog.kernels.copy_bytes import copy_piece
from tidelog.kernels.rows import (
    ATTRIBUTES,
    BAD_ARGUMENT,
    BAD_TIMESTAMP,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH_COLUMNS,
    CRC,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP,
    OK,
    POSITION,
    RECORDS_COUNT,
    SIZE,
)
from tidelog.kernels.runtime.intrinsics import (
    address_of,
    copy_exact,
    store8,
    subtract64,
)
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT64S,
    TABLE,
    WRITABLE_BYTES,
    WRITABLE_INT64S,
    WRITABLE_TABLE,
    called,
    inlined,
    kernel,
)
from tidelog.kernels.varint_kernel import varint_bytes, write_varint

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

KEPT_FLAGS: Final = 0x3F
"""Attribute bits that a rewritten batch keeps: all except the delete horizon's."""
EMPTY_FLAGS: Final = 0x38
"""The same without the codec, for an empty batch."""


@called
def _survivors(rows: npt.NDArray[np.int64], start: int, end: int) -> tuple[int, int, int, int]:
    """Return the retained records' number, 1 for a tombstone, first row and greatest timestamp."""
    kept, tombstones, first, greatest = 0, 0, start, -1
    for row in range(start, end):
        if rows[VERDICT, row] == STAYS:
            if kept == 0:
                first = row
            kept += 1
            tombstones |= rows[VALUE_SIZE, row] < 0
            greatest = max(greatest, rows[TIMESTAMP, row])
    return kept, tombstones, first, greatest


@called
def _write_records(
    source: int,
    size: int,
    rows: npt.NDArray[np.int64],
    start: int,
    end: int,
    base_offset: int,
    base_timestamp: int,
    at: int,
    limit: int,
) -> int:
    """Write the retained records of ``rows[start:end]``; return the address after, or a status."""
    for row in range(start, end):
        if rows[VERDICT, row] != STAYS:
            continue
        timestamp = rows[TIMESTAMP, row]
        rest_at, rest_end = rows[REST_AT, row], rows[END, row]
        if timestamp < -1:
            return BAD_TIMESTAMP
        if not 0 <= rest_at <= rest_end <= size:
            return BAD_ARGUMENT
        rest = rest_end - rest_at
        time_delta = subtract64(timestamp, base_timestamp)
        delta = subtract64(rows[OFFSET, row], base_offset)
        body = 1 + varint_bytes(time_delta) + varint_bytes(delta) + rest
        if varint_bytes(body) + body > limit - at:
            return BAD_ARGUMENT
        at = write_varint(at, body)
        store8(at, 0)
        at = write_varint(at + 1, time_delta)
        at = write_varint(at, delta)
        copy_piece(at, limit - at, source + rest_at, size - rest_at, rest)
        at += rest
    return at


@called
def _close(
    address: int,
    batches: npt.NDArray[np.int64],
    index: int,
    written: npt.NDArray[np.int64],
    column: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
) -> None:
    """Write a changed header in front of records; POSITION and SIZE are already in ``written``."""
    for field in range(BASE_OFFSET, BATCH_COLUMNS):
        written[field, column] = batches[field, index]
    written[ATTRIBUTES, column] = attributes
    written[BASE_TIMESTAMP, column] = base_timestamp
    written[MAX_TIMESTAMP, column] = max_timestamp
    written[RECORDS_COUNT, column] = count
    written[CRC, column] = write_header(address, header_fields(written, column))


@called
def _result_of(
    action: int,
    kept: int,
    count: int,
    needs_horizon: bool,  # noqa: FBT001 - kernels pass arguments by position
) -> int:
    """Return the result for a batch of which ``kept`` out of ``count`` records are retained."""
    if kept == 0:
        return EMPTIED if action & RETAIN_EMPTY else DROPPED
    return REWRITTEN if needs_horizon or kept < count else COPIED


@inlined
def _can_rewrite(
    batches: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    count: int,
    tables: npt.NDArray[np.int64],
    results: npt.NDArray[np.int64],
) -> bool:
    """Return whether the arrays have the sizes that ``rewrite_batches`` requires."""
    total = batches.shape[1]
    if min(batches.shape[0], tables.shape[0]) < BATCH_COLUMNS or rows.shape[0] < KEY_COLUMNS:
        return False
    has_room = min(actions.size, tables.shape[1], results.size) >= total
    return bool(has_room and 0 <= count <= rows.shape[1])


@called
def _copy_batch(
    source: int,
    room: int,
    batches: npt.NDArray[np.int64],
    index: int,
    copy: bool,  # noqa: FBT001 - kernels pass arguments by position
    at: int,
    limit: int,
    written: npt.NDArray[np.int64],
    column: int,
    target: int,
) -> tuple[int, int]:
    """Copy a whole batch, or only its header fields; return a status and the bytes written."""
    for field in range(BATCH_COLUMNS):
        written[field, column] = batches[field, index]
    if not copy:
        written[POSITION, column] = -1
        return OK, 0
    position, size = batches[POSITION, index], batches[SIZE, index]
    if not 0 <= position <= room - size or not HEADER_BYTES <= size <= limit - at:
        return BAD_ARGUMENT, 0
    written[POSITION, column] = target
    copy_exact(at, source + position, size)
    return OK, size


@called
def _empty_batch(
    batches: npt.NDArray[np.int64],
    index: int,
    at: int,
    limit: int,
    written: npt.NDArray[np.int64],
    column: int,
    target: int,
) -> tuple[int, int]:
    """Write a batch's header without records; return a status and the bytes written."""
    if limit - at < HEADER_BYTES:
        return BAD_ARGUMENT, 0
    written[POSITION, column], written[SIZE, column] = target, HEADER_BYTES
    flags, greatest = batches[ATTRIBUTES, index] & EMPTY_FLAGS, batches[MAX_TIMESTAMP, index]
    _close(at, batches, index, written, column, flags, -1, greatest, 0)
    return OK, HEADER_BYTES


@called
def _write_batch(
    source: int,
    room: int,
    batches: npt.NDArray[np.int64],
    index: int,
    rows: npt.NDArray[np.int64],
    start: int,
    end: int,
    new_horizon_ms: int,
    at: int,
    limit: int,
    written: npt.NDArray[np.int64],
    column: int,
    target: int,
) -> tuple[int, int]:
    """Write a batch with its retained records; return a status and the bytes written.

    ``new_horizon_ms`` is the delete horizon to set, or -1 to leave it unchanged.
    """
    if limit - at < HEADER_BYTES:
        return BAD_ARGUMENT, 0
    attributes = batches[ATTRIBUTES, index] & (KEPT_FLAGS | DELETE_HORIZON)
    kept, _, first, greatest = _survivors(rows, start, end)
    base_timestamp = rows[TIMESTAMP, first]
    if new_horizon_ms >= 0:
        attributes |= DELETE_HORIZON
        base_timestamp = new_horizon_ms
    elif attributes & DELETE_HORIZON:
        base_timestamp = batches[BASE_TIMESTAMP, index]
    if attributes & LOG_APPEND_TIME:
        greatest = batches[MAX_TIMESTAMP, index]
    base_offset, body = batches[BASE_OFFSET, index], at + HEADER_BYTES
    after = _write_records(source, room, rows, start, end, base_offset, base_timestamp, body, limit)
    if after < 0:
        return after, 0
    written[POSITION, column], written[SIZE, column] = target, after - at
    _close(at, batches, index, written, column, attributes, base_timestamp, greatest, kept)
    return OK, after - at


@kernel(
    f"UniTuple(int64, 3)({BYTES}, {TABLE}, {INT64S}, {TABLE}, int64, int64, boolean, "
    f"{WRITABLE_BYTES}, {WRITABLE_TABLE}, {WRITABLE_INT64S})"
)
def rewrite_batches(
    data: npt.NDArray[np.uint8],
    batches: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    count: int,
    horizon_ms: int,
    copy: bool,  # noqa: FBT001 - numba takes arguments by position
    out: npt.NDArray[np.uint8],
    written: npt.NDArray[np.int64],
    results: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Write what remains of each batch into ``out``, uncompressed and contiguous.

    Args:
        data: the records; with ``copy`` also the batches, at their POSITION.
        batches: one column per batch, as filled by ``walk_batches``.
        actions: what to do with each batch.
        rows: one column per record, with its VERDICT; records of batches with FILTER or KEEP.
        count: number of records.
        horizon_ms: the delete horizon for batches that need one.
        copy: whether to copy batches that are unchanged; otherwise they get a column with POSITION
            -1 and no bytes.
        out: the buffer; the size of the batches plus 10 bytes per record is always enough, since a
            record grows by its timestamp delta and, in consequence, its length field.
        written: filled with a column for each batch that remains.
        results: filled with the result for each batch.

    Returns a status, the number of batches that remain, and the bytes written.
    """
    if not _can_rewrite(batches, actions, rows, count, written, results):
        return BAD_ARGUMENT, 0, 0
    source = address_of(data)
    first = at = address_of(out)
    limit = first + out.size
    column = start = 0
    for index in range(batches.shape[1]):
        end = start
        while end < count and rows[AREA, end] == index:
            end += 1
        kept, tombstones, _, _ = _survivors(rows, start, end)
        is_marked = actions[index] & MARK_EMPTIED != 0
        wants_horizon = is_marked or (tombstones != 0 and actions[index] & UNMAPPED == 0)
        needs_horizon = wants_horizon and batches[ATTRIBUTES, index] & DELETE_HORIZON == 0
        result = _result_of(actions[index], kept, batches[RECORDS_COUNT, index], needs_horizon)
        results[index] = result
        status, size = OK, 0
        if result == COPIED:
            status, size = _copy_batch(
                source, data.size, batches, index, copy, at, limit, written, column, at - first
            )
        elif result == EMPTIED:
            status, size = _empty_batch(batches, index, at, limit, written, column, at - first)
        elif result == REWRITTEN:
            new_horizon_ms = horizon_ms if needs_horizon else -1
            status, size = _write_batch(
                source,
                data.size,
                batches,
                index,
                rows,
                start,
                end,
                new_horizon_ms,
                at,
                limit,
                written,
                column,
                at - first,
            )
        if status != OK:
            return status, column, at - first
        at += size
        column += result != DROPPED
        start = end
    return OK, column, at - first
