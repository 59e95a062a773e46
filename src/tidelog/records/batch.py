"""The record batch header (magic 2), its flags, and the prefix shared by all batch formats.

Kafka: ``DefaultRecordBatch``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final, NamedTuple

from tidelog.codec.layout import Layout, Wire
from tidelog.kernels import rows


class BatchPrefix(NamedTuple):
    """The first 17 bytes of a batch of any magic. Source: Kafka Records."""

    offset: Annotated[int, Wire("q", "Magic 2: base offset. Before: offset of the last record.")]
    length: Annotated[int, Wire("i", "Bytes that follow this field.")]
    epoch_or_crc: Annotated[int, Wire("i", "Magic 2: leader epoch. Before: CRC-32 of the rest.")]
    magic: Annotated[int, Wire("b", "Format version: 0, 1 or 2.")]


class BatchHeader(NamedTuple):
    """The header of a record batch, magic 2. Source: Kafka DefaultRecordBatch."""

    base_offset: Annotated[int, Wire("q", "First offset; not covered by the CRC.")]
    length: Annotated[int, Wire("i", "Bytes that follow this field: total size - 12.")]
    leader_epoch: Annotated[int, Wire("i", "Epoch of the leader, -1 none; not covered by the CRC.")]
    magic: Annotated[int, Wire("b", "Format version, 2.")]
    crc: Annotated[int, Wire("I", "CRC-32C of all bytes from the attributes on.")]
    attributes: Annotated[int, Wire("h", "Codec and flags, see BatchFlags.")]
    last_offset_delta: Annotated[int, Wire("i", "Last offset - base offset.")]
    base_timestamp: Annotated[int, Wire("q", "Base of the deltas in ms, or the delete horizon.")]
    max_timestamp: Annotated[int, Wire("q", "Greatest timestamp in ms, or the append time.")]
    producer_id: Annotated[int, Wire("q", "Producer, -1 none.")]
    producer_epoch: Annotated[int, Wire("h", "Epoch of the producer, -1 none.")]
    base_sequence: Annotated[int, Wire("i", "Sequence of the first record, -1 none.")]
    records_count: Annotated[int, Wire("i", "Number of records present.")]


BATCH_PREFIX: Final = Layout(BatchPrefix)
BATCH_HEADER: Final = Layout(BatchHeader)
assert BATCH_PREFIX.size == 17
assert BATCH_HEADER.size == 61
assert BATCH_HEADER.offsets["crc"] == 17
assert BATCH_HEADER.offsets["attributes"] == 21

LOG_OVERHEAD: Final = 12
"""Bytes of offset and length, which ``length`` does not include."""

MIN_RECORD_LENGTH: Final = 14
"""Smallest valid ``length`` of any batch: an empty magic 0 record."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
UNKNOWN_OFFSET: Final = -1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
MAGIC_V2: Final = 2
"""The format in which batches are written; 0 and 1 are only read."""


def entry_length(data: memoryview, at: int) -> int:
    """Return the length field of the batch of any magic at ``at``; needs 12 bytes there."""
    return BATCH_PREFIX.unpack_field("length", data, at)


def wrap_int64(value: int) -> int:
    """Return ``value`` reduced as in Java's ``long`` arithmetic: modulo 2**64, signed."""
    return (value + 2**63) % 2**64 - 2**63


class BatchFlags:
    """Bits of ``attributes``; plain numbers, since arrays and single rows are tested for them."""

    CODEC: Final = rows.CODEC_BITS
    LOG_APPEND_TIME: Final = rows.LOG_APPEND_TIME
    TRANSACTIONAL: Final = rows.TRANSACTIONAL_BIT
    CONTROL: Final = rows.CONTROL_BIT
    DELETE_HORIZON: Final = rows.DELETE_HORIZON_BIT


class TimestampType(IntEnum):
    """The meaning of a record's timestamp. Source: Kafka TimestampType."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def kafka_name(self) -> str:
        """Kafka's spelling, used in records printed as JSON."""
        return ("NoTimestampType", "CreateTime", "LogAppendTime")[self + 1]
