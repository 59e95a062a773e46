"""The range of offsets that one cleaning covers, and how its segments are grouped.

Kafka: ``OffsetsToClean`` and ``Cleaner.groupSegmentsBySize``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.records.batch import INT32_MAX
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.segment.segment import LogSegment


class OffsetsToClean(NamedTuple):
    """The range whose keys one cleaning reads: [first_dirty_offset, first_uncleanable_offset).

    Offsets from ``first_dirty_offset`` on were never cleaned; those from
    ``first_uncleanable_offset`` on must not be. Source: Kafka OffsetsToClean.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing is dirty; such a cleaning does nothing, as in Kafka."""
        return self.first_dirty_offset >= self.first_uncleanable_offset


class SegmentSize(NamedTuple):
    """The offsets (``last_offset`` is inclusive) and the bytes of a segment, for grouping."""

    base_offset: int
    last_offset: int
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The most bytes of records, and of each index, that a group may have."""

    segment_bytes: int
    index_bytes: int


_OFFSET_ENTRY_BYTES: Final = OFFSET_INDEX_ENTRY.size
_TIME_ENTRY_BYTES: Final = TIME_INDEX_ENTRY.size


def sizes_of(segments: Sequence[LogSegment], first_uncleanable: int) -> list[SegmentSize]:
    """Return the sizes of adjacent segments; the last one ends at ``first_uncleanable``."""
    ends = [*(segment.base_offset for segment in segments[1:]), first_uncleanable]
    return [
        SegmentSize(
            segment.base_offset,
            end - 1,
            segment.size_bytes,
            segment.offset_index.entry_count * _OFFSET_ENTRY_BYTES,
            segment.time_index.entry_count * _TIME_ENTRY_BYTES,
        )
        for segment, end in zip(segments, ends, strict=True)
    ]


def group_by_size(sizes: Iterable[SegmentSize], limits: GroupLimits) -> list[list[SegmentSize]]:
    """Group adjacent segments as long as all sums stay within ``limits``.

    Each group becomes one segment with the base offset of its first one, so its offsets relative
    to that must fit 32 bits. Source: Kafka Cleaner.groupSegmentsBySize.
    """
    groups: list[list[SegmentSize]] = []
    whole: SegmentSize | None = None
    for size in sizes:
        joined = size if whole is None else _joined(whole, size)
        if groups and _fits(joined, limits, is_last_empty=size.size_bytes == 0):
            groups[-1].append(size)
            whole = joined
        else:
            groups.append([size])
            whole = size
    return groups


def _joined(first: SegmentSize, second: SegmentSize) -> SegmentSize:
    return second._replace(
        base_offset=first.base_offset,
        size_bytes=first.size_bytes + second.size_bytes,
        offset_index_bytes=first.offset_index_bytes + second.offset_index_bytes,
        time_index_bytes=first.time_index_bytes + second.time_index_bytes,
    )


def _fits(joined: SegmentSize, limits: GroupLimits, *, is_last_empty: bool) -> bool:
    return (
        joined.size_bytes <= limits.segment_bytes
        and joined.offset_index_bytes <= limits.index_bytes
        and joined.time_index_bytes <= limits.index_bytes
        and (is_last_empty or joined.last_offset - joined.base_offset <= INT32_MAX)
    )
