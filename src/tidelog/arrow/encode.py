"""Arrow tables as record batches, a run of batches for each partition.

Owns the way from rows to bytes. Must not know where the batches go. Kafka: the producer's
``RecordAccumulator`` and ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.arrow.encode_plain import encode_plain
from tidelog.arrow.partitions import Partitioner, rows_by_partition
from tidelog.arrow.rows import column, row_table
from tidelog.codec.compression import Codec, compress
from tidelog.errors import InvalidRecord, InvariantError
from tidelog.kernels import columns as rows
from tidelog.kernels.gate import use_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tidelog.arrow.buffers import Bytes, Ints
    from tidelog.arrow.encode_plain import BatchForm
    from tidelog.arrow.rows import RowTable
    from tidelog.codec.layout import Buffer

_SLACK: Final = 64
_MOST_OVERHEAD: Final = 41
"""Most bytes that a record takes besides its key, value and headers."""


class Encoded(NamedTuple):
    """Whole batches of one partition: ``records`` in number, ``max_timestamp`` in ms (-1 none)."""

    partition: int
    data: Buffer
    records: int
    max_timestamp: int


class TopicEncoder:
    """Turns tables of one topic into batches; used by one thread.

    Each partition's batches have base offsets that count from 0 and leader epoch -1: who appends
    them to a log gives them their places.

    Args:
        partitions: how many the topic has.
        form: how batches are made.
        first: the partition with which rows without a key begin.
    """

    def __init__(self, partitions: int, form: BatchForm, first: int = 0) -> None:
        self._form = form
        self._partitioner = Partitioner(partitions, form.batch_bytes, first)
        self._next_offsets = [0] * partitions

    def encode(self, table: pa.RecordBatch, now_ms: int) -> Iterator[Encoded]:
        """Yield the batches of each partition that gets rows, in order of partitions.

        Args:
            table: the columns key, value, headers, timestamp and partition, as far as there are.
            now_ms: the timestamp of rows without one.

        Raises:
            InvalidArgument, InvalidRecord, InvalidTimestamp, UnknownTopicOrPartition: a row makes
                no record; nothing after it is yielded.
        """
        records = row_table(table, now_ms)
        chosen = self._partitioner.assign(records, column(table, "partition"))
        order = rows_by_partition(chosen, len(self._next_offsets))
        for partition, chosen_rows in enumerate(order):
            if len(chosen_rows):
                base_offset = self._next_offsets[partition]
                data = encode_rows(records, chosen_rows, self._form, base_offset)
                self._next_offsets[partition] += len(chosen_rows)
                latest = int(records.table[rows.TIMESTAMP][chosen_rows].max())
                yield Encoded(partition, data, len(chosen_rows), latest)


def encode_rows(records: RowTable, chosen: Ints, form: BatchForm, base_offset: int) -> Buffer:
    """Return batches of the ``chosen`` rows, in that order, with offsets from ``base_offset`` on.

    Raises:
        InvalidRecord: a record is longer than a batch can be.
    """
    work = _most_bytes(records, chosen)
    if use_kernels(work):
        return _encode_by_kernel(records, chosen, form, base_offset)
    return encode_plain(records, chosen, form, base_offset)


def _most_bytes(records: RowTable, chosen: Ints) -> int:
    held = np.maximum(records.table[[rows.KEY_SIZE, rows.VALUE_SIZE]], 0)[:, chosen].sum()
    return int(held) + _MOST_OVERHEAD * len(chosen) + records.headers.size


def _encode_by_kernel(records: RowTable, chosen: Ints, form: BatchForm, base_offset: int) -> Buffer:
    from tidelog.kernels.encode import (  # noqa: PLC0415 - compiles when imported
        cut_batches,
        write_batches,
    )

    # Of two batches in a row, the second begins because the first is full.
    most = min(2 * _most_bytes(records, chosen) // form.batch_bytes + 2, len(chosen))
    table = np.empty((rows.BATCH_COLUMNS, most), np.int64)
    count, size, status, done = cut_batches(
        records.headers, records.table, chosen, form.batch_bytes, base_offset, table
    )
    if status != rows.OK:
        reason = rows.STATUS_TEXT.get(status, "more batches than there can be")
        raise InvalidRecord(f"row {chosen[min(done, len(chosen) - 1)]}: {reason}")
    batches = np.ascontiguousarray(table[:, :count])
    is_plain = form.codec is Codec.NONE
    out = np.empty(size + _SLACK, np.uint8)
    status, _ = write_batches(
        records.keys, records.values, records.headers, records.table, chosen, batches, is_plain, out
    )
    if status != rows.OK:
        raise InvariantError(f"batches did not fit: {rows.STATUS_TEXT[status]}")
    plain = out[:size]
    return plain.data if is_plain else _compressed(plain, batches, form)


def _compressed(plain: Bytes, batches: Ints, form: BatchForm) -> Buffer:
    """Return the batches with their record areas compressed, closed by header and CRC."""
    from tidelog.kernels.close import close_batches  # noqa: PLC0415 - compiles when imported

    starts = batches[rows.POSITION] + rows.HEADER_BYTES
    ends = batches[rows.POSITION] + batches[rows.SIZE]
    areas = [
        compress(form.codec, plain[start:end].data, form.level)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    sizes = np.array([len(area) for area in areas], np.int64) + rows.HEADER_BYTES
    batches[rows.SIZE] = sizes
    batches[rows.POSITION] = np.cumsum(sizes) - sizes
    batches[rows.ATTRIBUTES] = int(form.codec)
    gap = bytes(rows.HEADER_BYTES)
    joined = bytearray(b"".join(part for area in areas for part in (gap, area)))
    if close_batches(np.frombuffer(joined, np.uint8), batches) != rows.OK:
        raise InvariantError("batches did not fit their buffer")
    return joined
