"""The files of a request: how each is named, what it holds, and which change decides what.

A request is one small file, renamed as it proceeds::

    tidelog.<128 random bits>.request            may be withdrawn, and taken until its deadline
    tidelog.<128 random bits>.request-claimed    a service carries it out, or has ended meanwhile
    tidelog.<128 random bits>.request-answered   the answer, for the process that asked

The rename to ``.request-claimed`` decides: it and a withdrawal, which deletes the file, cannot both
succeed. A claim is durable before anything is done, and is never taken up by another service, so
that a request is carried out at most once.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.checkpoint_file import read_small_file, replace_file
from tidelog.errors import CorruptFile, InvalidArgument, OutcomeUnknown, RequestFailed
from tidelog.exit_codes import exit_code_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from tidelog.env.files import FileSystem

VERSION: Final = 1
"""Of the form of requests and answers."""
MAX_REQUEST_BYTES: Final = 4 << 20
"""More than the names and numbers of all partitions of a directory need."""
NAME: Final = re.compile(r"(tidelog\.[0-9a-f]{32}\.request)(-claimed|-answered)?(\.tmp)?", re.ASCII)
"""The names of these files: that of the request, its state, and the suffix while it is written."""
CLAIMED: Final = "-claimed"
ANSWERED: Final = "-answered"


class RequestState(Enum):
    """How far a request has come, as its files show it."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    ANSWERED = "answered"
    GONE = "gone"
    """None of its files exists: it was withdrawn, or what was left of it has been cleared."""


class NewerRequest(Exception):
    """A request has a version that this release does not know; its file is left alone."""


class Request(NamedTuple):
    """What to do, by the name of the command, its arguments, and until when it may be begun.

    ``deadline_ms`` is in milliseconds since the Unix epoch.
    """

    command: str
    arguments: Mapping[str, Any]
    deadline_ms: int

    def encoded(self) -> bytes:
        """Return the content of the file."""
        content = {"version": VERSION, **self._asdict(), "arguments": dict(self.arguments)}
        return json.dumps(content).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Request:
        """Read the content of a file, which anybody may have written.

        Raises InvalidArgument for what is not a request, NewerRequest for one of a newer release.
        """
        content = _members(data)
        if content.pop("version", None) != VERSION:
            raise InvalidArgument(f"a request must name its version, {VERSION}")
        if content.keys() != set(cls._fields):
            raise InvalidArgument(f"a request must have {', '.join(cls._fields)}, and no more")
        request = cls(**content)
        is_whole = type(request.deadline_ms) is int and isinstance(request.arguments, dict)
        if not isinstance(request.command, str) or not is_whole:
            raise InvalidArgument("a request must have a command, arguments and a deadline")
        return request

    def check_deadline(self, now_ms: int) -> None:
        """Raise InvalidArgument if the request may not be begun any more."""
        if now_ms > self.deadline_ms:
            raise InvalidArgument("the deadline of the request is over; nothing was done")


def _members(data: bytes) -> dict[str, Any]:
    """Return the members of an object in JSON; InvalidArgument for anything else."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("a request must be JSON") from error
    if not isinstance(content, dict):
        raise InvalidArgument("a request must be an object in JSON")
    version = content.get("version")
    if type(version) is int and version > VERSION:
        raise NewerRequest(f"version {version}")
    return content


class Answer(NamedTuple):
    """The result of a request as JSON, or the error: its class, text, and exit code.

    With an error, the result is what a long command had done until then.
    """

    result: Any = None
    error: str = ""
    text: str = ""
    exit_code: int = 0

    @classmethod
    def of_error(cls, error: Exception, done: Sequence[Any] = ()) -> Answer:
        """Return the answer to a request that ended with ``error``, when parts were ``done``."""
        name = type(error).__name__
        return cls(list(done), name, text_of(error), exit_code_of(error))

    def encoded(self) -> bytes:
        """Return the content of the file."""
        return json.dumps({"version": VERSION, **self._asdict()}).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Answer:
        """Read the content of a file; raise OutcomeUnknown for what is not an answer."""
        try:
            content = json.loads(data)
            version = content.pop("version")
            answer = cls(**content)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise OutcomeUnknown("the answer of the service cannot be read") from error
        is_whole = type(answer.exit_code) is int and isinstance(answer.text, str)
        if version != VERSION or not is_whole or (answer.error and type(answer.result) is not list):
            raise OutcomeUnknown(f"the answer of the service has version {version}")
        return answer

    def unpacked(self) -> Any:  # noqa: ANN401 - each command has a result of its own
        """Return the result; raise RequestFailed for an error."""
        if self.error:
            raise RequestFailed(self.error, self.text, self.exit_code, tuple(self.result))
        return self.result


# The steps of the process that asks


def leave(fs: FileSystem, rng: Random, data_dir: str, request: Request) -> str:
    """Leave a request in ``data_dir``, durably; return its path. Raises OSError."""
    path = os.path.join(data_dir, f"tidelog.{rng.getrandbits(128):032x}.request")
    try:
        replace_file(fs, path, request.encoded())
    except BaseException:  # without the path nobody could withdraw it
        with suppress(OSError):
            fs.delete(path)
        raise
    return path


def state_of(fs: FileSystem, path: str) -> RequestState:
    """Return how far a request has come.

    The files are looked for in the order in which they appear: a state is never passed over.
    Raises OSError.
    """
    if fs.exists(path):
        return RequestState.WAITING
    if fs.exists(path + CLAIMED):
        return RequestState.CLAIMED
    return RequestState.ANSWERED if fs.exists(path + ANSWERED) else RequestState.GONE


def withdraw(fs: FileSystem, path: str) -> bool:
    """Take a request back, durably, that no service has taken; return whether that was in time.

    Without the sync a power cut could bring it back, for a service to carry out. Raises OSError.
    """
    try:
        fs.delete(path)
    except FileNotFoundError:
        return False
    fs.sync_directory(os.path.dirname(path))
    return True


def take_answer(fs: FileSystem, path: str) -> Answer:
    """Return the answer, once. Raises OutcomeUnknown if it cannot be read."""
    answered = path + ANSWERED
    if fs.is_link(answered):
        raise OutcomeUnknown(f"the answer {answered} is a link")
    try:
        data = read_small_file(fs, answered)
    except (OSError, CorruptFile) as error:
        raise OutcomeUnknown(f"the answer {answered} cannot be read: {error}") from error
    with suppress(OSError):
        fs.delete(answered)
    return Answer.decoded(data)


# The steps of the service


def read_request(fs: FileSystem, path: str) -> Request:
    """Read a request; a link is refused as it could lead out of the directory.

    Raises OSError, CorruptFile for one that is far too large, InvalidArgument, NewerRequest.
    """
    if fs.is_link(path):
        raise CorruptFile(f"{path} is a link")
    return Request.decoded(read_small_file(fs, path, MAX_REQUEST_BYTES))


def write_answer(fs: FileSystem, path: str, answer: Answer) -> None:
    """Write the answer durably, then remove the claim. Raises OSError."""
    replace_file(fs, path + ANSWERED, answer.encoded())
    with suppress(FileNotFoundError):
        fs.delete(path + CLAIMED)
