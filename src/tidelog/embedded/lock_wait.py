"""Waits for the short-lived writer that holds a data directory when a program opens it.

A command that finds the lock taken waits for its holder, or asks it; a service or program that
ended instead would be started again by a service manager, or not at all, for a writer that is gone
in a second. Such a writer is also a program that had joined one which was killed, while it commits.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.datadir.lock_file import writer_of
from tidelog.env.clock import NS_PER_MS, SYSTEM_CLOCK
from tidelog.env.signals import program_of
from tidelog.env.waiting import sleep_ms
from tidelog.errors import (
    DirectoryLocked,
    NotServed,
    OutcomeUnknown,
    StartAborted,
    TidelogError,
)
from tidelog.service.requests.request_client import KAFKA, WAIT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.clock import Clock

T = TypeVar("T")

_POLL_MS: Final = 20
_NOT_ANSWERED: Final = (NotServed, OutcomeUnknown)
_log = logging.getLogger(__name__)


def once_served(
    ask: Callable[[], T],
    wait_ms: int,
    *,
    clock: Clock,
    sleep_ms: Callable[[int], None],
    may_pass: Callable[[TidelogError], bool] = lambda it: isinstance(it, _NOT_ANSWERED),
) -> T:
    """Return what ``ask`` returns, again for ``wait_ms`` while its error may pass.

    That is by default while no process answers: the one that holds a directory may be starting
    again. Raises what ``ask`` raised last.
    """
    until_ns = clock.monotonic_ns() + wait_ms * NS_PER_MS
    while True:
        try:
            return ask()
        except TidelogError as error:
            left_ms = (until_ns - clock.monotonic_ns()) // NS_PER_MS
            if left_ms <= 0 or not may_pass(error):
                raise
        sleep_ms(min(_POLL_MS, left_ms))


class LockWait(NamedTuple):
    """What a process that waits for a lock has; ``holder_of`` and ``program_of`` as ``Asker``."""

    clock: Clock
    sleep_ms: Callable[[int], None]
    holder_of: Callable[[str], int | None]
    program_of: Callable[[int], str]
    should_stop: Callable[[], bool]
    wait_ms: int = WAIT_MS

    def opened(self, start: Callable[[], T]) -> T:
        """Return what ``start`` returns, again after another process has released its lock.

        Raises:
            DirectoryLocked: the holder is Kafka, this process, or a program that others can join,
                or has the lock for ``wait_ms``.
            StartAborted: ``should_stop`` returned True.
        """
        until_ns = self.clock.monotonic_ns() + self.wait_ms * NS_PER_MS
        is_first = True
        while True:
            try:
                return start()
            except DirectoryLocked as error:
                # Neither Kafka nor a program that lets others join is gone in a moment.
                is_long = error.lets_join or (
                    error.pid != 0 and self.program_of(error.pid) == KAFKA
                )
                if error.pid == os.getpid() or is_long or not self.wait_ms:
                    raise
                if is_first:
                    _log.info(
                        "lock-awaited directory=%s pid=%d program=%s wait-ms=%d",
                        os.path.dirname(error.path),
                        *(error.pid, self.program_of(error.pid), self.wait_ms),
                    )
                is_first = False
                self._wait(error, until_ns)

    def _wait(self, error: DirectoryLocked, until_ns: int) -> None:
        """Wait until the lock is free; raise ``error`` if the time is over."""
        data_dir = os.path.dirname(error.path)
        while True:
            if self.clock.monotonic_ns() >= until_ns:
                raise error
            self.sleep_ms(_POLL_MS)
            if self.should_stop():
                raise StartAborted(f"the wait for {data_dir} was stopped") from error
            if self.holder_of(data_dir) is None:
                return


def wait_here(wait_ms: int = WAIT_MS, should_stop: Callable[[], bool] = lambda: False) -> LockWait:
    """Return what waits on this machine."""
    return LockWait(SYSTEM_CLOCK, sleep_ms, writer_of, program_of, should_stop, wait_ms)
