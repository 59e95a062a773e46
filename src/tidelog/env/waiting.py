"""Waiting on one thread for an event on another. Kafka: ``DelayedOperation``, for one process."""

from __future__ import annotations

import select
import threading
import time
from typing import TYPE_CHECKING, Protocol

from tidelog.env.clock import MS_PER_S, NS_PER_MS
from tidelog.env.forks import call_after_fork
from tidelog.env.moments import check_ms

if TYPE_CHECKING:
    from collections.abc import Callable


class Bell(Protocol):
    """Wakes waiting threads, each of which then checks its own condition again."""

    @property
    def rings(self) -> int:
        """Number of rings so far; read it before checking the condition that is waited for."""

    def ring(self) -> None:
        """Wake all waiting threads."""

    def wait(self, seen: int, timeout_ms: int) -> bool:
        """Wait for a ring after the first ``seen`` ones; return whether there was one."""

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` at each ring from now on, on the thread that rings."""

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Stop calling ``listener``; an unknown one changes nothing."""


class IdleTime:
    """How long nothing has come, for a reader that ends after ``idle_ms``; None: it never ends.

    ``now_ns`` is a monotonic clock.
    """

    def __init__(self, idle_ms: int | None, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        if idle_ms is not None:
            check_ms("idle_ms", idle_ms)
        self._idle_ms = idle_ms
        self._now_ns = now_ns
        self._since_ns = now_ns()

    def restart(self) -> None:
        """Begin again: something has come."""
        self._since_ns = self._now_ns()

    def left_ms(self, at_most: int) -> int:
        """Return how long to wait now, in ms, up to ``at_most``; 0 or less: the time is over."""
        if self._idle_ms is None:
            return at_most
        waited_ms = (self._now_ns() - self._since_ns) // NS_PER_MS
        return min(at_most, self._idle_ms - waited_ms)


class ThreadBell:
    """A ``Bell`` for threads. ``_lock`` guards the number of rings, and who waits and listens.

    Each append rings, mostly with nobody waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of a signal may ring, too
        self._condition = threading.Condition(self._lock)
        self._rings = self._waiting = 0
        self._listeners: tuple[Callable[[], None], ...] = ()
        call_after_fork(self)

    def after_fork(self, _parent: int) -> None:
        """Replace the lock in a forked child: another thread of the parent may have held it."""
        self._lock = threading.RLock()  # a handler of a signal may ring, too
        self._condition = threading.Condition(self._lock)
        self._waiting = 0
        self._listeners = ()

    @property
    def rings(self) -> int:
        """Number of rings so far."""
        return self._rings

    def ring(self) -> None:
        """Wake all waiting threads."""
        with self._lock:
            self._rings += 1
            if self._waiting:
                self._condition.notify_all()
            listeners = self._listeners
        for listener in listeners:
            listener()

    def wait(self, seen: int, timeout_ms: int) -> bool:
        """Wait at most ``timeout_ms`` for a ring after the first ``seen`` ones."""
        with self._lock:
            self._waiting += 1
            try:
                return self._condition.wait_for(
                    lambda: self._rings != seen, timeout=timeout_ms / MS_PER_S
                )
            finally:
                self._waiting -= 1

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` at each ring from now on, on the thread that rings."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Stop calling ``listener``; an unknown one changes nothing."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one != listener)


def holder_of(lock: threading.RLock) -> Callable[[], bool]:
    """Return a function that returns whether the calling thread holds a reentrant lock."""
    is_held: Callable[[], bool] = lock._is_owned  # type: ignore[attr-defined]  # noqa: SLF001 - ``Condition`` relies on it, too; asking that is slow, and each append asks
    return is_held


def sleep_ms(ms: int) -> None:
    """Sleep; only where nothing rings a bell, as when throttling to a rate."""
    time.sleep(ms / MS_PER_S)


def wait_readable(file_number: int, timeout_ms: int) -> bool:
    """Wait for input or its end; return whether there is any.

    Returns True where waiting is not possible, as on Windows for anything but a pipe.
    """
    try:
        return bool(select.select([file_number], [], [], timeout_ms / MS_PER_S)[0])
    except (OSError, ValueError):
        return True
