"""Tasks that run later, on threads or inline."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tidelog.env.scheduler import Handle, InlineScheduler, Scheduler, ThreadScheduler
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOON_S = 30.0  # far longer than any test takes; a broken one fails then
FAR_MS = 3_600_000
MANY = 50


@contextmanager
def running(threads: int = 2) -> Iterator[ThreadScheduler]:
    """Start a scheduler and shut it down at the end."""
    scheduler = ThreadScheduler(threads)
    scheduler.start()
    try:
        yield scheduler
    finally:
        scheduler.shutdown()


def fail() -> None:
    """Raise an error, as a task."""
    raise RuntimeError("on purpose")


def constant(value: int) -> Callable[[], int]:
    """Return a task that returns ``value``."""
    return lambda: value


@pytest.fixture(params=[ThreadScheduler, InlineScheduler])
def scheduler(request: pytest.FixtureRequest) -> Scheduler:
    """Yield a scheduler of each kind; ``run_all`` works without ``start``."""
    return InlineScheduler() if request.param is InlineScheduler else ThreadScheduler(1)


@pytest.mark.parametrize("threads", [0, 1, 2, 9])
def test_run_all_returns_results_in_order(scheduler: Scheduler, threads: int) -> None:
    """Results come in the order of the tasks, whichever ended first."""
    assert scheduler.run_all("t", [constant(n) for n in range(5)], threads) == [0, 1, 2, 3, 4]


def test_run_all_accepts_no_tasks(scheduler: Scheduler) -> None:
    """Without tasks there are no results."""
    assert scheduler.run_all("t", [], 4) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_run_all_ends_every_task_before_it_raises(scheduler: Scheduler, threads: int) -> None:
    """The first error in order is raised once all other tasks have run too."""
    ran: list[str] = []

    def fail_otherwise() -> None:
        raise KeyError("later")

    with pytest.raises(RuntimeError, match="on purpose"):
        scheduler.run_all("t", [fail, fail_otherwise, lambda: ran.append("last")], threads)

    assert ran == ["last"]


def test_run_all_runs_tasks_concurrently() -> None:
    """With two threads two tasks can wait for each other."""
    meeting = threading.Barrier(2, timeout=SOON_S)

    assert sorted(ThreadScheduler(1).run_all("t", [meeting.wait] * 2, 2)) == [0, 1]


def test_run_all_names_its_threads() -> None:
    """A thread of the pool has the given name."""
    meeting = threading.Barrier(2, timeout=SOON_S)

    def name() -> str:
        meeting.wait()
        return threading.current_thread().name

    names = ThreadScheduler(1).run_all("log-recovery", [name, name], 2)

    assert sorted(names) == ["log-recovery_0", "log-recovery_1"]


@pytest.mark.parametrize("threads", [1, 2, 9])
def test_run_ahead_yields_results_in_order(scheduler: Scheduler, threads: int) -> None:
    """Results come in the order of the tasks, whichever ended first."""
    found = scheduler.run_ahead("t", (constant(n) for n in range(20)), threads)

    assert list(found) == list(range(20))
    assert list(scheduler.run_ahead("t", [], threads)) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_run_ahead_takes_few_tasks(scheduler: Scheduler, threads: int) -> None:
    """At most one task more than threads is under way, so tasks may depend on results."""
    asked: list[int] = []

    def tasks() -> Iterator[Callable[[], int]]:
        for number in range(20):
            asked.append(number)
            yield constant(number)

    taken = [len(asked) - number for number in scheduler.run_ahead("t", tasks(), threads)]

    assert len(taken) == 20
    assert max(taken) <= threads + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_run_ahead_raises_an_error_in_its_place(scheduler: Scheduler, threads: int) -> None:
    """Results before it are yielded first."""
    found = scheduler.run_ahead("t", [constant(0), constant(1), fail, constant(3)], threads)

    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(RuntimeError, match="on purpose"):
        next(found)
    assert list(found) == []


def test_run_ahead_runs_tasks_concurrently() -> None:
    """With two threads two tasks can wait for each other."""
    meeting = threading.Barrier(2, timeout=SOON_S)

    found = ThreadScheduler(1).run_ahead("t", [meeting.wait] * 2, 2)

    assert sorted(found) == [0, 1]


def test_run_ahead_ends_its_threads_when_closed() -> None:
    """It waits for the running tasks; waiting ones never run."""
    found = ThreadScheduler(1).run_ahead("left-early", (constant(n) for n in range(20)), 2)
    assert next(found) == 0

    found.close()

    assert not [t for t in threading.enumerate() if t.name.startswith("left-early")]


def test_a_task_runs_on_a_thread_of_the_scheduler() -> None:
    """A task without a delay runs soon, on a daemon thread."""
    ran = threading.Event()
    daemons: list[bool] = []

    with running() as scheduler:

        def task() -> None:
            daemons.append(threading.current_thread().daemon)
            ran.set()

        scheduler.schedule("t", task)

        assert ran.wait(SOON_S)
    assert daemons == [True]


def test_a_delayed_task_runs() -> None:
    """A task with a short delay runs without another call."""
    ran = threading.Event()

    with running() as scheduler:
        scheduler.schedule("t", ran.set, delay_ms=5)

        assert ran.wait(SOON_S)


def test_an_earlier_task_overtakes_a_later_one() -> None:
    """A thread that waits for a distant task runs a nearer one scheduled after it."""
    ran = threading.Event()

    with running(threads=1) as scheduler:
        scheduler.schedule("far", fail, delay_ms=FAR_MS)
        scheduler.schedule("near", ran.set)

        assert ran.wait(SOON_S)


def test_a_periodic_task_continues_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """An error of one run is logged with the task's name, and the next run follows."""
    ran = threading.Event()
    runs: list[int] = []

    def fail_twice() -> None:
        runs.append(len(runs))
        if len(runs) > 2:
            ran.set()
        fail()

    with caplog.at_level(logging.ERROR, "tidelog.env.scheduler"), running() as scheduler:
        scheduler.schedule("shaky", fail_twice, period_ms=1)

        assert ran.wait(SOON_S)
    assert "task-failed name=shaky" in caplog.text


