"""The result of filtering some batches: counted, and the dropped records reported on request.

Kafka: ``MemoryRecords.FilterResult``, and what ``CleanerStats`` takes from it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.keys.key_table import KeyTable, check_status
from tidelog.cleaner.keys.offset_map import keys_of
from tidelog.cleaner.stats import DropCause
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.decoding.record_columns import decode_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.cleaner.keys.superseded import SupersededOffsets
    from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches
    from tidelog.cleaner.rewriting.rewrite import RewrittenBatches
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.records.array_rows import Bools, Ints
    from tidelog.records.decoding.record_columns import RecordColumns

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


class ExplainedDrop(NamedTuple):
    """A record that is dropped, and why; or a batch without records, at its first offset.

    ``superseded_by`` is the last offset of its key that the cleaning knows, ``key`` None for null.
    """

    offset: int
    cause: DropCause
    superseded_by: int | None = None
    key: bytes | None = None


class DroppedRecords:
    """The records that are dropped of some batches; used while the callback runs that gets it.

    ``offsets`` and ``causes`` are of records, in no order.
    """

    def __init__(
        self,
        decompressed: DecompressedBatches,
        table: KeyTable,
        offset_map: SupersededOffsets,
        results: Ints,
    ) -> None:
        self._decompressed = decompressed
        self._table = table
        self._map = offset_map
        self._results = results
        is_dropped = table.rows[keys.VERDICT, : table.count] != keys.STAYS
        self._dropped: Final = np.flatnonzero(is_dropped)
        is_unread = (decompressed.actions & keys.READ) == 0
        self._is_whole = is_unread & ((decompressed.actions & keys.SUPERSEDED_WHOLE) != 0)
        self._is_undecided = is_unread & ~self._is_whole
        verdicts = table.rows[keys.VERDICT, self._dropped].tolist()
        parts = [table.rows[keys.OFFSET, self._dropped]]
        self.causes = [_CAUSE_OF_VERDICT[verdict] for verdict in verdicts]
        batches = decompressed.batches
        for index in np.flatnonzero(self._is_whole).tolist():
            parts.append(np.arange(batches.base_offset[index], batches.last_offset[index] + 1))
            self.causes += [DropCause.SUPERSEDED] * len(parts[-1])
        for group, cause in self._undecided():
            parts.append(group.offset)
            self.causes += [cause] * len(group)
        self.offsets: Final[Ints] = np.concatenate(parts)

    def explained(self) -> list[ExplainedDrop]:
        """Return each record, and each batch without records, by ascending offset.

        This looks up keys that the cleaning itself need not look up.
        """
        found = self._explained_verdicts()
        for group in self._groups(self._is_whole):
            table = KeyTable(with_kernels=self._map.with_kernels)
            table.take(group)
            self._map.look_up(group.data, table, 0, table.count)
            found += [
                ExplainedDrop(offset, DropCause.SUPERSEDED, latest, key)
                for offset, latest, key in zip(
                    *table.rows[[keys.OFFSET, keys.LATEST], : table.count].tolist(),
                    keys_of(group.data, table, 0, table.count),
                    strict=True,
                )
            ]
        for group, cause in self._undecided():
            is_marker = cause is DropCause.MARKER
            found += [
                ExplainedDrop(record.offset, cause, None, None if is_marker else record.key)
                for record in group.records()
            ]
        batches = self._decompressed.batches
        is_empty = (batches.records_count == 0) & (self._results == keys.DROPPED)
        found += [
            ExplainedDrop(offset, DropCause.EMPTY)
            for offset in batches.base_offset[is_empty].tolist()
        ]
        return sorted(found, key=itemgetter(0))

    def _explained_verdicts(self) -> list[ExplainedDrop]:
        """Return the records that were dropped one by one."""
        table, data = self._table, self._decompressed.data
        offsets = table.rows[keys.OFFSET, : table.count]
        known = int(offsets.searchsorted(self._map.latest_offset, "right"))
        self._map.look_up(data, table, 0, known)
        found = []
        for row, cause in zip(self._dropped.tolist(), self.causes, strict=False):
            latest = int(table.rows[keys.LATEST, row])
            superseded_by = latest if cause is DropCause.SUPERSEDED else None
            has_key = table.rows[keys.KEY_SIZE, row] >= 0
            key = next(keys_of(data, table, row, row + 1)) if has_key else None
            found.append(ExplainedDrop(int(offsets[row]), cause, superseded_by, key))
        return found

    def _undecided(self) -> Iterator[tuple[RecordColumns, DropCause]]:
        """Yield the records of batches that are dropped for what their headers say."""
        is_control = self._decompressed.batches.is_control
        for group in self._groups(self._is_undecided & ~is_control):
            yield group, DropCause.ABORTED
        for group in self._groups(self._is_undecided & is_control):
            yield group, DropCause.MARKER

    def _groups(self, chosen: Bools) -> Iterator[RecordColumns]:
        batches = self._decompressed.batches.select(chosen)
        return decode_groups(self._decompressed.source, batches)


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
    is_unread = (decompressed.actions & keys.READ) == 0
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
    counts[keys.SEEN_BYTES] = int(batches.size.sum())
    return counts


def observe_tombstones(table: KeyTable, stats: CleanerStats) -> None:
    """Take the retained tombstones of ``table`` into account."""
    columns = table.rows[:, : table.count]
    is_retained = columns[keys.VERDICT] == keys.STAYS
    tombstones = columns[keys.TIMESTAMP][is_retained & (columns[keys.VALUE_SIZE] < 0)]
    if len(tombstones):
        stats.observe_tombstone(int(tombstones.min()))
