"""Batches of one read with their records decompressed, a limited amount at a time.

Batches of magic 0 and 1 are decoded as well. Kafka: ``RecordBatch.streamingIterator``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.cleaner.keys.key_table import check_status
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.decoding.record_areas import areas_of
from tidelog.records.decoding.record_columns import GROUP_BYTES, decode_groups
from tidelog.records.decoding.unpacked import Unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.cleaner.keys.key_table import KeyTable
    from tidelog.cleaner.rewriting.header_summary import HeaderSummary
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.decoding.record_columns import RecordColumns


class DecompressedBatches(NamedTuple):
    """Some adjacent batches, and where their records are.

    ``source`` contains the batches as read, at the positions in ``batches``; ``actions`` has the
    flags of ``key_rows`` for each. The records are in ``areas`` of ``data``, which is ``source``
    itself if no batch is compressed. Records of magic 0 and 1 are decoded, as ``legacy``.
    ``records`` is the number of records that the headers state.
    """

    source: Bytes
    batches: BatchColumns
    actions: Ints
    data: Bytes
    areas: Ints
    records: int
    legacy: RecordColumns | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the records are uncompressed in the batches as read."""
        return self.data is self.source and self.legacy is None

    def walk(self, table: KeyTable, *, min_offset: int = 0, keyed_only: bool = False) -> None:
        """Fill ``table`` with the keys of these records."""
        if self.legacy is None:
            table.walk(
                self.data, self.areas, self.actions, min_offset=min_offset, keyed_only=keyed_only
            )
        else:
            table.take(self.legacy, min_offset=min_offset, keyed_only=keyed_only)


def decompress_batches(
    source: Bytes,
    batches: BatchColumns,
    actions: Ints,
    summary: HeaderSummary,
    *,
    with_kernels: bool,
) -> Iterator[DecompressedBatches]:
    """Yield the batches in order, with their records decompressed.

    Args:
        source: contains the batches.
        batches: with positions in ``source``.
        actions: one per batch; batches without FILTER or KEEP are not decompressed.
        summary: of these batches.
        with_kernels: whether compiled code may be used.

    Raises CorruptMessage, InvalidRecord and UnsupportedCompressionType for a batch that cannot be
    decompressed; ``position`` is the batch's in ``source``.
    """
    if not summary.has_compressed and not summary.has_old:
        areas = _areas_by_kernel(batches) if with_kernels else areas_of(batches)
        yield DecompressedBatches(source, batches, actions, source, areas, summary.records)
        return
    if not summary.has_old:
        yield from _decompress_modern(source, batches, actions)
        return
    is_old = batches.magic < 2
    starts = [0, *(np.flatnonzero(np.diff(is_old)) + 1).tolist(), len(batches)]
    for start, end in pairwise(starts):
        decompress = _decompress_legacy if is_old[start] else _decompress_modern
        yield from decompress(source, batches.slice(start, end), actions[start:end])


def _decompress_modern(
    source: Bytes, batches: BatchColumns, actions: Ints
) -> Iterator[DecompressedBatches]:
    is_unread = (actions & keys.READ) == 0
    if not ((batches.codec != 0) & ~is_unread).any():
        areas, records = areas_of(batches), _records(batches)
        yield DecompressedBatches(source, batches, actions, source, areas, records)
        return
    array = batches.array.copy()
    # A batch that states no records is not decompressed.
    array[rows.RECORDS_COUNT, is_unread] = 0
    start = 0
    while start < len(batches):
        unpacked = Unpacked(source, BatchColumns(array[:, start:]), group_bytes=GROUP_BYTES)
        data, areas = unpacked.areas()
        end = start + areas.shape[1]
        group = batches.slice(start, end)
        yield DecompressedBatches(source, group, actions[start:end], data, areas, _records(group))
        start = end


def _areas_by_kernel(batches: BatchColumns) -> Ints:
    from tidelog.kernels.compaction.key_batches import fill_areas  # noqa: PLC0415 - compiles when imported

    areas = np.empty((rows.AREA_COLUMNS, len(batches)), np.int64)
    check_status(fill_areas(np.ascontiguousarray(batches.array), areas))
    return areas


def _records(batches: BatchColumns) -> int:
    return int(batches.records_count.clip(0).sum())


def _decompress_legacy(
    source: Bytes, batches: BatchColumns, actions: Ints
) -> Iterator[DecompressedBatches]:
    start = 0
    for group in decode_groups(source, batches):
        end = start + len(group.batches)
        no_areas = np.zeros((rows.AREA_COLUMNS, 0), np.int64)
        records = _records(group.batches)
        yield DecompressedBatches(
            source, group.batches, actions[start:end], group.data, no_areas, records, group
        )
        start = end
