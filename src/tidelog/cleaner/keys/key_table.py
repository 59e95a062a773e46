"""A table of the keys of records, filled again for each few batches.

The walk over records is done by a kernel or in plain code; its memory is reused, since allocating
it for each read would cost more than the walk. Kafka: the record iterators in ``Cleaner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.codec.layout import byte_view
from tidelog.codec.varint import read_varint, read_varlong
from tidelog.errors import InvalidArgument, InvalidRecord, InvariantError
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import BatchFlags, wrap_int64
from tidelog.records.record import MIN_RECORD_BYTES, scan_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.decoding.record_columns import RecordColumns

_FROM_COLUMNS: Final = {
    keys.OFFSET: rows.OFFSET,
    keys.TIMESTAMP: rows.TIMESTAMP,
    keys.KEY_AT: rows.KEY_AT,
    keys.KEY_SIZE: rows.KEY_SIZE,
    keys.VALUE_SIZE: rows.VALUE_SIZE,
    keys.AREA: rows.AREA,
}
"""From a row of the key table to the row of the same field in ``RecordColumns``."""
_TOO_MANY: Final = "a batch states more records than its bytes can hold"
NEGATIVE_TIMESTAMP: Final = (
    "a record has a negative timestamp, so its batch cannot be rewritten without the records that"
    " compaction drops"
)


def check_status(status: int) -> None:
    """Raise the error for a negative status of one of the cleaner's kernels."""
    if status == rows.BAD_ARGUMENT:
        raise InvariantError("the sizes of arrays passed to a cleaner kernel do not match")
    if status == rows.BAD_TIMESTAMP:
        raise InvalidArgument(NEGATIVE_TIMESTAMP)
    if status < 0:
        raise InvalidRecord(rows.STATUS_TEXT[status])


class KeyTable:
    """One column per record, with the rows that ``key_rows`` names; ``count`` columns are valid.

    Each ``walk`` replaces the contents. The memory grows to the size of the largest walk.
    """

    def __init__(self, *, with_kernels: bool) -> None:
        self.with_kernels: Final = with_kernels
        self.rows: Ints = np.empty((keys.KEY_COLUMNS, 0), np.int64)
        self.hashes: Ints = np.empty((2, 0), np.int64)
        self.count = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that the table takes."""
        return self.rows.nbytes + self.hashes.nbytes

    def walk(
        self,
        data: Bytes,
        areas: Ints,
        actions: Ints,
        *,
        min_offset: int = 0,
        keyed_only: bool = False,
    ) -> None:
        """Find the keys of the batches whose action is FILTER or KEEP.

        Args:
            data: contains the record areas, uncompressed.
            areas: one column per batch.
            actions: one per batch.
            min_offset: records below it are left out.
            keyed_only: leave out records without a key.

        Raises InvalidRecord if a batch does not contain the records its header states.
        """
        if not self.with_kernels:
            self._reserve(_check_counts(areas, actions))
            found = list(_walk_plainly(data, areas, actions, min_offset, keyed_only=keyed_only))
            self.count = len(found)
            if found:
                self.rows[: keys.LATEST, : self.count] = np.array(found, np.int64).T
            return
        from tidelog.kernels.compaction.key_batches import count_records  # noqa: PLC0415 - compiles when imported
        from tidelog.kernels.compaction.key_walk import walk_keys  # noqa: PLC0415 - the same

        stated = count_records(areas, actions)
        if stated == rows.BAD_COUNT:
            raise InvalidRecord(_TOO_MANY)
        check_status(stated)
        self._reserve(stated)
        self.count, status, _ = walk_keys(data, areas, actions, min_offset, keyed_only, self.rows)
        check_status(status)

    def take(
        self, columns: RecordColumns, *, min_offset: int = 0, keyed_only: bool = False
    ) -> None:
        """Take decoded records; the rows for the positions of other fields are not filled."""
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


def _check_counts(areas: Ints, actions: Ints) -> int:
    """Return how many records the areas state; InvalidRecord if they are too short for them."""
    counts = np.where((actions & keys.READ) != 0, areas[rows.AREA_COUNT], 0)
    lengths = areas[rows.AREA_END] - areas[rows.AREA_START]
    if ((counts < 0) | (counts * MIN_RECORD_BYTES > lengths)).any():
        raise InvalidRecord(_TOO_MANY)
    return int(counts.sum())


def _walk_plainly(
    data: Bytes, areas: Ints, actions: Ints, min_offset: int, *, keyed_only: bool
) -> Iterator[tuple[int, ...]]:
    """Do what the kernel ``walk_keys`` does, in plain Python."""
    view = byte_view(data)
    for index, (area, action) in enumerate(zip(areas.T.tolist(), actions.tolist(), strict=True)):
        if not action & keys.READ:
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
                max_timestamp if attributes & BatchFlags.LOG_APPEND_TIME else timestamp,
                rest_at,
                span.key_at,
                span.key_size,
                span.value_size,
                at,
                index,
            )
        if count and at != end:
            raise InvalidRecord(f"{end - at} bytes follow the last of {count} records of a batch")


def _rest_at(view: memoryview, at: int) -> int:
    """Return the position after the offset delta of the record at ``at``.

    Varints may be longer than necessary, so their sizes cannot be computed from their values.
    """
    _, attributes_at = read_varint(view, at)
    _, delta_at = read_varlong(view, attributes_at + 1)
    return read_varint(view, delta_at)[1]
