"""Processes of one machine, of which one runs at a time; a seed chooses which.

Each has a thread of its own. It may lose its turn before each operation on the disk, and be killed
there.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.testing import PowerCut
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.env.files import FileLock
    from tidelog.testing.crash_files import CrashFileSystem
    from tidelog.testing.manual_time import ManualScheduler

TURN_LOST: Final = 0.15
"""How often a process loses its turn before an operation."""


class MachineClock(ManualClock):
    """A clock that moves on request; tasks run in their processes."""

    def follow(self, scheduler: ManualScheduler) -> None:
        """Leave the tasks to the process that has the scheduler."""


class Process:
    """A process; ``name`` is its number in the model."""

    def __init__(self, machine: Processes, name: int, work: Callable[[Process], object]) -> None:
        self.name: Final = name
        self.wakes_ms = 0
        self.is_dead = False
        self.is_over = False
        self.error: BaseException | None = None
        self.locks: list[FileLock] = []
        self._machine = machine
        self._turn = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Let the process run until it gives its turn away; called by the machine."""
        self._turn.release()

    def step(self) -> None:
        """Give others a turn, perhaps; raise PowerCut if this process was killed."""
        self._machine.steps += 1
        if not self.is_dead and self._machine.rng.random() < TURN_LOST:
            self._pause()
        if self.is_dead:
            raise PowerCut("the process was killed")

    def sleep(self, ms: int) -> None:
        """Sleep while others run."""
        self.wakes_ms = self._machine.clock.now_ms() + ms
        self.step()
        self._pause()
        self.step()

    def _pause(self) -> None:
        self._machine.turn.release()
        self._turn.acquire()

    def _run(self, work: Callable[[Process], object]) -> None:
        self._turn.acquire()
        try:
            if not self.is_dead:
                work(self)
        except PowerCut:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the machine
            self.error = error
        self.is_over = True
        self._machine.turn.release()


class Processes:
    """All processes of a machine; ``steps`` counts their operations."""

    def __init__(self, rng: Random, clock: MachineClock) -> None:
        self.rng: Final = rng
        self.clock: Final = clock
        self.turn: Final = threading.Semaphore(0)
        self.running: list[Process] = []
        self.steps = 0

    def start(self, name: int, work: Callable[[Process], object]) -> Process:
        """Start a process, which runs when it is its turn."""
        process = Process(self, name, work)
        self.running.append(process)
        return process

    def run_next(self) -> Process | None:
        """Let one process run for a while; return it if it has ended. Time passes if all sleep."""
        now_ms = self.clock.now_ms()
        awake = [one for one in self.running if one.wakes_ms <= now_ms]
        if not awake:
            self.clock.advance(min(one.wakes_ms for one in self.running) - now_ms)
            return None
        return self.resume(self.rng.choice(awake))

    def kill(self, process: Process) -> None:
        """End a process where it is; its locks are free."""
        process.is_dead = True
        for lock in process.locks:
            lock.release()
        while not process.is_over:
            self.resume(process)

    def resume(self, process: Process) -> Process | None:
        """Let a process run until it gives its turn away; return it if it has ended."""
        process.resume()
        self.turn.acquire()
        if not process.is_over:
            return None
        self.running.remove(process)
        if process.error is not None:
            raise process.error
        return process


class Watch(Protocol):
    """What is called before and after each operation of a process."""

    def is_left_out(self, process: Process, operation: str, *paths: str) -> bool:
        """Return whether an operation is not to be done, though the process believes so."""

    def notice(self, process: Process) -> None:
        """Look at what the operation has changed."""


class ProcessFiles:
    """The disk as one process sees it."""

    def __init__(self, fs: CrashFileSystem, process: Process, watch: Watch) -> None:
        self._fs = fs
        self._process = process
        self._watch = watch

    def open(self, *args: Any) -> _ProcessFile:
        """Open a file for this process."""
        self._process.step()
        file = self._fs.open(*args)
        self._watch.notice(self._process)
        return _ProcessFile(file, self._process, self._watch)

    def lock(self, path: str) -> _ProcessLock:
        """Lock a file for this process."""
        self._process.step()
        lock = self._fs.lock(path)
        self._process.locks.append(lock)
        self._watch.notice(self._process)
        return _ProcessLock(lock, self._process, self._watch)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fs, name)
        return _stepping(found, self._process, self._watch) if callable(found) else found


class _ProcessFile:
    """A file that one process has open."""

    def __init__(self, file: Any, process: Process, watch: Watch) -> None:
        self._file = file
        self._process = process
        self._watch = watch

    def close(self) -> None:
        """Close the file; nothing fails once the process was killed."""
        if not self._process.is_dead:
            self._file.close()

    def hold(self) -> _ProcessFile:
        """Add a reference."""
        self._file.hold()
        return self

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if not callable(found):
            return found
        return _stepping(found, self._process, self._watch, self._file.path)


class _ProcessLock:
    """A lock that one process holds."""

    def __init__(self, lock: FileLock, process: Process, watch: Watch) -> None:
        self._lock = lock
        self._process = process
        self._watch = watch

    def release(self) -> None:
        """Release the lock, unless that has happened."""
        if not self._process.is_dead and self._lock in self._process.locks:
            self._process.step()
            self._process.locks.remove(self._lock)
            self._lock.release()
            self._watch.notice(self._process)


def _stepping(
    found: Callable[..., object], process: Process, watch: Watch, *paths: str
) -> Callable[..., object]:
    def call(*args: Any, **how: Any) -> object:
        process.step()
        if watch.is_left_out(process, found.__name__, *(paths or args)):
            return None
        try:
            return found(*args, **how)
        finally:
            watch.notice(process)

    return call
