"""Signals to a running service: stop, or reload its settings."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tidelog.env.clock import MS_PER_S

if TYPE_CHECKING:
    from types import FrameType
    from typing import Self

STOP: Final = frozenset({signal.SIGTERM, signal.SIGINT})
RELOAD: Final = frozenset({signal.SIGHUP}) if hasattr(signal, "SIGHUP") else frozenset()


class Signals:
    """Catches stop and reload signals and returns them from ``wait``; a context manager.

    It is created and used on the main thread, as Python's signal handlers require. A signal that
    arrives before ``wait`` is not lost. ``_lock`` guards those that were read and not yet returned.
    Without ``reloads`` only stop signals are caught.
    """

    def __init__(self, *, reloads: bool = True) -> None:
        self._caught: Final = STOP | RELOAD if reloads else STOP
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._lock = threading.Lock()
        self._pending: list[int] = []
        self._handlers: dict[signal.Signals, Any] = {}
        self._wakeup = -1

    def __enter__(self) -> Self:
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in self._caught:
            self._handlers[number] = signal.signal(number, _ignore)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self) -> bool:
        """Wait for a signal; return True for a reload of the settings, False for a stop."""
        while True:
            self._read()
            with self._lock:
                while self._pending:
                    number = self._pending.pop(0)
                    if number in STOP:
                        return False
                    if number in RELOAD:
                        return True
            select.select([self._reader], [], [])

    def is_stopped_within(self, timeout_ms: int) -> bool:
        """Wait for a signal, up to ``timeout_ms``; return whether a stop signal has arrived."""
        if not self.is_stop_requested():
            select.select([self._reader], [], [], timeout_ms / MS_PER_S)
        return self.is_stop_requested()

    def is_stop_requested(self) -> bool:
        """Whether a stop signal has arrived; ``wait`` still returns it. Callable on any thread."""
        self._read()
        with self._lock:
            return any(number in STOP for number in self._pending)

    def _read(self) -> None:
        """Take the signals out of the pipe, without waiting for any."""
        with self._lock, suppress(BlockingIOError):
            self._pending += os.read(self._reader, 64)

    def stop(self) -> None:
        """Make ``wait`` return as for a stop signal; callable from any thread."""
        os.write(self._writer, bytes([signal.SIGTERM]))


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter has already written the signal number to the pipe."""


def is_alive(pid: int) -> bool:
    """Whether a process of this number exists; True if that cannot be determined."""
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    return True


def process_mark() -> str:
    """Return what no other process has, on this host or elsewhere; empty if unknown.

    It is known on Linux only: host, boot and process namespace, without which a number names a
    process in some other container.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except (OSError, ValueError):
        return ""
    return f"{socket.gethostname()} {boot} {namespace} {os.getpid()}"


def has_ended(mark: str) -> bool:
    """Whether the process of a ``process_mark`` has ended; False if that cannot be determined."""
    place, _, pid = mark.rpartition(" ")
    if not place or place != process_mark().rpartition(" ")[0]:
        return False
    return pid.isascii() and pid.isdigit() and not is_alive(int(pid))


def program_of(pid: int) -> str:
    """Return the name of the program that a process runs, such as ``java``; empty if unknown.

    It is known on Linux only.
    """
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
