"""The delete horizon: until when compaction retains a tombstone, or the marker of a transaction.

The first cleaning that finds nothing newer for a tombstone's key writes into its batch when
``delete.retention.ms`` will have passed, so that each reader that keeps up sees it. Cleanings after
that time drop it. A batch has one horizon for all its records, in the place of its base timestamp,
and keeps the first one it gets. Batches of magic 0 and 1 have no such field: the time when the file
of a segment was last changed decides.

The kernels that do the same for whole segments are ``decide_retention``
(``kernels/compaction/key_walk.py``) and ``rewrite_batches`` (``key_rewrite.py``). Kafka: KIP-534,
``RecordBatch.deleteHorizonMs``, ``Cleaner.shouldRetainRecord`` and ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernels import rows
from tidelog.records.batch import INT64_MAX, BatchFlags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.cleaner.source_log import SourceLog
    from tidelog.config.log_config import LogConfig
    from tidelog.records.array_rows import Bools
    from tidelog.records.batch_columns import BatchColumns


def new_horizon(now_ms: int, delete_retention_ms: int) -> int:
    """Return the horizon, in ms, of the batches that get theirs in a cleaning at ``now_ms``."""
    return min(now_ms + delete_retention_ms, INT64_MAX)


def gets_horizon(row: Sequence[int], *, has_tombstone: bool, has_emptied_marker: bool) -> bool:
    """Return whether a batch, given by its 14 fields, gets a horizon in this cleaning.

    ``has_tombstone``: one of its retained records is a tombstone. ``has_emptied_marker``: it is the
    marker of a transaction of which no record is left.
    """
    is_due = has_tombstone or has_emptied_marker
    return is_due and not row[rows.ATTRIBUTES] & BatchFlags.DELETE_HORIZON


def has_passed(row: Sequence[int], now_ms: int) -> bool:
    """Return whether the horizon of a batch, given by its 14 fields, has passed at ``now_ms``."""
    has_horizon = bool(row[rows.ATTRIBUTES] & BatchFlags.DELETE_HORIZON)
    return has_horizon and row[rows.BASE_TIMESTAMP] <= now_ms


def have_passed(batches: BatchColumns, now_ms: int) -> Bools:
    """Return the same of many batches."""
    return batches.has_delete_horizon & (batches.base_timestamp <= now_ms)


def legacy_horizon_of(log: SourceLog, first_dirty: int, config: LogConfig) -> int:
    """Return the time in ms: segments changed before it lose their tombstones of magic 0 and 1."""
    clean = [segment for segment in log.segments if segment.base_offset < first_dirty]
    return clean[-1].modified_ms - config.delete_retention_ms if clean else 0
