"""Columns encoded to batches: records are cut into batches, then written uncompressed.

To compress, the caller writes only the record areas, compresses them and writes the headers with
``batch_headers``. Kafka: ``MemoryRecordsBuilder``.

A record is a column of the table that ``decode_records`` fills, so decoded records can be written
again as they are. Keys, values and headers may be in one buffer or in three. The steps are

1. ``record_headers.encode_headers``, for headers that are not yet encoded;
2. ``cut_batches``, which assigns records to batches and computes the exact sizes;
3. ``write_batches``, into a buffer of that size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernels.batch_headers import batch_fits, header_fields, write_header
from tidelog.kernels.copy_bytes import copy_piece
from tidelog.kernels.record_kernel import headers_end
from tidelog.kernels.rows import (
    ATTRIBUTES,
    BAD_ARGUMENT,
    BAD_HEADER,
    BAD_TIMESTAMP,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_COLUMNS,
    CRC,
    FULL,
    HEADER_BYTES,
    HEADERS_AT,
    HEADERS_COUNT,
    KEY_AT,
    KEY_SIZE,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAGIC,
    MAX_TIMESTAMP,
    OK,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COLUMNS,
    RECORDS_COUNT,
    SIZE,
    TIMESTAMP,
    TOO_LONG,
    VALUE_AT,
    VALUE_SIZE,
)
from tidelog.kernels.runtime.intrinsics import address_of, store8, subtract64
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT64S,
    TABLE,
    WRITABLE_BYTES,
    WRITABLE_TABLE,
    called,
    inlined,
    kernel,
)
from tidelog.kernels.varint_kernel import varint_bytes, write_varint

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_BYTES: Final = 2**31 - 1
MOST_RECORD_BYTES: Final = MOST_BYTES - 256
"""Greatest size of a record's content that always fits in a batch."""


@inlined
def _headers_bytes(first: int, room: int, at: int, count: int) -> int:
    """Return the bytes of ``count`` headers at byte ``at``; negative if they are malformed."""
    if count == 0:
        return 0
    if at < 0 or at > room or count < 0:
        return -1
    end = headers_end(first + at, first + room, count)
    return end - first - at if end else -1


@inlined
def _content_bytes(
    key_size: int, value_size: int, headers_count: int, headers_bytes: int, timestamp: int
) -> int:
    """Return a record's size from the key's length on, or the status of what is invalid."""
    if headers_bytes < 0:
        return BAD_HEADER
    if key_size < -1 or value_size < -1:
        return BAD_ARGUMENT
    if timestamp < -1:
        return BAD_TIMESTAMP
    if max(key_size, value_size, headers_bytes) > MOST_RECORD_BYTES:
        return TOO_LONG
    held = max(key_size, 0) + max(value_size, 0) + headers_bytes
    if held > MOST_RECORD_BYTES:
        return TOO_LONG
    return held + varint_bytes(key_size) + varint_bytes(value_size) + varint_bytes(headers_count)


@inlined
def _body_bytes(content: int, timestamp_delta: int, offset_delta: int) -> int:
    """Return the length that is written in front of a record."""
    return 1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta) + content


@inlined
def _record_bytes(content: int, timestamp_delta: int, offset_delta: int) -> int:
    """Return a record's size in bytes, including its length field."""
    body = _body_bytes(content, timestamp_delta, offset_delta)
    return varint_bytes(body) + body


@called
def _finish_table(out: npt.NDArray[np.int64], count: int, base_offset: int) -> None:
    """Fill in offsets, magic and the values that mean "none" for each batch."""
    for batch in range(count):
        out[BASE_OFFSET, batch] = base_offset
        base_offset += out[RECORDS_COUNT, batch]
        out[LAST_OFFSET, batch] = base_offset - 1
        out[MAGIC, batch] = 2
        out[ATTRIBUTES, batch] = 0
        out[CRC, batch] = 0
        out[LEADER_EPOCH, batch] = -1
        out[PRODUCER_ID, batch] = -1
        out[PRODUCER_EPOCH, batch] = -1
        out[BASE_SEQUENCE, batch] = -1


