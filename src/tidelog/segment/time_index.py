"""The time index (``.timeindex``): maps a timestamp to an offset; later ones come after it.

Kafka: ``TimeIndex``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tidelog.errors import (
    InvariantError,
    OffsetsOutOfOrder,
    SegmentOffsetOverflow,
)
from tidelog.lazy import np
from tidelog.records.array_rows import every, increases
from tidelog.records.batch import INT32_MAX, INT64_MIN, NO_TIMESTAMP
from tidelog.segment.abstract_index import AbstractIndex
from tidelog.segment.index_entries import TIME_INDEX_ENTRY, TimestampOffset
from tidelog.segment.offset_index import check_relative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class TimeIndex(AbstractIndex):
    """Sparse entries (timestamp, offset): all greater timestamps are after that offset.

    Timestamps increase, offsets do not decrease. One slot is reserved for the entry that closing or
    rolling a segment writes.

    Source: Kafka TimeIndex.
    """

    layout: ClassVar = TIME_INDEX_ENTRY
    reserved_entries: ClassVar[int] = 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if there is none."""
        last = self.last()
        if last is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(last[0], self.base_offset + last[1])

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or before ``timestamp``; (-1, base offset) if none."""
        entries = self.entries()
        at = int(entries.filled_keys.searchsorted(np.int64(timestamp), "right")) - 1
        if at < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(int(entries.keys[at]), self.base_offset + int(entries.values[at]))

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> bool:
        """Append one entry if its timestamp is above the last one; return whether it was appended.

        ``skip_full_check`` uses the reserved slot. InvalidArgument if the file is full without it;
        other errors as for ``maybe_append_all``.
        """
        if not skip_full_check:
            self.make_ready()
        greater = self._greater_few([(timestamp, offset)])
        self._append_few(greater)
        return bool(greater)

    def maybe_append_few(self, entries: Sequence[tuple[int, int]]) -> None:
        """Append a few entries, each a timestamp and an offset, as ``maybe_append_all``."""
        greater = self._greater_few(entries)
        if greater:
            self.create()
            self._append_few(self._fitting(greater))

    def maybe_append_all(self, timestamps: NDArray[np.int64], offsets: NDArray[np.int64]) -> None:
        """Append the entries whose timestamp is above the one before, while there is room.

        They are written with one write. If it raises, nothing was appended.

        Raises:
            InvariantError: a timestamp is below the one before.
            OffsetsOutOfOrder: an offset is below the one before.
            SegmentOffsetOverflow: an offset is below the base offset, or too far above it.
        """
        if len(timestamps) == 0:
            return
        keys, values = self._greater_ones(timestamps, offsets)
        if len(keys) == 0:
            return
        self.create()
        added = min(len(keys), self.free_entries)
        if added:
            self._append(keys[:added], values[:added])

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose offset is at or above ``offset``."""
        relative = self.entries().filled_values
        wanted = min(max(offset - self.base_offset, 0), np.iinfo(np.int64).max)
        self.keep(int(relative.searchsorted(wanted, "left")))

    def _greater_few(self, entries: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return timestamps and relative offsets of those of a few entries with a new timestamp."""
        base, last, greater = self.base_offset, self.last(), []
        before, least = (NO_TIMESTAMP, INT64_MIN) if last is None else last
        for timestamp, offset in entries:
            relative = offset - base
            if relative < least:
                raise self._out_of_order(offset)
            if timestamp < before:
                raise self._going_back(timestamp)
            if timestamp > before:
                if not 0 <= relative <= INT32_MAX:
                    raise SegmentOffsetOverflow(base, offset)
                greater.append((timestamp, relative))
            before, least = timestamp, relative
        return greater

    def _greater_ones(
        self, timestamps: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return timestamps and relative offsets of the entries with a new timestamp."""
        relative, last = offsets - self.base_offset, self.last()
        if self._are_rising(timestamps, relative, last):
            return timestamps, relative
        timestamp, least = (NO_TIMESTAMP, relative.item(0)) if last is None else last
        before = np.concatenate(([timestamp], timestamps[:-1]))
        lower = np.concatenate(([least], relative[:-1])) > relative
        if lower.any():
            raise self._out_of_order(int(offsets[lower.argmax()]))
        earlier = timestamps < before
        if earlier.any():
            raise self._going_back(int(timestamps[earlier.argmax()]))
        greater = timestamps > before
        check_relative(self.base_offset, relative[greater])
        return timestamps[greater], relative[greater]

    @staticmethod
    def _are_rising(
        timestamps: NDArray[np.int64], relative: NDArray[np.int64], last: tuple[int, int] | None
    ) -> bool:
        """Return whether every entry has a new timestamp and may follow the ``last`` one."""
        timestamp, least = (NO_TIMESTAMP, 0) if last is None else last
        if timestamps.item(0) <= timestamp or relative.item(0) < max(least, 0):
            return False
        are_greater = increases(timestamps) and every(relative[1:] >= relative[:-1])
        return are_greater and relative.item(-1) <= INT32_MAX

    def _out_of_order(self, offset: int) -> OffsetsOutOfOrder:
        return OffsetsOutOfOrder(f"offset {offset} is below the one before it in {self.path}")

    def _going_back(self, timestamp: int) -> InvariantError:
        return InvariantError(f"timestamp {timestamp} is below the one before it in {self.path}")
