"""Batch headers and CRCs, written in front of record areas that are already in place.

``encode`` uses them for uncompressed batches, and Python for batches whose records it has
compressed. Kafka: ``DefaultRecordBatch.writeHeader``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernels.hashing.crc import crc_between
from tidelog.kernels.rows import (
    ATTRIBUTES,
    BAD_ARGUMENT,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_COLUMNS,
    CRC,
    CRC_FROM,
    HEADER_BYTES,
    LAST_OFFSET,
    LEADER_EPOCH,
    LOG_OVERHEAD,
    MAX_TIMESTAMP,
    OK,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS_COUNT,
    SIZE,
)
from tidelog.kernels.runtime.intrinsics import (
    address_of,
    store8,
    store16_be,
    store32_be,
    store64_be,
    subtract64,
)
from tidelog.kernels.runtime.jit import WRITABLE_BYTES, WRITABLE_TABLE, called, inlined, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class HeaderFields(NamedTuple):
    """The fields of a batch header, except magic and CRC."""

    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int


@inlined
def batch_fits(position: int, size: int, room: int) -> bool:
    """Return whether a batch of ``size`` bytes at ``position`` lies within ``room`` bytes."""
    return HEADER_BYTES <= size <= room and 0 <= position <= room - size


@called
def write_header(address: int, fields: HeaderFields) -> int:
    """Write the header of the batch at ``address``, in front of its records; return its CRC."""
    store64_be(address, fields.base_offset)
    store32_be(address + 8, fields.size - LOG_OVERHEAD)
    store32_be(address + 12, fields.leader_epoch)
    store8(address + 16, 2)
    store16_be(address + 21, fields.attributes)
    store32_be(address + 23, subtract64(fields.last_offset, fields.base_offset))
    store64_be(address + 27, fields.base_timestamp)
    store64_be(address + 35, fields.max_timestamp)
    store64_be(address + 43, fields.producer_id)
    store16_be(address + 51, fields.producer_epoch)
    store32_be(address + 53, fields.base_sequence)
    store32_be(address + 57, fields.records_count)
    crc = crc_between(address + CRC_FROM, address + fields.size)
    store32_be(address + 17, crc)
    return crc


@called
def header_fields(batches: npt.NDArray[np.int64], index: int) -> HeaderFields:
    """Return the fields of one column of a batch table."""
    return HeaderFields(
        batches[SIZE, index],
        batches[BASE_OFFSET, index],
        batches[LAST_OFFSET, index],
        batches[LEADER_EPOCH, index],
        batches[ATTRIBUTES, index],
        batches[BASE_TIMESTAMP, index],
        batches[MAX_TIMESTAMP, index],
        batches[PRODUCER_ID, index],
        batches[PRODUCER_EPOCH, index],
        batches[BASE_SEQUENCE, index],
        batches[RECORDS_COUNT, index],
    )


@kernel(f"int64({WRITABLE_BYTES}, {WRITABLE_TABLE})")
def close_batches(data: npt.NDArray[np.uint8], batches: npt.NDArray[np.int64]) -> int:
    """Write the header and CRC of each batch in a table, in front of the batch's records.

    ``batches`` has one column per batch, as filled by ``walk_batches``: POSITION and SIZE locate
    the batch in ``data``, with its records from byte 61 on. Its CRC is filled in. Returns OK, or
    BAD_ARGUMENT, with nothing written, if a batch extends outside ``data``.
    """
    if batches.shape[0] < BATCH_COLUMNS:
        return BAD_ARGUMENT
    for index in range(batches.shape[1]):
        if not batch_fits(batches[POSITION, index], batches[SIZE, index], data.size):
            return BAD_ARGUMENT
    first = address_of(data)
    for index in range(batches.shape[1]):
        fields = header_fields(batches, index)
        batches[CRC, index] = write_header(first + batches[POSITION, index], fields)
    return OK
