"""Batches without the records that compaction drops.

Owns what is written for each batch: nothing, its header, itself, or a new batch with the records
that stay; and the buffer they gather in. Must not know segments or files, or why a record goes
(``retain``). ``rewrite`` has the plain twin of the kernel. Kafka: ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner import cleaning_result
from tidelog.cleaner.key_table import KeyTable, check_status
from tidelog.cleaner.plain_runs import find_runs
from tidelog.cleaner.retain import judge, mark_superseded
from tidelog.cleaner.rewrite import Rewriting, packed_again, rewrite_old, rewrite_plainly
from tidelog.kernels import rows
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.memory import BatchColumns

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.cleaner.cleaning_result import Dropped
    from tidelog.cleaner.header_summary import Glance
    from tidelog.cleaner.offset_map import OffsetMap
    from tidelog.cleaner.plain_runs import Run
    from tidelog.cleaner.stats import Tally
    from tidelog.records.array_rows import Bytes, Ints

GROWTH_BYTES: Final = 10
"""Bytes by which a record may grow when its batch gets another base timestamp."""


class Filtered(NamedTuple):
    """Batches that are left, in one of two buffers, and their headers."""

    data: Bytes
    batches: BatchColumns


class RecordFilter:
    """Filters the pieces of one cleaning round, in order; what is left gathers until ``take``.

    Args:
        offset_map: what the round knows of keys.
        now_ms: the time by which delete horizons are set and have passed.
        delete_retention_ms: how long a tombstone stays after it was first cleaned.
        tally: where to count.
        on_dropped: told of each record that goes; naming them takes time.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        tally: Tally,
        on_dropped: Callable[[Dropped], None] | None = None,
    ) -> None:
        self._map = offset_map
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._tally = tally
        self._on_dropped = on_dropped
        self._table = KeyTable(with_kernels=offset_map.with_kernels)
        self._out: Bytes = np.empty(0, np.uint8)
        self._taken: Bytes = np.empty(0, np.uint8)
        self._batches: list[BatchColumns] = []
        self.filled_bytes = 0

    def add(
        self,
        source: Bytes,
        batches: BatchColumns,
        marks: Ints,
        glance: Glance,
        *,
        keep_old_tombstones: bool,
    ) -> None:
        """Filter some batches; ``filled_bytes`` says how much is left by now.

        Args:
            source: holds the batches.
            batches: with positions in ``source``.
            marks: what is to be done with each; marked further here.
            glance: at these batches.
            keep_old_tombstones: tombstones of magic 0 and 1 stay.

        Raises CorruptMessage and InvalidRecord for batches that do not read, InvalidArgument for a
        negative timestamp in a batch that has to be written again.
        """
        with_kernels = self._table.with_kernels
        mark_superseded(batches, marks, self._map, with_kernels=with_kernels)
        for run in find_runs(source, batches, marks, glance, with_kernels=with_kernels):
            run.walk(self._table)
            judge(
                run,
                self._table,
                self._map,
                self._now_ms,
                keep_old_tombstones=keep_old_tombstones,
            )
            rewriting = self._rewrite(run)
            cleaning_result.count(run, self._table, rewriting, self._tally)
            if self._on_dropped is not None:
                cleaning_result.name(run, self._table, self._tally, self._on_dropped)

    def take(self) -> Filtered | None:
        """Return all that is left and was not taken yet, None for nothing.

        It stays as it is until something is added after the next time.
        """
        if not self._batches:
            return None
        filtered = Filtered(self._out[: self.filled_bytes], BatchColumns.joined(self._batches))
        self._out, self._taken = self._taken, self._out
        self._batches, self.filled_bytes = [], 0
        return filtered

    def _rewrite(self, run: Run) -> Rewriting:
        """Write what is left of ``run`` behind what is there."""
        if run.is_plain and self._table.with_kernels:
            written = self._rewrite_by_kernel(run)
        else:
            written = self._rewrite_elsewhere(run)
            self._reserve(len(written.data))
            self._out[self.filled_bytes :][: len(written.data)] = written.data
        if len(written.batches):
            self._batches.append(written.batches.shifted(self.filled_bytes))
            self.filled_bytes += len(written.data)
        return written

    def _rewrite_elsewhere(self, run: Run) -> Rewriting:
        """Return what is left of old or compressed batches, or of any in plain code."""
        judged = self._table.rows[:, : self._table.count]
        if run.legacy is not None:
            return rewrite_old(run.legacy, run.marks, judged, self._horizon_ms)
        if self._table.with_kernels:
            written = self._rewrite_by_kernel(run)
        else:
            written = rewrite_plainly(run, judged, self._horizon_ms)
        return written if run.is_plain else packed_again(run, written)

    def _rewrite_by_kernel(self, run: Run) -> Rewriting:
        """Write what is left of ``run``, uncompressed, into the room behind what is there."""
        from tidelog.kernels.compaction.key_rewrite import rewrite_batches  # noqa: PLC0415 - compiles when imported

        table, count = self._table, len(run.batches)
        self._reserve(len(run.data) + GROWTH_BYTES * table.count + BATCH_HEADER.size * count)
        out = self._out[self.filled_bytes :]
        written = np.empty((rows.BATCH_COLUMNS, count), np.int64)
        fates = np.empty(count, np.int64)
        status, kept, size = rewrite_batches(
            run.data,
            np.ascontiguousarray(run.batches.array),
            run.marks,
            table.rows,
            table.count,
            self._horizon_ms,
            run.is_plain,
            out,
            written,
            fates,
        )
        check_status(status)
        return Rewriting(out[:size], BatchColumns(written[:, :kept]), fates)

    def _reserve(self, size_bytes: int) -> None:
        """Make room for so many bytes behind what is there."""
        needed = self.filled_bytes + size_bytes
        if len(self._out) < needed:
            spare = len(self._out) // 4  # so that growing ends soon
            before, self._out = self._out, np.empty(needed + spare, np.uint8)
            self._out[: self.filled_bytes] = before[: self.filled_bytes]
