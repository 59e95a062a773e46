"""The segments of one log, in order of their base offsets. Kafka: ``LogSegments``."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from tidelog.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.segment.segment import LogSegment

_base = attrgetter("base_offset")


def segments_from(segments: tuple[LogSegment, ...], offset: int) -> tuple[LogSegment, ...]:
    """Return the segments from the one that may hold ``offset`` on; none if all begin above."""
    at = bisect_right(segments, offset, key=_base)
    return segments[at - 1 :] if at else ()


class SegmentTuple(tuple["LogSegment", ...]):  # noqa: SLOT001 - it keeps what it has found
    """The segments of a log at one moment, ascending; the last one is active."""

    @cached_property
    def _aborting(self) -> tuple[LogSegment, ...]:
        # Only the active one may get its first aborted transaction while it is in this tuple.
        return (*(one for one in self[:-1] if one.txn_index.may_have_entries), *self[-1:])

    def aborting_from(self, base_offset: int) -> tuple[LogSegment, ...]:
        """Return those from ``base_offset`` on that may have aborted transactions in their index.

        The others are found once, so that a fetch does not ask each of thousands of segments.
        """
        found = self._aborting
        return found[bisect_left(found, base_offset, key=_base) :]


class LogSegments:
    """Segments by base offset, strictly ascending; the last one is active.

    ``all`` is an immutable tuple, replaced as a whole: a reader takes it once and needs no lock.
    Changes are made under the log's lock.
    """

    def __init__(self) -> None:
        self.all = SegmentTuple()

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self.all)

    @property
    def active(self) -> LogSegment:
        """The segment that appends are written to."""
        if not self.all:
            raise InvariantError("a log without segments has no active one")
        return self.all[-1]

    @property
    def first_base_offset(self) -> int:
        """Base offset of the oldest segment; an open log has one."""
        if not self.all:
            raise InvariantError("a log without segments has no first offset")
        return self.all[0].base_offset

    @property
    def base_offsets(self) -> list[int]:
        """Base offsets, ascending."""
        return [segment.base_offset for segment in self.all]

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all segments."""
        return sum(segment.size_bytes for segment in self.all)

    def get(self, base_offset: int) -> LogSegment | None:
        """Return the segment that begins at ``base_offset``."""
        segments = self.all
        at = bisect_left(segments, base_offset, key=_base)
        found = at < len(segments) and segments[at].base_offset == base_offset
        return segments[at] if found else None

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment that begins at or below ``offset``."""
        segments = self.all
        at = bisect_right(segments, offset, key=_base)
        return segments[at - 1] if at else None

    def lower(self, offset: int) -> LogSegment | None:
        """Return the last segment that begins below ``offset``."""
        return self.floor(offset - 1)

    def higher(self, offset: int) -> LogSegment | None:
        """Return the first segment that begins above ``offset``."""
        segments = self.all
        at = bisect_right(segments, offset, key=_base)
        return segments[at] if at < len(segments) else None

    def from_floor(self, offset: int) -> tuple[LogSegment, ...]:
        """Return the segments from the one that may hold ``offset`` on; none if all begin above."""
        return segments_from(self.all, offset)

    def overlapping(self, start_offset: int, end_offset: int) -> tuple[LogSegment, ...]:
        """Return the segments that may hold offsets of [start, end)."""
        segments = self.all
        first = max(bisect_right(segments, start_offset, key=_base) - 1, 0)
        return segments[first : bisect_left(segments, end_offset, key=_base)]

    def add(self, segment: LogSegment) -> None:
        """Add a segment, or replace the one with its base offset."""
        below = self.all[: bisect_left(self.all, segment.base_offset, key=_base)]
        above = self.all[bisect_right(self.all, segment.base_offset, key=_base) :]
        self.all = SegmentTuple((*below, segment, *above))

    def remove(self, base_offset: int) -> None:
        """Take a segment out; nothing if it is not there."""
        self.all = SegmentTuple(kept for kept in self.all if kept.base_offset != base_offset)

    def replace(self, new: Iterable[LogSegment], old: Iterable[LogSegment]) -> None:
        """Put ``new`` in the place of ``old`` at once: no reader sees both, or neither."""
        arriving = tuple(new)
        gone = {segment.base_offset for segment in (*arriving, *old)}
        kept = (segment for segment in self.all if segment.base_offset not in gone)
        self.all = SegmentTuple(sorted((*kept, *arriving), key=_base))

    def clear(self) -> None:
        """Take all segments out."""
        self.all = SegmentTuple()
