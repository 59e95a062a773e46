"""Ending background work in order."""

from __future__ import annotations

import threading

import pytest

from tidelog.env.task_gate import TaskGate


def test_tasks_run_until_the_gate_is_closed() -> None:
    """A task that comes later is not run."""
    gate, ran = TaskGate(), []
    gate.run(lambda: ran.append("before"))
    gate.close()
    gate.guarded(lambda: ran.append("after"))()

    assert (ran, gate.is_closed) == (["before"], True)


def test_closing_waits_for_the_task_that_runs(caplog: pytest.LogCaptureFixture) -> None:
    """What the task uses can be closed afterwards; a task that takes too long is logged."""
    gate, ended = TaskGate(), []
    begun, may_end = threading.Event(), threading.Event()

    def task() -> None:
        begun.set()
        may_end.wait(60)
        ended.append(gate.is_closed)

    thread = threading.Thread(target=gate.guarded(task))
    thread.start()
    begun.wait(60)
    too_early = gate.close(max_wait_ms=1)
    may_end.set()
    in_time = gate.close()
    thread.join()

    assert (too_early, in_time, ended) == (False, True, [True])
    assert caplog.messages == ["tasks-still-running count=1 waited_ms=1"]


def test_a_task_may_close_the_gate() -> None:
    """It does not wait for itself."""
    gate = TaskGate()
    ended = []
    gate.run(lambda: ended.append(gate.close()))

    assert ended == [True]


def test_a_task_that_fails_counts_as_ended() -> None:
    """Its error is the caller's; closing does not wait for it."""
    gate = TaskGate()
    with pytest.raises(ZeroDivisionError):
        gate.run(lambda: 1 // 0)

    assert gate.close(max_wait_ms=0)
