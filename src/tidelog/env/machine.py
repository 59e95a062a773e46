"""What a program takes from its host: disk, time, threads and random numbers."""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.env.clock import Clock
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.waiting import ThreadBell, sleep_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import OwnThreads, Scheduler
    from tidelog.env.waiting import Bell


class Machine(NamedTuple):
    """Disk, time, threads and random numbers; ``sleep_ms`` sleeps for a number of milliseconds.

    ``start_threads`` starts a number of further threads under a name, with a scheduler of their
    own; None if there is only ``scheduler``. ``new_bell`` makes what wakes readers that wait.
    """

    fs: FileSystem
    clock: Clock
    scheduler: Scheduler
    rng: Random
    sleep_ms: Callable[[int], None]
    start_threads: Callable[[int, str], OwnThreads] | None = None
    new_bell: Callable[[], Bell] = ThreadBell


def brief_machine(fs: FileSystem, clock: Clock) -> Machine:
    """Return the machine of a process that writes and ends: without threads."""
    return Machine(fs, clock, InlineScheduler(), SystemRandom(), sleep_ms)


class ControlledClock(Clock, Protocol):
    """A clock that its owner moves; background tasks run, and waits end, as it moves."""

    def advance(self, ms: int) -> None:
        """Advance by ``ms``, and run the tasks that become due."""

    def scheduler(self) -> Scheduler:
        """Return a scheduler that follows this clock."""

    def bell(self) -> Bell:
        """Return a bell whose waiters do not stop this clock."""
