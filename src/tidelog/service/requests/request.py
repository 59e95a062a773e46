"""What a request asks for: a command, its arguments, and until when it may be begun.

A request is a ``Letter``, ``tidelog.<128 random bits>.request``. Its claim is durable before
anything is done, and is never taken up by another service, so that it is carried out at most once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from tidelog.errors import InvalidArgument
from tidelog.mailbox.letter import Letter, Names, State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

VERSION: Final = 1
"""Of the form of requests."""
MAX_REQUEST_BYTES: Final = 4 << 20
"""More than the names and numbers of all partitions of a directory need."""
REQUESTS: Final = Names(
    r"tidelog\.[0-9a-f]{32}",
    {
        State.WAITING: ".request",
        State.CLAIMED: ".request-claimed",
        State.ANSWERED: ".request-answered",
    },
    delayed="request-delayed path=%s reason=%s",
    ignored="request-ignored path=%s reason=%s",
)


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
    def parsed(cls, content: Any) -> Request:  # noqa: ANN401 - whatever a file may hold
        """Return the request that a file holds; raise one of the errors of ``read_versioned``."""
        del content["version"]
        request = cls(**content)
        is_whole = type(request.deadline_ms) is int and isinstance(request.arguments, dict)
        if not (is_whole and isinstance(request.command, str)):
            raise TypeError("a request must have a command, arguments and a deadline")
        return request

    def check_deadline(self, now_ms: int) -> None:
        """Raise InvalidArgument if the request may not be begun any more."""
        if now_ms > self.deadline_ms:
            raise InvalidArgument("the deadline of the request is over; nothing was done")


def new_stem(rng: Random) -> str:
    """Return the name, without a suffix, of a new request."""
    return f"tidelog.{rng.getrandbits(128):032x}"


@dataclass(frozen=True, slots=True)
class RequestFiles(Letter):
    """The files of one request."""

    names: ClassVar = REQUESTS

    def request(self) -> Request:
        """Read a request that waits.

        Raises CorruptFile for what is not a request, KafkaStorageError for one of a newer release,
        for one that is far too large and for a link, OSError.
        """
        return self.read(State.WAITING, VERSION, Request.parsed, MAX_REQUEST_BYTES)
