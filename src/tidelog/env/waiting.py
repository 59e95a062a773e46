"""Waiting on one thread for something that happens on another.

Owns the wait. Must not know what is waited for. Kafka: ``DelayedOperation``, of which this is the
part that a single process needs.
"""

from __future__ import annotations

import select
import threading
import time
from typing import Final, Protocol

_MS_PER_S: Final = 1000


class Bell(Protocol):
    """Something that rings; whoever waits looks at what it waits for again."""

    @property
    def rings(self) -> int:
        """How often it has rung: to be read before looking at what is waited for."""

    def ring(self) -> None:
        """Wake all who wait."""

    def wait(self, seen: int, timeout_ms: int) -> bool:
        """Wait for a ring after the first ``seen``; return whether there was one."""


class ThreadBell:
    """A ``Bell`` for threads. ``_condition`` guards the count."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rings = 0

    @property
    def rings(self) -> int:
        """How often it has rung."""
        return self._rings

    def ring(self) -> None:
        """Wake all who wait."""
        with self._condition:
            self._rings += 1
            self._condition.notify_all()

    def wait(self, seen: int, timeout_ms: int) -> bool:
        """Wait for a ring after the first ``seen``, at most ``timeout_ms``."""
        with self._condition:
            return self._condition.wait_for(
                lambda: self._rings != seen, timeout=timeout_ms / _MS_PER_S
            )


def sleep_ms(ms: int) -> None:
    """Wait; only where no bell rings, as for a rate to be kept."""
    time.sleep(ms / _MS_PER_S)


def wait_readable(file_number: int, timeout_ms: int) -> bool:
    """Wait until there is something to read, or the end; return whether there is.

    Where this cannot be waited for, as for a file that is no pipe on Windows, the answer is yes.
    """
    try:
        return bool(select.select([file_number], [], [], timeout_ms / _MS_PER_S)[0])
    except (OSError, ValueError):
        return True
