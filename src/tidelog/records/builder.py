"""Making a batch of magic 2 from records.

Owns the rules for what a batch may hold. Must not know where the batch will go. This is the plain
way, for single batches; ``bulk_builder`` makes many from columns. Kafka: ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count as count_from
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidelog.codec.compression import Codec, compress
from tidelog.codec.crc32c import crc32c
from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument
from tidelog.records.batch import (
    BATCH_HEADER,
    INT32_MAX,
    INT64_MAX,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchFlags,
    BatchHeader,
    TimestampType,
)
from tidelog.records.record import wrap_int64, write_record
from tidelog.records.scan import CRC_COVERS_FROM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.codec.layout import Buffer
    from tidelog.records.record import Header

    RecordFields: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[Header]]
    """Timestamp in ms (-1 none), key, value, headers."""

NO_PRODUCER_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Everything a batch says about itself besides its records.

    ``last_offset`` and ``max_timestamp`` override what the records give: compaction keeps the
    original ones, and with LogAppendTime ``max_timestamp`` is the append time and must be given.
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


def check_spec(spec: BatchSpec) -> None:
    """Raise InvalidArgument unless the producer fields and times of ``spec`` fit together."""
    if spec.producer_id == NO_PRODUCER_ID:
        if spec.transactional:
            raise InvalidArgument("a transactional batch needs a producer id")
    elif spec.producer_epoch == NO_PRODUCER_EPOCH:
        raise InvalidArgument("a producer id needs an epoch")
    elif spec.base_sequence < 0 and not spec.control:
        raise InvalidArgument("a producer id needs a sequence")
    is_appended = spec.timestamp_type is TimestampType.LOG_APPEND_TIME
    if is_appended and spec.max_timestamp is None:
        raise InvalidArgument("LogAppendTime needs the append time as max_timestamp")


def build_batch(
    records: Iterable[RecordFields],
    spec: BatchSpec = DEFAULT_SPEC,
    *,
    offsets: Iterable[int] | None = None,
    **fields: Any,  # noqa: ANN401 - the fields of BatchSpec, which checks their names
) -> bytes:
    """Return one batch that holds ``records``; no bytes at all for no records.

    Args:
        records: timestamp in ms, key, value and headers of each.
        spec: everything else; ``fields`` change single ones: ``build_batch(records, codec=...)``.
        fields: see ``spec``.
        offsets: absolute offset of each record, rising; from the base offset on without holes if
            None.

    Raises:
        InvalidArgument: a rule of Kafka's for batches is broken: offsets that do not rise or span
            2**31 and more, negative timestamps other than -1, producer fields that do not fit; or
            a number is larger than its field.
    """
    spec = replace(spec, **fields) if fields else spec
    check_spec(spec)
    body = bytearray()
    base_timestamp = spec.delete_horizon_ms
    max_timestamp, last_delta, count = NO_TIMESTAMP, -1, 0
    numbers = iter(count_from(spec.base_offset) if offsets is None else offsets)
    for timestamp, key, value, headers in records:
        delta = next(numbers, spec.base_offset + last_delta) - spec.base_offset
        if not last_delta < delta <= INT32_MAX:
            raise InvalidArgument(f"offset delta {delta} after {last_delta}")
        if not NO_TIMESTAMP <= timestamp <= INT64_MAX:
            raise InvalidArgument(f"timestamp {timestamp} is negative, or no int64")
        if base_timestamp is None:
            base_timestamp = timestamp
        # From -1 to the greatest the delta is no int64: it wraps, and comes back when it is read.
        since = wrap_int64(timestamp - base_timestamp)
        write_record(body, since, delta, key=key, value=value, headers=headers)
        max_timestamp = max(max_timestamp, timestamp)
        last_delta = delta
        count += 1
    if base_timestamp is None or not count:
        return b""
    if spec.max_timestamp is not None:
        max_timestamp = spec.max_timestamp
    return pack_batch(
        header_of(spec, last_delta, base_timestamp, max_timestamp=max_timestamp, count=count),
        compress(spec.codec, body, spec.level),
    )


def header_of(
    spec: BatchSpec, last_delta: int, base_timestamp: int, *, max_timestamp: int, count: int
) -> BatchHeader:
    """Return the header that ``spec`` asks for; length and CRC are left to ``pack_batch``."""
    if spec.last_offset is not None:
        if not last_delta <= spec.last_offset - spec.base_offset <= INT32_MAX:
            raise InvalidArgument(f"last offset {spec.last_offset} is below the last record's")
        last_delta = spec.last_offset - spec.base_offset
    if spec.base_offset + last_delta > INT64_MAX:
        raise InvalidArgument(f"{last_delta + 1} offsets from {spec.base_offset} on are no int64")
    return BatchHeader(
        base_offset=spec.base_offset,
        length=0,
        leader_epoch=spec.leader_epoch,
        magic=2,
        crc=0,
        attributes=spec.attributes,
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        base_sequence=spec.base_sequence,
        records_count=count,
    )


def pack_batch(header: BatchHeader, records: Buffer) -> bytes:
    """Return the bytes of a batch, with the right length and CRC; ``records`` as they shall lie."""
    size = BATCH_HEADER.size + len(records)
    packed = bytearray(BATCH_HEADER.pack(header._replace(length=size - LOG_OVERHEAD)))
    packed += byte_view(records)
    checksum = crc32c(memoryview(packed)[CRC_COVERS_FROM:])
    BATCH_HEADER.pack_into(header._replace(length=size - LOG_OVERHEAD, crc=checksum), packed, 0)
    return bytes(packed)


def empty_batch(header: BatchHeader) -> bytes:
    """Return ``header`` as a batch without records, as compaction keeps it for its producer.

    Offsets, sequence, producer, leader epoch, timestamp type, maximal timestamp, transactional and
    control bits stay. Source: Kafka DefaultRecordBatch.writeEmptyHeader.
    """
    kept = BatchFlags.LOG_APPEND_TIME | BatchFlags.TRANSACTIONAL | BatchFlags.CONTROL
    attributes = header.attributes & int(kept)
    return pack_batch(
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b""
    )
