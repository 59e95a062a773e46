"""Two passes over the batch headers of an append: a summary, and the index entries to add.

Kafka: the loops of ``UnifiedLog.analyzeAndValidateRecords`` and ``LogSegment.append``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernels.rows import (
    ATTRIBUTES,
    BAD_ARGUMENT,
    BASE_OFFSET,
    BATCH_COLUMNS,
    CODEC_BITS,
    ENTRY_COLUMNS,
    ENTRY_OFFSET,
    ENTRY_POSITION,
    ENTRY_TIMESTAMP,
    ENTRY_TIMESTAMP_OFFSET,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAGIC,
    MAX_TIMESTAMP,
    OK,
    PRODUCER_ID,
    SIZE,
    SURVEY_ARE_OFFSETS_RISING,
    SURVEY_COLUMNS,
    SURVEY_GREATEST_CODEC,
    SURVEY_GREATEST_EPOCH,
    SURVEY_GREATEST_PRODUCER_ID,
    SURVEY_GREATEST_SIZE,
    SURVEY_GREATEST_TIMESTAMP,
    SURVEY_HAS_BASE_OFFSET,
    SURVEY_IS_UNIFORM,
    SURVEY_LAST_CODEC,
)
from tidelog.kernels.runtime.intrinsics import add64
from tidelog.kernels.runtime.jit import TABLE, WRITABLE_INT64S, WRITABLE_TABLE, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@kernel(f"int64({TABLE}, {WRITABLE_INT64S})")
def survey_batches(batches: npt.NDArray[np.int64], out: npt.NDArray[np.int64]) -> int:
    """Summarize one or more batches in ``out`` (``SURVEY_COLUMNS``); return OK or BAD_ARGUMENT."""
    count = batches.shape[1]
    if batches.shape[0] < BATCH_COLUMNS or count == 0 or out.size < SURVEY_COLUMNS:
        return BAD_ARGUMENT
    greatest_size = greatest_timestamp = greatest_producer_id = greatest_epoch = -(2**63)
    greatest_codec = last_codec = has_base_offset = 0
    are_rising = is_uniform = 1
    for index in range(count):
        before = max(index - 1, 0)
        greatest_size = max(greatest_size, batches[SIZE, index])
        greatest_timestamp = max(greatest_timestamp, batches[MAX_TIMESTAMP, index])
        greatest_producer_id = max(greatest_producer_id, batches[PRODUCER_ID, index])
        greatest_epoch = max(greatest_epoch, batches[LEADER_EPOCH, index])
        codec = batches[ATTRIBUTES, index] & CODEC_BITS
        greatest_codec = max(greatest_codec, codec)
        if codec != 0:
            last_codec = codec
        if batches[MAGIC, index] >= 2 and batches[BASE_OFFSET, index] != 0:
            has_base_offset = 1
        if index > 0 and batches[LAST_OFFSET, index] <= batches[LAST_OFFSET, before]:
            are_rising = 0
        if batches[LEADER_EPOCH, index] != batches[LEADER_EPOCH, before]:
            is_uniform = 0
        if batches[MAGIC, index] != batches[MAGIC, before]:
            is_uniform = 0
    out[SURVEY_GREATEST_SIZE] = greatest_size
    out[SURVEY_GREATEST_TIMESTAMP] = greatest_timestamp
    out[SURVEY_GREATEST_EPOCH] = greatest_epoch
    out[SURVEY_GREATEST_PRODUCER_ID] = greatest_producer_id
    out[SURVEY_GREATEST_CODEC] = greatest_codec
    out[SURVEY_LAST_CODEC] = last_codec
    out[SURVEY_HAS_BASE_OFFSET] = has_base_offset
    out[SURVEY_ARE_OFFSETS_RISING] = are_rising
    out[SURVEY_IS_UNIFORM] = is_uniform
    return OK


@kernel(f"UniTuple(int64, 4)({TABLE}, int64, int64, int64, int64, int64, {WRITABLE_TABLE})")
def plan_index_entries(
    batches: npt.NDArray[np.int64],
    position: int,
    passed: int,
    greatest: int,
    offset_of_greatest: int,
    interval_bytes: int,
    out: npt.NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Fill a column of ``out`` (``ENTRY_COLUMNS``) for each batch that gets an index entry.

    Args:
        batches: contiguous batches, as filled by ``walk_batches``.
        position: position of the first batch in the file.
        passed: bytes since the last batch that got an entry, including that batch.
        greatest: greatest timestamp so far.
        offset_of_greatest: offset of that timestamp.
        interval_bytes: a batch gets an entry if more than this many bytes have passed.
        out: one column per batch is always enough.

    Returns the number of entries, and ``passed``, ``greatest`` and ``offset_of_greatest`` after the
    last batch; or BAD_ARGUMENT, with nothing written, if ``out`` is too small.
    """
    if batches.shape[0] < BATCH_COLUMNS or out.shape[0] < ENTRY_COLUMNS:
        return BAD_ARGUMENT, passed, greatest, offset_of_greatest
    if out.shape[1] < batches.shape[1]:
        return BAD_ARGUMENT, passed, greatest, offset_of_greatest
    count = 0
    for index in range(batches.shape[1]):
        if batches[MAX_TIMESTAMP, index] > greatest:
            greatest = batches[MAX_TIMESTAMP, index]
            offset_of_greatest = batches[LAST_OFFSET, index]
        if passed > interval_bytes:
            out[ENTRY_OFFSET, count] = batches[LAST_OFFSET, index]
            out[ENTRY_POSITION, count] = position
            out[ENTRY_TIMESTAMP, count] = greatest
            out[ENTRY_TIMESTAMP_OFFSET, count] = offset_of_greatest
            count += 1
            passed = 0
        position = add64(position, batches[SIZE, index])
        passed = add64(passed, batches[SIZE, index])
    return count, passed, greatest, offset_of_greatest
