"""Which records compaction retains, by the offset map and by delete horizons.

Kafka: ``Cleaner.shouldRetainRecord``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.cleaner.keys.key_table import check_status
from tidelog.cleaner.rewriting.delete_horizon import have_passed
from tidelog.kernels.compaction import key_rows as keys

if TYPE_CHECKING:
    from tidelog.cleaner.keys.key_table import KeyTable
    from tidelog.cleaner.keys.superseded import SupersededOffsets
    from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches
    from tidelog.records.array_rows import Ints
    from tidelog.records.batch_columns import BatchColumns

_WHOLE: Final = keys.SUPERSEDED_WHOLE


def mark_superseded(
    batches: BatchColumns, actions: Ints, offset_map: SupersededOffsets, *, with_kernels: bool
) -> None:
    """Set SUPERSEDED_WHOLE for batches whose records are all superseded, by the map's bits.

    Such batches need not be decompressed, nor their keys looked up. Each of them has a record at
    every offset from its first to its last, so the bits cover all of its records.
    """
    if with_kernels:
        from tidelog.kernels.compaction import key_batches  # noqa: PLC0415 - compiles when imported

        array = np.ascontiguousarray(batches.array)
        check_status(key_batches.mark_superseded(array, actions, offset_map.bits, offset_map.state))
        return
    first, last = batches.base_offset, batches.last_offset
    has_bits = (first >= offset_map.bits_start) & (last < offset_map.bits_end) & (first <= last)
    is_filtered = (actions & keys.READ) == keys.FILTER
    is_dense = (batches.records_count == last - first + 1) & (batches.magic >= 2)
    for index in np.flatnonzero(has_bits & is_filtered & is_dense).tolist():
        if offset_map.has_bits(np.arange(first[index], last[index] + 1)).all():
            actions[index] = actions[index] & ~keys.FILTER | _WHOLE


def check_record_retention(
    decompressed: DecompressedBatches,
    table: KeyTable,
    offset_map: SupersededOffsets,
    now_ms: int,
    *,
    retain_legacy_deletes: bool,
) -> None:
    """Fill the VERDICT row for all records in ``table``, which are those of ``decompressed``.

    ``now_ms`` is the time by which delete horizons have passed; ``retain_legacy_deletes`` keeps
    the tombstones of magic 0 and 1. Source: Kafka Cleaner.shouldRetainRecord.
    """
    _look_up(decompressed, table, offset_map)
    if decompressed.legacy is not None or not table.with_kernels:
        _check_plainly(
            decompressed, table, offset_map, now_ms, retain_legacy_deletes=retain_legacy_deletes
        )
        return
    from tidelog.kernels.compaction.key_walk import decide_retention  # noqa: PLC0415 - compiles when imported

    areas, actions = decompressed.areas, decompressed.actions
    arrays = offset_map.bits, offset_map.state
    check_status(decide_retention(areas, actions, table.rows, table.count, *arrays, now_ms))


def _look_up(
    decompressed: DecompressedBatches, table: KeyTable, offset_map: SupersededOffsets
) -> None:
    """Look up the keys of records that the map may know and that have no bit."""
    if not table.count:
        return
    offsets = table.rows[keys.OFFSET, : table.count]
    if offset_map.bits_start <= offsets[0] and offsets[-1] < offset_map.bits_end:
        return
    first_bit = int(offsets.searchsorted(offset_map.bits_start))
    after_bits = int(offsets.searchsorted(offset_map.bits_end))
    known = int(offsets.searchsorted(offset_map.latest_offset, "right"))
    offset_map.look_up(decompressed.data, table, 0, min(first_bit, known))
    offset_map.look_up(decompressed.data, table, min(max(after_bits, first_bit), known), known)


def _check_plainly(
    decompressed: DecompressedBatches,
    table: KeyTable,
    offset_map: SupersededOffsets,
    now_ms: int,
    *,
    retain_legacy_deletes: bool,
) -> None:
    """Do what the kernel ``decide_retention`` does, with arrays; supports magic 0 and 1 too."""
    columns = table.rows[:, : table.count]
    offsets, batch = columns[keys.OFFSET], columns[keys.AREA]
    has_bit = (offsets >= offset_map.bits_start) & (offsets < offset_map.bits_end)
    is_superseded = ~has_bit & (offsets < columns[keys.LATEST])
    is_superseded[has_bit] = offset_map.has_bits(offsets[has_bit])
    batches, actions = decompressed.batches, decompressed.actions
    is_due = have_passed(batches, now_ms)
    if decompressed.legacy is not None:
        is_due[:] = not retain_legacy_deletes
    is_expired = is_due[batch] & (columns[keys.VALUE_SIZE] < 0)
    verdict = np.where(is_expired, keys.EXPIRED, keys.STAYS)
    verdict[is_superseded] = keys.SUPERSEDED
    verdict[columns[keys.KEY_SIZE] < 0] = keys.KEYLESS
    verdict[offsets > offset_map.latest_offset] = keys.STAYS
    verdict[(actions[batch] & keys.KEEP) != 0] = keys.STAYS
    columns[keys.VERDICT] = verdict
