"""Asks the service that holds a data directory to do what only the holder may do.

What is tried, in this order: the command in this process, which needs the lock; a request to the
holder; and the command again once the lock is free. A holder that takes no requests, such as a
short-lived writer, is waited for up to ``WAIT_MS``; Kafka is not waited for.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidelog.datadir.lock_file import LOCK_FILE
from tidelog.errors import DirectoryLocked, OutcomeUnknown, RequestNotTaken, TidelogError
from tidelog.service.requests.request_files import (
    Request,
    RequestState,
    leave,
    state_of,
    take_answer,
    withdraw,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.service.requests.request_files import Answer

T = TypeVar("T")

WAIT_MS: Final = 15_000
"""How long to wait for the holder of a directory to take a request, or to end."""
POLL_MS: Final = 100
KAFKA: Final = "java"
"""The program of a broker."""

_NS_PER_MS: Final = 1_000_000


class Asker(NamedTuple):
    """What the process that asks has: disk, time, random numbers, and looks at other processes.

    ``holder_of`` returns the pid of the process that holds a data directory, 0 if unknown, None if
    nobody does. ``program_of`` names the program of a process, empty if unknown. ``on_left`` is
    called if this process is interrupted when a service has taken its request.
    """

    fs: FileSystem
    clock: Clock
    rng: Random
    sleep_ms: Callable[[int], None]
    holder_of: Callable[[str], int | None]
    program_of: Callable[[int], str]
    on_left: Callable[[], None]
    wait_ms: int = WAIT_MS


def here_or_there(
    asker: Asker,
    data_dir: str,
    here: Callable[[], T],
    command: str,
    arguments: Mapping[str, Any],
) -> T:
    """Return what ``here`` returns, or, where ``data_dir`` is locked, the answer of its holder.

    Raises:
        RequestNotTaken: the holder is Kafka, or took no request within ``wait_ms``. Nothing was
            done.
        RequestFailed: the service refused, or failed.
        OutcomeUnknown: the service ended after it had taken the request.
        DirectoryLocked: another directory than this one is held by another process.
        OSError: the request cannot be written, or its files cannot be looked for.
    """
    until_ns = asker.clock.monotonic_ns() + asker.wait_ms * _NS_PER_MS
    while True:
        try:
            return here()
        except DirectoryLocked as error:
            if os.path.dirname(error.path) != data_dir:
                raise
        answer = _ask(asker, data_dir, command, arguments, until_ns)
        if answer is not None:
            result: T = answer.unpacked()
            return result


def _ask(
    asker: Asker, data_dir: str, command: str, arguments: Mapping[str, Any], until_ns: int
) -> Answer | None:
    """Leave a request and wait for the answer; None if the lock is free, with nothing done."""
    _refuse_kafka(asker, data_dir)
    left_ms = max(until_ns - asker.clock.monotonic_ns(), 0) // _NS_PER_MS
    request = Request(command, arguments, asker.clock.now_ms() + left_ms)
    path = leave(asker.fs, asker.rng, data_dir, request)
    try:
        if not _is_taken(asker, data_dir, path, until_ns):
            return None
        return _answer_of(asker, data_dir, path)
    except TidelogError:
        raise
    except BaseException:  # Ctrl-C and SIGTERM as well
        with suppress(OSError):
            if not withdraw(asker.fs, path) and state_of(asker.fs, path) is RequestState.CLAIMED:
                asker.on_left()
        raise


def _refuse_kafka(asker: Asker, data_dir: str) -> None:
    """Raise RequestNotTaken if a broker holds the directory."""
    pid = asker.holder_of(data_dir) or 0
    if pid and asker.program_of(pid) == KAFKA:
        reason = "It runs Java, as Kafka does, and takes no requests of tidelog: stop it first"
        raise RequestNotTaken(os.path.join(data_dir, LOCK_FILE), pid, reason)


def _is_taken(asker: Asker, data_dir: str, path: str, until_ns: int) -> bool:
    """Wait until the request is taken; False if it was withdrawn, since the lock is free."""
    while state_of(asker.fs, path) is RequestState.WAITING:
        holder = asker.holder_of(data_dir)
        is_late = asker.clock.monotonic_ns() >= until_ns
        if (holder is None or is_late) and withdraw(asker.fs, path):
            if holder is None:
                return False
            reason = (
                f"It took no request within {asker.wait_ms // 1000} s: it may still be starting,"
                " or a program that takes none"
            )
            raise RequestNotTaken(os.path.join(data_dir, LOCK_FILE), holder, reason)
        asker.sleep_ms(POLL_MS)
    return True


def _answer_of(asker: Asker, data_dir: str, path: str) -> Answer:
    """Wait for the answer to a request that was taken, as long as that service runs."""
    service = asker.holder_of(data_dir)
    while state_of(asker.fs, path) is RequestState.CLAIMED:
        holder = asker.holder_of(data_dir)
        if holder is None or holder != service:
            break
        asker.sleep_ms(POLL_MS)
    # It answers before it releases the lock.
    if state_of(asker.fs, path) is RequestState.ANSWERED:
        return take_answer(asker.fs, path)
    raise OutcomeUnknown(
        f"the service that held {data_dir} took the request and ended before it answered: it may"
        " have been carried out, in part or not at all; look with tidelog describe"
    )
