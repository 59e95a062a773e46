"""The keys of the records of some batches, as one table that is filled again and again.

Owns the walk over records, by kernel or in plain code, and the memory it fills. Must not know what
keys are good for. Kafka: the record iterators of ``Cleaner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.codec.layout import byte_view
from tidelog.codec.varint import read_varint, read_varlong
from tidelog.errors import InvalidArgument, InvalidRecord, InvariantError
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import BatchFlags
from tidelog.records.record import MIN_RECORD_BYTES, scan_record, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.record_columns import RecordColumns

_LOOKED_AT: Final = keys.JUDGE | keys.KEEP
_APPEND_TIME: Final = int(BatchFlags.LOG_APPEND_TIME)
_FROM_COLUMNS: Final = {
    keys.OFFSET: rows.OFFSET,
    keys.TIMESTAMP: rows.TIMESTAMP,
    keys.KEY_AT: rows.KEY_AT,
    keys.KEY_SIZE: rows.KEY_SIZE,
    keys.VALUE_SIZE: rows.VALUE_SIZE,
    keys.AREA: rows.AREA,
}
"""Rows of a key table that a table of decoded records has too, and where."""
_TOO_MANY: Final = "a batch states more records than its bytes can hold"


def check_status(status: int) -> None:
    """Raise what a kernel of the cleaner complains about."""
    if status == rows.BAD_ARGUMENT:
        raise InvariantError("a kernel of the cleaner was given arrays that do not fit together")
    if status == rows.BAD_TIMESTAMP:
        raise InvalidArgument("a record has a negative timestamp, which no batch may be given")
    if status < 0:
        raise InvalidRecord(rows.STATUS_TEXT[status])


class KeyTable:
    """One column a record, in the rows of ``key_rows``; ``count`` columns are filled.

    ``walk`` replaces what is there. The memory grows to what the largest walk needed.
    """

    def __init__(self, *, with_kernels: bool) -> None:
        self.with_kernels: Final = with_kernels
        self.rows: Ints = np.empty((keys.KEY_COLUMNS, 0), np.int64)
        self.hashes: Ints = np.empty((2, 0), np.int64)
        self.count = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of memory."""
        return self.rows.nbytes + self.hashes.nbytes

    def walk(
        self,
        data: Bytes,
        areas: Ints,
        marks: Ints,
        *,
        min_offset: int = 0,
        keyed_only: bool = False,
    ) -> None:
        """Find the keys of the batches marked JUDGE or KEEP.

        Args:
            data: holds the record areas, uncompressed.
            areas: one column a batch.
            marks: one a batch.
            min_offset: records below it are left out.
            keyed_only: so are those without a key.

        Raises InvalidRecord if a batch does not hold the records it states.
        """
        if not self.with_kernels:
            self._reserve(_check_counts(areas, marks))
            found = list(_walk_plainly(data, areas, marks, min_offset, keyed_only=keyed_only))
            self.count = len(found)
            if found:
                self.rows[: keys.LATEST, : self.count] = np.array(found, np.int64).T
            return
        from tidelog.kernels.compaction.key_batches import count_records  # noqa: PLC0415 - compiles when imported
        from tidelog.kernels.compaction.key_walk import walk_keys  # noqa: PLC0415 - the same

        stated = count_records(areas, marks)
        if stated == rows.BAD_COUNT:
            raise InvalidRecord(_TOO_MANY)
        check_status(stated)
        self._reserve(stated)
        self.count, status, _ = walk_keys(data, areas, marks, min_offset, keyed_only, self.rows)
        check_status(status)

    def take(
        self, columns: RecordColumns, *, min_offset: int = 0, keyed_only: bool = False
    ) -> None:
        """Take records that are decoded already; where their other parts lie is not noted."""
        self._reserve(len(columns))
        chosen = columns.offset >= min_offset
        if keyed_only:
            chosen &= columns.key_size >= 0
        self.count = int(chosen.sum())
        for row, source in _FROM_COLUMNS.items():
            self.rows[row, : self.count] = columns.array[source][chosen]

    def _reserve(self, count: int) -> None:
        if self.rows.shape[1] < count:
            self.rows = np.empty((keys.KEY_COLUMNS, count), np.int64)
            self.hashes = np.empty((2, count), np.int64)


def _check_counts(areas: Ints, marks: Ints) -> int:
    """Return the records that the areas state; InvalidRecord if their bytes cannot hold them."""
    looked_at = (marks & _LOOKED_AT) != 0
    counts = np.where(looked_at, areas[rows.AREA_COUNT], 0)
    lengths = areas[rows.AREA_END] - areas[rows.AREA_START]
    if ((counts < 0) | (counts * MIN_RECORD_BYTES > lengths)).any():
        raise InvalidRecord(_TOO_MANY)
    return int(counts.sum())


def _walk_plainly(
    data: Bytes, areas: Ints, marks: Ints, min_offset: int, *, keyed_only: bool
) -> Iterator[tuple[int, ...]]:
    """Do what the kernel ``walk_keys`` does."""
    view = byte_view(data)
    for index, (area, mark) in enumerate(zip(areas.T.tolist(), marks.tolist(), strict=True)):
        if not mark & _LOOKED_AT:
            continue
        at, end, count, base_offset, base_timestamp, max_timestamp, attributes = area
        for _ in range(count):
            span = scan_record(view, at, end)
            rest_at = _rest_at(view, at)
            at = span.next_position
            offset = wrap_int64(base_offset + span.offset_delta)
            if offset < min_offset or (keyed_only and span.key_size < 0):
                continue
            timestamp = wrap_int64(base_timestamp + span.timestamp_delta)
            yield (
                offset,
                max_timestamp if attributes & _APPEND_TIME else timestamp,
                rest_at,
                span.key_at,
                span.key_size,
                span.value_size,
                at,
                index,
            )
        if count and at != end:
            raise InvalidRecord("bytes are left over after the last record")


def _rest_at(view: memoryview, at: int) -> int:
    """Return the byte after the offset delta of the record at ``at``, however long its numbers."""
    _, attributes_at = read_varint(view, at)
    _, delta_at = read_varlong(view, attributes_at + 1)
    return read_varint(view, delta_at)[1]
