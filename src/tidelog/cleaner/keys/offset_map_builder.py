"""Reads the keys of the dirty part of a log into an offset map, until the map is full.

Kafka: ``Cleaner.buildOffsetMap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cleaner.keys.key_table import KeyTable
from tidelog.cleaner.rewriting.batch_retention import actions_for_map
from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
from tidelog.cleaner.rewriting.decompressed_batches import decompress_batches
from tidelog.cleaner.rewriting.header_summary import HeaderSummary
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import INT64_MAX
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.segment.txn_index import collect_aborted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.cleaner.cleanable_range import OffsetsToClean
    from tidelog.cleaner.keys.offset_map import OffsetMap
    from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches
    from tidelog.cleaner.source_log import SourceSegment
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.cleaner.throttle import CleanerIo


class OffsetMapBuilder:
    """Fills ``offset_map`` from the segments of the range ``to_clean``, in order.

    Source: Kafka Cleaner.buildOffsetMap.
    """

    def __init__(
        self, offset_map: OffsetMap, to_clean: OffsetsToClean, stats: CleanerStats, io: CleanerIo
    ) -> None:
        self._map = offset_map
        self._start, self._end = to_clean
        self._stats = stats
        self._io = io
        self._transactions = CleanedTransactions()
        self._table = KeyTable(with_kernels=offset_map.with_kernels)

    def build(self, segments: Sequence[SourceSegment]) -> None:
        """Read the dirty ones of ``segments``; ``latest_offset`` of the map is how far that came.

        ``segments`` are those from the one that contains the first dirty offset to the end of the
        log. Raises CorruptMessage and InvalidRecord.
        """
        self._transactions.add_aborted(collect_aborted(segments, self._start, self._end))
        dirty = [segment for segment in segments if segment.base_offset < self._end]
        ends = [*(segment.base_offset for segment in dirty[1:]), self._end]
        following = [*(segment.base_offset for segment in segments[1:]), INT64_MAX]
        for segment, end, next_base in zip(dirty, ends, following, strict=False):
            if not self._read(segment, OffsetBounds(segment.base_offset, next_base)):
                return
            self._map.latest_offset = end - 1

    def _read(self, segment: SourceSegment, bounds: OffsetBounds) -> bool:
        """Read one segment; return False if the map is full."""
        records = segment.file_records(segment.position_before(self._start), bounds=bounds)
        with_kernels = self._map.with_kernels
        for piece in records.pieces(self._io.piece_bytes, check_crc=True):
            batches = piece.batches_in_data
            self._io.on_read(len(piece.data))
            summary = HeaderSummary.of(batches, with_kernels=with_kernels)
            actions = actions_for_map(piece.data, batches, summary, self._transactions)
            self._stats.map_bytes_read += int(batches.size.sum())
            for decompressed in decompress_batches(
                piece.data, batches, actions, summary, with_kernels=with_kernels
            ):
                if not self._put(decompressed):
                    return False
        records.check_complete()
        return True

    def _put(self, decompressed: DecompressedBatches) -> bool:
        """Put in the keys of some batches; return False if the map is full."""
        table, offset_map = self._table, self._map
        decompressed.walk(table, min_offset=self._start, keyed_only=True)
        done = offset_map.put(decompressed.data, table) if table.count else 0
        if done < table.count:
            # All batches before that of the first record that did not fit are in the map whole.
            before = int(table.rows[keys.AREA, done]) - 1
            if before >= 0:
                self._update_latest_offset(int(decompressed.batches.last_offset[before]))
            return False
        self._update_latest_offset(int(decompressed.batches.last_offset[-1]))
        return True

    def _update_latest_offset(self, last_offset: int) -> None:
        if last_offset >= self._start:
            self._map.latest_offset = max(self._map.latest_offset, last_offset)
