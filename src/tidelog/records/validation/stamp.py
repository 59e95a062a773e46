"""The header fields that a leader sets in accepted batches, in place.

These are offsets, leader epoch and timestamp type, and the CRC if those it covers change. Kafka:
``DefaultRecordBatch.setLastOffset``, ``setMaxTimestamp``, ``setPartitionLeaderEpoch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.crc32c import crc32c
from tidelog.errors import InvalidArgument, InvariantError
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.records.array_rows import as_bytes, every
from tidelog.records.batch import (
    BATCH_HEADER,
    BATCH_PREFIX,
    LOG_OVERHEAD,
    BatchFlags,
    TimestampType,
)
from tidelog.records.scan import CRC_COVERS_FROM, header_of_row

if TYPE_CHECKING:
    from tidelog.records.array_rows import Bytes
    from tidelog.records.batch_columns import BatchColumns

_KNOWN_FLAGS: Final = 0x77
"""Attribute bits that a change of timestamp type keeps: codec, transaction, control, horizon."""

# Plain ints, since operations on an IntFlag take ten times as long.
LEADER_EPOCH_AT: Final = BATCH_HEADER.offsets["leader_epoch"]


def stamp_in_place(
    data: bytearray | memoryview, row: list[int], kind: TimestampType, max_timestamp: int
) -> None:
    """Write the fields of ``row`` into its batch of magic 2, with this type and timestamp.

    ``row`` has the 14 fields, with the offsets and leader epoch to write; its other fields are
    updated. The CRC is recomputed only if type or timestamp change.
    """
    position, size = row[rows.POSITION], row[rows.SIZE]
    appended = BatchFlags.LOG_APPEND_TIME if kind is TimestampType.LOG_APPEND_TIME else 0
    is_same_kind = row[rows.ATTRIBUTES] & BatchFlags.LOG_APPEND_TIME == appended
    if not is_same_kind or row[rows.MAX_TIMESTAMP] != max_timestamp:
        row[rows.ATTRIBUTES] = (row[rows.ATTRIBUTES] & _KNOWN_FLAGS) | appended
        row[rows.MAX_TIMESTAMP] = max_timestamp
        BATCH_HEADER.pack_into(header_of_row(row), data, position)
        row[rows.CRC] = crc32c(memoryview(data)[position + CRC_COVERS_FROM : position + size])
        BATCH_HEADER.pack_into(header_of_row(row), data, position)
    stamp_prefix(data, row)


def stamp_prefix(data: bytearray | memoryview, row: list[int]) -> None:
    """Write base offset and leader epoch of ``row`` into its batch of magic 2."""
    length = row[rows.SIZE] - LOG_OVERHEAD
    prefix = row[rows.BASE_OFFSET], length, row[rows.LEADER_EPOCH], row[rows.MAGIC]
    BATCH_PREFIX.pack_into(prefix, data, row[rows.POSITION])


def stamp_append_time(data: bytearray, batches: BatchColumns, append_time_ms: int) -> None:
    """Set LogAppendTime and this time in batches of magic 2, and update ``batches``."""
    stamped = batches.array.T.tolist()
    for row in stamped:
        stamp_in_place(data, row, TimestampType.LOG_APPEND_TIME, append_time_ms)
    batches.array[:] = np.array(stamped, np.int64).T


def stamp_offsets(
    data: bytearray | Bytes, batches: BatchColumns, base_offset: int, leader_epoch: int
) -> int:
    """Write consecutive offsets and the leader epoch into batches of magic 2; no CRC changes.

    ``batches`` is updated. Returns the next offset. The plain equivalent of the stamp kernel.
    Raises InvalidArgument, with nothing changed, for a batch of an old format or one that spans no
    offsets.
    """
    target = as_bytes(data)
    if not (every(batches.magic == 2) and every(batches.last_offset >= batches.base_offset)):
        raise InvalidArgument("a batch has magic 0 or 1, or spans no offsets")
    if use_kernels(len(batches) * BATCH_HEADER.size):
        from tidelog.kernels.stamp_kernel import stamp_batches  # noqa: PLC0415 - compiles when imported

        next_offset: int = stamp_batches(target, batches.array, base_offset, leader_epoch)
        if next_offset < base_offset:
            raise InvariantError(f"{len(batches)} batches exceed their {len(data)} bytes")
        return next_offset
    ends = base_offset + np.cumsum(batches.last_offset - batches.base_offset + 1)
    batches.base_offset[:] = np.concatenate([[base_offset], ends[:-1]])
    batches.last_offset[:] = ends - 1
    batches.leader_epoch[:] = leader_epoch
    at = batches.position[:, np.newaxis]
    target[at + np.arange(8)] = batches.base_offset.astype(">i8").view(np.uint8).reshape(-1, 8)
    epochs = batches.leader_epoch.astype(">i4").view(np.uint8).reshape(-1, 4)
    target[at + LEADER_EPOCH_AT + np.arange(4)] = epochs
    return int(ends[-1])
