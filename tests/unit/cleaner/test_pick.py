"""How dirty a log is, and what of it may be cleaned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.cleaning import CleanerHome

from tidelog.cleaner import pick
from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.pick import LogToClean, cleanable_limit, dirty_start, examine
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.cleaner.source_log import SourceLog, SourceSegment
    from tidelog.log.log import Log

HOUR_MS = 3_600_000


def rolled(home: CleanerHome, log: Log, segments: int, *, every_ms: int = 0) -> None:
    """Append segments of one batch each, one every ``every_ms``."""
    for _ in range(segments):
        home.append(log, ("a", "v" * 50))
        log.roll()
        home.clock.advance(every_ms)


def test_without_a_checkpoint_all_is_dirty() -> None:
    """A log that was never cleaned is dirty from its start to its active segment.

    Scenario: LogCleanerManagerTest.testCleanableOffsetsForNone,
    LogCleanerManagerTest.testCleanableOffsetsActiveSegment, LogCleanerTest.testLogToClean
    """
    home = CleanerHome()
    with home.open() as log:
        rolled(home, log, 3)

        found = examine(log, None, home.clock.now_ms())

        assert found.offsets == (0, 3)
        assert (found.clean_bytes, found.cleanable_bytes) == (0, log.size_bytes)
        assert (found.dirty_ratio, found.held_by) == (1.0, "the active segment")


def test_the_ratio_is_dirty_bytes_by_all_that_count() -> None:
    """Clean bytes are below the checkpoint, dirty ones between it and the cleanable limit.

    Scenario: LogCleanerTest.testLogToCleanWithUncleanableSection
    """
    home = CleanerHome()
    with home.open() as log:
        rolled(home, log, 4)

        found = examine(log, 3, home.clock.now_ms())

        each_bytes = log.size_bytes // 4
        assert (found.clean_bytes, found.cleanable_bytes) == (3 * each_bytes, each_bytes)
        assert found.dirty_ratio == 0.25
        assert not found.is_eligible(0.25)
        assert found.is_eligible(0.24)


def test_young_segments_are_left_alone() -> None:
    """Cleaning ends before the first segment that is younger than min.compaction.lag.ms.

    Scenario: LogCleanerManagerTest.testCleanableOffsetsForTime,
    LogCleanerLagIntegrationTest.cleanerTest
    """
    home = CleanerHome(min_compaction_lag_ms=HOUR_MS)
    with home.open() as log:
        rolled(home, log, 2)
        home.clock.advance(HOUR_MS)
        rolled(home, log, 2)

        found = examine(log, None, home.clock.now_ms())

        assert found.offsets == (0, 2)
        assert found.held_by == "min.compaction.lag.ms"


def test_a_lag_shorter_than_all_ages_holds_nothing() -> None:
    """When all inactive segments are old enough, only the active one is not cleaned.

    Scenario: LogCleanerManagerTest.testCleanableOffsetsForShortTime
    """
    home = CleanerHome(min_compaction_lag_ms=HOUR_MS)
    with home.open() as log:
        rolled(home, log, 2)
        home.clock.advance(HOUR_MS + 1)

        assert cleanable_limit(log, 0, home.clock.now_ms()) == (2, "the active segment")


@pytest.mark.parametrize(("lag_ms", "limit"), [(0, 1), (1, 0)])
def test_without_a_lag_no_timestamp_holds(lag_ms: int, limit: int) -> None:
    """Not even one in the future; a lag of 1 ms holds what was written in this millisecond."""
    home = CleanerHome(min_compaction_lag_ms=lag_ms)
    with home.open() as log:
        rolled(home, log, 1)

        assert cleanable_limit(log, 0, home.clock.now_ms() - 5 * (lag_ms == 0)).offset == limit


def test_a_segment_that_holds_the_limit_is_left_out_whole() -> None:
    """The limit never splits a segment into a part that is cleaned and one that is not."""
    home = CleanerHome()
    with home.open() as log:
        for _ in range(2):
            home.append(log, ("a", 1))
            home.append(log, ("a", 2))
            log.roll()
        log.update_high_watermark(3)

        found = examine(log, None, home.clock.now_ms())

        assert found.offsets == (0, 2)
        assert found.held_by == "the high watermark"


def test_a_checkpoint_outside_of_the_log_is_reset() -> None:
    """Below the log start or above its end a checkpoint counts as the log start.

    Scenario: LogCleanerManagerTest.testDirtyOffsetResetIfLargerThanEndOffset,
    LogCleanerManagerTest.testDirtyOffsetResetIfSmallerThanStartOffset,
    LogCleanerManagerTest.testCleanableOffsetsNeedsCheckpointReset
    """
    home = CleanerHome(cleanup_policy=("compact", "delete"))
    with home.open() as log:
        rolled(home, log, 3)
        log.maybe_increment_log_start_offset(2)

        assert dirty_start(log, 1) == (2, True)
        assert dirty_start(log, 4) == (2, True)
        assert dirty_start(log, 2) == (2, False)
        assert dirty_start(log, 3) == (3, False)
        assert dirty_start(log, None) == (2, False)


@pytest.mark.parametrize(
    ("policy", "checkpoint", "is_logged"),
    [
        (("compact", "delete"), 1, False),
        (("compact", "delete"), 4, True),
        (("compact",), 1, True),
        (("compact",), 4, True),
        (("compact",), 2, False),
        (("compact",), 3, False),
    ],
)
def test_a_checkpoint_that_retention_has_passed_is_reset_in_silence(
    caplog: pytest.LogCaptureFixture, policy: tuple[str, ...], checkpoint: int, is_logged: bool
) -> None:
    """Any other checkpoint outside of the log is logged."""
    home = CleanerHome(cleanup_policy=policy)
    with home.open() as log:
        rolled(home, log, 3)
        log.maybe_increment_log_start_offset(2)

        dirty_start(log, checkpoint)

    assert ("cleaner-checkpoint-reset" in caplog.text) is is_logged


@pytest.mark.parametrize("rolls_before", [True, False])
def test_a_roll_during_the_examination_reaches_no_further(
    monkeypatch: pytest.MonkeyPatch, rolls_before: bool
) -> None:
    """An open transaction in what was the active segment keeps that from being cleaned."""
    home = CleanerHome()
    with home.open() as log:
        home.append(log, ("a", 1))
        log.roll()
        home.producer(log, 7).send(("a", 2), transactional=True)
        find = pick._inactive_from

        def rolled_meanwhile(examined: SourceLog, offset: int) -> Sequence[SourceSegment]:
            monkeypatch.setattr(pick, "_inactive_from", find)
            if rolls_before:
                log.roll()
            found = find(examined, offset)
            if not rolls_before:
                log.roll()
            return found

        monkeypatch.setattr(pick, "_inactive_from", rolled_meanwhile)
        found = examine(log, 0, home.clock.now_ms())

        assert log.segments.base_offsets == [0, 1, 2]
        assert found.offsets == (0, 1)


def to_clean(clean: int, cleanable: int, delay_ms: int) -> LogToClean:
    """Make what was found of a log, in bytes and ms."""
    return LogToClean(OffsetsToClean(0, 1), clean, cleanable, delay_ms, False, "")


@pytest.mark.parametrize(
    ("cleanable", "delay_ms", "expected"), [(1, 1, True), (0, 1, False), (1, 0, False)]
)
def test_compaction_is_overdue_by_one_byte_and_one_millisecond(
    cleanable: int, delay_ms: int, expected: bool
) -> None:
    """Without bytes that may be cleaned it is never overdue."""
    assert to_clean(9, cleanable, delay_ms).needs_compaction_now is expected


def test_a_log_of_one_byte_can_be_eligible_and_an_empty_one_cannot() -> None:
    """The ratio of nothing is 0."""
    assert to_clean(0, 1, 0).is_eligible(0.5)
    assert not to_clean(0, 0, 0).is_eligible(-0.5)
    assert to_clean(0, 0, 0).dirty_ratio == 0.0


@pytest.mark.parametrize(("first_ms", "delay_ms"), [(-1, 0), (0, 0), (1, 9), (2, 8)])
def test_the_delay_counts_from_the_earliest_positive_timestamp(
    first_ms: int, delay_ms: int
) -> None:
    """As in Kafka, 0 does not count as one; without a timestamp nothing is overdue."""
    home = CleanerHome(max_compaction_lag_ms=90)
    with home.open() as log:
        log.append_as_leader(build_batch([(first_ms, b"a", b"v", ())]), 0)
        log.roll()

        assert examine(log, None, 100).compaction_delay_ms == delay_ms
        assert examine(log, None, 50).compaction_delay_ms == 0


def test_a_checkpoint_inside_the_active_segment_leaves_nothing_to_clean() -> None:
    """A dirty part that begins in the active segment has no bytes to be cleaned.

    Scenario: LogCleanerManagerTest.testDirtyOffsetLargerThanActiveSegmentBaseOffset,
    LogCleanerManagerTest.testLogStartOffsetLargerThanActiveSegmentBaseOffset
    """
    home = CleanerHome()
    with home.open() as log:
        for number in range(3):
            home.append(log, ("a", number))

        found = examine(log, 2, home.clock.now_ms())

        assert found.cleanable_bytes == 0
        assert not found.is_eligible(0.0)


def test_what_waits_too_long_is_cleaned_whatever_the_ratio() -> None:
    """A dirty record older than max.compaction.lag.ms makes the log eligible at any ratio.

    Scenario: LogCleanerLagIntegrationTest.testMaxLogCompactionLag
    """
    home = CleanerHome(max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=1.0)
    with home.open() as log:
        rolled(home, log, 2)
        waiting = examine(log, None, home.clock.now_ms() + HOUR_MS)
        due = examine(log, None, home.clock.now_ms() + HOUR_MS + 5)

        assert not waiting.is_eligible(1.0)
        assert (due.compaction_delay_ms, due.needs_compaction_now, due.is_eligible(1.0)) == (
            5,
            True,
            True,
        )
