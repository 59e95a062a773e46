"""What part of a log is to be cleaned, and how segments are put together.

Owns ``Cleanable``, the bounds of one round, and the grouping. Must not know records. Kafka:
``LogToClean`` and ``Cleaner.groupSegmentsBySize``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.records.batch import INT32_MAX
from tidelog.segment.offset_index import OFFSET_INDEX_ENTRY
from tidelog.segment.time_index import TIME_INDEX_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.segment.segment import LogSegment


class SegmentSize(NamedTuple):
    """What grouping asks of a segment: offsets (``last_offset`` inclusive) and bytes."""

    base_offset: int
    last_offset: int
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """How large a group may become, in bytes of records and of each index."""

    segment_bytes: int
    index_bytes: int


_ENTRY: Final = OFFSET_INDEX_ENTRY.itemsize
_TIME_ENTRY: Final = TIME_INDEX_ENTRY.itemsize


def sizes_of(segments: Sequence[LogSegment], first_uncleanable: int) -> list[SegmentSize]:
    """Return the sizes of neighbouring segments; the last one reaches to ``first_uncleanable``."""
    ends = [*(segment.base_offset for segment in segments[1:]), first_uncleanable]
    return [
        SegmentSize(
            segment.base_offset,
            end - 1,
            segment.size_bytes,
            segment.offset_index.entry_count * _ENTRY,
            segment.time_index.entry_count * _TIME_ENTRY,
        )
        for segment, end in zip(segments, ends, strict=True)
    ]


def group_by_size(sizes: Iterable[SegmentSize], limits: GroupLimits) -> list[list[SegmentSize]]:
    """Put neighbouring segments together as long as all sums stay within ``limits``.

    Each group becomes one segment with the first one's base offset, so its offsets must fit 32
    bits. Source: Kafka Cleaner.groupSegmentsBySize.
    """
    groups: list[list[SegmentSize]] = []
    for size in sizes:
        if groups and _fits(groups[-1], size, limits):
            groups[-1].append(size)
        else:
            groups.append([size])
    return groups


def _fits(group: list[SegmentSize], size: SegmentSize, limits: GroupLimits) -> bool:
    joined = [*group, size]
    return (
        sum(part.size_bytes for part in joined) <= limits.segment_bytes
        and sum(part.offset_index_bytes for part in joined) <= limits.index_bytes
        and sum(part.time_index_bytes for part in joined) <= limits.index_bytes
        and (size.size_bytes == 0 or size.last_offset - group[0].base_offset <= INT32_MAX)
    )
