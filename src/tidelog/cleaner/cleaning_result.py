"""What became of some batches and their records: counted, and named to whoever asks.

Owns the causes. Must not decide anything. Kafka: ``CleanerStats``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.key_table import check_status
from tidelog.cleaner.stats import Cause
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.record_columns import decode_groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.cleaner.key_table import KeyTable
    from tidelog.cleaner.plain_runs import Run
    from tidelog.cleaner.rewrite import Rewriting
    from tidelog.cleaner.stats import Tally
    from tidelog.records.array_rows import Ints

_LOOKED_AT: Final = keys.JUDGE | keys.KEEP
_CAUSES: Final = {
    keys.SUPERSEDED: Cause.SUPERSEDED,
    keys.EXPIRED: Cause.TOMBSTONE,
    keys.KEYLESS: Cause.KEYLESS,
}
_GONE: Final = {
    keys.SEEN_SUPERSEDED: Cause.SUPERSEDED,
    keys.SEEN_EXPIRED: Cause.TOMBSTONE,
    keys.SEEN_KEYLESS: Cause.KEYLESS,
    keys.SEEN_ABORTED: Cause.ABORTED,
    keys.SEEN_MARKERS: Cause.MARKER,
    keys.SEEN_EMPTY: Cause.EMPTY,
}


class Dropped(NamedTuple):
    """Records that go, for whoever wants to name them."""

    offsets: Ints
    causes: list[Cause]


def count(run: Run, table: KeyTable, rewriting: Rewriting, tally: Tally) -> None:
    """Add what became of ``run``, whose judged records are in ``table``."""
    seen = (_seen_by_kernel if table.with_kernels else _seen_plainly)(run, table, rewriting.fates)
    tally.records_read += seen[keys.SEEN_RECORDS]
    tally.records_written += seen[keys.SEEN_STAYING]
    tally.invalid_records += seen[keys.SEEN_KEYLESS]
    tally.batches_read += len(run.batches)
    tally.batches_written += len(rewriting.batches)
    tally.batches_rewritten += seen[keys.SEEN_REWRITTEN]
    tally.bytes_read += seen[keys.SEEN_BYTES]
    tally.bytes_written += len(rewriting.data)
    for index, cause in _GONE.items():
        tally.drop(cause, seen[index])


def _seen_by_kernel(run: Run, table: KeyTable, fates: Ints) -> list[int]:
    from tidelog.kernels.compaction.key_batches import count_outcome  # noqa: PLC0415 - compiles when imported

    batches, seen = np.ascontiguousarray(run.batches.array), np.empty(keys.SEEN_COLUMNS, np.int64)
    check_status(count_outcome(batches, run.marks, table.rows, table.count, fates, seen))
    numbers: list[int] = seen.tolist()
    return numbers


def _seen_plainly(run: Run, table: KeyTable, fates: Ints) -> list[int]:
    """Do what the kernel ``count_outcome`` does."""
    batches, counts = run.batches, run.batches.records_count
    verdicts = np.bincount(table.rows[keys.VERDICT, : table.count], minlength=4)
    is_unseen = (run.marks & _LOOKED_AT) == 0
    is_superseded = is_unseen & ((run.marks & keys.SUPERSEDED_WHOLE) != 0)
    is_marker = is_unseen & ~is_superseded & batches.is_control
    is_aborted = is_unseen & ~is_superseded & ~batches.is_control
    seen = [0] * keys.SEEN_COLUMNS
    seen[keys.SEEN_RECORDS] = table.count + int(counts[is_unseen].sum())
    seen[keys.SEEN_STAYING] = int(verdicts[keys.STAYS])
    seen[keys.SEEN_SUPERSEDED] = int(verdicts[keys.SUPERSEDED] + counts[is_superseded].sum())
    seen[keys.SEEN_EXPIRED] = int(verdicts[keys.EXPIRED])
    seen[keys.SEEN_KEYLESS] = int(verdicts[keys.KEYLESS])
    seen[keys.SEEN_ABORTED] = int(counts[is_aborted].sum())
    seen[keys.SEEN_MARKERS] = int(counts[is_marker].sum())
    seen[keys.SEEN_EMPTY] = int(((counts == 0) & (fates == keys.DROPPED)).sum())
    seen[keys.SEEN_REWRITTEN] = int((fates == keys.REWRITTEN).sum())
    seen[keys.SEEN_BYTES] = int(batches.size.sum())
    return seen


def name(run: Run, table: KeyTable, tally: Tally, tell: Callable[[Dropped], None]) -> None:
    """Tell of each record that goes, those of batches that went unseen too."""
    judged = table.rows[:, : table.count]
    stays = judged[keys.VERDICT] == keys.STAYS
    tombstones = judged[keys.TIMESTAMP][stays & (judged[keys.VALUE_SIZE] < 0)]
    if len(tombstones):
        tally.meet_tombstone(int(tombstones.min()))
    gone = judged[:, ~stays]
    verdicts = gone[keys.VERDICT].tolist()
    tell(Dropped(gone[keys.OFFSET].copy(), [_CAUSES[verdict] for verdict in verdicts]))
    is_unseen = (run.marks & _LOOKED_AT) == 0
    is_superseded = is_unseen & ((run.marks & keys.SUPERSEDED_WHOLE) != 0)
    for index in np.flatnonzero(is_superseded).tolist():
        offsets = np.arange(run.batches.base_offset[index], run.batches.last_offset[index] + 1)
        tell(Dropped(offsets, [Cause.SUPERSEDED] * len(offsets)))
    for is_control, cause in ((False, Cause.ABORTED), (True, Cause.MARKER)):
        chosen = is_unseen & ~is_superseded & (run.batches.is_control == is_control)
        for group in decode_groups(run.source, run.batches.select(chosen)):
            tell(Dropped(group.offset.copy(), [cause] * len(group)))
