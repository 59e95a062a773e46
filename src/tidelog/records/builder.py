"""Builds single batches of magic 2 in plain code.

``bulk_builder`` builds many batches from columns. Kafka: ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count as count_from
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypedDict, Unpack

from tidelog.codec.compression import Codec, compress
from tidelog.codec.crc32c import crc32c
from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument
from tidelog.records.batch import (
    BATCH_HEADER,
    INT32_MAX,
    INT64_MAX,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchFlags,
    BatchHeader,
    TimestampType,
    wrap_int64,
)
from tidelog.records.record import write_record
from tidelog.records.scan import CRC_COVERS_FROM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.codec.layout import Buffer
    from tidelog.records.record import Header, RawHeader

    RecordFields: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[Header]]
    """Timestamp in ms (-1 none), key, value and headers of a record that a batch is built from."""
    RawFields: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[RawHeader]]
    """The same with the bytes of the headers' names, which need not be UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """The header fields of a batch that do not follow from its records.

    ``last_offset`` and ``max_timestamp`` override what follows from the records: compaction keeps
    the original values, and with LogAppendTime ``max_timestamp`` is the append time and is
    required.
    """

    base_offset: int = 0
    leader_epoch: int = NO_LEADER_EPOCH
    codec: Codec = Codec.NONE
    level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    max_timestamp: int | None = None
    last_offset: int | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int | None = None

    @property
    def attributes(self) -> int:
        """The attribute bits of the batch header."""
        flags = int(self.codec)
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            flags |= BatchFlags.LOG_APPEND_TIME
        if self.transactional:
            flags |= BatchFlags.TRANSACTIONAL
        if self.control:
            flags |= BatchFlags.CONTROL
        if self.delete_horizon_ms is not None:
            flags |= BatchFlags.DELETE_HORIZON
        return flags


DEFAULT_SPEC: Final = BatchSpec()


class BatchFields(TypedDict, total=False):
    """Any of the fields of ``BatchSpec``, as keyword arguments."""

    base_offset: int
    leader_epoch: int
    codec: Codec
    level: int | None
    timestamp_type: TimestampType
    max_timestamp: int | None
    last_offset: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    delete_horizon_ms: int | None


def check_spec(spec: BatchSpec) -> None:
    """Raise InvalidArgument unless the producer fields and times of ``spec`` are consistent."""
    if spec.producer_id == NO_PRODUCER_ID:
        if spec.transactional:
            raise InvalidArgument("a transactional batch requires a producer id")
    elif spec.producer_epoch == NO_PRODUCER_EPOCH:
        raise InvalidArgument(f"producer {spec.producer_id} requires a producer epoch")
    elif spec.base_sequence < 0 and not spec.control:
        raise InvalidArgument(f"producer {spec.producer_id} requires a base sequence")
    is_appended = spec.timestamp_type is TimestampType.LOG_APPEND_TIME
    if is_appended and spec.max_timestamp is None:
        raise InvalidArgument("LogAppendTime requires the append time as max_timestamp")


class BuiltBatch(NamedTuple):
    """A batch alone in its buffer, and its 14 fields as in ``BatchColumns``.

    ``records_bytes`` is the size of its records before compression.
    """

    data: bytearray
    row: list[int]
    records_bytes: int


def build_batch(
    records: Iterable[RecordFields | RawFields],
    spec: BatchSpec = DEFAULT_SPEC,
    *,
    offsets: Iterable[int] | None = None,
    **fields: Unpack[BatchFields],
) -> bytes:
    """Return one batch that holds ``records``; empty bytes if there are no records.

    Args:
        records: timestamp in ms, key, value and headers of each.
        spec: all other fields of the batch.
        fields: single fields that override those of ``spec``: ``build_batch(records, codec=...)``.
        offsets: absolute offset of each record, increasing; None: consecutive from the base offset.

    Raises:
        InvalidArgument: the batch would break one of Kafka's rules: offsets that do not increase or
            span 2**31 or more, negative timestamps other than -1, inconsistent producer fields; or
            a number does not fit in its field.
    """
    built = build_with_row(records, replace(spec, **fields) if fields else spec, offsets)
    return b"" if built is None else bytes(built.data)


def build_with_row(
    records: Iterable[RecordFields | RawFields],
    spec: BatchSpec = DEFAULT_SPEC,
    offsets: Iterable[int] | None = None,
) -> BuiltBatch | None:
    """Return the batch that ``build_batch`` returns, with its fields; None without records."""
    if spec is not DEFAULT_SPEC:
        check_spec(spec)
    body = bytearray()
    base_timestamp = spec.delete_horizon_ms
    max_timestamp, last_delta, count = NO_TIMESTAMP, -1, 0
    numbers = iter(count_from(spec.base_offset) if offsets is None else offsets)
    for timestamp, key, value, headers in records:
        delta = next(numbers, spec.base_offset + last_delta) - spec.base_offset
        if not last_delta < delta <= INT32_MAX:
            raise InvalidArgument(f"offset delta {delta} is not in ({last_delta}, {INT32_MAX}]")
        if not NO_TIMESTAMP <= timestamp <= INT64_MAX:
            raise InvalidArgument(f"timestamp {timestamp} is outside [-1, {INT64_MAX}]")
        if base_timestamp is None:
            base_timestamp = timestamp
        since = timestamp - base_timestamp
        if since > INT64_MAX:  # from -1 to the greatest timestamp; readers undo the wrap
            since = wrap_int64(since)
        write_record(body, since, delta, key=key, value=value, headers=headers)
        max_timestamp = max(max_timestamp, timestamp)
        last_delta = delta
        count += 1
    if base_timestamp is None or not count:
        return None
    if spec.max_timestamp is not None:
        max_timestamp = spec.max_timestamp
    if spec is not DEFAULT_SPEC:
        last_delta = _checked_last_delta(spec, last_delta)
    records_area = compress(spec.codec, body, spec.level) if spec.codec else body
    size = BATCH_HEADER.size + len(records_area)
    base_offset, epoch, attributes = spec.base_offset, spec.leader_epoch, spec.attributes
    times = base_timestamp, max_timestamp
    producer = spec.producer_id, spec.producer_epoch, spec.base_sequence
    # By position, and packed once: every append comes here.
    header = BatchHeader(
        *(base_offset, size - LOG_OVERHEAD, epoch, MAGIC_V2, 0, attributes, last_delta),
        *(*times, *producer, count),
    )
    data, crc = _packed(header, records_area)
    row = [
        *(0, size, base_offset, base_offset + last_delta, epoch, MAGIC_V2, attributes),
        *(*times, *producer, count, crc),
    ]
    return BuiltBatch(data, row, len(body))


def _checked_last_delta(spec: BatchSpec, last_delta: int) -> int:
    """Return the last offset delta that ``spec`` asks for, else that of the last record."""
    if spec.last_offset is not None:
        if not last_delta <= spec.last_offset - spec.base_offset <= INT32_MAX:
            least, most = spec.base_offset + last_delta, spec.base_offset + INT32_MAX
            raise InvalidArgument(f"last offset {spec.last_offset} is outside [{least}, {most}]")
        last_delta = spec.last_offset - spec.base_offset
    if spec.base_offset + last_delta > INT64_MAX:
        raise InvalidArgument(f"last offset {spec.base_offset + last_delta} exceeds {INT64_MAX}")
    return last_delta


def pack_batch(header: BatchHeader, records: Buffer) -> bytes:
    """Return a batch with correct length and CRC; ``records`` are its bytes after the header."""
    length = BATCH_HEADER.size + len(records) - LOG_OVERHEAD
    return bytes(_packed(header._replace(length=length), byte_view(records))[0])


def _packed(header: BatchHeader, records: bytearray | bytes | memoryview) -> tuple[bytearray, int]:
    """Return a batch with its CRC, and the CRC; the header's length is right."""
    packed = bytearray(BATCH_HEADER.pack(header))
    packed += records
    crc = crc32c(memoryview(packed)[CRC_COVERS_FROM:])
    BATCH_HEADER.pack_field("crc", crc, packed)
    return packed, crc


def gap_batch(base_offset: int, end_offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> bytes:
    """Return a batch without records for the offsets ``[base, end)``, of which nothing is left.

    A reader gets beyond them by it. The offsets differ by an int32 at most.
    """
    return empty_batch(
        BatchHeader(
            base_offset=base_offset,
            length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC_V2,
            crc=0,
            attributes=0,
            last_offset_delta=end_offset - base_offset - 1,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            records_count=0,
        )
    )


def empty_batch(header: BatchHeader) -> bytes:
    """Return ``header`` as a batch without records, which compaction keeps for its producer.

    Offsets, sequence, producer, leader epoch, timestamp type, maximum timestamp, transactional and
    control bits are kept. Source: Kafka DefaultRecordBatch.writeEmptyHeader.
    """
    kept = BatchFlags.LOG_APPEND_TIME | BatchFlags.TRANSACTIONAL | BatchFlags.CONTROL
    attributes = header.attributes & kept
    return pack_batch(
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b""
    )
