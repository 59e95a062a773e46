"""Time in tests is exact, and tasks run in order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tidelog.errors import InvalidArgument
from tidelog.testing import ManualClock, ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_time_stands_still() -> None:
    """Without an advance, the clock shows the same time."""
    clock = ManualClock(start_ms=1_000)

    assert (clock.now_ms(), clock.now_ms(), clock.monotonic_ns()) == (1_000, 1_000, 0)


def test_an_advance_moves_both_clocks() -> None:
    """The time of day and the monotonic clock move by the same amount."""
    clock = ManualClock(start_ms=1_000)

    clock.advance(5)

    assert (clock.now_ms(), clock.monotonic_ns()) == (1_005, 5_000_000)


def test_a_task_that_is_due_runs_though_another_thread_puts_one_before_it() -> None:
    """As the event loop of a broker may, while a test advances: each runs once."""
    clock, ran = ManualClock(), list[str]()
    scheduler = clock.scheduler()
    scheduler.schedule("due", lambda: ran.append("due"), delay_ms=2)
    due = scheduler.first()
    assert due is not None
    scheduler.schedule("before", lambda: ran.append("before"), delay_ms=1)

    scheduler.run(due)
    clock.advance(2)

    assert ran == ["due", "before"]


def test_the_time_of_day_can_be_set_back() -> None:
    """Setting the clock does not pass time: no task becomes due."""
    clock = ManualClock(start_ms=1_000)
    ran: list[str] = []
    ManualScheduler(clock).schedule("t", lambda: ran.append("t"), delay_ms=1)

    clock.set_time_of_day(500)

    assert (clock.now_ms(), clock.monotonic_ns(), ran) == (500, 0, [])


def test_a_clock_cannot_be_advanced_backwards() -> None:
    """Passed time does not come back."""
    with pytest.raises(InvalidArgument):
        ManualClock().advance(-1)


def test_due_tasks_run_in_order_of_time_then_of_scheduling() -> None:
    """The order is always the same, even across two schedulers of one clock."""
    clock = ManualClock()
    first, second = ManualScheduler(clock), ManualScheduler(clock)
    ran: list[str] = []
    first.schedule("c", lambda: ran.append("c"), delay_ms=9)
    second.schedule("a", lambda: ran.append("a"), delay_ms=5)
    first.schedule("b", lambda: ran.append("b"), delay_ms=5)
    first.schedule("later", lambda: ran.append("later"), delay_ms=10)

    clock.advance(9)

    assert ran == ["a", "b", "c"]
    assert first.pending() == ["later"]


def test_a_task_sees_the_time_at_which_it_was_due() -> None:
    """A long advance stops at the due time of each task."""
    clock = ManualClock(start_ms=0)
    seen: list[int] = []
    ManualScheduler(clock).schedule(
        "t", lambda: seen.append(clock.now_ms()), delay_ms=3, period_ms=4
    )

    clock.advance(12)

    assert (seen, clock.now_ms()) == ([3, 7, 11], 12)


def test_a_task_without_delay_waits_for_the_next_advance() -> None:
    """A test can check the state between scheduling and running."""
    clock = ManualClock()
    ran: list[str] = []
    ManualScheduler(clock).schedule("t", lambda: ran.append("t"))
    before = list(ran)

    clock.advance(0)

    assert (before, ran) == ([], ["t"])


def test_a_task_scheduled_by_a_task_runs_in_the_same_advance() -> None:
    """Every task that becomes due on the way runs, whenever it was scheduled."""
    clock = ManualClock(start_ms=0)
    scheduler = ManualScheduler(clock)
    seen: list[int] = []

    def again() -> None:
        seen.append(clock.now_ms())
        scheduler.schedule("t", lambda: seen.append(clock.now_ms()), delay_ms=2)

    scheduler.schedule("again", again, delay_ms=1)
    clock.advance(5)

    assert seen == [1, 3]


def test_a_cancelled_task_does_not_run() -> None:
    """A task that is cancelled while it waits never runs."""
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    ran: list[str] = []
    handle = scheduler.schedule("t", lambda: ran.append("t"), period_ms=1)
    clock.advance(0)

    handle.cancel()
    clock.advance(5)

    assert (ran, scheduler.pending()) == (["t"], [])


def test_an_error_of_a_task_is_raised_in_the_test() -> None:
    """An error stops the advance; a periodic task continues with the next one."""
    clock = ManualClock(start_ms=0)
    seen: list[int] = []

    def shaky() -> None:
        seen.append(clock.now_ms())
        if len(seen) == 1:
            raise RuntimeError("on purpose")

    ManualScheduler(clock).schedule("t", shaky, delay_ms=1, period_ms=2)
    with pytest.raises(RuntimeError, match="on purpose"):
        clock.advance(5)

    clock.advance(2)

    assert seen == [1, 3]


def test_run_all_ends_every_task_before_it_raises() -> None:
    """Results are in order; the first error is raised once all tasks have run."""
    scheduler = ManualScheduler(ManualClock())
    ran: list[str] = []

    def fail() -> None:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        scheduler.run_all("t", [fail, lambda: ran.append("t")], 2)

    assert ran == ["t"]
    assert scheduler.run_all("t", [lambda: 1, lambda: 2], 2) == [1, 2]


def test_run_ahead_takes_tasks_as_early_as_threads_would() -> None:
    """Each task runs when its result is requested, after some more were taken."""
    events: list[str] = []

    def tasks() -> Iterator[Callable[[], None]]:
        for number in range(4):
            events.append(f"asked {number}")
            yield partial(events.append, f"ran {number}")

    list(ManualScheduler(ManualClock()).run_ahead("t", tasks(), 1))

    asked_first = ["asked 0", "asked 1", "ran 0", "asked 2", "ran 1", "asked 3", "ran 2"]
    assert events == [*asked_first, "ran 3"]


def test_a_long_advance_runs_a_frequent_task_about_a_thousand_times() -> None:
    """At multiples of its period, at the end at each; one that is less frequent, whenever due."""
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    day_ms = 86_400_000
    often: list[int] = []
    hourly: list[int] = []
    scheduler.schedule("often", lambda: often.append(clock.elapsed_ms()), period_ms=1_000)
    scheduler.schedule("hourly", lambda: hourly.append(clock.elapsed_ms()), period_ms=3_600_000)

    clock.advance(day_ms)
    first = list(often)
    clock.advance(5_000)

    assert 1_000 <= len(first) <= 1_300
    assert {due_ms % 1_000 for due_ms in first} == {0}
    assert first[-100:] == [day_ms - 1_000 * back for back in range(99, -1, -1)]
    assert hourly == [3_600_000 * hour for hour in range(25)]
    assert often[len(first) :] == [day_ms + 1_000 * second for second in range(1, 6)]
