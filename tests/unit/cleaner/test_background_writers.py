"""Who does what was given away: a helping thread, or whoever needs it done."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cleaner.background_writers import (
    MAX_WRITERS,
    TASK_NAME,
    BackgroundWriters,
    Job,
    WriterSlots,
)
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import CleaningAborted
from tidelog.testing import ManualClock, ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def give(writers: BackgroundWriters, task: Callable[[], object]) -> Job:
    """Give a job away; return it."""
    job = Job(task)
    writers.submit(job)
    return job


def test_a_scheduler_that_runs_tasks_at_once_has_them_done_in_order() -> None:
    """What is given is done when ``give`` returns, so that the order is that of the calls."""
    done: list[int] = []
    writers = BackgroundWriters(InlineScheduler())

    jobs = [give(writers, partial(done.append, n)) for n in range(4)]

    assert done == [0, 1, 2, 3]
    assert all(job.has_ended for job in jobs)


def test_whoever_waits_for_a_job_that_nobody_began_does_it() -> None:
    """A scheduler without a free thread holds nothing up, and runs nothing a second time."""
    clock, done = ManualClock(), list[int]()
    scheduler = ManualScheduler(clock)
    writers = BackgroundWriters(scheduler)
    first, second = (give(writers, partial(done.append, n)) for n in (1, 2))
    assert done == []

    second.join()
    first.join()
    clock.advance(0)

    assert done == [2, 1]


def test_while_all_hands_are_busy_a_job_is_done_here() -> None:
    """Nobody waits for a helping thread: the one who gives has time to do it."""
    done: list[int] = []
    writers = BackgroundWriters(ManualScheduler(ManualClock()))
    for _ in range(MAX_WRITERS):
        give(writers, lambda: done.append(0))

    assert not writers.try_submit(Job(lambda: done.append(1)))
    assert give(writers, lambda: done.append(2)).has_ended
    assert done == [2]


def test_those_who_share_hands_have_no_more_together() -> None:
    """A job takes one until it has ended, whoever did it."""
    writer_slots, scheduler = WriterSlots(MAX_WRITERS + 1), ManualScheduler(ManualClock())
    one, other = (
        BackgroundWriters(scheduler, writer_slots),
        BackgroundWriters(scheduler, writer_slots),
    )
    jobs = [Job(lambda: None) for _ in range(2 * MAX_WRITERS)]

    assert [one.try_submit(job) for job in jobs[:MAX_WRITERS]] == [True] * MAX_WRITERS
    assert [other.try_submit(job) for job in jobs[MAX_WRITERS:]] == [True] + [False] * (
        MAX_WRITERS - 1
    )
    jobs[0].wait()
    assert other.try_submit(jobs[-1])
    one.close()
    writer_slots.limit = 0
    assert not one.try_submit(Job(lambda: None))


def test_an_error_is_raised_where_the_job_is_awaited_each_time() -> None:
    """It ends nothing on the helping thread, and cannot be missed by waiting once."""
    job = give(BackgroundWriters(InlineScheduler()), list[int]().pop)

    job.wait()
    for _ in range(2):
        with pytest.raises(IndexError):
            job.join()


def test_what_was_done_without_the_scheduler_is_taken_back() -> None:
    """It need not run it any more, and may have other things to do."""
    scheduler = ManualScheduler(ManualClock())
    writers = BackgroundWriters(scheduler)
    give(writers, lambda: None).join()
    assert scheduler.pending() == [TASK_NAME]

    writers.discard_ended()

    assert scheduler.pending() == []


def test_nothing_is_begun_after_the_end() -> None:
    """What nobody has begun by then is never done, and never passes for done."""
    clock, done = ManualClock(), list[int]()
    scheduler = ManualScheduler(clock)
    writers = BackgroundWriters(scheduler)
    job = give(writers, lambda: done.append(1))

    writers.close()
    clock.advance(0)

    assert scheduler.pending() == []
    with pytest.raises(CleaningAborted):
        job.join()
    assert done == []


def interrupt_at(line: int) -> Callable[[FrameType, str, object], Any]:
    """Return a trace function that raises KeyboardInterrupt when ``line`` is come to first."""
    pending = [line]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not Job._run_locked.__code__:
            return None
        if event == "line" and [frame.f_lineno] == pending:
            pending.clear()
            raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize(
    "line", sorted({line for _, _, line in Job._run_locked.__code__.co_lines() if line})
)
def test_an_interrupt_leaves_a_job_that_can_be_awaited(line: int) -> None:
    """Wherever it comes: nobody waits forever, nothing runs twice or passes for done undone."""
    done = list[int]()
    job = Job(lambda: done.append(1))
    before = sys.gettrace()

    sys.settrace(interrupt_at(line))
    try:
        job.wait()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)

    job.run()
    assert job.has_ended
    if not done:
        with pytest.raises((KeyboardInterrupt, CleaningAborted)):
            job.join()
    assert len(done) <= 1
