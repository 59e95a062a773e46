"""Checks of every entry of an offset or time index against the batches it points at.

The rules are those of Kafka 4.1 and later, and those before. The batches of a segment come in
order, so that nothing but the index itself is kept in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tidelog.codec.compression import Codec
from tidelog.explain.verify.findings import REBUILD, REBUILT, Finding, damage, unusual
from tidelog.records.batch import MAGIC_V2
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidelog.records.batch_columns import BatchColumns

    Ints = NDArray[np.int64]

_IN_THE_WAY: Final = f"move it elsewhere; then {REBUILD}"


class IndexPlace(NamedTuple):
    """One index file: its bytes, and what is known of its segment.

    ``data`` may lack zeros that end the file. ``is_active``: it may still grow. ``is_rebuilt``: the
    next opening makes it again. ``unreadable``: why it was not read.
    """

    path: str
    data: bytes
    size_bytes: int
    base_offset: int
    is_active: bool
    is_rebuilt: bool
    unreadable: str = ""

    @property
    def remedy(self) -> str:
        """What to do about damage here."""
        return REBUILT if self.is_rebuilt else REBUILD


class _IndexCheck:
    """What both checks share: the entries before the zeros of a file that was not trimmed.

    ``_offsets`` are those of the entries.
    """

    def __init__(self, place: IndexPlace, dtype: np.dtype[Any]) -> None:
        self._place = place
        self._size = dtype.itemsize
        whole = np.frombuffer(place.data, dtype, count=len(place.data) // dtype.itemsize)
        used = np.flatnonzero(whole != np.zeros((), dtype))
        self._entries = whole[: int(used[-1]) + 1 if len(used) else 0]
        self._offsets: Ints = self._entries["relative_offset"].astype(np.int64) + place.base_offset

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def _none(self) -> NDArray[np.bool_]:
        """Return a mark for each entry, not set yet."""
        return np.zeros(len(self), np.bool_)

    def _form(self, zeros: int = 0) -> Iterator[Finding]:
        """Yield what is wrong with the file; ``zeros`` entries of zeros at its start are right."""
        place, size = self._place, self._size
        if place.unreadable:
            yield damage(place.path, 0, place.unreadable, _IN_THE_WAY)
        unused, odd = place.size_bytes // size - len(self) - zeros, place.size_bytes % size
        if odd:
            at = place.size_bytes - odd
            yield damage(place.path, at, f"{odd} bytes that are not a whole entry", place.remedy)
        if unused and not place.is_active and not place.is_rebuilt:
            at = place.size_bytes - odd - unused * size
            yield unusual(place.path, at, f"{unused:,} empty entries: the file was not trimmed")

    def _at_entries(self, is_bad: NDArray[Any], what: str) -> Iterator[Finding]:
        """Yield one finding for all entries with the same fault, at the first of them."""
        count = int(is_bad.sum())
        if count:
            place, first = self._place, int(is_bad.argmax())
            others = f", and {count - 1:,} others likewise" if count > 1 else ""
            what = f"entry {first:,} {what}{others}"
            yield damage(place.path, first * self._size, what, place.remedy)

    def _beyond(self, is_beyond: NDArray[Any], one: str, many: str) -> Iterator[Finding]:
        """Yield a finding for entries after the records' end, which a rebuilt index may have.

        ``one`` is the text for one entry, ``many`` for several.
        """
        count = int(is_beyond.sum())
        if count and self._place.is_rebuilt:
            first = int(is_beyond.argmax())
            what = f"{count:,} entries {many}" if count > 1 else f"entry {first:,} {one}"
            yield unusual(self._place.path, first * self._size, what, REBUILT)
        else:
            yield from self._at_entries(is_beyond, one)


class OffsetIndexCheck(_IndexCheck):
    """An entry (offset, position) is right if a batch starts there at or below that offset.

    Since Kafka 4.1 the offset is the last one of that batch, before it was the last one of the
    whole append, and up to 0.11 its first one; a lookup finds its way with all of them. Of a
    compressed batch of magic 0 or 1 the first offset is not known: it follows the batch before.
    """

    def __init__(self, place: IndexPlace) -> None:
        super().__init__(place, OFFSET_INDEX_ENTRY.dtype)
        self._positions: Ints = self._entries["position"].astype(np.int64)
        self._is_seen, self._is_low = self._none(), self._none()
        self._next_offset = place.base_offset

    def feed(self, batches: BatchColumns) -> None:
        """Take note of the next batches; positions are those in the .log file."""
        if not len(self._positions):
            return
        before = np.concatenate(([self._next_offset], batches.last_offset[:-1] + 1))
        is_wrapper = (batches.magic < MAGIC_V2) & (batches.codec != Codec.NONE)
        lowest = np.where(is_wrapper, before, batches.base_offset)
        self._next_offset = batches.next_offset
        at = np.searchsorted(batches.position, self._positions)
        at[at == len(batches)] = 0
        is_here = batches.position[at] == self._positions
        self._is_seen |= is_here
        self._is_low |= is_here & (self._offsets < lowest[at])

    def findings(
        self, end_position: int, next_offset: int, *, is_end: bool = True
    ) -> Iterator[Finding]:
        """Yield what is wrong, given where the segment's valid bytes and offsets end.

        ``is_end``: the records end there; else damage follows, and entries after it say nothing.
        """
        yield from self._form()
        is_beyond = (self._positions >= end_position) | (self._offsets >= next_offset)
        steps = (np.diff(self._offsets) <= 0) | (np.diff(self._positions) <= 0)
        is_falling = np.concatenate(([False], steps))[: len(self._offsets)]
        is_lost = ~self._is_seen & ~is_beyond
        for is_bad, what in (
            (is_falling & ~is_beyond, "does not come after the entry before it"),
            (is_lost & ~is_falling, "points at a byte where no batch starts"),
            (self._is_low, "names an offset below the batch it points at"),
        ):
            yield from self._at_entries(is_bad, what)
        if is_end:
            after = "after the end of the records"
            yield from self._beyond(is_beyond, f"points {after}", f"point {after}")


class TimeIndexCheck(_IndexCheck):
    """An entry (timestamp, offset) is right if all later timestamps lie after that offset.

    Since Kafka 4.1 the offset is the last one of the batch with that timestamp, before it could be
    the record's own. The last entry of a segment that is complete has its greatest timestamp.
    """

    def __init__(self, place: IndexPlace) -> None:
        super().__init__(place, TIME_INDEX_ENTRY.dtype)
        self._timestamps: Ints = self._entries["timestamp_ms"].astype(np.int64)
        self._is_late, self._is_early = self._none(), self._none()
        self._greatest = -1

    def feed(self, batches: BatchColumns) -> None:
        """Take note of the next batches."""
        upto = np.maximum.accumulate(np.maximum(batches.max_timestamp, self._greatest))
        before = np.concatenate(([self._greatest], upto[:-1]))
        self._greatest = int(upto[-1])
        first, last = batches.first_offset, int(batches.last_offset[-1])
        chosen = np.flatnonzero((self._offsets >= first) & (self._offsets <= last))
        if not len(chosen):
            return
        at = np.searchsorted(batches.last_offset, self._offsets[chosen])
        is_end = batches.last_offset[at] == self._offsets[chosen]
        passed = np.where(is_end, upto[at], before[at])
        self._is_late[chosen] = self._timestamps[chosen] < passed
        self._is_early[chosen] = self._timestamps[chosen] > upto[at]

    def findings(self, next_offset: int, *, is_end: bool = True) -> Iterator[Finding]:
        """Yield what is wrong, given where the segment's offsets end; ``is_end`` as above."""
        place = self._place
        # An entry of zeros has timestamp 0 at the first offset.
        is_zero = not len(self) and self._greatest == 0 and place.size_bytes >= self._size
        yield from self._form(int(is_zero))
        is_beyond = self._offsets >= next_offset
        steps = (np.diff(self._timestamps) <= 0) | (np.diff(self._offsets) < 0)
        is_falling = np.concatenate(([False], steps))[: len(self._offsets)]
        for is_bad, what in (
            (is_falling & ~is_beyond, "does not come after the entry before it"),
            (self._offsets < self._place.base_offset, "names an offset below the segment's first"),
            (self._is_late & ~is_falling, "has later timestamps before its offset"),
            (
                self._is_early & ~is_falling & ~is_beyond,
                "has a timestamp that no batch up to its offset has",
            ),
        ):
            yield from self._at_entries(is_bad, what)
        if not is_end:
            return
        yield from self._beyond(
            is_beyond,
            "names an offset after the records",
            "name offsets after the end of the records",
        )
        known = int(self._timestamps[-1]) if len(self._timestamps) else int(is_zero) - 1
        if known < self._greatest and not place.is_active and not place.is_rebuilt:
            what = f"ends at timestamp {known}, the records at {self._greatest}: lookups miss them"
            yield damage(place.path, len(self) * self._size, what, place.remedy)
