"""A service that starts while another process holds its directory."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.embedded.lock_wait import LockWait, once_served
from tidelog.env.clock import NS_PER_MS
from tidelog.errors import DirectoryLocked, InvalidArgument, NotServed, StartAborted
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITER = 4711
LOCK = "/data/.lock"


class Held:
    """A directory that a process holds for some time."""

    def __init__(self, held_ms: int, pid: int = WRITER, program: str = "python") -> None:
        self.clock = ManualClock()
        self.pid = pid
        self.starts = 0
        self.should_stop: Callable[[], bool] = lambda: False
        self._until_ms = self.clock.now_ms() + held_ms
        self._program = program

    def holder_of(self, data_dir: str) -> int | None:
        """Return the process until it ends."""
        assert data_dir == "/data"
        return self.pid if self.clock.now_ms() < self._until_ms else None

    def start(self) -> str:
        """Start once the directory is free."""
        self.starts += 1
        if self.holder_of("/data") is not None:
            raise DirectoryLocked(LOCK, self.pid)
        return "started"

    def wait(self) -> LockWait:
        """Return what waits for it."""
        return LockWait(
            *(self.clock, self.clock.advance, self.holder_of),
            program_of=lambda pid: self._program if pid == self.pid else "",
            should_stop=self.should_stop,
        )

    def opened(self) -> str:
        """Start, or wait."""
        return self.wait().opened(self.start)


def test_a_service_waits_for_a_short_lived_writer_and_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It does not end for a lock that is free a moment later, and takes it only then."""
    held = Held(3_000)
    with caplog.at_level(logging.INFO, "tidelog.embedded.lock_wait"):
        assert held.opened() == "started"

    assert held.starts == 2
    assert "lock-awaited directory=/data pid=4711 program=python wait-ms=15000" in caplog.text


@pytest.mark.parametrize(
    ("held", "waited_ms"),
    [
        (Held(60_000), 15_000),
        (Held(60_000, program="java"), 0),
        (Held(60_000, pid=os.getpid()), 0),
    ],
    ids=["another service", "kafka", "this process"],
)
def test_a_holder_that_stays_is_an_error(held: Held, waited_ms: int) -> None:
    """At once if it cannot end by itself, else after as long as commands wait."""
    began_ms = held.clock.now_ms()

    with pytest.raises(DirectoryLocked, match="is in use by"):
        held.opened()

    assert held.clock.now_ms() - began_ms == waited_ms


def test_a_stop_ends_the_wait() -> None:
    """The service does not hang until the writer ends."""
    held = Held(10_000)
    began_ms = held.clock.now_ms()
    held.should_stop = lambda: held.clock.now_ms() - began_ms >= 500

    with pytest.raises(StartAborted):
        held.opened()

    assert held.clock.now_ms() - began_ms == 500


def test_a_program_that_others_can_join_is_not_waited_for() -> None:
    """It has the lock as long as it runs, and the error says how to use it meanwhile."""
    held = Held(3_000)

    def start() -> str:
        error = DirectoryLocked(LOCK, held.pid)
        error.lets_join = True
        raise error

    begun_ms = held.clock.now_ms()
    with pytest.raises(DirectoryLocked, match=r"tidelog\.join writes through that process"):
        held.wait().opened(start)
    assert held.clock.now_ms() == begun_ms


def joining(answers_at_ms: int, clock: ManualClock) -> Callable[[], str]:
    """Return a join that is answered from a time on."""

    def join() -> str:
        if clock.monotonic_ns() < answers_at_ms * NS_PER_MS:
            raise NotServed("data")
        return "joined"

    return join


def test_a_program_that_is_started_again_is_waited_for() -> None:
    """No longer than it takes."""
    clock = ManualClock()
    begun_ms = clock.monotonic_ns() // NS_PER_MS

    join = joining(begun_ms + 500, clock)

    assert once_served(join, 1_000, clock=clock, sleep_ms=clock.advance) == "joined"
    assert clock.monotonic_ns() // NS_PER_MS - begun_ms == 500


@pytest.mark.parametrize("wait_ms", [0, 30, 400])
def test_a_program_that_does_not_come_is_an_error(wait_ms: int) -> None:
    """After the wait, and without one at once."""
    clock = ManualClock()
    begun_ms = clock.monotonic_ns() // NS_PER_MS

    join = joining(begun_ms + 500, clock)

    with pytest.raises(NotServed):
        once_served(join, wait_ms, clock=clock, sleep_ms=clock.advance)

    assert clock.monotonic_ns() // NS_PER_MS - begun_ms == wait_ms


def test_nobody_waits_for_a_negative_time(tmp_path: Path) -> None:
    """Neither to open a directory nor to join its program."""
    for opening in (tidelog.open, tidelog.join):
        with pytest.raises(InvalidArgument, match=r"wait_ms is .* 0 or more, not -1"):
            opening(tmp_path, wait_ms=-1)


def test_nobody_waits_until_a_time_that_never_comes(tmp_path: Path) -> None:
    """No time is at or after NaN, so an open would wait for its lock for ever."""
    for opening in (tidelog.open, tidelog.join):
        with pytest.raises(InvalidArgument, match=r"wait_ms is a number of .*, not nan"):
            opening(tmp_path, wait_ms=float("nan"))  # type: ignore[arg-type]  # not an int