@kernel(f"UniTuple(int64, 4)({BYTES}, {TABLE}, {INT64S}, int64, int64, {WRITABLE_TABLE})")
def cut_batches(
    headers: npt.NDArray[np.uint8],
    table: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    batch_bytes: int,
    base_offset: int,
    out: npt.NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Cut the records ``rows`` of ``table`` into batches; fill a column of ``out`` for each.

    Args:
        headers: the buffer that HEADERS_AT refers to; headers are checked.
        table: records, as filled by ``decode_records``; OFFSET and AREA are ignored.
        rows: the records to write, in order.
        batch_bytes: greatest size of a batch, including its header; a larger record gets a batch of
            its own.
        base_offset: offset of the first record; the others follow without gaps.
        out: the batches, contiguous from position 0, without producer, codec or leader epoch.

    Returns the number of batches, their total size in bytes, a status, and the number of records in
    them. On FULL, call again with the remaining rows; on an error, the record at that index is
    invalid.
    """
    if table.shape[0] < RECORD_COLUMNS or out.shape[0] < BATCH_COLUMNS or batch_bytes > MOST_BYTES:
        return 0, 0, BAD_ARGUMENT, 0
    first = address_of(headers)
    count = position = size = in_batch = base_timestamp = greatest = done = 0
    status = OK
    for row in rows:
        if not 0 <= row < table.shape[1]:
            status = BAD_ARGUMENT
            break
        timestamp = table[TIMESTAMP, row]
        headers_count = table[HEADERS_COUNT, row]
        headers_bytes = _headers_bytes(first, headers.size, table[HEADERS_AT, row], headers_count)
        content = _content_bytes(
            table[KEY_SIZE, row], table[VALUE_SIZE, row], headers_count, headers_bytes, timestamp
        )
        if content < 0:
            status = content
            break
        whole = _record_bytes(content, subtract64(timestamp, base_timestamp), in_batch)
        if in_batch == 0 or size + whole > batch_bytes:
            if count == out.shape[1]:
                status = FULL
                break
            position += size
            out[POSITION, count] = position
            out[BASE_TIMESTAMP, count] = base_timestamp = timestamp
            size, in_batch, count, greatest = HEADER_BYTES, 0, count + 1, -1
            whole = _record_bytes(content, 0, 0)
        size += whole
        in_batch += 1
        done += 1
        out[SIZE, count - 1] = size
        out[RECORDS_COUNT, count - 1] = in_batch
        greatest = max(greatest, timestamp)
        out[MAX_TIMESTAMP, count - 1] = greatest
    _finish_table(out, count, base_offset)
    return count, position + size, status, done


class Piece(NamedTuple):
    """A range to copy: its address, how many bytes may be read from there, and its size."""

    address: int
    room: int
    size: int


@inlined
def _piece(first: int, room: int, at: int, size: int) -> Piece:
    """Return the range at byte ``at`` of a buffer; its address is 0 if it is outside the buffer."""
    if size <= 0:
        return Piece(first, room, size)
    if at < 0 or size > room - at:
        return Piece(0, 0, size)
    return Piece(first + at, room - at, size)


@inlined
def _write_piece(at: int, end: int, piece: Piece) -> int:
    """Write a key or value, preceded by its length; return the address after it."""
    at = write_varint(at, piece.size)
    if piece.size > 0:
        copy_piece(at, end - at, piece.address, piece.room, piece.size)
        at += piece.size
    return at


@inlined
def _write_record(
    at: int,
    end: int,
    timestamp_delta: int,
    offset_delta: int,
    key: Piece,
    value: Piece,
    headers: Piece,
    headers_count: int,
) -> int:
    """Write a record; return the address after it, or 0 if it does not fit before ``end``."""
    if key.address == 0 or value.address == 0 or headers.address == 0 or headers.size < 0:
        return 0
    content = _content_bytes(key.size, value.size, headers_count, headers.size, 0)
    body = _body_bytes(content, timestamp_delta, offset_delta)
    if content < 0 or varint_bytes(body) + body > end - at:
        return 0
    at = write_varint(at, body)
    store8(at, 0)
    at = write_varint(at + 1, timestamp_delta)
    at = write_varint(at, offset_delta)
    at = _write_piece(at, end, key)
    at = _write_piece(at, end, value)
    at = write_varint(at, headers_count)
    if headers.size > 0:
        copy_piece(at, end - at, headers.address, headers.room, headers.size)
    return at + headers.size


@kernel(
    f"UniTuple(int64, 2)({BYTES}, {BYTES}, {BYTES}, {TABLE}, {INT64S}, {WRITABLE_TABLE}, "
    f"boolean, {WRITABLE_BYTES})"
)
def write_batches(
    keys: npt.NDArray[np.uint8],
    values: npt.NDArray[np.uint8],
    headers: npt.NDArray[np.uint8],
    table: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    batches: npt.NDArray[np.int64],
    close: bool,  # noqa: FBT001 - numba takes arguments by position
    out: npt.NDArray[np.uint8],
) -> tuple[int, int]:
    """Write the records ``rows`` of ``table`` into ``out``, in the batches made by ``cut_batches``.

    Args:
        keys: the buffer that KEY_AT refers to.
        values: the buffer that VALUE_AT refers to.
        headers: the buffer that HEADERS_AT refers to.
        table: the records.
        rows: the records to write, in order.
        batches: the table from ``cut_batches``; offsets and producer fields may have been changed.
        close: whether to write headers and CRCs too, and fill in CRC; otherwise the 61 bytes of
            each header are left untouched.
        out: the buffer; each batch is written at its POSITION.

    Returns a status, which is BAD_ARGUMENT if anything does not fit, and the number of records
    written.
    """
    if table.shape[0] < RECORD_COLUMNS or batches.shape[0] < BATCH_COLUMNS:
        return BAD_ARGUMENT, 0
    key_first, value_first = address_of(keys), address_of(values)
    header_first, target = address_of(headers), address_of(out)
    done = 0
    for batch in range(batches.shape[1]):
        position, size = batches[POSITION, batch], batches[SIZE, batch]
        count = batches[RECORDS_COUNT, batch]
        if not batch_fits(position, size, out.size) or count > rows.size - done:
            return BAD_ARGUMENT, done
        base_timestamp = batches[BASE_TIMESTAMP, batch]
        end = target + position + size
        at = target + position + HEADER_BYTES
        for delta in range(count):
            row = rows[done]
            if not 0 <= row < table.shape[1]:
                return BAD_ARGUMENT, done
            headers_at, headers_count = table[HEADERS_AT, row], table[HEADERS_COUNT, row]
            header_size = _headers_bytes(header_first, headers.size, headers_at, headers_count)
            at = _write_record(
                at,
                end,
                subtract64(table[TIMESTAMP, row], base_timestamp),
                delta,
                _piece(key_first, keys.size, table[KEY_AT, row], table[KEY_SIZE, row]),
                _piece(value_first, values.size, table[VALUE_AT, row], table[VALUE_SIZE, row]),
                _piece(header_first, headers.size, headers_at, header_size),
                headers_count,
            )
            if at == 0:
                return BAD_ARGUMENT, done
            done += 1
        if at != end:
            return BAD_ARGUMENT, done
        if close:
            batches[CRC, batch] = write_header(target + position, header_fields(batches, batch))
    return OK, done
