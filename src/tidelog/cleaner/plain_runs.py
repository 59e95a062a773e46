"""The batches of a piece of a log, in runs whose records lie plain in one buffer.

Owns unpacking: compressed batches a few at a time, so that memory stays bounded, and batches of
magic 0 and 1. Must not know what happens to records. Kafka: ``RecordBatch.streamingIterator``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.key_table import check_status
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.memory import BatchColumns
from tidelog.records.record_areas import areas_of
from tidelog.records.record_columns import GROUP_BYTES, decode_groups
from tidelog.records.unpacked import Unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.cleaner.header_summary import Glance
    from tidelog.cleaner.key_table import KeyTable
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.record_columns import RecordColumns

_LOOKED_AT: Final = keys.JUDGE | keys.KEEP


class Run(NamedTuple):
    """Some neighbouring batches.

    ``source`` holds them as they were read, at the positions in ``batches``; ``marks`` say what is
    to be done with each. Their records lie in ``areas`` of ``data``, which is ``source`` itself
    where nothing was compressed; of old batches they come decoded, as ``legacy``. ``records``
    counts them by the headers.
    """

    source: Bytes
    batches: BatchColumns
    marks: Ints
    data: Bytes
    areas: Ints
    records: int
    legacy: RecordColumns | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the records lie in the batches as read."""
        return self.data is self.source and self.legacy is None

    def walk(self, table: KeyTable, *, min_offset: int = 0, keyed_only: bool = False) -> None:
        """Fill ``table`` with the keys of this run's records."""
        if self.legacy is None:
            table.walk(
                self.data, self.areas, self.marks, min_offset=min_offset, keyed_only=keyed_only
            )
        else:
            table.take(self.legacy, min_offset=min_offset, keyed_only=keyed_only)


def find_runs(
    source: Bytes, batches: BatchColumns, marks: Ints, glance: Glance, *, with_kernels: bool
) -> Iterator[Run]:
    """Yield the batches in order, with their records unpacked.

    Args:
        source: holds the batches.
        batches: with positions in ``source``.
        marks: what is to be done with each; what is not looked at is not unpacked.
        glance: at these batches.
        with_kernels: whether kernels may be used.

    Raises CorruptMessage, InvalidRecord and UnsupportedCompressionType for a batch that does not
    unpack; ``position`` is the batch's in ``source``.
    """
    if not glance.has_compressed and not glance.has_old:
        areas = _areas_by_kernel(batches) if with_kernels else areas_of(batches)
        yield Run(source, batches, marks, source, areas, glance.records)
        return
    if not glance.has_old:
        yield from _modern_runs(source, batches, marks)
        return
    is_old = batches.magic < 2
    starts = [0, *(np.flatnonzero(np.diff(is_old)) + 1).tolist(), len(batches)]
    for start, end in pairwise(starts):
        part, part_marks = batches.slice(start, end), marks[start:end]
        if is_old[start]:
            yield from _old_runs(source, part, part_marks)
        else:
            yield from _modern_runs(source, part, part_marks)


def _modern_runs(source: Bytes, batches: BatchColumns, marks: Ints) -> Iterator[Run]:
    is_packed = (batches.codec != 0) & ((marks & _LOOKED_AT) != 0)
    if not is_packed.any():
        yield Run(source, batches, marks, source, areas_of(batches), _records(batches))
        return
    array = batches.array.copy()
    # What is not looked at is not unpacked either.
    array[rows.RECORDS_COUNT, (marks & _LOOKED_AT) == 0] = 0
    start = 0
    while start < len(batches):
        unpacked = Unpacked(source, BatchColumns(array[:, start:]), group_bytes=GROUP_BYTES)
        data, areas = unpacked.areas()
        end = start + areas.shape[1]
        part = batches.slice(start, end)
        yield Run(source, part, marks[start:end], data, areas, _records(part))
        start = end


def _areas_by_kernel(batches: BatchColumns) -> Ints:
    from tidelog.kernels.compaction.key_batches import fill_areas  # noqa: PLC0415 - compiles when imported

    areas = np.empty((rows.AREA_COLUMNS, len(batches)), np.int64)
    check_status(fill_areas(np.ascontiguousarray(batches.array), areas))
    return areas


def _records(batches: BatchColumns) -> int:
    return int(batches.records_count.clip(0).sum())


def _old_runs(source: Bytes, batches: BatchColumns, marks: Ints) -> Iterator[Run]:
    start = 0
    for group in decode_groups(source, batches):
        end = start + len(group.batches)
        none = np.zeros((rows.AREA_COLUMNS, 0), np.int64)
        records = _records(group.batches)
        yield Run(source, group.batches, marks[start:end], group.data, none, records, group)
        start = end
