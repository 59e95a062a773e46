"""The rate limit of the cleaners, and when a cleaner has to stop."""

from __future__ import annotations

import pytest

from tidelog.cleaner.throttle import STOP_POLL_MS, CleanerIo, Throttler
from tidelog.errors import CleaningAborted
from tidelog.testing import ManualClock


def never() -> None:
    """Never ask a cleaner to stop."""


def test_more_bytes_than_the_rate_allows_make_it_wait() -> None:
    """After 300 ms the cleaner sleeps as long as its bytes should have taken.

    Scenario: LogCleanerTest.testReconfigureLogCleanerIoMaxBytesPerSecond
    """
    clock = ManualClock()
    slept: list[int] = []
    throttler = Throttler(1000, clock, slept.append)
    throttler.maybe_throttle(400, never)
    clock.advance(301)
    throttler.maybe_throttle(400, never)
    slept_ms = sum(slept)
    throttler.update_rate(10_000)
    clock.advance(499 + 301)
    throttler.maybe_throttle(100, never)

    assert slept_ms == sum(slept) == 800 - 301
    assert throttler.total_bytes == 900


def test_a_new_rate_is_free_of_the_delay_of_the_old_one() -> None:
    """A much too low rate that is raised does not leave the cleaners unthrottled for its delay."""
    clock = ManualClock()
    slept: list[int] = []
    throttler = Throttler(1, clock, slept.append)
    clock.advance(301)
    throttler.maybe_throttle(1000, never)
    slept.clear()

    throttler.update_rate(1000)
    clock.advance(301)
    throttler.maybe_throttle(1000, never)

    assert sum(slept) == 1000 - 301


@pytest.mark.parametrize("rate", [-1.0, -5e-324, float("-inf"), float("inf")])
def test_a_negative_rate_is_no_limit(rate: float) -> None:
    """So it is in Kafka, whatever its size."""
    clock = ManualClock()
    slept: list[int] = []
    throttler = Throttler(rate, clock, slept.append)
    clock.advance(301)

    throttler.maybe_throttle(1000, never)

    assert slept == []


def test_a_throttled_sleep_ends_when_the_cleaner_is_asked_to_stop() -> None:
    """It does so within one step of the sleep, however long the rate makes it."""
    clock = ManualClock()
    slept: list[int] = []
    throttler = Throttler(1, clock, slept.append)
    clock.advance(301)

    def stop_at_the_third() -> None:
        if len(slept) == 2:
            raise CleaningAborted("stop")

    with pytest.raises(CleaningAborted):
        throttler.maybe_throttle(1_000_000, stop_at_the_third)

    assert slept == [STOP_POLL_MS] * 2
    assert throttler.total_bytes == 1_000_000


def test_a_cleaner_that_has_to_stop_counts_no_more_bytes() -> None:
    """The check comes before what was read is counted."""
    clock = ManualClock()
    throttler = Throttler(1000, clock, lambda _: None)

    def stop() -> None:
        raise CleaningAborted("stop")

    with pytest.raises(CleaningAborted):
        CleanerIo(10, stop, throttler).on_read(10)

    assert throttler.total_bytes == 0
