"""Reading the keys of a log's dirty part into a map, until it is full.

Owns where a round ends. Must not know what is done with the map. Kafka:
``Cleaner.buildOffsetMap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cleaner.batch_retention import mark_for_map
from tidelog.cleaner.cleaned_transactions import CleanedTransactions, collect_aborted
from tidelog.cleaner.header_summary import glance_at
from tidelog.cleaner.key_table import KeyTable
from tidelog.cleaner.plain_runs import find_runs
from tidelog.kernels.compaction import key_rows as keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.cleaner.offset_map import OffsetMap
    from tidelog.cleaner.plain_runs import Run
    from tidelog.cleaner.stats import Tally
    from tidelog.cleaner.throttle import Pace
    from tidelog.segment.segment import LogSegment


class KeyMapBuilder:
    """Fills ``offset_map`` from the segments of [start, end), in order.

    Source: Kafka Cleaner.buildOffsetMap.
    """

    def __init__(
        self, offset_map: OffsetMap, start_offset: int, end_offset: int, tally: Tally, pace: Pace
    ) -> None:
        self._map = offset_map
        self._start = start_offset
        self._end = end_offset
        self._tally = tally
        self._pace = pace
        self._transactions = CleanedTransactions()
        self._table = KeyTable(with_kernels=offset_map.with_kernels)

    def build(self, segments: Sequence[LogSegment]) -> None:
        """Read ``segments``: those from the one that holds the start on, to the end of the log.

        Afterwards ``latest_offset`` of the map says how far the round reaches. Raises
        CorruptMessage and InvalidRecord.
        """
        self._transactions.add_aborted(collect_aborted(segments, self._start, self._end))
        dirty = [segment for segment in segments if segment.base_offset < self._end]
        ends = [*(segment.base_offset for segment in dirty[1:]), self._end]
        for segment, end in zip(dirty, ends, strict=True):
            if not self._read(segment):
                return
            self._map.latest_offset = end - 1

    def _read(self, segment: LogSegment) -> bool:
        """Read one segment; return False if the map is full."""
        start = segment.offset_index.lookup(self._start).position
        records, with_kernels = segment.file_records(start), self._map.with_kernels
        for piece in records.pieces(self._pace.piece_bytes, check_crc=True):
            batches = piece.batches_in_data
            self._pace.step(len(piece.data))
            glance = glance_at(batches, with_kernels=with_kernels)
            marks = mark_for_map(piece.data, batches, glance, self._transactions)
            self._tally.map_bytes_read += int(batches.size.sum())
            for run in find_runs(piece.data, batches, marks, glance, with_kernels=with_kernels):
                if not self._put(run):
                    return False
        if records.error is not None:
            raise records.error
        return True

    def _put(self, run: Run) -> bool:
        table, offset_map = self._table, self._map
        run.walk(table, min_offset=self._start, keyed_only=True)
        self._tally.map_records_read += run.records
        done = offset_map.put(run.data, table) if table.count else 0
        if done < table.count:
            # The batches before the one that found no room are known whole, gaps and all.
            before = int(table.rows[keys.AREA, done]) - 1
            if before >= 0:
                self._know(int(run.batches.last_offset[before]))
            return False
        self._know(int(run.batches.last_offset[-1]))
        return True

    def _know(self, last_offset: int) -> None:
        if last_offset >= self._start:
            self._map.latest_offset = max(self._map.latest_offset, last_offset)
