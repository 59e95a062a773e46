"""Reads requests, hands each to its handler, and writes its response, without sockets.

Kafka: ``KafkaApis`` and ``RequestContext``.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tidelog.broker.client_request import Disconnect, Later, OnThread, Request, refused
from tidelog.codec.protocol.apis import API_VERSIONS, apis, read_request_header
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError, TidelogError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from tidelog.broker.client_request import Answer, Handler, Peer
    from tidelog.codec.protocol.apis import Api, RequestHeader
    from tidelog.codec.varint import Bytes

_LEAST_BYTES: Final = 4 << 20
_SHARES: Final = 2
"""What is answered about the elements of a request takes about as much as they do."""


class Pending:
    """A response that is still to come; ``holds_others``: no later request is taken before."""

    size_bytes = 0
    """About what memory the elements of the request take."""
    holds_others = True
    is_awaited = True
    """Whether the client waits for it; one that wants no acknowledgements does not."""

    def __init__(
        self, header: RequestHeader, answer: Later | Coroutine[Any, Any, dict[str, Any] | None]
    ) -> None:
        self._header = header
        self._answer = answer

    async def parts(self) -> list[Any] | None:
        """Return the parts of the response, once they are known."""
        try:
            values = await self._answer
        except KafkaError as error:
            values = _refused_whole(self._header, error)
        return None if values is None else self._response(values)

    def _response(self, values: dict[str, Any]) -> list[Any]:
        return _response(self._header, values)

    def close(self) -> None:
        """Give up what has not begun; nothing if it has ended."""
        if not isinstance(self._answer, Later):
            self._answer.close()


class PendingLater(Pending):
    """A response that needs no task, and nothing of its request."""

    holds_others = False

    def __init__(self, header: RequestHeader, later: Later) -> None:
        super().__init__(header, later)
        self._later = later

    def notify(self, done: Callable[[list[Any], BaseException | None], None]) -> None:
        """Call ``done`` with the parts of the response once they are known, or with an error."""

        def settle(values: dict[str, Any], error: BaseException | None) -> None:
            try:
                if isinstance(error, KafkaError):
                    values, error = _refused_whole(self._header, error), None
                parts = [] if error is not None else self._response(values)
            except TidelogError as caught:
                parts, error = [], caught
            done(parts, error)

        self._later.notify(settle)


class PendingOnThread(Pending):
    """A response that is made on a thread."""

    def __init__(self, header: RequestHeader, make: Callable[[], dict[str, Any]]) -> None:
        super().__init__(header, self._made(make))
        self._parts: list[Any] = []

    async def _made(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        self._parts = await in_thread(lambda: super(PendingOnThread, self)._response(make()))
        return {}

    def _response(self, values: dict[str, Any]) -> list[Any]:
        return self._parts or super()._response(values)


class Together(Protocol):
    """Handles requests of one kind that came together as one."""

    def may_be_together(self, request: Request) -> bool:
        """Whether a request is of that kind, and can neither fail whole nor go unanswered."""

    def handle_together(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer each of them, as its handler does; each ``may_be_together``."""


class _Read(NamedTuple):
    """A request that was read; its elements take about ``size_bytes`` of memory."""

    header: RequestHeader
    handler: Handler
    request: Request
    size_bytes: int


