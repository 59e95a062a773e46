"""The offset index (``.index``): maps an offset to the byte position of its batch.

Kafka: ``OffsetIndex``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tidelog.errors import (
    OffsetsOutOfOrder,
    SegmentOffsetOverflow,
)
from tidelog.lazy import np
from tidelog.records.array_rows import increases
from tidelog.records.batch import INT32_MAX, INT64_MIN
from tidelog.segment.abstract_index import AbstractIndex
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY, OffsetPosition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class OffsetIndex(AbstractIndex):
    """Sparse, ascending entries: the last offset of a batch, and the batch's position.

    Files written before Kafka 4.1 store the last offset of the whole append that starts there. Both
    kinds suit ``lookup``, which only promises a position at or before the offset.

    Source: Kafka OffsetIndex.
    """

    layout: ClassVar = OFFSET_INDEX_ENTRY

    @property
    def last_offset(self) -> int:
        """Offset of the last entry; the base offset if there is none."""
        last = self.last()
        return self.base_offset if last is None else self.base_offset + last[0]

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below ``offset``; (base offset, 0) if there is none."""
        entries = self.entries()
        relative = offset - self.base_offset
        # Tested first, as in Kafka; this also protects against a file of garbage.
        if entries.filled == 0 or entries.keys[0] > relative:
            return OffsetPosition(self.base_offset, 0)
        at = _search(entries.filled_keys, relative, "right") - 1
        if at < 0:
            return OffsetPosition(self.base_offset, 0)
        # A negative position is garbage; the search then starts at the beginning.
        position = max(int(entries.values[at]), 0)
        return OffsetPosition(self.base_offset + int(entries.keys[at]), position)

    def fetch_upper_bound(self, position: int, size_bytes: int) -> OffsetPosition | None:
        """Return the first entry at or after the end of a fetch; None if there is none."""
        entries = self.entries()
        at = _search(entries.filled_values, position + size_bytes, "left")
        if at == entries.filled:
            return None
        return OffsetPosition(self.base_offset + int(entries.keys[at]), int(entries.values[at]))

    def append(self, offset: int, position: int) -> None:
        """Append one entry; InvalidArgument if the file is full, else errors as ``append_all``."""
        self.make_ready()
        self.append_few([(offset, position)])

    def append_few(self, entries: Sequence[tuple[int, int]]) -> None:
        """Append a few entries, each an offset and a position; otherwise as ``append_all``."""
        self.create()
        base, last, added = self.base_offset, self.last(), []
        before = INT64_MIN if last is None else last[0]
        for offset, position in entries:
            relative = offset - base
            if relative <= before:
                raise self._out_of_order(offset)
            if not 0 <= relative <= INT32_MAX:
                raise SegmentOffsetOverflow(base, offset)
            added.append((relative, position))
            before = relative
        self._append_few(self._fitting(added))

    def append_all(self, offsets: NDArray[np.int64], positions: NDArray[np.int64]) -> None:
        """Append the entries that there is room for, with one write.

        Raises:
            OffsetsOutOfOrder: the offsets do not increase; nothing was appended.
            SegmentOffsetOverflow: one is below the base offset, or too far above it; nothing was
                appended.
        """
        if len(offsets) == 0:
            return
        self.create()
        relative = offsets - self.base_offset
        self._check_order(relative)
        if relative[0] < 0 or relative[-1] > INT32_MAX:
            check_relative(self.base_offset, relative)
        added = min(len(offsets), self.free_entries)
        if added:
            self._append(relative[:added], positions[:added])

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or above ``offset``."""
        entries = self.entries()
        self.keep(_search(entries.filled_keys, offset - self.base_offset, "left"))

    def _check_order(self, relative: NDArray[np.int64]) -> None:
        last = self.last()
        first = INT64_MIN if last is None else last[0]
        if relative.item(0) > first and increases(relative):
            return
        behind = relative <= np.concatenate(([first], relative[:-1]))
        raise self._out_of_order(self.base_offset + int(relative[behind.argmax()]))

    def _out_of_order(self, offset: int) -> OffsetsOutOfOrder:
        return OffsetsOutOfOrder(f"offset {offset} is not above the one before it in {self.path}")


def check_relative(base_offset: int, relative: NDArray[np.int64]) -> None:
    """Raise SegmentOffsetOverflow for the first relative offset not in 0 to 2**31 - 1."""
    outside = (relative < 0) | (relative > INT32_MAX)
    if outside.any():
        raise SegmentOffsetOverflow(base_offset, base_offset + int(relative[outside.argmax()]))


def _search(values: NDArray[Any], target: int, side: str) -> int:
    """Find ``target`` in an int32 array; a 64-bit target would make NumPy copy the array."""
    if target < 0:
        return 0
    if target > INT32_MAX:
        return len(values)
    return int(values.searchsorted(np.int32(target), side))  # type: ignore[call-overload]  # side is one of its two words
