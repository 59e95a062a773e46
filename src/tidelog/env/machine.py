"""What a program takes from its host: disk, time, threads and random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import OwnThreads, Scheduler


class Machine(NamedTuple):
    """Disk, time, threads and random numbers; ``sleep_ms`` sleeps for a number of milliseconds.

    ``start_threads`` starts a number of further threads under a name, with a scheduler of their
    own; None if there is only ``scheduler``.
    """

    fs: FileSystem
    clock: Clock
    scheduler: Scheduler
    rng: Random
    sleep_ms: Callable[[int], None]
    start_threads: Callable[[int, str], OwnThreads] | None = None
