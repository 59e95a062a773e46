"""Rows to batches in plain Python: for few rows, and where there is no compiler.

Owns the form of the batches to make, and the reference of what the kernels do. Must not know where
rows come from. Kafka: ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.codec.compression import Codec, compress
from tidelog.codec.layout import byte_view
from tidelog.codec.varint import write_varint
from tidelog.kernels import columns as rows
from tidelog.records.batch import BATCH_HEADER, NO_TIMESTAMP
from tidelog.records.builder import BatchSpec, header_of, pack_batch
from tidelog.records.record import read_headers, slice_or_none, write_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tidelog.arrow.buffers import Bytes, Ints
    from tidelog.arrow.rows import RowTable
    from tidelog.records.builder import NewRecord

DEFAULT_BATCH_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class BatchForm:
    """How batches are made: codec, its level, and most bytes of a batch before compression."""

    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES


def encode_plain(records: RowTable, chosen: Ints, form: BatchForm, base_offset: int) -> bytearray:
    """Return what ``encode_rows`` returns."""
    out = bytearray()
    batch = _OpenBatch(base_offset)
    for record in _new_records(records, chosen):
        if not batch.take(record, form.batch_bytes):
            out += batch.close(form)
            batch = _OpenBatch(batch.base_offset + batch.count)
            batch.take(record, form.batch_bytes)
    return out + batch.close(form)


class _OpenBatch:
    """A batch that is being filled."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.count = 0
        self._area = bytearray()
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    def take(self, record: NewRecord, batch_bytes: int) -> bool:
        """Add a record unless it would be too much; the first one always fits."""
        timestamp, key, value, headers = record
        if not self.count:
            self._base_timestamp = timestamp
        written = bytearray()
        delta = timestamp - self._base_timestamp
        write_record(written, delta, self.count, key=key, value=value, headers=headers)
        size = BATCH_HEADER.size + len(self._area) + len(written)
        if self.count and size > batch_bytes:
            return False
        self._area += written
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self.count += 1
        return True

    def close(self, form: BatchForm) -> bytes:
        """Return the batch's bytes; none without records."""
        if not self.count:
            return b""
        header = header_of(
            BatchSpec(base_offset=self.base_offset, codec=form.codec),
            self.count - 1,
            self._base_timestamp,
            max_timestamp=self._max_timestamp,
            count=self.count,
        )
        return pack_batch(header, compress(form.codec, self._area, form.level))


def _new_records(records: RowTable, chosen: Ints) -> Iterator[NewRecord]:
    keys, values = byte_view(records.keys), byte_view(records.values)
    headers = byte_view(records.headers)
    for row in records.table[:, chosen].T.tolist():
        yield (
            row[rows.TIMESTAMP],
            slice_or_none(keys, row[rows.KEY_AT], row[rows.KEY_SIZE]),
            slice_or_none(values, row[rows.VALUE_AT], row[rows.VALUE_SIZE]),
            read_headers(headers, row[rows.HEADERS_AT], row[rows.HEADERS_COUNT]),
        )


def encode_headers_plain(lists: pa.Array, table: Ints) -> Bytes:
    """Return what ``kernels.headers.encode_headers`` writes, filling in the table as it does."""
    out = bytearray()
    for record, pairs in enumerate(lists.to_pylist()):
        table[rows.HEADERS_AT, record] = len(out)
        table[rows.HEADERS_COUNT, record] = len(pairs or ())
        for name, value in (pair.values() for pair in pairs or ()):
            for part in (name.encode(), value):
                write_varint(out, -1 if part is None else len(part))
                out += part or b""
    return np.frombuffer(bytes(out), np.uint8)
