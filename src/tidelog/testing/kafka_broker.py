"""A broker in the process of a test: real sockets, real files, and faults where they are wanted."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import Disconnect
from tidelog.broker.dispatch import Pending
from tidelog.broker.server import BrokerServer
from tidelog.codec.one_line import Told
from tidelog.codec.protocol.apis import read_request_header
from tidelog.config.serve_config import ServeConfig
from tidelog.config.sources import broker_config, from_keywords
from tidelog.embedded.doors import start_logs
from tidelog.env.event_loop import LoopTimers
from tidelog.env.forks import OfOneProcess
from tidelog.env.paths import absolute_path
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidArgument
from tidelog.testing.error_answers import code_named, error_answer, offered_api

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from typing import Self

    from tidelog.broker.client_request import Peer
    from tidelog.broker.connection import Answers
    from tidelog.codec.protocol.apis import RequestHeader
    from tidelog.codec.varint import Bytes
    from tidelog.embedded.logs import Logs
    from tidelog.env.scheduler import Handle
    from tidelog.testing.error_answers import Code
    from tidelog.testing.manual_time import ManualClock

_SETTINGS: Final = {"listeners": "PLAINTEXT://127.0.0.1:0"}


class KafkaBroker(OfOneProcess, Told):
    """A broker over a data directory, on a free port of 127.0.0.1; leave the ``with`` to stop it.

    >>> from tidelog.testing import KafkaBroker
    >>> with KafkaBroker("data") as broker:
    ...     topic = broker.logs.create_topic("tides")
    ...     broker.bootstrap_servers.startswith("127.0.0.1:")
    True

    Args:
        path: the data directory; created if missing.
        clock: a clock that the test advances: retention, sessions of groups and timeouts of
            transactions follow it; None: the time of day.
        settings: those of listeners, with underscores for dots: ``num_partitions=3``.

    Raises InvalidConfig, and the errors of ``tidelog.open``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: ManualClock | None = None,
        **settings: object,
    ) -> None:
        self._path = path
        self._clock = clock
        self._config = ServeConfig.parse({**_SETTINGS, **from_keywords(settings)})
        self._faults = _Faults()
        self._logs: Logs | None = None
        self._port: int | None = None

    def _told(self) -> str:
        life = "stopped" if self._logs is None else f"at 127.0.0.1:{self._port}"
        return f"{str(self._path)!r}: {life}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Life

    def start(self) -> None:
        """Start it: on a free port, and on the same one after ``stop``."""
        if self._logs is not None:
            raise InvalidArgument("the broker runs already")
        config = self._config
        if self._port is not None:
            listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{self._port}"}
            config = ServeConfig.parse({**config.given(), **listeners})
        clock = self._clock
        server = BrokerServer(
            config,
            between=self._faults.before,
            make_timers=LoopTimers if clock is None else lambda: _ClockTimers(clock),
        )
        try:
            settings = broker_config({}, [absolute_path(self._path)])
            logs = start_logs(settings, clock=clock, make_door=server.start)
        except BaseException:
            server.close()
            raise
        self._logs, self._port = logs, server.addresses[0].port

    def stop(self) -> None:
        """Stop it in order: clients lose their connections; nothing if it is stopped."""
        if self.is_inherited:
            return
        logs, self._logs = self._logs, None
        if logs is not None:
            logs.close()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect to."""
        if self._port is None:
            raise InvalidArgument("the broker was never started")
        return f"127.0.0.1:{self._port}"

    @property
    def logs(self) -> Logs:
        """The logs, to create topics, append records and look at what clients have written."""
        if self._logs is None:
            raise InvalidArgument("the broker is stopped")
        return self._logs

    # Faults

    @property
    def requests(self) -> Counter[str]:
        """How many requests of each kind have come, such as ``Produce``.

        To ask it for a kind that is not known raises InvalidArgument.
        """
        return RequestCounts(self._faults.seen)

    def fail(self, request: str, code: int | str, *, times: int = 1) -> None:
        """Answer the next requests of a kind with an error, without carrying them out.

        ``code`` is any of Kafka's protocol, by its name or number: ``"NOT_ENOUGH_REPLICAS"``, 19.

        Raises InvalidArgument for a kind or code that is not known, or a response without codes.
        """
        known = code_named(code)
        if known.number == ErrorCode.NONE:
            raise InvalidArgument("NONE is not an error; drop has carried_out, delay answers later")
        error_answer(request, {}, known)  # raises where it cannot
        self._faults.add(request, times, lambda _answers, *asked: _failed(known, *asked))

    def delay(self, request: str, ms: int, *, times: int = 1) -> None:
        """Carry the next requests of a kind out, and send their answers later.

        Raises InvalidArgument for a kind that is not known, or a time that is none.
        """
        _check_from("ms", ms, 0)
        self._faults.add(request, times, lambda answers, *asked: _late(ms, answers, *asked))

    def drop(self, request: str, *, times: int = 1, carried_out: bool = False) -> None:
        """Close the connection on the next requests of a kind, ``carried_out`` or not.

        Raises InvalidArgument for a kind that is not known.
        """
        self._faults.add(
            request, times, lambda answers, *asked: _dropped(carried_out, answers, *asked)
        )


class RequestCounts(Counter[str]):
    """Numbers of requests by their kind; 0 only for one that is offered and has not come."""

    def __missing__(self, request: str) -> int:
        offered_api(request)
        return 0


class _ClockTimers:
    """Timers that follow a clock of a test, and run on the event loop."""

    def __init__(self, clock: ManualClock) -> None:
        self._scheduler = clock.scheduler()
        self._loop = asyncio.get_running_loop()

    def schedule(self, name: str, task: Callable[[], object], *, delay_ms: int = 0) -> Handle:
        """Run ``task`` once the clock has been advanced by ``delay_ms``."""
        timer = _ClockTimer(task)

        def run() -> None:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(timer.run)

        timer.handle = self._scheduler.schedule(name, run, delay_ms=delay_ms)
        return timer


class _ClockTimer:
    """A task that the clock posts to the event loop, where it may have been cancelled by then."""

    def __init__(self, task: Callable[[], object]) -> None:
        self._task: Callable[[], object] | None = task
        self.handle: Handle | None = None

    def run(self) -> None:
        """Run the task, unless it was cancelled."""
        if self._task is not None:
            self._task()

    def cancel(self) -> None:
        """Prevent the run, also one that is posted already."""
        self._task = None
        if self.handle is not None:
            self.handle.cancel()


class _Faults:
    """Stands before what answers requests. ``_lock`` guards what is planned and counted."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._planned: dict[str, deque[Callable[..., Any]]] = {}
        self._lock = threading.Lock()
        self._answers: Answers | None = None

    def before(self, answers: Answers) -> Answers:
        """Stand before ``answers``."""
        self._answers = answers
        return self

    def add(self, request: str, times: int, fault: Callable[..., Any]) -> None:
        """Plan a fault for the next requests of a kind."""
        offered_api(request)
        _check_from("times", times, 1)
        with self._lock:
            self._planned.setdefault(request, deque()).extend([fault] * times)

    def handle(self, data: Bytes, peer: Peer) -> list[Any] | Pending | None:
        """Answer a request, or do what is planned for it."""
        answers = self._answers
        assert answers is not None
        header = read_request_header(data)
        if header.api is None:
            return answers.handle(data, peer)
        with self._lock:
            self.seen[header.api.name] += 1
            planned = self._planned.get(header.api.name)
            fault = planned.popleft() if planned else None
        if fault is None:
            return answers.handle(data, peer)
        found: list[Any] | Pending | None = fault(answers, header, data, peer)
        return found

    def handle_together(
        self, frames: Iterator[Bytes], peer: Peer
    ) -> list[list[Any] | Pending | None]:
        """Answer the first request: a fault is planned for each by itself."""
        return [self.handle(next(frames), peer)]


