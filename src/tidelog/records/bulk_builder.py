"""Builds batches from columns of records, many at once.

Kernels do this where they are worth loading. Kafka: ``MemoryRecordsBuilder``, used in a loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.compression import Codec, compress
from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument, InvariantError
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.records.array_rows import SLACK_BYTES
from tidelog.records.batch import BATCH_HEADER, INT32_MAX, TimestampType, wrap_int64
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.builder import DEFAULT_SPEC, build_batch, check_spec
from tidelog.records.memory import walk
from tidelog.records.partitioner import partition_for_key
from tidelog.records.record import advance_sequence, read_raw_headers, slice_or_none, write_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.builder import BatchSpec, RawFields
    from tidelog.records.decoding.record_columns import RecordColumns

BATCH_BYTES: Final = 16384
"""Kafka's ``batch.size``: size of a batch in bytes, before compression."""


class RecordSource(NamedTuple):
    """Records to write: a table as filled by decoding, and the buffers that its positions refer to.

    Rows ``OFFSET`` and ``AREA`` are ignored. The three buffers may be the same.
    """

    table: Ints
    keys: Bytes
    values: Bytes
    headers: Bytes

    @classmethod
    def of(cls, columns: RecordColumns) -> RecordSource:
        """Return decoded records as a source, with their timestamps as readers see them."""
        return cls(np.ascontiguousarray(columns.array), columns.data, columns.data, columns.data)

    @property
    def content_bytes(self) -> int:
        """Approximate size of the records in bytes."""
        sizes = self.table[rows.KEY_SIZE] + self.table[rows.VALUE_SIZE]
        return int(sizes.sum()) + self.table.size

    def partitions_of_keys(self, partitions: int) -> NDArray[np.int32]:
        """Return the partition of each record's key, as Kafka's producers choose it; -1 without."""
        at, size = self.table[rows.KEY_AT], self.table[rows.KEY_SIZE]
        out = np.full(len(at), -1, np.int32)
        if use_kernels(int(np.maximum(size, 0).sum())):
            from tidelog.kernels.hashing.murmur import partition_keys  # noqa: PLC0415 - compiles then

            if partition_keys(self.keys, at, size, partitions, out) < 0:
                raise InvariantError("a key is outside its buffer")
            return out
        view = byte_view(self.keys)
        for row in np.flatnonzero(size >= 0).tolist():
            key = bytes(view[at[row] : at[row] + size[row]])
            out[row] = partition_for_key(key, partitions)
        return out


class BuiltBatches(NamedTuple):
    """Contiguous batches, and their table; ``data`` holds nothing else."""

    data: Bytes
    batches: BatchColumns


def rebuild(
    columns: RecordColumns, spec: BatchSpec, *, offsets: Iterable[int] | None = None
) -> bytes | Bytes:
    """Return one batch with all records of ``columns``, in order, with the timestamps readers see.

    ``spec`` and ``offsets`` are as in ``build_batch``; the records' own offsets, batches and
    sequences are ignored. The result is empty if there are no records.
    """
    source = RecordSource.of(columns)
    if offsets is None and use_kernels(source.content_bytes):
        return build_batches(source, spec, batch_bytes=INT32_MAX).data
    return build_batch(_values(source, range(len(columns))), spec, offsets=offsets)


def build_batches(
    source: RecordSource,
    spec: BatchSpec = DEFAULT_SPEC,
    *,
    chosen: Ints | None = None,
    batch_bytes: int = BATCH_BYTES,
) -> BuiltBatches:
    """Write records into as many batches as their size requires, with consecutive offsets.

    Args:
        source: the records.
        spec: the fields of the batches. Offsets and sequences continue from batch to batch;
            ``max_timestamp`` is required with LogAppendTime and not allowed otherwise.
        chosen: columns of the table to write, in order; None: all.
        batch_bytes: greatest size of a batch before compression, including its header; a larger
            record gets a batch of its own.

    Raises:
        InvalidArgument: as ``build_batch``, or a record is longer than 2**31 bytes.
    """
    check_spec(spec)
    is_appended = spec.timestamp_type is TimestampType.LOG_APPEND_TIME
    is_for_one = spec.last_offset is not None or spec.delete_horizon_ms is not None
    if is_for_one or (spec.max_timestamp is not None and not is_appended):
        raise InvalidArgument(
            "last_offset, delete_horizon_ms and max_timestamp (except with LogAppendTime) apply to"
            " single batches only"
        )
    if chosen is None:
        chosen = np.arange(source.table.shape[1])
    if not use_kernels(source.content_bytes):
        built = b"".join(_plain_batches(source, spec, chosen.tolist(), batch_bytes))
        data = np.frombuffer(built, np.uint8)
        return BuiltBatches(data, walk(data).batches)
    return _compiled_batches(source, spec, np.ascontiguousarray(chosen, np.int64), batch_bytes)


