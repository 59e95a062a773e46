"""Signals to a running service: stop, or reload its settings."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType
    from typing import Self

STOP: Final = frozenset({signal.SIGTERM, signal.SIGINT})
RELOAD: Final = frozenset({signal.SIGHUP}) if hasattr(signal, "SIGHUP") else frozenset()


class Signals:
    """Catches stop and reload signals and returns them from ``wait``; a context manager.

    It is created and used on the main thread, as Python's signal handlers require. A signal that
    arrives before ``wait`` is not lost.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._handlers: dict[signal.Signals, Any] = {}
        self._wakeup = -1

    def __enter__(self) -> Self:
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in STOP | RELOAD:
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
            select.select([self._reader], [], [])
            for number in os.read(self._reader, 64):
                if number in STOP:
                    return False
                if number in RELOAD:
                    return True

    def stop(self) -> None:
        """Make ``wait`` return as for a stop signal; callable from any thread."""
        os.write(self._writer, bytes([signal.SIGTERM]))


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter has already written the signal number to the pipe."""
