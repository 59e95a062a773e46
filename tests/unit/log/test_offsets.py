"""The offsets of a log as one value."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidArgument, InvariantError
from tidelog.log.offsets import LogOffsets
from tidelog.segment.offset_metadata import LogOffsetMetadata


def offsets(
    start: int = 0, watermark: int = 0, end: int = 10, recovery_point: int = 0
) -> LogOffsets:
    """Make offsets in a log of one segment at 0, with bytes ten times the offset."""
    return LogOffsets(
        log_start_offset=start,
        high_watermark_metadata=LogOffsetMetadata(watermark, 0, 10 * watermark),
        log_end=LogOffsetMetadata(end, 0, 10 * end),
        recovery_point=recovery_point,
    )


@pytest.mark.parametrize(
    ("start", "watermark", "end", "recovery_point"),
    [(-1, 0, 1, 0), (3, 2, 5, 3), (0, 6, 5, 0), (3, 3, 5, 2), (0, 0, 5, 6)],
)
def test_offsets_out_of_order_cannot_be_made(
    start: int, watermark: int, end: int, recovery_point: int
) -> None:
    """Log start <= high watermark <= log end, and the recovery point lies between the ends."""
    with pytest.raises(InvariantError):
        offsets(start, watermark, end, recovery_point)


@pytest.mark.parametrize(("proposed", "expected"), [(1, 2), (2, 2), (7, 7), (10, 10), (99, 10)])
def test_the_high_watermark_is_clamped_into_the_log(proposed: int, expected: int) -> None:
    """A high watermark below the start becomes the start, one beyond the end becomes the end."""
    moved = offsets(start=2, watermark=4, recovery_point=2).with_high_watermark(
        LogOffsetMetadata(proposed)
    )

    assert moved.high_watermark == expected


def test_a_negative_high_watermark_is_refused() -> None:
    """Nobody can mean a negative high watermark."""
    with pytest.raises(InvalidArgument):
        offsets().with_high_watermark(LogOffsetMetadata(-1))


def test_a_high_watermark_at_the_end_knows_where_it_lies() -> None:
    """At the log end the place of the end is taken over, also when the end moves on by a roll.

    Scenario: UnifiedLogTest.testHighWatermarkMetadataUpdatedAfterSegmentRoll
    """
    at_end = offsets().with_high_watermark(LogOffsetMetadata(10))
    rolled = at_end.with_log_end(LogOffsetMetadata(10, 10, 0))

    assert at_end.high_watermark_metadata == LogOffsetMetadata(10, 0, 100)
    assert rolled.high_watermark_metadata == LogOffsetMetadata(10, 10, 0)


def test_a_new_log_start_raises_watermark_and_recovery_point() -> None:
    """Nothing that readers or recovery look at stays below the log start."""
    moved = offsets(watermark=3, recovery_point=1).with_log_start(6)

    assert (moved.log_start_offset, moved.high_watermark, moved.recovery_point) == (6, 6, 6)


def test_truncation_takes_every_offset_along() -> None:
    """No offset stays beyond a new, lower end."""
    cut = offsets(start=5, watermark=8, recovery_point=9).truncated(LogOffsetMetadata(4, 0, 40), 4)

    assert (cut.log_start_offset, cut.high_watermark, cut.recovery_point) == (4, 4, 4)
    assert cut.log_end_offset == 4


def test_the_last_stable_offset_is_the_first_unstable_one_below_the_watermark() -> None:
    """An open transaction holds back readers of committed records, but not beyond the watermark."""
    log = offsets(watermark=6)

    assert log.last_stable_offset == 6
    assert log.with_first_unstable(LogOffsetMetadata(4)).last_stable_offset == 4
    assert log.with_first_unstable(LogOffsetMetadata(8)).last_stable_offset == 6


def test_the_first_unstable_offset_is_not_below_the_log_start() -> None:
    """A transaction whose beginning was deleted is unstable from the log start on.

    Scenario: UnifiedLogTest.testLastStableOffsetDoesNotExceedLogStartOffsetAfterSegmentDeletion,
    UnifiedLogTest.testLastStableOffsetDoesNotExceedLogStartOffsetMidSegment
    """
    log = offsets(start=5, watermark=8, recovery_point=5)

    assert log.with_first_unstable(LogOffsetMetadata(2)).last_stable_offset == 5


def test_the_recovery_point_only_rises_and_never_passes_the_end() -> None:
    """What is flushed stays flushed."""
    log = offsets(recovery_point=4)

    assert log.with_recovery_point(2).recovery_point == 4
    assert log.with_recovery_point(12).recovery_point == 10
