"""What the operating system tells a service: to end, or to read its settings again.

Owns signal handlers while a service runs. Must not know what the service does then.
"""

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
    """Keeps the signals to stop and to reload, until ``wait`` gives them out; a context manager.

    Made and used on the main thread, as Python's signal handlers are. A signal that comes before
    ``wait`` is not lost.
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
        """Wait for a signal; return whether it says to go on, with settings read again."""
        while True:
            select.select([self._reader], [], [])
            for number in os.read(self._reader, 64):
                if number in STOP:
                    return False
                if number in RELOAD:
                    return True

    def stop(self) -> None:
        """Let ``wait`` return as if told to stop; from any thread."""
        os.write(self._writer, bytes([signal.SIGTERM]))


def _ignore(number: int, frame: FrameType | None) -> None:
    """Take the signal; the interpreter has written its number to the pipe before."""
