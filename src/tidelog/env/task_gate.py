"""Ending background work in order: no further task begins, and those that run are waited for.

Kafka: ``KafkaScheduler.shutdown``, which waits for all tasks at once. Here the owner of a few
tasks ends those before it closes what they use, while other tasks continue.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from tidelog.env.clock import MS_PER_S, NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.machine import Machine

MAX_WAIT_MS: Final = 30_000
_REST: Final = 4
_LONGEST_REST_NS: Final = 400 * NS_PER_MS

_log = logging.getLogger(__name__)


class TaskGate:
    """Runs tasks until it is closed. ``_lock`` guards which threads run one.

    A task of many steps asks ``is_closed`` between them, so that closing need not wait for all.
    """

    def __init__(self) -> None:
        self.is_closed = False
        """Whether no task begins any more, and those that run should end soon."""
        self._lock = threading.RLock()  # held by itself, see ``ThreadScheduler``
        self._changed = threading.Condition(self._lock)
        self._running: list[int] = []

    def run(self, task: Callable[[], object]) -> None:
        """Run ``task`` on this thread; do nothing once the gate is closed."""
        thread = threading.get_ident()
        with self._lock:
            if self.is_closed:
                return
            self._running.append(thread)
        try:
            task()
        finally:
            with self._lock:
                self._running.remove(thread)
                self._changed.notify_all()

    def guarded(self, task: Callable[[], object]) -> Callable[[], None]:
        """Return ``task`` as a task that passes through the gate."""
        return lambda: self.run(task)

    def close(self, max_wait_ms: int = MAX_WAIT_MS) -> bool:
        """Let no further task begin; wait until those of other threads end, and return whether.

        If some still run after ``max_wait_ms``, that is logged. May be called from a task, and
        more than once.
        """
        thread = threading.get_ident()
        with self._lock:
            self.is_closed = True
            have_ended = self._changed.wait_for(
                lambda: all(other == thread for other in self._running),
                timeout=max_wait_ms / MS_PER_S,
            )
            count = sum(other != thread for other in self._running)
        if not have_ended:
            _log.warning("tasks-still-running count=%d waited_ms=%d", count, max_wait_ms)
        return have_ended


class Pass:
    """Work that looks at all there is to do; asked for while it runs, it is done once more.

    So no two run at a time, and no caller waits for the one that runs. ``_is_asked`` is set before
    ``_lock`` is tried: what is asked at the last moment of a pass is not lost.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Final = work
        self._lock: Final = threading.Lock()
        self._is_asked = False

    def run(self) -> None:
        """Do the work on this thread, unless another does it: that one does it again."""
        self._is_asked = True
        while self._is_asked and self._lock.acquire(blocking=False):
            try:
                self._is_asked = False
                self._work()
            finally:
                self._lock.release()


class SharedRounds:
    """Work that others wait for; a round serves all who asked before it began.

    After a round comes a rest of four times its length, so that any number who ask take a fifth of
    a thread; but not a longer one than those who wait have patience for, where a round waits for a
    slow disk. ``_lock`` guards who waits, and whether a round is due or runs.
    """

    def __init__(self, name: str, work: Callable[[], object], machine: Machine) -> None:
        self._name: Final = name
        self._work: Final = work
        self._machine: Final = machine
        self._lock: Final = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._is_due = False
        self._is_closed = False
        self._rests_until_ns = 0

    def ask(self, done: Callable[[], None]) -> None:
        """Call ``done`` after the next round to begin: now on this thread, if none is due."""
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._waiting.append(done)
                if self._is_due:
                    return
                self._is_due = True
        if is_closed:
            done()
        else:
            self._begin()

    def close(self) -> None:
        """Let nobody wait any more: the scheduler may end before the next round begins."""
        with self._lock:
            self._is_closed = True
            left, self._waiting = self._waiting, []
        for done in left:
            done()

    def _begin(self) -> None:
        left_ns = self._rests_until_ns - self._machine.clock.monotonic_ns()
        if left_ns <= 0:
            self._run()
        else:
            delay_ms = -(-left_ns // NS_PER_MS)
            self._machine.scheduler.schedule(self._name, self._run, delay_ms=delay_ms)

    def _run(self) -> None:
        with self._lock:
            served, self._waiting = self._waiting, []
        clock = self._machine.clock
        began_ns = clock.monotonic_ns()
        try:
            self._work()
        finally:
            ended_ns = clock.monotonic_ns()
            rest_ns = min(_REST * (ended_ns - began_ns), _LONGEST_REST_NS)
            self._rests_until_ns = ended_ns + rest_ns
            with self._lock:
                is_due = self._is_due = bool(self._waiting)
            if is_due:
                self._begin()
            for done in served:
                done()
