"""Ending background work in order."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from tidelog.env.machine import brief_machine
from tidelog.env.task_gate import SharedRounds, TaskGate
from tidelog.testing import CrashFileSystem, ManualClock


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


class Rounds:
    """Rounds that take some time, on a clock by hand; ``served`` is who was served by which."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.count = 0
        self.takes_ms = 10
        self.served: list[tuple[str, int]] = []
        self.during = ""
        """Who asks while the next round runs."""
        machine = brief_machine(CrashFileSystem(), self.clock)
        machine = machine._replace(scheduler=self.clock.scheduler())
        self.rounds = SharedRounds("rounds", self.work, machine)

    def work(self) -> None:
        """Do a round."""
        self.count += 1
        self.clock.advance(self.takes_ms)
        during, self.during = self.during, ""
        if during:
            self.ask(during)

    def ask(self, name: str) -> None:
        """Ask for a round."""
        self.rounds.ask(lambda: self.served.append((name, self.count)))


def test_all_who_ask_before_a_round_begins_are_served_by_it() -> None:
    """The first at once; the others after a rest of four rounds."""
    rounds = Rounds()
    rounds.ask("a")
    rounds.ask("b")
    rounds.ask("c")
    assert rounds.served == [("a", 1)]

    rounds.clock.advance(39)
    assert rounds.served == [("a", 1)]
    rounds.clock.advance(1)
    assert rounds.served == [("a", 1), ("b", 2), ("c", 2)]

    rounds.clock.advance(100)
    assert rounds.count == 2  # nobody has asked
    rounds.ask("d")
    assert rounds.served[3:] == [("d", 3)]


def test_who_asks_during_a_round_is_served_by_the_next() -> None:
    """The one that runs may have passed what is asked about."""
    rounds = Rounds()
    rounds.during = "late"
    rounds.ask("early")
    assert rounds.served == [("early", 1)]
    rounds.clock.advance(40)
    assert rounds.served == [("early", 1), ("late", 2)]


def test_a_round_that_fails_serves_those_who_wait_all_the_same() -> None:
    """They read what is there; the next who asks gets another round."""
    served: list[str] = []
    clock = ManualClock()
    machine = brief_machine(CrashFileSystem(), clock)
    rounds = SharedRounds("rounds", lambda: 1 // 0, machine)
    for name in ("a", "b"):
        with pytest.raises(ZeroDivisionError):
            rounds.ask(partial(served.append, name))
    assert served == ["a", "b"]


def test_after_a_long_round_the_rest_ends_before_those_who_wait_give_up() -> None:
    """A round may wait for a slow disk; they wait for one second."""
    rounds = Rounds()
    rounds.takes_ms = 250
    rounds.during = "late"
    rounds.ask("early")
    rounds.clock.advance(1000 - 2 * 250)
    assert rounds.served == [("early", 1), ("late", 2)]


def test_nobody_waits_for_a_round_that_will_not_come() -> None:
    """A scheduler that has ended begins none."""
    rounds = Rounds()
    rounds.ask("a")
    rounds.ask("b")
    rounds.rounds.close()
    rounds.ask("c")
    rounds.clock.advance(100)
    assert rounds.served == [("a", 1), ("b", 1), ("c", 1)]
