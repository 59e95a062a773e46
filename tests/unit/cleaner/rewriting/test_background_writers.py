"""Jobs of background writers: run by another thread, or by the one that needs the result."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cleaner.rewriting.background_writers import (
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


def submit(writers: BackgroundWriters, task: Callable[[], object]) -> Job:
    """Submit a task; return its job."""
    job = Job(task)
    writers.submit(job)
    return job


def test_a_scheduler_that_runs_tasks_at_once_has_them_done_in_order() -> None:
    """A job has ended when ``submit`` returns, so jobs run in the order of submission."""
    done: list[int] = []
    writers = BackgroundWriters(InlineScheduler())

    jobs = [submit(writers, partial(done.append, n)) for n in range(4)]

    assert done == [0, 1, 2, 3]
    assert all(job.has_ended for job in jobs)


def test_a_job_that_no_thread_has_begun_is_run_by_the_one_that_waits() -> None:
    """A scheduler without a free thread delays nothing, and runs nothing a second time."""
    clock, done = ManualClock(), list[int]()
    scheduler = ManualScheduler(clock)
    writers = BackgroundWriters(scheduler)
    first, second = (submit(writers, partial(done.append, n)) for n in (1, 2))
    assert done == []

    second.join()
    first.join()
    clock.advance(0)

    assert done == [2, 1]


def test_a_job_is_run_here_while_all_writers_are_busy() -> None:
    """``submit`` never waits for a background thread."""
    done: list[int] = []
    writers = BackgroundWriters(ManualScheduler(ManualClock()))
    for _ in range(MAX_WRITERS):
        submit(writers, lambda: done.append(0))

    assert not writers.try_submit(Job(lambda: done.append(1)))
    assert submit(writers, lambda: done.append(2)).has_ended
    assert done == [2]


def test_cleanings_that_share_writer_slots_are_limited_together() -> None:
    """A job takes a slot until it has ended, on whichever thread."""
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
    """It does not end the background thread, and waiting once does not hide it."""
    job = submit(BackgroundWriters(InlineScheduler()), list[int]().pop)

    job.wait()
    for _ in range(2):
        with pytest.raises(IndexError):
            job.join()


def test_ended_jobs_are_removed_from_the_scheduler() -> None:
    """A job that was run without the scheduler does not occupy its queue."""
    scheduler = ManualScheduler(ManualClock())
    writers = BackgroundWriters(scheduler)
    submit(writers, lambda: None).join()
    assert scheduler.pending() == [TASK_NAME]

    writers.discard_ended()

    assert scheduler.pending() == []


def test_no_job_is_begun_after_close() -> None:
    """A job that no thread has begun by then is never run, and ``join`` reports it."""
    clock, done = ManualClock(), list[int]()
    scheduler = ManualScheduler(clock)
    writers = BackgroundWriters(scheduler)
    job = submit(writers, lambda: done.append(1))

    writers.close()
    clock.advance(0)

    assert scheduler.pending() == []
    with pytest.raises(CleaningAborted):
        job.join()
    assert done == []


def interrupt_at(line: int) -> Callable[[FrameType, str, object], Any]:
    """Return a trace function that raises KeyboardInterrupt when ``line`` is first reached."""
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
    """At any line: no thread waits forever, no job runs twice or counts as done if it is not."""
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