def test_runs_of_one_task_do_not_overlap() -> None:
    """A periodic task that takes longer than its period runs on one thread at a time."""
    ran = threading.Event()
    inside = threading.Lock()
    overlaps: list[bool] = []

    def task() -> None:
        overlaps.append(not inside.acquire(blocking=False))
        if len(overlaps) > 20:
            ran.set()
        if not overlaps[-1]:
            inside.release()

    with running(threads=4) as scheduler:
        scheduler.schedule("t", task, period_ms=1)

        assert ran.wait(SOON_S)
    assert not any(overlaps)


def test_a_cancelled_task_does_not_run() -> None:
    """A task cancelled before it is due never runs."""
    ran: list[str] = []

    with running(threads=1) as scheduler:
        blocker = threading.Event()
        scheduler.schedule("blocker", lambda: blocker.wait(SOON_S))
        scheduler.schedule("t", lambda: ran.append("t")).cancel()
        scheduler.schedule("after", lambda: ran.append("after"))
        blocker.set()

    assert ran == ["after"]


def test_cancelled_tasks_do_not_pile_up() -> None:
    """While no thread is free to remove them, they stay fewer than the waiting tasks."""
    ran: list[int] = []
    scheduler = ThreadScheduler(1)
    waiting = [scheduler.schedule("t", partial(ran.append, n)) for n in range(MANY)]
    for number in range(20 * MANY):
        scheduler.schedule("t", partial(ran.append, -number)).cancel()

    assert len(scheduler._queue) <= 2 * MANY
    for handle in waiting[1:]:
        handle.cancel()
    for number in range(20 * MANY):
        scheduler.schedule("t", partial(ran.append, -number)).cancel()

    assert len(scheduler._queue) <= 2 * MANY
    scheduler.start()
    scheduler.shutdown()
    assert ran == [0]


def test_a_periodic_task_can_cancel_itself() -> None:
    """If cancelled during a run, a periodic task has no next run."""
    known, ran = threading.Event(), threading.Event()
    handles: list[Handle] = []
    runs: list[int] = []

    with running(threads=1) as scheduler:

        def stop() -> None:
            runs.append(1)
            known.wait(SOON_S)
            handles[0].cancel()
            scheduler.schedule("end", ran.set, delay_ms=20)

        handles.append(scheduler.schedule("t", stop, period_ms=1))
        known.set()

        assert ran.wait(SOON_S)
    assert runs == [1]


