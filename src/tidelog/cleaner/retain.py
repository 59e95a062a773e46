"""Which records stay: by what a map knows of their keys, and by delete horizons.

Owns the verdicts. Must not know how a batch is written. Kafka: ``Cleaner.shouldRetainRecord``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.cleaner.key_table import check_status
from tidelog.kernels.compaction import key_rows as keys

if TYPE_CHECKING:
    from tidelog.cleaner.key_table import KeyTable
    from tidelog.cleaner.offset_map import OffsetMap
    from tidelog.cleaner.plain_runs import Run
    from tidelog.records.array_rows import Ints
    from tidelog.records.memory import BatchColumns

_WHOLE: Final = keys.SUPERSEDED_WHOLE


def mark_superseded(
    batches: BatchColumns, marks: Ints, offset_map: OffsetMap, *, with_kernels: bool
) -> None:
    """Mark batches of which the map's bits say that every record is superseded.

    Those need not be unpacked, nor their keys looked up. They have a record at each offset that
    they span, so that nothing in them can be anything else.
    """
    if with_kernels:
        from tidelog.kernels.compaction import key_batches  # noqa: PLC0415 - compiles when imported

        array = np.ascontiguousarray(batches.array)
        check_status(key_batches.mark_superseded(array, marks, offset_map.bits, offset_map.state))
        return
    first, last = batches.base_offset, batches.last_offset
    has_bits = (first >= offset_map.bits_start) & (last < offset_map.bits_end) & (first <= last)
    is_judged = (marks & (keys.JUDGE | keys.KEEP)) == keys.JUDGE
    is_dense = (batches.records_count == last - first + 1) & (batches.magic >= 2)
    for index in np.flatnonzero(has_bits & is_judged & is_dense).tolist():
        if offset_map.has_bits(np.arange(first[index], last[index] + 1)).all():
            marks[index] = marks[index] & ~keys.JUDGE | _WHOLE


def judge(
    run: Run, table: KeyTable, offset_map: OffsetMap, now_ms: int, *, keep_old_tombstones: bool
) -> None:
    """Fill VERDICT of all records in ``table``, which are those of ``run``.

    ``now_ms`` is the time by which delete horizons have passed; with ``keep_old_tombstones``
    tombstones of magic 0 and 1 stay.
    """
    _look_up(run, table, offset_map)
    if run.legacy is not None or not table.with_kernels:
        _judge_plainly(run, table, offset_map, now_ms, keep_old_tombstones=keep_old_tombstones)
        return
    from tidelog.kernels.compaction.key_walk import judge_keys  # noqa: PLC0415 - compiles when imported

    arrays = offset_map.bits, offset_map.state
    check_status(judge_keys(run.areas, run.marks, table.rows, table.count, *arrays, now_ms))


def _look_up(run: Run, table: KeyTable, offset_map: OffsetMap) -> None:
    """Ask the map for the keys of those records that the map may know and that have no bit."""
    if not table.count:
        return
    offsets = table.rows[keys.OFFSET, : table.count]
    if offset_map.bits_start <= offsets[0] and offsets[-1] < offset_map.bits_end:
        return
    first_bit = int(offsets.searchsorted(offset_map.bits_start))
    after_bits = int(offsets.searchsorted(offset_map.bits_end))
    known = int(offsets.searchsorted(offset_map.latest_offset, "right"))
    offset_map.look_up(run.data, table, 0, min(first_bit, known))
    offset_map.look_up(run.data, table, min(max(after_bits, first_bit), known), known)


def _judge_plainly(
    run: Run, table: KeyTable, offset_map: OffsetMap, now_ms: int, *, keep_old_tombstones: bool
) -> None:
    """Do what the kernel ``judge_keys`` does, with arrays; knows old batches too."""
    judged = table.rows[:, : table.count]
    offsets, batch = judged[keys.OFFSET], judged[keys.AREA]
    has_bit = (offsets >= offset_map.bits_start) & (offsets < offset_map.bits_end)
    is_superseded = ~has_bit & (offsets < judged[keys.LATEST])
    is_superseded[has_bit] = offset_map.has_bits(offsets[has_bit])
    is_due = run.batches.has_delete_horizon & (run.batches.base_timestamp <= now_ms)
    if run.legacy is not None:
        is_due[:] = not keep_old_tombstones
    is_expired = is_due[batch] & (judged[keys.VALUE_SIZE] < 0)
    verdict = np.where(is_expired, keys.EXPIRED, keys.STAYS)
    verdict[is_superseded] = keys.SUPERSEDED
    verdict[judged[keys.KEY_SIZE] < 0] = keys.KEYLESS
    verdict[offsets > offset_map.latest_offset] = keys.STAYS
    verdict[(run.marks[batch] & keys.KEEP) != 0] = keys.STAYS
    judged[keys.VERDICT] = verdict
