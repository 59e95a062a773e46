"""The log cleaner's passes over batch headers, before and after it decides about records.

Kafka: ``Cleaner.cleanInto`` and ``CleanerStats``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernels.compaction.key_rows import (
    BITS_END,
    BITS_START,
    DROPPED,
    EXPIRED,
    FILTER,
    HAS_COMPRESSED,
    HAS_OLD,
    HAS_SPECIAL,
    KEEP,
    KEY_COLUMNS,
    KEYLESS,
    SEEN_ABORTED,
    SEEN_BYTES,
    SEEN_COLUMNS,
    SEEN_EMPTY,
    SEEN_EXPIRED,
    SEEN_KEYLESS,
    SEEN_MARKERS,
    SEEN_RECORDS,
    SEEN_STAYING,
    SEEN_SUPERSEDED,
    STATE_WORDS,
    STAYS,
    SUPERSEDED,
    SUPERSEDED_WHOLE,
    VERDICT,
)
from tidelog.kernels.rows import (
    AREA_ATTRIBUTES,
    AREA_BASE_OFFSET,
    AREA_BASE_TIMESTAMP,
    AREA_COLUMNS,
    AREA_COUNT,
    AREA_END,
    AREA_MAX_TIMESTAMP,
    AREA_START,
    ATTRIBUTES,
    BAD_ARGUMENT,
    BAD_COUNT,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH_COLUMNS,
    CODEC_BITS,
    CONTROL_BIT,
    HEADER_BYTES,
    LAST_OFFSET,
    MAGIC,
    MAX_TIMESTAMP,
    OK,
    POSITION,
    RECORDS_COUNT,
    SIZE,
    SMALLEST_RECORD_BYTES,
    TRANSACTIONAL_BIT,
)
from tidelog.kernels.runtime.intrinsics import add64, subtract64
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT64S,
    TABLE,
    WRITABLE_INT64S,
    WRITABLE_TABLE,
    called,
    kernel,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@kernel(f"UniTuple(int64, 2)({TABLE})")
def summarize_headers(batches: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return the ``HAS_...`` bits that apply to any batch, and the total number of records."""
    found = records = 0
    if batches.shape[0] < BATCH_COLUMNS:
        return found, records
    for index in range(batches.shape[1]):
        attributes = batches[ATTRIBUTES, index]
        if batches[MAGIC, index] < 2:
            found |= HAS_OLD
        elif attributes & (CONTROL_BIT | TRANSACTIONAL_BIT) != 0:
            found |= HAS_SPECIAL
        if attributes & CODEC_BITS != 0:
            found |= HAS_COMPRESSED
        records = add64(records, max(batches[RECORDS_COUNT, index], 0))
    return found, records


@kernel(f"int64({TABLE}, {WRITABLE_TABLE})")
def fill_areas(batches: npt.NDArray[np.int64], areas: npt.NDArray[np.int64]) -> int:
    """Fill a column of ``areas`` for each uncompressed batch; return OK or BAD_ARGUMENT."""
    if batches.shape[0] < BATCH_COLUMNS or areas.shape[0] < AREA_COLUMNS:
        return BAD_ARGUMENT
    if areas.shape[1] < batches.shape[1]:
        return BAD_ARGUMENT
    for index in range(batches.shape[1]):
        areas[AREA_START, index] = add64(batches[POSITION, index], HEADER_BYTES)
        areas[AREA_END, index] = add64(batches[POSITION, index], batches[SIZE, index])
        areas[AREA_COUNT, index] = batches[RECORDS_COUNT, index]
        areas[AREA_BASE_OFFSET, index] = batches[BASE_OFFSET, index]
        areas[AREA_BASE_TIMESTAMP, index] = batches[BASE_TIMESTAMP, index]
        areas[AREA_MAX_TIMESTAMP, index] = batches[MAX_TIMESTAMP, index]
        areas[AREA_ATTRIBUTES, index] = batches[ATTRIBUTES, index]
    return OK


@kernel(f"int64({TABLE}, {INT64S})")
def count_records(areas: npt.NDArray[np.int64], actions: npt.NDArray[np.int64]) -> int:
    """Return the number of records in the areas whose actions include FILTER or KEEP.

    Returns BAD_COUNT if an area states more records than its bytes can hold, so that no memory is
    allocated for them.
    """
    if areas.shape[0] < AREA_COLUMNS or actions.size < areas.shape[1]:
        return BAD_ARGUMENT
    records = 0
    for area in range(areas.shape[1]):
        if actions[area] & (FILTER | KEEP) == 0:
            continue
        count = areas[AREA_COUNT, area]
        length = subtract64(areas[AREA_END, area], areas[AREA_START, area])
        if count < 0 or count > length // SMALLEST_RECORD_BYTES:
            return BAD_COUNT
        records += count
    return records


