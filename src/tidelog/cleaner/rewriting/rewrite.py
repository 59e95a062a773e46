"""Rewrites batches in plain Python: the twin of the kernel, and batches of magic 0 and 1.

Kafka: ``MemoryRecords.filterTo`` and ``buildRetainedRecordsInto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.keys.key_table import NEGATIVE_TIMESTAMP
from tidelog.cleaner.rewriting.delete_horizon import gets_horizon
from tidelog.codec.compression import Codec, compress
from tidelog.codec.layout import byte_view
from tidelog.codec.varint import write_varint, write_varlong
from tidelog.errors import InvalidArgument
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import BATCH_HEADER, NO_TIMESTAMP, BatchFlags, TimestampType, wrap_int64
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.builder import BatchSpec, build_batch, empty_batch, pack_batch
from tidelog.records.scan import batch_row, header_of_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.batch import BatchHeader
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.record import Record

_HORIZON: Final = BatchFlags.DELETE_HORIZON
_KEPT_FLAGS: Final = (
    BatchFlags.CODEC
    | BatchFlags.LOG_APPEND_TIME
    | BatchFlags.TRANSACTIONAL
    | BatchFlags.CONTROL
    | _HORIZON
)


class RewrittenBatches(NamedTuple):
    """What was written of some batches, and the result for each of them.

    ``batches`` are those written, with positions in ``data``. The position is -1 for a batch that
    is retained whole but not copied, because ``data`` only has its records decompressed.
    ``results`` has DROPPED, EMPTIED, COPIED or REWRITTEN of ``key_rows`` for each batch filtered.
    """

    data: Bytes
    batches: BatchColumns
    results: Ints


def rewrite_plainly(
    decompressed: DecompressedBatches, columns: Ints, horizon_ms: int
) -> RewrittenBatches:
    """Do what the kernel ``rewrite_batches`` does: write the retained records, uncompressed.

    ``columns`` are those of the key table, with verdicts; ``horizon_ms`` is a new delete horizon.
    """
    out = bytearray()
    written: list[list[int] | tuple[int, ...]] = []
    results: list[int] = []
    source, data = byte_view(decompressed.source), byte_view(decompressed.data)
    batch_rows, actions = decompressed.batches.array.T.tolist(), decompressed.actions.tolist()
    records = columns.T.tolist()
    ends = np.searchsorted(columns[keys.AREA], np.arange(len(batch_rows)), "right").tolist()
    start = 0
    for row, action, end in zip(batch_rows, actions, ends, strict=True):
        retained = [record for record in records[start:end] if record[keys.VERDICT] == keys.STAYS]
        start = end
        has_tombstone = _is_mapped(action) and any(r[keys.VALUE_SIZE] < 0 for r in retained)
        result, new_horizon_ms = _result_of(
            row, action, len(retained), horizon_ms, has_tombstone=has_tombstone
        )
        results.append(result)
        at = len(out)
        if result == keys.COPIED:
            if decompressed.is_plain:
                out += source[row[rows.POSITION] : row[rows.POSITION] + row[rows.SIZE]]
            written.append([at if decompressed.is_plain else -1, *row[1:]])
        elif result == keys.EMPTIED:
            _append(out, written, empty_batch(header_of_row(row)))
        elif result == keys.REWRITTEN:
            batch = _rewritten(data, header_of_row(row), retained, new_horizon_ms)
            _append(out, written, batch)
    return _rewritten_batches(out, written, results)


def _is_mapped(action: int) -> bool:
    return not action & keys.UNMAPPED


def _append(out: bytearray, written: list[list[int] | tuple[int, ...]], batch: bytes) -> None:
    """Append a batch, and the row of its header with its place."""
    written.append((len(out), *batch_row(memoryview(batch), 0, len(batch))[1:]))
    out += batch


def _rewritten_batches(
    out: bytearray, written: list[list[int] | tuple[int, ...]], results: list[int]
) -> RewrittenBatches:
    data = np.frombuffer(bytes(out), np.uint8)
    return RewrittenBatches(data, BatchColumns.of_rows(written), np.array(results, np.int64))


def _result_of(
    row: Sequence[int], action: int, retained: int, horizon_ms: int, *, has_tombstone: bool
) -> tuple[int, int | None]:
    """Return the result for a batch, and its new delete horizon; None if it gets no new one."""
    if not retained:
        return (keys.EMPTIED if action & keys.RETAIN_EMPTY else keys.DROPPED), None
    is_emptied = bool(action & keys.MARK_EMPTIED)
    if gets_horizon(row, has_tombstone=has_tombstone, has_emptied_marker=is_emptied):
        return keys.REWRITTEN, horizon_ms
    return (keys.COPIED if retained == row[rows.RECORDS_COUNT] else keys.REWRITTEN), None


def _rewritten(
    data: memoryview, header: BatchHeader, retained: list[list[int]], new_horizon_ms: int | None
) -> bytes:
    """Return a batch with the retained records, uncompressed even if its header names a codec."""
    timestamps = [record[keys.TIMESTAMP] for record in retained]
    if min(timestamps) < NO_TIMESTAMP:
        raise InvalidArgument(NEGATIVE_TIMESTAMP)
    attributes = header.attributes & _KEPT_FLAGS
    base_timestamp = timestamps[0]
    if new_horizon_ms is not None:
        base_timestamp, attributes = new_horizon_ms, attributes | _HORIZON
    elif attributes & _HORIZON:
        base_timestamp = header.base_timestamp
    body = bytearray()
    for record, timestamp in zip(retained, timestamps, strict=True):
        head = bytearray(1)
        # The distance may exceed an int64, and the offset may have wrapped; readers undo both.
        write_varlong(head, wrap_int64(timestamp - base_timestamp))
        write_varint(head, wrap_int64(record[keys.OFFSET] - header.base_offset))
        rest = data[record[keys.REST_AT] : record[keys.END]]
        write_varint(body, len(head) + len(rest))
        body += head + rest
    is_appended = attributes & BatchFlags.LOG_APPEND_TIME
    changed = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if is_appended else max(timestamps),
        records_count=len(retained),
    )
    return pack_batch(changed, body)


def rewrite_legacy(
    legacy: RecordColumns, actions: Ints, columns: Ints, horizon_ms: int
) -> RewrittenBatches:
    """Write each batch of magic 0 and 1 as a batch of magic 2 with its retained records.

    Kafka fails if the header of such a batch must be retained and none of its records is; here an
    empty batch of magic 2 is written, so that the log's end stays known and cleaning continues.

    Args:
        legacy: the decoded records.
        actions: one per batch.
        columns: of the key table, with verdicts, one per record.
        horizon_ms: a new delete horizon.
    """
    is_retained = columns[keys.VERDICT] == keys.STAYS
    out = bytearray()
    written: list[list[int] | tuple[int, ...]] = []
    results: list[int] = []
    batches, records = legacy.batches, list(legacy.select(is_retained).records())
    batch_of = columns[keys.AREA][is_retained]
    ends = np.searchsorted(batch_of, np.arange(len(batches)), "right").tolist()
    start = 0
    for index, end in enumerate(ends):
        new_horizon_ms = horizon_ms if _is_mapped(actions[index]) else None
        batch = _converted(batches, index, records[start:end], new_horizon_ms)
        if not batch and actions[index] & keys.RETAIN_EMPTY:
            batch = empty_batch(batches.header(index)._replace(magic=2, attributes=0))
        start = end
        results.append(keys.REWRITTEN if batch else keys.DROPPED)
        if batch:
            _append(out, written, batch)
    return _rewritten_batches(out, written, results)


def _converted(
    batches: BatchColumns, index: int, records: list[Record], horizon_ms: int | None
) -> bytes:
    """Return a batch of magic 2 with the records; no bytes if there are none."""
    if not records:
        return b""
    attributes = int(batches.attributes[index])
    is_appended = bool(batches.is_log_append_time[index])
    has_tombstone = any(record.value is None for record in records)
    spec = BatchSpec(
        base_offset=records[0].offset,
        codec=Codec.of_attributes(attributes),
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_appended else TimestampType.CREATE_TIME,
        max_timestamp=int(batches.max_timestamp[index]) if is_appended else None,
        delete_horizon_ms=horizon_ms if has_tombstone else None,
    )
    return build_batch(
        [(record.timestamp, record.key, record.value, record.headers) for record in records],
        spec,
        offsets=[record.offset for record in records],
    )


def recompress(decompressed: DecompressedBatches, written: RewrittenBatches) -> RewrittenBatches:
    """Compress the batches written of compressed ones, and insert the unchanged ones as read."""
    out = bytearray()
    headers: list[list[int]] = []
    source, data = byte_view(decompressed.source), byte_view(written.data)
    copied = iter(decompressed.batches.array[:, written.results == keys.COPIED].T.tolist())
    for row in written.batches.array.T.tolist():
        at = len(out)
        if row[rows.POSITION] < 0:
            original = next(copied)
            out += source[original[rows.POSITION] : original[rows.POSITION] + original[rows.SIZE]]
        else:
            start = row[rows.POSITION] + BATCH_HEADER.size
            records = data[start : row[rows.POSITION] + row[rows.SIZE]]
            codec = Codec.of_attributes(row[rows.ATTRIBUTES])
            packed = compress(codec, records) if row[rows.RECORDS_COUNT] else b""
            batch = pack_batch(header_of_row(row), packed)
            out += batch
            row[rows.CRC] = BATCH_HEADER.unpack(batch).crc
        row[rows.POSITION], row[rows.SIZE] = at, len(out) - at
        headers.append(row)
    return RewrittenBatches(
        np.frombuffer(out, np.uint8), BatchColumns.of_rows(headers), written.results
    )
