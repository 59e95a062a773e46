"""The offsets of a log as one value."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidArgument, InvariantError
from tidelog.log.offsets import LogOffsets, check_offsets_left
from tidelog.records.batch import INT64_MAX
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


def test_a_high_watermark_inside_the_log_keeps_its_place() -> None:
    """Only one that is moved to the start loses segment and position; the start itself does not.

    A reader up to the high watermark then needs no look-up in an index.
    """
    at_zero, at_start = LogOffsetMetadata(0, 0, 0), LogOffsetMetadata(2, 0, 20)

    assert offsets().with_high_watermark(at_zero).high_watermark_metadata == at_zero
    log = offsets(start=2, watermark=4, recovery_point=2)
    assert log.with_high_watermark(at_start).high_watermark_metadata == at_start


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


def test_a_log_start_at_the_watermark_keeps_its_place() -> None:
    """What lies at the new start is not below it, so its segment and position stay known."""
    log = offsets(watermark=6).with_first_unstable(LogOffsetMetadata(6, 0, 60))

    moved = log.with_log_start(6)

    assert moved.high_watermark_metadata == LogOffsetMetadata(6, 0, 60)
    assert moved.first_unstable == LogOffsetMetadata(6, 0, 60)


def test_a_log_start_past_the_first_unstable_offset_raises_it() -> None:
    """A transaction whose beginning was deleted is unstable from the new start on; others stay."""
    log = offsets(watermark=8).with_first_unstable(LogOffsetMetadata(4, 0, 40))

    assert log.with_log_start(3).first_unstable == LogOffsetMetadata(4, 0, 40)
    assert log.with_log_start(6).first_unstable == LogOffsetMetadata(6)


def test_truncation_takes_every_offset_along() -> None:
    """No offset stays beyond a new, lower end."""
    cut = offsets(start=5, watermark=8, recovery_point=9).truncated(LogOffsetMetadata(4, 0, 40), 4)

    assert (cut.log_start_offset, cut.high_watermark, cut.recovery_point) == (4, 4, 4)
    assert cut.log_end_offset == 4


@pytest.mark.parametrize(
    ("watermark", "expected"),
    [
        (2, LogOffsetMetadata(3)),
        (3, LogOffsetMetadata(3)),
        (5, LogOffsetMetadata(5)),
        (7, LogOffsetMetadata(7, 7, 0)),
        (9, LogOffsetMetadata(7, 7, 0)),
    ],
)
def test_truncation_clamps_the_watermark(watermark: int, expected: LogOffsetMetadata) -> None:
    """Between the new start and end it loses its place; at the end it has the place of the end."""
    log = offsets(watermark=watermark)

    cut = log.truncated(LogOffsetMetadata(7, 7, 0), log_start_offset=3)

    assert cut.high_watermark_metadata == expected


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
    at_start = LogOffsetMetadata(5, 0, 50)
    assert log.with_first_unstable(at_start).last_stable == at_start


def test_the_recovery_point_only_rises_and_never_passes_the_end() -> None:
    """What is flushed stays flushed."""
    log = offsets(recovery_point=4)

    assert log.with_recovery_point(2).recovery_point == 4
    assert log.with_recovery_point(12).recovery_point == 10


@pytest.mark.parametrize(
    ("watermark", "expected"),
    [
        # There already: it keeps its place.
        (3, LogOffsetMetadata(5, 0, 50)),
        (5, LogOffsetMetadata(5, 0, 50)),
        # Between: where it lies is looked up.
        (6, LogOffsetMetadata(6)),
        # At the end, or beyond it: the place of the end is known.
        (12, LogOffsetMetadata(12, 0, 120)),
        (13, LogOffsetMetadata(12, 0, 120)),
    ],
)
def test_an_append_moves_the_watermark_forward_only_and_not_beyond_the_end(
    watermark: int, expected: LogOffsetMetadata
) -> None:
    """The end moves on in any case."""
    before, end = offsets(watermark=5, end=10), LogOffsetMetadata(12, 0, 120)

    after = before.appended(end, LogOffsetMetadata(watermark))

    assert (after.high_watermark_metadata, after.log_end) == (expected, end)


def test_the_end_of_a_log_is_at_most_the_greatest_offset() -> None:
    """It is exclusive: the greatest offset itself has no record."""
    check_offsets_left(0, 1)
    check_offsets_left(INT64_MAX - 3, 3)
    with pytest.raises(InvalidArgument, match=rf"4 records from offset {INT64_MAX - 3} on exceed"):
        check_offsets_left(INT64_MAX - 3, 4)