def _compiled_batches(
    source: RecordSource, spec: BatchSpec, chosen: Ints, batch_bytes: int
) -> BuiltBatches:
    from tidelog.kernels.encode_kernel import cut_batches, write_batches  # noqa: PLC0415 - compiles then

    headers = source.headers
    table = np.empty((rows.BATCH_COLUMNS, len(chosen)), np.int64)
    count, size, status, done = cut_batches(
        headers, source.table, chosen, batch_bytes, spec.base_offset, table
    )
    if status < 0:
        raise InvalidArgument(f"record {done}: {rows.STATUS_TEXT[status]}")
    batches = BatchColumns(table[:, :count].copy())
    _describe(batches, spec)
    data = np.empty(size + SLACK_BYTES, np.uint8)
    is_plain = spec.codec is Codec.NONE
    status, done = write_batches(
        source.keys, source.values, headers, source.table, chosen, batches.array, is_plain, data
    )
    if status < 0:
        raise InvalidArgument(f"record {done}: {rows.STATUS_TEXT[status]}")
    return BuiltBatches(data[:size], batches) if is_plain else _compressed(data, batches, spec)


def _describe(batches: BatchColumns, spec: BatchSpec) -> None:
    """Fill in the header fields that do not follow from the records."""
    batches.attributes[:] = spec.attributes
    batches.leader_epoch[:] = spec.leader_epoch
    batches.producer_id[:] = spec.producer_id
    batches.producer_epoch[:] = spec.producer_epoch
    if spec.max_timestamp is not None:
        batches.max_timestamp[:] = spec.max_timestamp
    if spec.base_sequence >= 0:
        ahead = batches.base_offset - spec.base_offset
        batches.base_sequence[:] = (spec.base_sequence + ahead) & INT32_MAX


def _compressed(data: Bytes, batches: BatchColumns, spec: BatchSpec) -> BuiltBatches:
    """Compress the record areas of batches in ``data``, whose headers are not yet written."""
    from tidelog.kernels.batch_headers import close_batches  # noqa: PLC0415 - compiles when imported

    view, out = byte_view(data), bytearray()
    for row, position, size in zip(
        batches.array.T, batches.position.tolist(), batches.size.tolist(), strict=True
    ):
        area = compress(
            spec.codec, view[position + BATCH_HEADER.size : position + size], spec.level
        )
        row[rows.POSITION], row[rows.SIZE] = len(out), BATCH_HEADER.size + len(area)
        out += bytes(BATCH_HEADER.size)
        out += area
    packed = np.frombuffer(out, np.uint8)
    status = close_batches(packed, batches.array)
    if status < 0:
        raise InvalidArgument(rows.STATUS_TEXT[status])
    return BuiltBatches(packed, batches)


def _plain_batches(
    source: RecordSource, spec: BatchSpec, chosen: list[int], batch_bytes: int
) -> Iterator[bytes]:
    """Do the same as the encode kernels, one record at a time."""
    pending: list[RawFields] = []
    size, offset, sequence = BATCH_HEADER.size, spec.base_offset, spec.base_sequence
    for record in _values(source, chosen):
        record_bytes = _record_bytes(record, len(pending), pending[0][0] if pending else record[0])
        if pending and size + record_bytes > batch_bytes:
            yield build_batch(pending, spec, base_offset=offset, base_sequence=sequence)
            offset += len(pending)
            sequence = advance_sequence(sequence, len(pending))
            pending, size = [], BATCH_HEADER.size
            record_bytes = _record_bytes(record, 0, record[0])
        pending.append(record)
        size += record_bytes
    yield build_batch(pending, spec, base_offset=offset, base_sequence=sequence)


def _record_bytes(record: RawFields, delta: int, base_timestamp: int) -> int:
    timestamp, key, value, headers = record
    out = bytearray()
    since = wrap_int64(timestamp - base_timestamp)  # as in build_batch
    write_record(out, since, delta, key=key, value=value, headers=headers)
    return len(out)


def _values(source: RecordSource, chosen: Iterable[int]) -> Iterator[RawFields]:
    keys, values, headers = (byte_view(buffer) for buffer in source[1:])
    for index in chosen:
        row = source.table[:, index].tolist()
        yield (
            row[rows.TIMESTAMP],
            slice_or_none(keys, row[rows.KEY_AT], row[rows.KEY_SIZE]),
            slice_or_none(values, row[rows.VALUE_AT], row[rows.VALUE_SIZE]),
            read_raw_headers(headers, row[rows.HEADERS_AT], row[rows.HEADERS_COUNT]),
        )
