"""A request of a client, as handlers get it, and how one is refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tidelog.errors import KafkaError, MessageTooLarge, RecordListTooLarge, TidelogError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from tidelog.codec.protocol.apis import Api
    from tidelog.error_codes import ErrorCode

    _Done = Callable[[dict[str, Any], BaseException | None], None]


FOLLOW: Final = -1
"""The operation of IncrementalAlterConfigs, beside Kafka's, that drops a setting's birth value.

Only programs that have joined this one ask for it.
"""


NEW_TOPIC: Final = ""
"""The name that no topic has, by which DescribeConfigs shows what a new one has that sets nothing.

Only programs that have joined this one ask for it.
"""


TOO_LARGE: Final = (MessageTooLarge, RecordListTooLarge)
"""What a coordinator could not write down. Asked again it would fail again: a client is refused in
a word on which it gives up."""


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

    Nobody reads the request any more. Its maker calls ``give`` or ``fail``, on the event loop; the
    first call counts. There is no task: it would take turns of the loop between what is waited for
    and the answer. A handler that returns a coroutine instead has the connection wait for it.
    """

    __slots__ = ("_done", "_end")

    def __init__(self) -> None:
        self._end: tuple[dict[str, Any], BaseException | None] | None = None
        self._done: _Done | None = None

    def give(self, values: dict[str, Any]) -> None:
        """Answer."""
        self._settle(values, None)

    def fail(self, error: BaseException) -> None:
        """Fail, as a handler that raises."""
        self._settle({}, error)

    def _settle(self, values: dict[str, Any], error: BaseException | None) -> None:
        if self._end is None:
            self._end = values, error
            done, self._done = self._done, None  # which may hold this
            if done is not None:
                done(values, error)

    def notify(self, done: _Done) -> None:
        """Call ``done`` once there is an answer, with its fields, or with an error."""
        if self._end is None:
            self._done = done
        else:
            done(*self._end)

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        """Return the answer, in a task."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def settle(values: dict[str, Any], error: BaseException | None) -> None:
            if future.done():  # its task was cancelled
                return
            if error is None:
                future.set_result(values)
            else:
                future.set_exception(error)

        self.notify(settle)
        return future.__await__()


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
