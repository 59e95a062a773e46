"""Which old segments may go."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tidelog.config.log_config import LogConfig
from tidelog.errors import InvalidArgument, OffsetOutOfRange, PolicyViolation
from tidelog.log.retention.retention_rules import (
    DELETE_ALL,
    SegmentFacts,
    below_start,
    deletion_end,
    deletion_target,
    expired,
    is_past,
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


def count_beyond_size(some: list[SegmentFacts], end: int, excess_bytes: int) -> int:
    """Count the segments that expire by size, in a log with so much over its limit."""
    config = LogConfig(retention_bytes=100, retention_ms=-1)
    return len(expired(some, config, 1000, size_bytes=100 + excess_bytes, end=end))


def count_expired(some: list[SegmentFacts], end: int, now_ms: int, retention_ms: int) -> int:
    """Count the segments that expire by age."""
    config = LogConfig(retention_ms=retention_ms)
    return len(expired(some, config, now_ms, size_bytes=0, end=end))


def test_a_segment_goes_when_all_of_it_lies_below_the_log_start() -> None:
    """The segment that holds the log start stays, and so does the last one."""
    three = segments(10, 10, 10)

    counts = [len(below_start(three, INFINITE, start)) for start in (1, 4, 5, 6, 10, 15)]

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


def test_a_segment_without_a_time_goes_by_size_only() -> None:
    """As in an archive, where no file says when it was written; it keeps all after it."""
    three = [one._replace(largest_timestamp=lambda: -1) for one in segments(10, 10, 10)]

    assert count_expired(three, INFINITE, now_ms=10**13, retention_ms=0) == 0
    assert count_beyond_size(three, INFINITE, 20) == 2


def test_size_goes_before_age_and_timestamps_are_looked_up_late() -> None:
    """Each segment says why it goes; one that goes by its size is not read for it."""
    looked: list[int] = []

    def aged(number: int, age_ms: int) -> int:
        looked.append(number)
        return 1000 - age_ms

    three = [
        one._replace(largest_timestamp=partial(aged, n, 301))
        for n, one in enumerate(segments(9, 9, 9))
    ]
    config = LogConfig(retention_bytes=15, retention_ms=300)

    gone = expired(three, config, 1000, size_bytes=27, end=10, which="local ")

    size, age = "local log retention size 15 breach", "local log retention time 300ms breach"
    assert [one.reason for one in gone] == [size, age]
    assert looked == [1]


@pytest.mark.parametrize(("limit", "count"), [(-1, 0), (0, 3), (1, 3)])
def test_a_limit_of_0_keeps_nothing_and_minus_1_all(limit: int, count: int) -> None:
    """Of either kind; a timestamp at the epoch is as any other."""
    looked: list[int] = []

    def first_of_all() -> int:
        looked.append(0)
        return 0

    three = [one._replace(largest_timestamp=first_of_all) for one in segments(10, 10, 10)]
    by_age = LogConfig(retention_ms=limit)
    by_size = LogConfig(retention_bytes=limit, retention_ms=-1)

    assert len(expired(three, by_age, 1000, size_bytes=30, end=INFINITE)) == count
    assert len(looked) == count
    assert len(expired(three, by_size, 1000, size_bytes=31, end=INFINITE)) == count
    assert [is_past(999, each, 1000) for each in (-1, 0, 1)] == [False, True, False]


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


def test_a_segment_that_stays_keeps_the_later_ones() -> None:
    """A log has no holes, though a later segment may be older."""
    three = segments(10, 10, 10, ages_ms=(301, 0, 301))

    assert count_expired(three, INFINITE, 1000, 300) == 1


@pytest.mark.parametrize(
    ("given", "offset"), [("highWatermark", -1), (0, 0), (7, 7), (np.int64(3), 3)]
)
def test_records_are_deleted_before_an_offset_or_all_that_readers_see(
    given: int | str, offset: int
) -> None:
    """-1 is how Kafka's clients say the latter."""
    assert deletion_end(given) == offset
    assert DELETE_ALL == -1


@pytest.mark.parametrize("given", [-1, -2, True, False, 1.5, "7", "", "logEnd", None])
def test_what_is_no_offset_deletes_nothing(given: object) -> None:
    """A slip must not delete all records, as -1 and 1, or True, would."""
    with pytest.raises(InvalidArgument, match="is not an offset to delete records before"):
        deletion_end(given)  # type: ignore[arg-type]  # what users may type


def target_of(before_offset: int, policy: str = "delete") -> int:
    """Return the log start that is asked for, of a log whose records below 10 may be deleted."""
    config = LogConfig.parse({"cleanup.policy": policy})
    return deletion_target(
        before_offset, config, log_start_offset=2, log_end_offset=20, deletable_end=10
    )


def test_deletions_reach_up_to_what_may_be_deleted() -> None:
    """Inclusive, and from 0 on: what is below the log start is deleted already."""
    offsets = (0, 1, 9, 10, DELETE_ALL)

    assert [target_of(offset) for offset in offsets] == [0, 1, 9, 10, 10]
    assert target_of(5, "compact,delete") == 5


@pytest.mark.parametrize("before_offset", [-3, -2, 11, 20, 2**63 - 1])
def test_a_deletion_beyond_that_is_out_of_range(before_offset: int) -> None:
    """The error says how far it could go."""
    with pytest.raises(OffsetOutOfRange) as caught:
        target_of(before_offset)

    assert (caught.value.requested, caught.value.log_end_offset) == (before_offset, 20)


def test_records_of_a_compacted_log_are_not_deleted_by_offset() -> None:
    """Only its cleaner may, unless its policy is to delete as well."""
    with pytest.raises(PolicyViolation, match="only compacted"):
        target_of(5, "compact")
