"""The coarse index of an archived segment: where lookups begin, in a few KiB for a GiB of records.

The whole index of a large segment would be more to fetch than what most lookups are for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.layout import Layout, Wire
from tidelog.errors import CorruptArchive
from tidelog.records.batch import NO_TIMESTAMP
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY, OffsetPosition, TimestampOffset

if TYPE_CHECKING:
    from tidelog.archive.deltas import Entry
    from tidelog.store.objects import Objects

COARSE_BYTES: Final = 1 << 20
"""There is an entry for about as many bytes of the log."""


class CoarseEntry(NamedTuple):
    """One entry of the coarse index of an archived segment."""

    offset: Annotated[int, Wire("q", "Base offset of a batch.")]
    position: Annotated[int, Wire("q", "Byte in the .log file at which the batch starts.")]
    timestamp: Annotated[int, Wire("q", "Greatest timestamp of the batches before it, in ms.")]


COARSE_ENTRY: Final = Layout(CoarseEntry)
assert COARSE_ENTRY.size == 24


class CoarseIndex:
    """The index of one segment; it is fetched when it is first asked for, if it is needed.

    Its entries are not compared with the batches that they name: a walk that begins at another byte
    finds no batch there, and so finds out that the archive is damaged. CorruptArchive for entries
    that do not rise.

    Args:
        store: the archive's objects.
        name: the segment's object.
        entry: what the archive says of the segment.
    """

    def __init__(self, store: Objects, name: str, entry: Entry) -> None:
        self._store = store
        self._name = name
        self._entry = entry

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, in ms, -1 if no record has one."""
        return self._entry.max_timestamp

    @cached_property
    def copied_ms(self) -> int:
        """When the segment was copied, by the store's clock, in ms; -1 if it is gone there."""
        found = self._store.head(self._name)
        return NO_TIMESTAMP if found is None else found.modified_ms

    @cached_property
    def entries(self) -> list[CoarseEntry]:
        """All entries but the one of the first batch, where a lookup begins anyway."""
        entry = self._entry
        if entry.size_bytes <= COARSE_BYTES:
            return []
        bounds = entry.section("coarse")
        (raw,) = self._store.get_ranges(self._name, [bounds])
        found = [*map(CoarseEntry._make, COARSE_ENTRY.unpack_all(raw))]
        before = CoarseEntry(entry.base_offset - 1, -1, NO_TIMESTAMP)
        for one in found:
            rises = before.offset < one.offset < entry.end_offset
            if not (rises and before.position < one.position < entry.size_bytes):
                raise CorruptArchive(f"{self._name}: the coarse index does not rise")
            before = one
        return found[1:]

    def estimate(self) -> tuple[list[int], list[int]]:
        """Return offsets and about where their batches begin, as if all batches were alike.

        Nothing is fetched for that: who cuts a log of a thousand segments would wait for each.
        """
        entry = self._entry
        count = entry.size_bytes // COARSE_BYTES
        size, offsets = entry.size_bytes, entry.end_offset - entry.base_offset
        positions = [number * COARSE_BYTES for number in range(1, count + 1)]
        known = {entry.base_offset + at * offsets // size: at for at in positions}
        return [*known], [*known.values()]

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below ``offset``; (base offset, 0) if there is none."""
        at = bisect_right(self.entries, offset, key=lambda one: one.offset) - 1
        if at < 0:
            return OffsetPosition(self._entry.base_offset, 0)
        return OffsetPosition(*self.entries[at][:2])

    def near_end(self) -> OffsetPosition | None:
        """Return the last entry but one of the segment's own index, for walks to its end.

        It is nearer than an entry of this index, and to be compared with the batch that it names.
        None where it says nothing, or all of a small segment is walked.
        """
        entry, size = self._entry, OFFSET_INDEX_ENTRY.size
        start, end = entry.section("index")
        if entry.size_bytes <= COARSE_BYTES or end - start < 2 * size:
            return None
        (raw,) = self._store.get_ranges(self._name, [(end - 2 * size, end - size)])
        offset, position = OFFSET_INDEX_ENTRY.unpack(raw)
        if not 0 < position < entry.size_bytes:
            return None
        return OffsetPosition(entry.base_offset + offset, position)

    def likely_end(self, offset: int) -> int | None:
        """Return a byte at or behind all batches below ``offset``; None if no entry says one."""
        at = bisect_left(self.entries, offset, key=lambda one: one.offset)
        return self.entries[at].position if at < len(self.entries) else None

    def offset_behind(self, offset: int, size_bytes: int) -> int | None:
        """Return an offset up to which about ``size_bytes`` lie, or more, from ``offset`` on.

        None where no entry says one.
        """
        # The entry before it may lie so far in front of it.
        end = self.lookup(offset).position + COARSE_BYTES + size_bytes
        at = bisect_left(self.entries, end, key=lambda one: one.position)
        return self.entries[at].offset if at < len(self.entries) else None

    def before(self, timestamp: int) -> TimestampOffset:
        """Return the last entry before which all batches are older; (-1, base offset) if none is.

        ``offset`` is that of the batch that it names, ``timestamp`` the largest before it.
        """
        at = bisect_left(self.entries, timestamp, key=lambda one: one.timestamp) - 1
        if at < 0:
            return TimestampOffset(NO_TIMESTAMP, self._entry.base_offset)
        return TimestampOffset(self.entries[at].timestamp, self.entries[at].offset)
