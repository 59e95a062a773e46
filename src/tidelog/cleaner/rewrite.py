"""Batches written again in plain code: the twin of the rewrite kernel, and all old batches.

Owns the bytes that compaction leaves of a batch. Must not know keys. Kafka:
``MemoryRecords.filterTo`` and ``buildRetainedRecordsInto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.codec.compression import Codec, compress
from tidelog.codec.layout import byte_view
from tidelog.codec.varint import write_varint, write_varlong
from tidelog.errors import InvalidArgument
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import BATCH_HEADER, NO_TIMESTAMP, BatchFlags, TimestampType
from tidelog.records.builder import BatchSpec, build_batch, empty_batch, pack_batch
from tidelog.records.memory import BatchColumns
from tidelog.records.scan import batch_row, header_of_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.cleaner.plain_runs import Run
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.batch import BatchHeader
    from tidelog.records.record import Record
    from tidelog.records.record_columns import RecordColumns

_HORIZON: Final = int(BatchFlags.DELETE_HORIZON)
_KEPT_FLAGS: Final = int(BatchFlags.CODEC | BatchFlags.LOG_APPEND_TIME) | int(
    BatchFlags.TRANSACTIONAL | BatchFlags.CONTROL
)
_APPEND_TIME: Final = int(BatchFlags.LOG_APPEND_TIME)


class Rewriting(NamedTuple):
    """What was written of some batches, and what became of each of them.

    ``batches`` are those written, with positions in ``data``; -1 for one that stays whole and was
    not copied, as the records it was judged by are not the bytes it has.
    """

    data: Bytes
    batches: BatchColumns
    fates: Ints


def rewrite_plainly(run: Run, judged: Ints, horizon_ms: int) -> Rewriting:
    """Do what the kernel ``rewrite_batches`` does: write the batches of ``run`` uncompressed."""
    out = bytearray()
    written: list[list[int] | tuple[int, ...]] = []
    fates: list[int] = []
    source, data = byte_view(run.source), byte_view(run.data)
    columns = judged.T.tolist()
    ends = np.searchsorted(judged[keys.AREA], np.arange(len(run.batches)), "right").tolist()
    start = 0
    for row, mark, end in zip(run.batches.array.T.tolist(), run.marks.tolist(), ends, strict=True):
        survivors = [column for column in columns[start:end] if column[keys.VERDICT] == keys.STAYS]
        start = end
        has_tombstone = any(column[keys.VALUE_SIZE] < 0 for column in survivors)
        fate, new_horizon_ms = _fate(
            row, mark, len(survivors), horizon_ms, has_tombstone=has_tombstone
        )
        fates.append(fate)
        at = len(out)
        if fate == keys.COPIED:
            if run.is_plain:
                out += source[row[rows.POSITION] : row[rows.POSITION] + row[rows.SIZE]]
            written.append([at if run.is_plain else -1, *row[1:]])
        elif fate == keys.EMPTIED:
            out += empty_batch(header_of_row(row))
            written.append(batch_row(memoryview(bytes(out[at:])), 0, len(out) - at))
        elif fate == keys.REWRITTEN:
            out += _rewritten(data, header_of_row(row), survivors, new_horizon_ms)
            written.append(batch_row(memoryview(bytes(out[at:])), 0, len(out) - at))
        if fate in {keys.EMPTIED, keys.REWRITTEN}:
            written[-1] = [at, *written[-1][1:]]
    filled = np.frombuffer(bytes(out), np.uint8)
    return Rewriting(filled, BatchColumns.of_rows(written), np.array(fates, np.int64))


def _fate(
    row: Sequence[int], mark: int, kept: int, horizon_ms: int, *, has_tombstone: bool
) -> tuple[int, int | None]:
    """Say what becomes of a batch, and the delete horizon that it gets, None for none new."""
    if not kept:
        return (keys.EMPTIED if mark & keys.RETAIN_EMPTY else keys.DROPPED), None
    wants_horizon = has_tombstone or mark & keys.MARK_EMPTIED
    if wants_horizon and not row[rows.ATTRIBUTES] & _HORIZON:
        return keys.REWRITTEN, horizon_ms
    return (keys.COPIED if kept == row[rows.RECORDS_COUNT] else keys.REWRITTEN), None


def _rewritten(
    data: memoryview, header: BatchHeader, survivors: list[list[int]], new_horizon_ms: int | None
) -> bytes:
    """Return a batch with the records that stay, uncompressed whatever its codec says."""
    timestamps = [column[keys.TIMESTAMP] for column in survivors]
    if min(timestamps) < NO_TIMESTAMP:
        raise InvalidArgument("a record has a negative timestamp, which no batch may be given")
    attributes = header.attributes & (_KEPT_FLAGS | _HORIZON)
    base_timestamp = timestamps[0]
    if new_horizon_ms is not None:
        base_timestamp, attributes = new_horizon_ms, attributes | _HORIZON
    elif attributes & _HORIZON:
        base_timestamp = header.base_timestamp
    body = bytearray()
    for column, timestamp in zip(survivors, timestamps, strict=True):
        head = bytearray(1)
        write_varlong(head, timestamp - base_timestamp)
        write_varint(head, column[keys.OFFSET] - header.base_offset)
        rest = data[column[keys.REST_AT] : column[keys.END]]
        write_varint(body, len(head) + len(rest))
        body += head + rest
    is_appended = attributes & _APPEND_TIME
    changed = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if is_appended else max(timestamps),
        records_count=len(survivors),
    )
    return pack_batch(changed, body)


def rewrite_old(columns: RecordColumns, marks: Ints, judged: Ints, horizon_ms: int) -> Rewriting:
    """Write what stays of batches of magic 0 and 1 as batches of magic 2, one for each.

    Kafka fails where the header of such a batch has to stay and no record does; here a batch of
    magic 2 without records is written then, so that the log's end is known and cleaning goes on.
    """
    stays = judged[keys.VERDICT] == keys.STAYS
    out = bytearray()
    written: list[tuple[int, ...]] = []
    fates: list[int] = []
    records = list(columns.select(stays).records())
    batch_of = judged[keys.AREA][stays]
    ends = np.searchsorted(batch_of, np.arange(len(columns.batches)), "right").tolist()
    start = 0
    for index, end in enumerate(ends):
        batch = _old_as_new(columns.batches, index, records[start:end], horizon_ms)
        if not batch and marks[index] & keys.RETAIN_EMPTY:
            batch = empty_batch(columns.batches.header(index)._replace(magic=2, attributes=0))
        start = end
        fates.append(keys.REWRITTEN if batch else keys.DROPPED)
        if batch:
            row = batch_row(memoryview(batch), 0, len(batch))
            written.append((len(out), *row[1:]))
            out += batch
    filled = np.frombuffer(bytes(out), np.uint8)
    return Rewriting(filled, BatchColumns.of_rows(written), np.array(fates, np.int64))


def _old_as_new(batches: BatchColumns, index: int, records: list[Record], horizon_ms: int) -> bytes:
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


def packed_again(run: Run, written: Rewriting) -> Rewriting:
    """Compress what was written of compressed batches; put whole ones between as they were."""
    out = bytearray()
    headers: list[list[int]] = []
    source, data = byte_view(run.source), byte_view(written.data)
    whole = iter(run.batches.array[:, written.fates == keys.COPIED].T.tolist())
    for row in written.batches.array.T.tolist():
        at = len(out)
        if row[rows.POSITION] < 0:
            original = next(whole)
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
    return Rewriting(np.frombuffer(out, np.uint8), BatchColumns.of_rows(headers), written.fates)