def _check_from(name: str, given: int, least: int) -> None:
    """Raise InvalidArgument for what is no such number: a test would pass without its fault."""
    if type(given) is not int or given < least:
        raise InvalidArgument(f"{name} is a whole number from {least} on, not {given!r}")


def _failed(code: Code, header: RequestHeader, data: Bytes, _peer: Peer) -> list[Any]:
    api = header.api
    assert api is not None
    values = api.read_request(header.version, data, header.body)
    if values.get("acks") == 0:
        # The client expects no answer, and would take this for that to its next request. A broker
        # closes the connection, too.
        raise Disconnect(f"{api.name} with acks=0 was to fail with {code.name}")
    answer = error_answer(api.name, values, code)
    head = api.response_header(header.version, header.correlation_id)
    return [head, *api.write_response(header.version, answer)]


def _late(
    ms: int, answers: Answers, _header: RequestHeader, data: Bytes, peer: Peer
) -> Pending | None:
    found = answers.handle(data, peer)
    if found is None:
        return None
    return _Late(ms, found)


class _Late(Pending):
    """An answer that is known, or to come, and is sent later."""

    def __init__(self, ms: int, found: list[Any] | Pending) -> None:
        self.holds_others = True
        self.is_awaited = not isinstance(found, Pending) or found.is_awaited
        self._ms = ms
        self._found = found

    async def parts(self) -> list[Any] | None:
        """Return the parts of the response, later."""
        found = self._found
        parts = await found.parts() if isinstance(found, Pending) else found
        await asyncio.sleep(self._ms / 1000)
        return parts

    def close(self) -> None:
        """Give up what has not begun."""
        if isinstance(self._found, Pending):
            self._found.close()


def _dropped(
    carried_out: bool,  # noqa: FBT001 - by a closure of this module only
    answers: Answers,
    header: RequestHeader,
    data: Bytes,
    peer: Peer,
) -> Pending | None:
    if not carried_out:
        raise Disconnect(f"a test drops {header.api}")
    found = answers.handle(data, peer)
    if isinstance(found, Pending):
        return _Dropped(header, found)
    raise Disconnect(f"a test drops the answer to {header.api}")


class _Dropped(_Late):
    """An answer that is awaited and not sent."""

    def __init__(self, header: RequestHeader, found: Pending) -> None:
        super().__init__(0, found)
        self._header = header

    async def parts(self) -> list[Any] | None:
        """Await the answer, and end the connection."""
        await super().parts()
        raise Disconnect(f"a test drops the answer to {self._header.api}")
