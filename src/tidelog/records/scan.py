"""One batch of any magic in a buffer: its size, its header, and its CRC.

This is the plain-Python reference of the scan kernel. Kafka: ``ByteBufferLogInputStream``,
``FileLogInputStream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.crc32c import crc32c
from tidelog.codec.layout import byte_view
from tidelog.errors import CorruptMessage
from tidelog.kernels import rows
from tidelog.records.batch import (
    BATCH_HEADER,
    BATCH_PREFIX,
    LOG_OVERHEAD,
    MIN_RECORD_LENGTH,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchFlags,
    BatchHeader,
    entry_length,
    wrap_int64,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.codec.layout import Buffer

COUNT_UNKNOWN: Final = -1
"""``records_count`` of a compressed batch of magic 0 or 1, known only after decompression."""

WRONG_CRC: Final = "the CRC of a batch is wrong"
"""What is said of a batch whose bytes do not match its checksum."""
CRC_COVERS_FROM: Final = BATCH_HEADER.offsets["attributes"]
"""First byte of a v2 batch that its CRC covers."""


def whole_batch_size(view: memoryview, position: int, end: int, *, in_memory: bool) -> int:
    """Return the size of the batch at ``position``, 0 if it does not end before ``end``.

    Raises CorruptMessage if a batch cannot begin with these bytes; ``walk`` explains ``in_memory``.
    """
    left = end - position
    if left < LOG_OVERHEAD or (left <= BATCH_PREFIX.size and not in_memory):
        return 0
    magic = -1
    if has_prefix := left >= BATCH_PREFIX.size:
        _, length, _, magic = BATCH_PREFIX.unpack(view, position)
    else:
        length = entry_length(view, position)
    size = length + LOG_OVERHEAD
    if size < LOG_OVERHEAD + MIN_RECORD_LENGTH:
        reason = f"batch length {size - LOG_OVERHEAD} is below the minimum of {MIN_RECORD_LENGTH}"
        raise CorruptMessage(reason, position)
    if not has_prefix or (size > left and not in_memory):
        return 0
    if not 0 <= magic <= 2:
        raise CorruptMessage(f"a batch has magic {magic}, not 0, 1 or 2", position)
    if size > left:
        return 0
    if magic == 2 and size < BATCH_HEADER.size:
        reason = f"batch length {size - LOG_OVERHEAD} is below the minimum of magic 2"
        raise CorruptMessage(f"{reason}, {BATCH_HEADER.size - LOG_OVERHEAD}", position)
    return size


def batch_row(view: memoryview, position: int, size: int) -> tuple[int, ...]:
    """Return the 14 fields of the whole batch at ``position``, as in ``BatchColumns``."""
    header = BATCH_HEADER.unpack(view, position) if size >= BATCH_HEADER.size else None
    if header is None or header.magic < 2:
        return _legacy_row(view, position, size)
    return (
        position,
        size,
        header.base_offset,
        wrap_int64(header.base_offset + header.last_offset_delta),
        header.leader_epoch,
        header.magic,
        header.attributes,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.records_count,
        header.crc,
    )


def _legacy_row(view: memoryview, position: int, size: int) -> tuple[int, ...]:
    from tidelog.records import legacy  # noqa: PLC0415 - few logs have old batches

    header = legacy.read_header(view, position, size)
    return (
        position,
        size,
        header.offset,
        header.offset,
        NO_LEADER_EPOCH,
        header.magic,
        header.attributes,
        header.timestamp,
        header.timestamp,
        NO_PRODUCER_ID,
        -1,
        NO_SEQUENCE,
        COUNT_UNKNOWN if header.attributes & BatchFlags.CODEC else 1,
        header.crc,
    )


def header_of_row(row: Sequence[int]) -> BatchHeader:
    """Return the header with these 14 fields; an old format is converted to that of magic 2."""
    return BatchHeader(
        base_offset=row[rows.BASE_OFFSET],
        length=row[rows.SIZE] - LOG_OVERHEAD,
        leader_epoch=row[rows.LEADER_EPOCH],
        magic=row[rows.MAGIC],
        crc=row[rows.CRC],
        attributes=row[rows.ATTRIBUTES],
        last_offset_delta=wrap_int64(row[rows.LAST_OFFSET] - row[rows.BASE_OFFSET]),
        base_timestamp=row[rows.BASE_TIMESTAMP],
        max_timestamp=row[rows.MAX_TIMESTAMP],
        producer_id=row[rows.PRODUCER_ID],
        producer_epoch=row[rows.PRODUCER_EPOCH],
        base_sequence=row[rows.BASE_SEQUENCE],
        records_count=row[rows.RECORDS_COUNT],
    )


def crc_matches(data: Buffer, row: Sequence[int]) -> bool:
    """Return whether a whole batch in ``data``, given by its 14 fields, matches its CRC."""
    view = byte_view(data)
    position, size, crc = row[rows.POSITION], row[rows.SIZE], row[rows.CRC]
    if row[rows.MAGIC] < 2:
        from tidelog.records import legacy  # noqa: PLC0415 - as above

        return legacy.checksum_matches(view, position, size, crc)
    return crc32c(view[position + CRC_COVERS_FROM : position + size]) == crc
