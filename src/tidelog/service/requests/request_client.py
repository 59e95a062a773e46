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
from tidelog.errors import (
    DirectoryLocked,
    KafkaStorageError,
    OutcomeUnknown,
    RequestFailed,
    RequestNotTaken,
    TidelogError,
)
from tidelog.log.directory_guard import NO_SPACE
from tidelog.mailbox.answer import VERSION, Answer
from tidelog.mailbox.letter import State
from tidelog.mailbox.wait import Wait
from tidelog.service.requests.request import Request, RequestFiles, new_stem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.mailbox.wait import Desk

T = TypeVar("T")

WAIT_MS: Final = 15_000
"""How long to wait for the holder of a directory to take a request, or to end."""
TOLD_AFTER_MS: Final = 2_000
POLL_MS: Final = 100
KAFKA: Final = "java"
"""The program of a broker."""


class Asker(NamedTuple):
    """The process that asks, and its looks at the holder.

    ``holder_of`` returns the pid of the process that holds a data directory, 0 if unknown, None if
    nobody does. ``on_left`` is called if this process is interrupted when a service has taken its
    request. ``on_waiting`` is called once, with the pid of the holder, if it has taken no request
    for ``TOLD_AFTER_MS``.
    """

    desk: Desk
    holder_of: Callable[[str], int | None]
    on_left: Callable[[], None]
    on_waiting: Callable[[int], None] = lambda _: None


def here_or_there(
    asker: Asker,
    data_dir: str,
    here: Callable[[], T],
    command: str,
    arguments: Mapping[str, Any],
) -> T:
    """Return what ``here`` returns, or, where ``data_dir`` is locked, the answer of its holder.

    Raises:
        RequestNotTaken: the holder is Kafka, or took no request within ``WAIT_MS``, or the request
            could not be written, as on a full disk. Nothing was done.
        RequestFailed: the service refused, or failed.
        OutcomeUnknown: the service ended after it had taken the request, or it may have taken one
            that a failing disk has not kept durably.
        DirectoryLocked: another directory than this one is held by another process.
        OSError: the files of the request cannot be looked for.
    """
    answer = _RequestWait(asker, data_dir, here, command, arguments).ask()
    if answer.error:
        done = tuple(answer.result)
        raise RequestFailed(answer.error, answer.text, answer.exit_code, done)
    result: T = answer.result
    return result


class _RequestWait(Wait[RequestFiles, Answer]):
    """Waits as long as the service runs that has taken the request."""

    poll_ms = POLL_MS

    def __init__(
        self,
        asker: Asker,
        data_dir: str,
        here: Callable[[], Any],
        command: str,
        arguments: Mapping[str, Any],
    ) -> None:
        letter = RequestFiles(asker.desk.fs, data_dir, new_stem(asker.desk.rng))
        super().__init__(asker.desk, letter, WAIT_MS)
        self._asker: Final = asker
        self._here: Final = here
        self._request: Final = Request(command, arguments, 0)
        self._is_told = False
        self._service: int | None = None
        """The process that has taken the request."""

    def do_here(self) -> Answer:
        """Carry the command out once the lock seems to be free; a request is withdrawn before."""
        if self.is_left and not (self._holder() is None and self.withdraw()):
            raise self.busy
        return Answer(self._here())

    def check_holder(self, busy: DirectoryLocked) -> None:
        """Raise RequestNotTaken if a broker holds the directory, or the error of another one."""
        data_dir = self.letter.data_dir
        if os.path.dirname(busy.path) != data_dir:
            raise busy
        pid = self._holder() or 0
        if pid and self.desk.program_of(pid) == KAFKA:
            reason = "It runs Java, as Kafka does, and takes no requests of tidelog: stop it first"
            raise RequestNotTaken(os.path.join(data_dir, LOCK_FILE), pid, reason)
        is_late = not self._is_told and self.waited_ms() >= TOLD_AFTER_MS
        if is_late and self.letter.is_in(State.WAITING):
            self._is_told = True
            self._asker.on_waiting(pid)

    def leave(self) -> None:
        """Leave the request; raise what a disk means for it that is full, or does not take it."""
        try:
            super().leave()
        except OSError as error:
            with suppress(OSError):
                if not self.is_left or self.withdraw():
                    raise self._not_written(error) from error
            raise OutcomeUnknown(
                f"syncing {self.letter.data_dir} failed: {error.strerror or error}; the service"
                f" that holds it may have taken the request to {self._request.command}:"
                f" {self._advice()}"
            ) from error

    def _not_written(self, error: OSError) -> RequestNotTaken:
        """Return the error of a request that is not there, and was not: nothing was done."""
        data_dir, command = self.letter.data_dir, self._request.command
        need = "free some space there" if error.errno in NO_SPACE else "mend that"
        reason = (
            f"A request to {command}, which that process would carry out, could not be written to"
            f" {data_dir}: {error.strerror or error}. Nothing was done; {need}, or stop that"
            " process and repeat the command, which then needs no request"
        )
        return RequestNotTaken(os.path.join(data_dir, LOCK_FILE), self._holder() or 0, reason)

    def content(self, deadline_ms: int) -> bytes:
        """Return the content of the request."""
        return self._request._replace(deadline_ms=deadline_ms).encoded()

    def answer(self) -> Answer | None:
        """Return the answer of the service, once; raise OutcomeUnknown if it cannot be read."""
        letter = self.letter
        if letter.is_in(State.WAITING) or letter.is_in(State.CLAIMED):
            return None
        try:
            answer = letter.read(State.ANSWERED, VERSION, Answer.parsed)
        except FileNotFoundError:
            return None
        except (OSError, KafkaStorageError) as error:
            text = f"the answer {letter.path(State.ANSWERED)} cannot be read: {error}"
            raise OutcomeUnknown(text) from error
        finally:
            with suppress(OSError):
                letter.delete(State.ANSWERED)
        return answer

    def is_hopeless(self) -> bool:
        """Return whether the service has ended; it answers before it releases the lock."""
        if self.letter.is_in(State.WAITING):
            return False
        holder = self._holder()
        self._service = self._service or holder
        return holder is None or holder != self._service or not self.letter.is_in(State.CLAIMED)

    def timed_out(self) -> RequestNotTaken:
        """Return the error of a request that nobody took; nothing was done."""
        reason = (
            f"It took no request within {self.timeout_ms // 1000} s: it may still be starting,"
            " or a program that takes none"
        )
        path = os.path.join(self.letter.data_dir, LOCK_FILE)
        return RequestNotTaken(path, self._holder() or 0, reason)

    def unknown(self) -> OutcomeUnknown:
        """Return the error of a request whose service ended before it answered."""
        return OutcomeUnknown(
            f"the service that held {self.letter.data_dir} took the request and ended before it"
            f" answered: it may have been carried out, in part or not at all; {self._advice()}"
        )

    def _advice(self) -> str:
        """Return how to learn what has become of a request; of a move, a copy may be left."""
        if self._request.command != "move":
            return "look with tidelog describe"
        return "look with tidelog move --list --to DIR: the next start continues a move"

    def report_left(self, error: BaseException) -> None:
        """Report a request that an interrupt leaves to the service."""
        with suppress(OSError):
            if not isinstance(error, TidelogError) and self.letter.is_in(State.CLAIMED):
                self._asker.on_left()

    def _holder(self) -> int | None:
        return self._asker.holder_of(self.letter.data_dir)
