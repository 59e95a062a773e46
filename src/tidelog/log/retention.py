"""Which of a log's oldest segments may be deleted: rules over values.

Kafka: ``UnifiedLog.deletableSegments`` and the ``deleteRetention…`` methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import OffsetOutOfRange, PolicyViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.config.log_config import LogConfig

DELETE_ALL: Final = -1
"""As an offset for ``Log.delete_records``: everything up to the high watermark."""


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


def deletion_target(
    before_offset: int,
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    deletable_end: int,
) -> int:
    """Return the log start that a deletion of the records below ``before_offset`` asks for.

    ``deletable_end`` is the high watermark, or below it where a committed transaction is to be
    applied from there on. Raises PolicyViolation if the log is compacted only, OffsetOutOfRange
    above ``deletable_end`` and for negative offsets other than ``DELETE_ALL``.
    """
    if config.is_compacted and not config.is_deleted:
        raise PolicyViolation(
            "records of a log that is only compacted cannot be deleted (cleanup.policy)"
        )
    target = deletable_end if before_offset == DELETE_ALL else before_offset
    if not 0 <= target <= deletable_end:
        raise OffsetOutOfRange(target, log_start_offset, high_watermark)
    return target


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
