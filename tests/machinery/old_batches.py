"""Batches of magic 0 and 1, which tidelog itself only reads.

Kafka: ``LegacyRecord.write``, and ``MemoryRecordsBuilder`` for old magics.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from tidelog.codec.compression import Codec, compress
from tidelog.records.batch import BatchFlags, TimestampType
from tidelog.records.legacy import (
    FIELD_SIZE,
    LEGACY_HEADER_V0,
    LEGACY_HEADER_V1,
    FieldSize,
    LegacyHeaderV0,
    LegacyHeaderV1,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    OldRecord = tuple[int, bytes | None, bytes | None]
    """Timestamp in ms (magic 0 has none), key, value."""


def build_entry(
    magic: int,
    offset: int,
    record: OldRecord,
    *,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Return one record of magic 0 or 1 with its offset; ``codec`` is that of its value."""
    timestamp, key, value = record
    attributes = int(codec)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= BatchFlags.LOG_APPEND_TIME
    body = _field(key) + _field(value)
    layout_size = LEGACY_HEADER_V1.size if magic else LEGACY_HEADER_V0.size
    length = layout_size + len(body) - 12
    checksum = 0
    for _ in range(2):  # first to get the bytes that the CRC covers, then with the CRC
        if magic:
            head = LEGACY_HEADER_V1.pack(
                LegacyHeaderV1(offset, length, checksum, magic, attributes, timestamp)
            )
        else:
            head = LEGACY_HEADER_V0.pack(
                LegacyHeaderV0(offset, length, checksum, magic, attributes)
            )
        checksum = zlib.crc32((head + body)[16:])
    return head + body


def _field(value: bytes | None) -> bytes:
    if value is None:
        return FIELD_SIZE.pack(FieldSize(-1))
    return FIELD_SIZE.pack(FieldSize(len(value))) + value


def build_old(
    magic: int,
    records: Sequence[OldRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Return records of magic 0 or 1 with consecutive offsets: plain, or in one wrapper.

    A wrapper's timestamp is the maximum of its records.
    """
    first = 0 if codec and magic else base_offset  # a wrapper of magic 1 has relative offsets
    kind = timestamp_type if magic else TimestampType.CREATE_TIME
    entries = b"".join(
        build_entry(magic, first + index, record, timestamp_type=kind)
        for index, record in enumerate(records)
    )
    if codec is Codec.NONE:
        return entries
    greatest = max(timestamp for timestamp, _, _ in records)
    wrapper = greatest, None, compress(codec, entries, magic=magic)
    last_offset = base_offset + len(records) - 1
    return build_entry(magic, last_offset, wrapper, codec=codec, timestamp_type=kind)
