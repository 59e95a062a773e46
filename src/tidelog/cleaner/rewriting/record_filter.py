"""Filters batches: writes them without the records that compaction drops.

Of each batch nothing, the header, the whole batch, or a new batch with the retained records is
written to a buffer. Kafka: ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.keys.key_table import KeyTable, check_status
from tidelog.cleaner.rewriting.decompressed_batches import decompress_batches
from tidelog.cleaner.rewriting.delete_horizon import new_horizon
from tidelog.cleaner.rewriting.filter_result import (
    DroppedRecords,
    observe_tombstones,
    update_stats,
)
from tidelog.cleaner.rewriting.retain import check_record_retention, mark_superseded
from tidelog.cleaner.rewriting.rewrite import (
    RewrittenBatches,
    recompress,
    rewrite_legacy,
    rewrite_plainly,
)
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.batch_columns import BatchColumns

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.cleaner.keys.superseded import SupersededOffsets
    from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches
    from tidelog.cleaner.rewriting.header_summary import HeaderSummary
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.records.array_rows import Bytes, Ints

GROWTH_BYTES: Final = 10
"""Bytes by which a record may grow when its batch gets another base timestamp."""


class RetainedBatches(NamedTuple):
    """Batches to be written, in one of the filter's two buffers, and their headers."""

    data: Bytes
    batches: BatchColumns


class RecordFilter:
    """Filters the pieces of one cleaning, in order; retained batches are buffered until ``take``.

    Two buffers are used in turn, so that one can be written while the other is filled.

    Args:
        offset_map: the last offset of each key.
        now_ms: the time by which delete horizons have passed, and from which new ones are set.
        delete_retention_ms: how long a tombstone stays after it was first cleaned.
        stats: counts the results.
        on_dropped: called with the dropped records, which takes time; None to skip that.
    """

    def __init__(
        self,
        offset_map: SupersededOffsets,
        *,
        now_ms: int,
        delete_retention_ms: int,
        stats: CleanerStats,
        on_dropped: Callable[[DroppedRecords], None] | None = None,
    ) -> None:
        self._map = offset_map
        self._now_ms = now_ms
        self._horizon_ms = new_horizon(now_ms, delete_retention_ms)
        self._stats = stats
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
        actions: Ints,
        summary: HeaderSummary,
        *,
        retain_legacy_deletes: bool,
    ) -> None:
        """Filter some batches and buffer those retained; ``filled_bytes`` grows by their size.

        Args:
            source: contains the batches.
            batches: with positions in ``source``.
            actions: what is done with each; SUPERSEDED_WHOLE is set here.
            summary: of these batches.
            retain_legacy_deletes: keep the tombstones of magic 0 and 1.

        Raises CorruptMessage and InvalidRecord for damaged batches, InvalidArgument for a negative
        timestamp in a batch that has to be rewritten.
        """
        with_kernels = self._table.with_kernels
        mark_superseded(batches, actions, self._map, with_kernels=with_kernels)
        # What these delete goes in a later cleaning: if their time ran from now on, they could go
        # in the same one, and a reader of what they delete would never see them.
        actions[batches.last_offset > self._map.latest_offset] |= keys.UNMAPPED
        for decompressed in decompress_batches(
            source, batches, actions, summary, with_kernels=with_kernels
        ):
            decompressed.walk(self._table)
            check_record_retention(
                decompressed,
                self._table,
                self._map,
                self._now_ms,
                retain_legacy_deletes=retain_legacy_deletes,
            )
            rewritten = self._rewrite(decompressed)
            update_stats(decompressed, self._table, rewritten, self._stats)
            if self._on_dropped is not None:
                observe_tombstones(self._table, self._stats)
                self._on_dropped(
                    DroppedRecords(decompressed, self._table, self._map, rewritten.results)
                )

    def take(self) -> RetainedBatches | None:
        """Return the buffered batches and switch buffers; None if there are none.

        They stay valid until the first ``add`` after the next call that returns batches.
        """
        if not self._batches:
            return None
        filtered = RetainedBatches(
            self._out[: self.filled_bytes], BatchColumns.joined(self._batches)
        )
        self._out, self._taken = self._taken, self._out
        self._batches, self.filled_bytes = [], 0
        return filtered

    def _rewrite(self, decompressed: DecompressedBatches) -> RewrittenBatches:
        """Append what is retained of ``decompressed`` to the buffer."""
        if decompressed.is_plain and self._table.with_kernels:
            written = self._rewrite_by_kernel(decompressed)
        else:
            written = self._rewrite_separately(decompressed)
            self._reserve(len(written.data))
            self._out[self.filled_bytes :][: len(written.data)] = written.data
        if len(written.batches):
            self._batches.append(written.batches.shifted(self.filled_bytes))
            self.filled_bytes += len(written.data)
        return written

    def _rewrite_separately(self, decompressed: DecompressedBatches) -> RewrittenBatches:
        """Return, in other memory, what is retained of old or compressed batches.

        In plain code that is so for any batches.
        """
        columns = self._table.rows[:, : self._table.count]
        if decompressed.legacy is not None:
            return rewrite_legacy(
                decompressed.legacy, decompressed.actions, columns, self._horizon_ms
            )
        if self._table.with_kernels:
            written = self._rewrite_by_kernel(decompressed)
        else:
            written = rewrite_plainly(decompressed, columns, self._horizon_ms)
        return written if decompressed.is_plain else recompress(decompressed, written)

    def _rewrite_by_kernel(self, decompressed: DecompressedBatches) -> RewrittenBatches:
        """Write what is retained, uncompressed, to the free part of the buffer."""
        from tidelog.kernels.compaction.key_rewrite import rewrite_batches  # noqa: PLC0415 - compiles when imported

        table, count = self._table, len(decompressed.batches)
        self._reserve(
            len(decompressed.data) + GROWTH_BYTES * table.count + BATCH_HEADER.size * count
        )
        out = self._out[self.filled_bytes :]
        written = np.empty((rows.BATCH_COLUMNS, count), np.int64)
        results = np.empty(count, np.int64)
        status, kept, size = rewrite_batches(
            decompressed.data,
            np.ascontiguousarray(decompressed.batches.array),
            decompressed.actions,
            table.rows,
            table.count,
            self._horizon_ms,
            decompressed.is_plain,
            out,
            written,
            results,
        )
        check_status(status)
        return RewrittenBatches(out[:size], BatchColumns(written[:, :kept]), results)

    def _reserve(self, size_bytes: int) -> None:
        """Grow the buffer to have at least ``size_bytes`` free."""
        needed = self.filled_bytes + size_bytes
        if len(self._out) < needed:
            spare = len(self._out) // 4  # grows geometrically, so that it is copied rarely
            before, self._out = self._out, np.empty(needed + spare, np.uint8)
            self._out[: self.filled_bytes] = before[: self.filled_bytes]
