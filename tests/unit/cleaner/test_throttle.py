"""How fast cleaners may go."""

from __future__ import annotations

import pytest

from tidelog.cleaner.throttle import Pace, Throttle
from tidelog.errors import CleaningAborted
from tidelog.testing import ManualClock


def test_more_bytes_than_the_rate_allows_make_it_wait() -> None:
    """After 300 ms the cleaner sleeps as long as its bytes should have taken.

    Scenario: LogCleanerTest.testReconfigureLogCleanerIoMaxBytesPerSecond
    """
    clock, slept = ManualClock(), []
    throttle = Throttle(1000, clock, slept.append)
    throttle.take(400)
    clock.advance(301)
    throttle.take(400)
    throttle.bytes_per_second = 10_000
    clock.advance(499 + 301)
    throttle.take(100)

    assert slept == [800 - 301]
    assert throttle.total_bytes == 900


def test_a_pace_asks_before_it_counts() -> None:
    """A cleaner that has to stop takes no more bytes."""
    clock = ManualClock()
    throttle = Throttle(1000, clock, lambda _: None)

    def stop() -> None:
        raise CleaningAborted("stop")

    with pytest.raises(CleaningAborted):
        Pace(10, stop, throttle).step(10)

    assert throttle.total_bytes == 0
