"""A request of a client, as handlers get it, and how one is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tidelog.errors import KafkaError, TidelogError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tidelog.codec.protocol.apis import Api
    from tidelog.error_codes import ErrorCode


class Address(NamedTuple):
    """Where a broker is reached."""

    host: str
    port: int


class Peer(NamedTuple):
    """The other end of a connection; ``advertised`` is where clients of it find this broker.

    ``held`` is what a program of this machine has as long as its connection lives, by name, with
    what releases it; None: the other end is a client.
    """

    host: str
    advertised: Address
    held: dict[str, Callable[[], None]] | None = None


class Request(NamedTuple):
    """A request whose fields were read; ``client_id`` is as the client gave it."""

    api: Api
    version: int
    values: dict[str, Any]
    client_id: str
    peer: Peer


class Later:
    """An answer that is still to come, while the next requests of the connection are taken.

    A handler that returns a coroutine instead has the connection wait for it.
    """

    def __init__(self, answer: Coroutine[Any, Any, dict[str, Any]]) -> None:
        self.answer = answer


class OnThread:
    """An answer about so much that it is made, and turned into bytes, on a thread.

    On the event loop all other clients would wait for it.
    """

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self.make = make


MANY: Final = 1000
"""Partitions, of which an answer is made in some milliseconds; one about more is ``OnThread``."""


def at_once_or_not(make: Callable[[], dict[str, Any]], *, takes_long: bool) -> Answer:
    """Return the answer that ``make`` makes, or leave it to a thread if that takes long."""
    return OnThread(make) if takes_long else make()


Answer: TypeAlias = (
    "dict[str, Any] | Later | OnThread | Coroutine[Any, Any, dict[str, Any] | None] | None"
)
"""The fields of a response; None: the client expects none."""

Handler: TypeAlias = "Callable[[Request], Answer]"


class Disconnect(TidelogError):
    """The connection has to be closed: there is no answer that the client could read."""


class Refusal(KafkaError):
    """A request, or a part of it, that is refused with a code of the protocol."""

    def __init__(self, code: ErrorCode, reason: str = "") -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def _text(self) -> str:
        return self.reason or self.code.name.lower().replace("_", " ")


def refused(error: KafkaError) -> dict[str, Any]:
    """Return the fields of a response, or of a part of one, that refuses what was asked."""
    return {"errorCode": int(error.code), "errorMessage": str(error)}