@called
def _are_set(bits: npt.NDArray[np.uint8], start: int, end: int) -> bool:
    """Return whether all bits of ``[start, end)`` are set, 0 <= start < end <= 8 * bits.size."""
    first, last = start >> 3, (end - 1) >> 3
    head, tail = 0xFF << (start & 7) & 0xFF, 0xFF >> (7 - ((end - 1) & 7))
    if first == last:
        wanted = head & tail
        return bool(bits[first] & wanted == wanted)
    if bits[first] & head != head or bits[last] & tail != tail:
        return False
    at = first + 1
    while at < last and bits[at] == 0xFF:
        at += 1
    return at == last


@kernel(f"int64({TABLE}, {WRITABLE_INT64S}, {BYTES}, {INT64S})")
def mark_superseded(
    batches: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    bits: npt.NDArray[np.uint8],
    state: npt.NDArray[np.int64],
) -> int:
    """Replace FILTER by SUPERSEDED_WHOLE for batches all of whose offsets have their bit set.

    Only batches with a record at each of their offsets qualify, since nothing else can be in them.
    Returns the number of these batches, or BAD_ARGUMENT.
    """
    if batches.shape[0] < BATCH_COLUMNS or actions.size < batches.shape[1]:
        return BAD_ARGUMENT
    if state.size < STATE_WORDS:
        return BAD_ARGUMENT
    bits_start, bits_end = state[BITS_START], state[BITS_END]
    if not 0 <= subtract64(bits_end, bits_start) <= 8 * bits.size:
        return BAD_ARGUMENT
    changed = 0
    for index in range(batches.shape[1]):
        first, last = batches[BASE_OFFSET, index], batches[LAST_OFFSET, index]
        if actions[index] & (FILTER | KEEP) != FILTER or batches[MAGIC, index] < 2:
            continue
        if not bits_start <= first <= last < bits_end:
            continue
        if batches[RECORDS_COUNT, index] != last - first + 1:
            continue
        if _are_set(bits, first - bits_start, last - bits_start + 1):
            actions[index] = actions[index] & ~FILTER | SUPERSEDED_WHOLE
            changed += 1
    return changed


@kernel(f"int64({TABLE}, {INT64S}, {TABLE}, int64, {INT64S}, {WRITABLE_INT64S})")
def collect_stats(
    batches: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    count: int,
    results: npt.NDArray[np.int64],
    seen: npt.NDArray[np.int64],
) -> int:
    """Fill ``seen`` with the results for some batches and their records ``rows[:count]``.

    Returns OK or BAD_ARGUMENT.
    """
    total = batches.shape[1]
    if batches.shape[0] < BATCH_COLUMNS or min(actions.size, results.size) < total:
        return BAD_ARGUMENT
    if rows.shape[0] < KEY_COLUMNS or not 0 <= count <= rows.shape[1] or seen.size < SEEN_COLUMNS:
        return BAD_ARGUMENT
    seen[:] = 0
    staying = superseded = expired = keyless = 0
    for row in range(count):
        verdict = rows[VERDICT, row]
        staying += verdict == STAYS
        superseded += verdict == SUPERSEDED
        expired += verdict == EXPIRED
        keyless += verdict == KEYLESS
    seen[SEEN_RECORDS], seen[SEEN_STAYING] = count, staying
    seen[SEEN_SUPERSEDED], seen[SEEN_EXPIRED], seen[SEEN_KEYLESS] = superseded, expired, keyless
    for index in range(total):
        records = batches[RECORDS_COUNT, index]
        seen[SEEN_BYTES] = add64(seen[SEEN_BYTES], batches[SIZE, index])
        seen[SEEN_EMPTY] += records == 0 and results[index] == DROPPED
        if actions[index] & (FILTER | KEEP) != 0:
            continue
        cause = SEEN_ABORTED
        if actions[index] & SUPERSEDED_WHOLE != 0:
            cause = SEEN_SUPERSEDED
        elif batches[MAGIC, index] >= 2 and batches[ATTRIBUTES, index] & CONTROL_BIT != 0:
            cause = SEEN_MARKERS
        seen[SEEN_RECORDS] = add64(seen[SEEN_RECORDS], records)
        seen[cause] = add64(seen[cause], records)
    return OK