def test_shutdown_runs_what_is_due_and_drops_the_rest() -> None:
    """One-time tasks that are due run; delayed and periodic ones do not."""
    ran: list[str] = []
    scheduler = ThreadScheduler(1)
    scheduler.schedule("due", lambda: ran.append("due"))
    scheduler.schedule("far", lambda: ran.append("far"), delay_ms=FAR_MS)
    scheduler.schedule("often", lambda: ran.append("often"), delay_ms=FAR_MS, period_ms=1)

    scheduler.start()
    scheduler.shutdown()

    assert ran == ["due"]


def test_shutdown_waits_for_a_running_task() -> None:
    """When shutdown returns, a running task has ended."""
    started, go = threading.Event(), threading.Event()
    ran: list[str] = []

    def task() -> None:
        started.set()
        go.wait(SOON_S)
        ran.append("t")

    with running() as scheduler:
        scheduler.schedule("t", task)
        assert started.wait(SOON_S)
        go.set()

    assert ran == ["t"]


def test_a_task_may_shut_its_scheduler_down() -> None:
    """Shutdown from within a task does not wait for that task."""
    ended = threading.Event()
    scheduler = ThreadScheduler(2)
    scheduler.start()

    def task() -> None:
        scheduler.shutdown()
        ended.set()

    scheduler.schedule("t", task)

    assert ended.wait(SOON_S)


def test_after_shutdown_tasks_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """A task scheduled after shutdown does not run, and this is logged."""
    with running() as scheduler:
        pass

    with caplog.at_level(logging.INFO, "tidelog.env.scheduler"):
        scheduler.schedule("late", fail).cancel()

    assert "task-ignored name=late" in caplog.text


def test_inline_runs_a_task_without_delay_immediately() -> None:
    """A task that is due has run when ``schedule`` returns."""
    ran: list[str] = []

    InlineScheduler().schedule("t", lambda: ran.append("t"))

    assert ran == ["t"]


def test_inline_logs_errors(caplog: pytest.LogCaptureFixture) -> None:
    """An error of a task is logged and not raised to the caller."""
    with caplog.at_level(logging.ERROR, "tidelog.env.scheduler"):
        InlineScheduler().schedule("shaky", fail)

    assert "task-failed name=shaky" in caplog.text


def test_inline_keeps_delayed_tasks_until_the_end() -> None:
    """Delayed tasks run in ``close``, shortest delay first, without waiting; each once."""
    ran: list[str] = []
    scheduler = InlineScheduler()
    scheduler.schedule("far", lambda: ran.append("far"), delay_ms=FAR_MS)
    scheduler.schedule("near", lambda: ran.append("near"), delay_ms=1)
    scheduler.schedule("never", lambda: ran.append("never"), delay_ms=1).cancel()
    before = list(ran)

    scheduler.close()
    scheduler.close()

    assert (before, ran) == ([], ["near", "far"])


def test_inline_run_pending_runs_what_tasks_add() -> None:
    """A task scheduled by a pending task runs too, and is counted."""
    scheduler = InlineScheduler()
    scheduler.schedule("a", lambda: scheduler.schedule("b", lambda: None, delay_ms=5), delay_ms=5)

    assert scheduler.run_pending() == 2


def test_inline_never_runs_periodic_tasks() -> None:
    """A short-lived process has no next period."""
    ran: list[str] = []
    scheduler = InlineScheduler()

    scheduler.schedule("t", lambda: ran.append("t"), period_ms=1)
    scheduler.close()

    assert ran == []


def test_a_task_scheduled_behind_a_long_one_finds_another_thread() -> None:
    """Scheduling it woke no thread, because another task was due before it."""
    second, waited = threading.Event(), []
    done = threading.Event()

    def first() -> None:
        waited.append(second.wait(SOON_S))
        done.set()

    with running(2) as scheduler:
        scheduler.schedule("far", fail, delay_ms=FAR_MS)
        scheduler.schedule("first", first, delay_ms=10)
        scheduler.schedule("second", second.set, delay_ms=20)
        done.wait(SOON_S)

    assert waited == [True]


def test_an_error_that_explains_itself_is_logged_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Such as a full disk; a fault of the program has a traceback."""

    def fill() -> None:
        raise KafkaStorageError("t-0: writing the leader epochs failed: no space left")

    with caplog.at_level(logging.ERROR, "tidelog.env.scheduler"):
        for task in (fill, fail):
            InlineScheduler().schedule("shaky", task)

    known, unknown = caplog.records
    assert known.getMessage().endswith(
        "reason=t-0: writing the leader epochs failed: no space left"
    )
    assert (known.exc_info, unknown.exc_info is None) == (None, False)