class Dispatcher:
    """Hands each request to its handler; ``handlers`` are by the names of requests.

    Requests without a handler are not offered. ``most_bytes`` is what memory one may take.
    """

    def __init__(
        self, handlers: Mapping[str, Handler], most_bytes: int, together: Together | None = None
    ) -> None:
        # A request of the usual size is read whatever the settings are.
        self._most_bytes: Final = max(most_bytes, _LEAST_BYTES) // _SHARES
        self._together: Final = together
        self._handlers: Final = {
            api.number: handlers[api.name] for api in apis().values() if api.name in handlers
        }
        self._handlers[API_VERSIONS] = lambda _: self._offer()

    def handle(self, data: Bytes, peer: Peer) -> list[Any] | Pending | None:
        """Return the parts of the response, without its size; None: there is no response.

        A part is bytes or a slice of a file. Raises Disconnect for what is not an offered
        request, and InvalidRecord for a malformed one: nothing that follows can be read then.
        """
        read = self._read(data, peer)
        return _answered(read, _asked(read)) if isinstance(read, _Read) else read

    def handle_together(
        self, frames: Iterator[Bytes], peer: Peer
    ) -> list[list[Any] | Pending | None]:
        """Answer the first of some requests, and those after it that can be handled with it.

        As ``handle``. The others are to be given again; one that cannot be read raises first then.
        """
        together = self._together
        found: list[_Read] = []
        for frame in frames:
            try:
                read = self._read(frame, peer)
            except TidelogError:
                if found:
                    break
                raise
            if together and isinstance(read, _Read) and together.may_be_together(read.request):
                found.append(read)
            elif found:
                break
            else:
                return [_answered(read, _asked(read)) if isinstance(read, _Read) else read]
        assert together is not None
        answers = together.handle_together([one.request for one in found])
        return [_answered(one, answer) for one, answer in zip(found, answers, strict=True)]

    def _read(self, data: Bytes, peer: Peer) -> _Read | list[Any]:
        """Read a request; or return the response to one of an unknown version. Errors as above."""
        header = read_request_header(data)
        api, version = header.api, header.version
        handler = self._handlers.get(header.number)
        if api is None or handler is None:
            raise Disconnect(f"request {header.number} is not offered")
        if version not in api.is_flexible:
            if header.number == API_VERSIONS:
                return self._unknown_version(api, header)
            raise Disconnect(f"version {version} of {api.name} is not offered")
        values, size_bytes = api.read_bounded_request(version, data, header.body, self._most_bytes)
        request = Request(api, version, values, header.client_id or "", peer)
        return _Read(header, handler, request, size_bytes)

    def _offer(self) -> dict[str, Any]:
        offered = [apis()[number] for number in sorted(self._handlers)]
        return {
            "apiKeys": [
                {
                    "apiKey": api.number,
                    "minVersion": api.first_version,
                    "maxVersion": api.last_version,
                }
                for api in offered
            ],
            # A client that knows features takes an epoch of -1 for a broker that is not ready.
            "finalizedFeaturesEpoch": 0,
        }

    def _unknown_version(self, api: Api, header: RequestHeader) -> list[Any]:
        """Answer in version 0, which every client can read, and name the versions that are known.

        Source: KIP-511.
        """
        values = self._offer() | {"errorCode": int(ErrorCode.UNSUPPORTED_VERSION)}
        return [api.response_header(0, header.correlation_id), *api.write_response(0, values)]


def _asked(read: _Read) -> Answer:
    """Return what the handler answers."""
    try:
        return read.handler(read.request)
    except KafkaError as error:
        return _refused_whole(read.header, error)  # else the handler refuses each part by itself


def _answered(read: _Read, answer: Answer) -> list[Any] | Pending | None:
    """Return the response to a request."""
    if answer is None:
        return None
    if isinstance(answer, dict):
        return _response(read.header, answer)
    pending = _pending(read.header, answer)
    pending.size_bytes = read.size_bytes
    pending.is_awaited = _is_awaited(read.request.values)
    return pending


def is_awaited(data: Bytes) -> bool:
    """Return whether a client waits for the answer to a request; also for one that is malformed."""
    try:
        header = read_request_header(data)
        api, version = header.api, header.version
        if api is None or api.name != "Produce" or version not in api.is_flexible:
            return True
        values, _ = api.read_bounded_request(version, data, header.body, _LEAST_BYTES)
    except TidelogError:
        return True
    return _is_awaited(values)


def _is_awaited(values: dict[str, Any]) -> bool:
    return values.get("acks") != 0


def _pending(
    header: RequestHeader, answer: Later | OnThread | Coroutine[Any, Any, dict[str, Any] | None]
) -> Pending:
    if isinstance(answer, OnThread):
        return PendingOnThread(header, answer.make)
    if isinstance(answer, Later):
        return PendingLater(header, answer)
    assert inspect.iscoroutine(answer)
    return Pending(header, answer)


def _refused_whole(header: RequestHeader, error: KafkaError) -> dict[str, Any]:
    """Return the answer to a request that is refused as a whole; Disconnect if none can say so.

    A client would take it for an answer about nothing.
    """
    api = header.api
    assert api is not None
    if not api.has_response_field("errorCode", header.version):
        raise Disconnect(f"{api.name} failed: {error}") from error
    return refused(error)


def _response(header: RequestHeader, values: Mapping[str, Any]) -> list[Any]:
    api = header.api
    assert api is not None
    head = api.response_header(header.version, header.correlation_id)
    return [head, *api.write_response(header.version, values)]
