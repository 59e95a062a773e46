"""Which of a log's oldest segments may be deleted: rules over values.

Kafka: ``UnifiedLog.deletableSegments`` and the ``deleteRetention…`` methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class SegmentFacts(NamedTuple):
    """What retention asks of a segment; ``end_offset`` is the next base, or the log's end."""

    base_offset: int
    end_offset: int
    size_bytes: int
    is_last: bool
    largest_timestamp: Callable[[], int]


class DeletedSegment(NamedTuple):
    """A segment that retention deleted: offsets ``[base, end)``, bytes of records, and why."""

    base_offset: int
    end_offset: int
    size_bytes: int
    reason: str


def count_deletable(
    segments: Iterable[SegmentFacts],
    high_watermark: int,
    may_delete: Callable[[SegmentFacts], bool],
) -> int:
    """Count the oldest segments that may be deleted, up to the first that may not.

    Nothing at or above ``high_watermark`` is ever deleted, nor an empty last segment.
    """
    count = 0
    for segment in segments:
        is_empty_last = segment.is_last and segment.size_bytes == 0
        if segment.end_offset > high_watermark or is_empty_last or not may_delete(segment):
            break
        count += 1
    return count


def count_below_start(
    segments: Iterable[SegmentFacts], high_watermark: int, log_start_offset: int
) -> int:
    """Count the oldest segments that hold only offsets below the log start."""
    return count_deletable(
        segments,
        high_watermark,
        lambda segment: not segment.is_last and segment.end_offset <= log_start_offset,
    )


def count_beyond_size(
    segments: Iterable[SegmentFacts], high_watermark: int, excess_bytes: int
) -> int:
    """Count the oldest segments that fit whole into ``excess_bytes``, the bytes over the limit."""
    left = excess_bytes

    def fits(segment: SegmentFacts) -> bool:
        nonlocal left
        left -= segment.size_bytes
        return left >= 0

    return count_deletable(segments, high_watermark, fits)


def count_expired(
    segments: Iterable[SegmentFacts], high_watermark: int, now_ms: int, retention_ms: int
) -> int:
    """Count the oldest segments whose largest timestamp is more than ``retention_ms`` ago."""
    return count_deletable(
        segments,
        high_watermark,
        lambda segment: now_ms - segment.largest_timestamp() > retention_ms,
    )
