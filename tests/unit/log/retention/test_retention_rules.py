"""Which old segments may go."""

from __future__ import annotations

from functools import partial

from tidelog.log.retention.retention_rules import (
    SegmentFacts,
    count_below_start,
    count_beyond_size,
    count_expired,
)

INFINITE = 2**62


def segments(*sizes: int, ages_ms: tuple[int, ...] = (), now_ms: int = 1000) -> list[SegmentFacts]:
    """Make segments of five offsets each, with their sizes in bytes and ages in ms."""
    ages = ages_ms or (0,) * len(sizes)
    last = len(sizes) - 1
    return [
        SegmentFacts(5 * n, 5 * n + 5, size, n == last, partial(now_ms.__sub__, age), int)
        for n, (size, age) in enumerate(zip(sizes, ages, strict=True))
    ]


def test_a_segment_goes_when_all_of_it_lies_below_the_log_start() -> None:
    """The segment that holds the log start stays, and so does the last one."""
    three = segments(10, 10, 10)

    counts = [count_below_start(three, INFINITE, start) for start in (1, 4, 5, 6, 10, 15)]

    assert counts == [0, 0, 1, 1, 2, 2]


def test_size_retention_never_goes_below_the_limit() -> None:
    """Oldest segments go while what is over the limit holds them whole.

    Scenario: UnifiedLogTest.shouldNotDeleteSizeBasedSegmentsWhenUnderRetentionSize
    """
    three = segments(10, 10, 10)

    counts = [count_beyond_size(three, INFINITE, excess) for excess in (-1, 0, 9, 10, 19, 20, 30)]

    assert counts == [0, 0, 0, 1, 1, 2, 3]


def test_empty_segments_count_only_if_the_log_is_not_below_its_limit() -> None:
    """Segments of 0 bytes fit into an excess of 0 bytes, but nothing is deleted below the limit."""
    three = segments(0, 0, 10)

    assert [count_beyond_size(three, INFINITE, excess) for excess in (-1, 0, 1)] == [0, 2, 2]


def test_a_segment_expires_when_its_newest_record_is_too_old() -> None:
    """Age is counted from the largest timestamp; exactly the limit is not too old.

    Scenario: UnifiedLogTest.shouldDeleteTimeBasedSegmentsReadyToBeDeleted
    """
    three = segments(10, 10, 10, ages_ms=(301, 300, 0))

    assert count_expired(three, INFINITE, now_ms=1000, retention_ms=300) == 1


def test_a_young_segment_protects_all_behind_it() -> None:
    """Only a prefix of the log may go.

    Scenario: UnifiedLogTest.shouldNotDeleteTimeBasedSegmentsWhenNoneReadyToBeDeleted,
    UnifiedLogTest.testDeletableSegmentsFilter
    """
    three = segments(10, 10, 10, ages_ms=(0, 500, 500))

    assert count_expired(three, INFINITE, now_ms=1000, retention_ms=300) == 0


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    """A segment may go only if the high watermark has passed its end.

    Scenario: UnifiedLogTest.testCannotDeleteSegmentsAtOrAboveHighWatermark,
    UnifiedLogTest.testSegmentDeletionWithHighWatermarkInitialization
    """
    three = segments(10, 10, 10, ages_ms=(500, 500, 500))

    counts = [count_expired(three, watermark, 1000, 300) for watermark in (4, 5, 9, 10, 15)]

    assert counts == [0, 1, 1, 2, 3]


def test_an_empty_last_segment_stays() -> None:
    """The empty active segment is not garbage.

    Scenario: UnifiedLogTest.testDeletableSegmentsIteration
    """
    three = segments(10, 10, 0, ages_ms=(500, 500, 500))

    assert count_expired(three, INFINITE, now_ms=1000, retention_ms=300) == 2
