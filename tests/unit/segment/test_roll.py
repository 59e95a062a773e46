"""When the active segment must be rolled."""

from __future__ import annotations

import pytest

from tidelog.config.log_config import LogConfig
from tidelog.segment.roll import RollParams, SegmentState, should_roll

CONFIG = LogConfig(internal_segment_bytes=1_000, segment_ms=100)
STATE = SegmentState(
    base_offset=10,
    size_bytes=600,
    created_ms=5_000,
    jitter_ms=0,
    first_timestamp=2_000,
    is_indexable=True,
)
INCOMING = RollParams(size_bytes=100, last_offset=20, max_timestamp=2_050, now_ms=9_999)


def rolls(state: SegmentState = STATE, incoming: RollParams = INCOMING) -> bool:
    return should_roll(state, incoming, CONFIG)


def test_a_young_segment_with_room_does_not_roll() -> None:
    """Without a reason there is no roll."""
    assert not rolls()


@pytest.mark.parametrize(("size_bytes", "expected"), [(400, False), (401, True)])
def test_a_segment_may_become_exactly_full(size_bytes: int, expected: bool) -> None:
    """An append that fits to the last byte does not roll."""
    assert rolls(incoming=INCOMING._replace(size_bytes=size_bytes)) is expected


@pytest.mark.parametrize(("timestamp", "expected"), [(2_100, False), (2_101, True), (1, False)])
def test_age_is_measured_by_record_timestamps(timestamp: int, expected: bool) -> None:
    """From the first batch's maximum timestamp to the incoming one; the clock does not matter.

    Scenario: UnifiedLogTest.testTimeBasedLogRollDuringAppend
    """
    assert rolls(incoming=INCOMING._replace(max_timestamp=timestamp)) is expected


@pytest.mark.parametrize(("now_ms", "expected"), [(5_100, False), (5_101, True)])
def test_without_timestamps_age_is_measured_by_the_clock(now_ms: int, expected: bool) -> None:
    """It counts from the creation of the segment."""
    state = STATE._replace(first_timestamp=-1)

    assert rolls(state, INCOMING._replace(now_ms=now_ms)) is expected


@pytest.mark.parametrize(("first_timestamp", "expected"), [(-1, True), (0, False), (1, False)])
def test_the_first_millisecond_of_1970_is_a_timestamp(first_timestamp: int, expected: bool) -> None:
    """Only -1 means that the first batch has no timestamp, so that the clock counts."""
    state = STATE._replace(first_timestamp=first_timestamp)

    assert rolls(state, INCOMING._replace(max_timestamp=50, now_ms=5_101)) is expected


def test_jitter_makes_a_segment_roll_earlier() -> None:
    """It is subtracted from the maximum age.

    Scenario: UnifiedLogTest.testTimeBasedLogRollJitter
    """
    incoming = INCOMING._replace(max_timestamp=2_081)

    assert not rolls(STATE, incoming)
    assert rolls(STATE._replace(jitter_ms=20), incoming)


def test_an_empty_segment_never_rolls_for_age() -> None:
    """There is nothing to expire."""
    state = STATE._replace(size_bytes=0, first_timestamp=-1)

    assert not rolls(state, INCOMING._replace(now_ms=10**15))


def test_a_segment_of_one_byte_rolls_for_age() -> None:
    """Only an empty segment does not."""
    old = INCOMING._replace(max_timestamp=2_101)

    assert rolls(STATE._replace(size_bytes=1), old)


@pytest.mark.parametrize("size_bytes", [0, 600])
def test_a_segment_without_room_in_its_indexes_rolls(size_bytes: int) -> None:
    """This holds even for an empty segment."""
    assert rolls(STATE._replace(is_indexable=False, size_bytes=size_bytes))


@pytest.mark.parametrize(
    ("last_offset", "expected"),
    [
        (10 + 2**31 - 1, False),
        (10 + 2**31, True),
        (10 + 2**31 - 1 + 200, True),
        (10, False),
        (9, True),
    ],
)
def test_an_offset_that_does_not_fit_the_index_rolls(last_offset: int, expected: bool) -> None:
    """The last offset is at least the base offset, and less than 2**31 above it."""
    state = STATE._replace(size_bytes=0)

    assert rolls(state, INCOMING._replace(last_offset=last_offset)) is expected


def test_compaction_may_require_earlier_rolls() -> None:
    """Only rolled segments are compacted, so max.compaction.lag.ms limits their age."""
    config = LogConfig(cleanup_policy=("compact",), max_compaction_lag_ms=10, segment_ms=100)

    assert should_roll(STATE, INCOMING, config)
