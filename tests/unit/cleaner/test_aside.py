"""Who does what was given away: a helping thread, or whoever needs it done."""

from __future__ import annotations

from functools import partial

import pytest

from tidelog.cleaner.aside import HANDS, NAME, Aside
from tidelog.env.scheduler import InlineScheduler
from tidelog.testing import ManualClock, ManualScheduler


def test_a_scheduler_that_runs_tasks_at_once_has_them_done_in_order() -> None:
    """What is given is done when ``give`` returns, so that the order is that of the calls."""
    done: list[int] = []
    aside = Aside(InlineScheduler())

    jobs = [aside.give(partial(done.append, n)) for n in range(4)]

    assert done == [0, 1, 2, 3]
    assert all(job.has_ended for job in jobs)


def test_whoever_waits_for_a_job_that_nobody_began_does_it() -> None:
    """A scheduler without a free thread holds nothing up, and runs nothing a second time."""
    clock, done = ManualClock(), list[int]()
    scheduler = ManualScheduler(clock)
    aside = Aside(scheduler)
    first, second = aside.give(lambda: done.append(1)), aside.give(lambda: done.append(2))
    assert done == []

    second.join()
    first.join()
    clock.advance(0)

    assert done == [2, 1]


def test_while_all_hands_are_busy_a_job_is_done_here() -> None:
    """Nobody waits for a helping thread: the one who gives has time to do it."""
    done: list[int] = []
    aside = Aside(ManualScheduler(ManualClock()))
    for _ in range(HANDS):
        aside.give(lambda: done.append(0))

    assert aside.offer(lambda: done.append(1)) is None
    assert aside.give(lambda: done.append(2)).has_ended
    assert done == [2]


def test_an_error_is_raised_where_the_job_is_awaited_each_time() -> None:
    """It ends nothing on the helping thread, and cannot be missed by waiting once."""
    job = Aside(InlineScheduler()).give(list[int]().pop)

    job.wait()
    for _ in range(2):
        with pytest.raises(IndexError):
            job.join()


def test_nothing_is_left_with_the_scheduler_at_the_end() -> None:
    """What was done without the scheduler it need not run any more."""
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    aside = Aside(scheduler)
    aside.give(lambda: None).join()
    assert scheduler.pending() == [NAME]

    aside.forget_ended()

    assert scheduler.pending() == []
