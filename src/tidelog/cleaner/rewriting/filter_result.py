"""The result of filtering some batches: counted, and the dropped records reported on request.

Kafka: ``MemoryRecords.FilterResult``, and what ``CleanerStats`` takes from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.keys.key_table import check_status
from tidelog.cleaner.stats import DropCause
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.decoding.record_columns import decode_groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.cleaner.keys.key_table import KeyTable
    from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches
    from tidelog.cleaner.rewriting.rewrite import RewrittenBatches
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.records.array_rows import Ints

_READ: Final = keys.FILTER | keys.KEEP
_CAUSE_OF_VERDICT: Final = {
    keys.SUPERSEDED: DropCause.SUPERSEDED,
    keys.EXPIRED: DropCause.TOMBSTONE,
    keys.KEYLESS: DropCause.KEYLESS,
}
_CAUSE_OF_COUNT: Final = {
    keys.SEEN_SUPERSEDED: DropCause.SUPERSEDED,
    keys.SEEN_EXPIRED: DropCause.TOMBSTONE,
    keys.SEEN_KEYLESS: DropCause.KEYLESS,
    keys.SEEN_ABORTED: DropCause.ABORTED,
    keys.SEEN_MARKERS: DropCause.MARKER,
    keys.SEEN_EMPTY: DropCause.EMPTY,
}


class DroppedRecords(NamedTuple):
    """Offsets of dropped records, and the cause for each."""

    offsets: Ints
    causes: list[DropCause]


def update_stats(
    decompressed: DecompressedBatches,
    table: KeyTable,
    rewritten: RewrittenBatches,
    stats: CleanerStats,
) -> None:
    """Add the result for ``decompressed`` to ``stats``; ``table`` has the verdicts on its records.

    ``rewritten`` is what was written of it.
    """
    counts_of = _count_by_kernel if table.with_kernels else _count_plainly
    counts = counts_of(decompressed, table, rewritten.results)
    stats.records_read += counts[keys.SEEN_RECORDS]
    stats.records_written += counts[keys.SEEN_STAYING]
    stats.invalid_records += counts[keys.SEEN_KEYLESS]
    stats.batches_read += len(decompressed.batches)
    stats.batches_written += len(rewritten.batches)
    stats.batches_rewritten += counts[keys.SEEN_REWRITTEN]
    stats.bytes_read += counts[keys.SEEN_BYTES]
    stats.bytes_written += len(rewritten.data)
    for index, cause in _CAUSE_OF_COUNT.items():
        stats.count_dropped(cause, counts[index])


def _count_by_kernel(
    decompressed: DecompressedBatches, table: KeyTable, results: Ints
) -> list[int]:
    from tidelog.kernels.compaction.key_batches import collect_stats  # noqa: PLC0415 - compiles when imported

    batches, actions = np.ascontiguousarray(decompressed.batches.array), decompressed.actions
    counts = np.empty(keys.SEEN_COLUMNS, np.int64)
    check_status(collect_stats(batches, actions, table.rows, table.count, results, counts))
    numbers: list[int] = counts.tolist()
    return numbers


def _count_plainly(decompressed: DecompressedBatches, table: KeyTable, results: Ints) -> list[int]:
    """Do what the kernel ``collect_stats`` does."""
    batches, records = decompressed.batches, decompressed.batches.records_count
    verdicts = np.bincount(table.rows[keys.VERDICT, : table.count], minlength=4)
    is_unread = (decompressed.actions & _READ) == 0
    is_superseded = is_unread & ((decompressed.actions & keys.SUPERSEDED_WHOLE) != 0)
    is_marker = is_unread & ~is_superseded & batches.is_control
    is_aborted = is_unread & ~is_superseded & ~batches.is_control
    counts = [0] * keys.SEEN_COLUMNS
    counts[keys.SEEN_RECORDS] = table.count + int(records[is_unread].sum())
    counts[keys.SEEN_STAYING] = int(verdicts[keys.STAYS])
    counts[keys.SEEN_SUPERSEDED] = int(verdicts[keys.SUPERSEDED] + records[is_superseded].sum())
    counts[keys.SEEN_EXPIRED] = int(verdicts[keys.EXPIRED])
    counts[keys.SEEN_KEYLESS] = int(verdicts[keys.KEYLESS])
    counts[keys.SEEN_ABORTED] = int(records[is_aborted].sum())
    counts[keys.SEEN_MARKERS] = int(records[is_marker].sum())
    counts[keys.SEEN_EMPTY] = int(((records == 0) & (results == keys.DROPPED)).sum())
    counts[keys.SEEN_REWRITTEN] = int((results == keys.REWRITTEN).sum())
    counts[keys.SEEN_BYTES] = int(batches.size.sum())
    return counts


def report_dropped(
    decompressed: DecompressedBatches,
    table: KeyTable,
    stats: CleanerStats,
    on_dropped: Callable[[DroppedRecords], None],
) -> None:
    """Call ``on_dropped`` with the dropped records, including those of batches never decompressed.

    Retained tombstones are observed for ``stats`` too.
    """
    columns = table.rows[:, : table.count]
    is_retained = columns[keys.VERDICT] == keys.STAYS
    tombstones = columns[keys.TIMESTAMP][is_retained & (columns[keys.VALUE_SIZE] < 0)]
    if len(tombstones):
        stats.observe_tombstone(int(tombstones.min()))
    dropped = columns[:, ~is_retained]
    causes = [_CAUSE_OF_VERDICT[verdict] for verdict in dropped[keys.VERDICT].tolist()]
    on_dropped(DroppedRecords(dropped[keys.OFFSET].copy(), causes))
    batches = decompressed.batches
    is_unread = (decompressed.actions & _READ) == 0
    is_superseded = is_unread & ((decompressed.actions & keys.SUPERSEDED_WHOLE) != 0)
    for index in np.flatnonzero(is_superseded).tolist():
        offsets = np.arange(batches.base_offset[index], batches.last_offset[index] + 1)
        on_dropped(DroppedRecords(offsets, [DropCause.SUPERSEDED] * len(offsets)))
    for is_control, cause in ((False, DropCause.ABORTED), (True, DropCause.MARKER)):
        chosen = is_unread & ~is_superseded & (batches.is_control == is_control)
        for group in decode_groups(decompressed.source, batches.select(chosen)):
            on_dropped(DroppedRecords(group.offset.copy(), [cause] * len(group)))
