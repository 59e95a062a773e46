"""Listens for clients, on a thread of its own. Kafka: ``SocketServer``."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.acceptor import Acceptor
from tidelog.broker.broker import Broker
from tidelog.broker.client_request import Address
from tidelog.broker.connection import Connection, LocalConnection
from tidelog.broker.room import Room
from tidelog.env.clock import MS_PER_S
from tidelog.env.event_loop import LoopTimers, in_thread, listen_on
from tidelog.env.forks import OfOneProcess, close_inherited
from tidelog.env.unix_sockets import listen_in
from tidelog.kernels.runtime.gate import ask_instead, load_all
from tidelog.lazy import np

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import Self

    from tidelog.broker.connection import Answers
    from tidelog.broker.groups.classic_group import Timers
    from tidelog.config.serve_config import Endpoint, ServeConfig
    from tidelog.env.unix_sockets import LocalListener
    from tidelog.service.log_service import LogService

_log = logging.getLogger(__name__)

_BACKLOG: Final = 511
_IDLE_LOOKS: Final = 10
"""How often, in the time after which a connection is idle, they are looked at."""
_FIRST_ANSWERS_S: Final = 0.05
"""How long the first answers have Python to themselves."""


class BrokerServer(OfOneProcess):
    """Serves the logs that a program has open to Kafka's clients.

    It listens from the start on, and answers between ``start`` and ``close``. The owner of the
    logs closes it before them. ``endpoints`` replaces those of the settings. ``between`` wraps what
    answers the requests, and ``make_timers`` makes the timers of the ``Broker``, on its event loop.

    Raises:
        OSError: an address is in use, or may not be used; the error names it.
    """

    def __init__(
        self,
        config: ServeConfig,
        endpoints: Sequence[Endpoint] | None = None,
        *,
        between: Callable[[Answers], Answers] = lambda answers: answers,
        make_timers: Callable[[], Timers] = LoopTimers,
    ) -> None:
        self._config = config
        self._between = between
        self._make_timers = make_timers
        self._room = Room(config)
        self._locals: list[LocalListener] = []
        self._sockets = _listen(config.endpoints if endpoints is None else endpoints)
        self.addresses: Final = [Address(*one.getsockname()[:2]) for one in self._sockets]
        """Where it listens, in the order of the settings."""
        self._thread: threading.Thread | None = None
        self._is_ready = threading.Event()
        self._stop: Callable[[], None] = lambda: None
        self._error: BaseException | None = None
        self.on_failed: Callable[[], None] = lambda: None
        """Called, on the thread, once it has failed after the start; it has closed by then."""

    def start(self, service: LogService) -> Self:
        """Listen beside the data, too, and begin to answer; return this once it does."""
        try:
            for path in service.live_dirs:
                self._locals.append(listen_in(path, service.machine.rng))
        except BaseException:
            self.close()
            raise
        self.take_over(service, self._locals)
        return self

    def take_over(
        self,
        service: LogService,
        local: Sequence[LocalListener],
        accepted: Sequence[socket.socket] = (),
    ) -> None:
        """Begin to answer where somebody listens beside the data, and on accepted connections."""
        self._locals = list(local)
        self._room.most_joined = service.config.tidelog_max_joined_connections
        self._thread = threading.Thread(
            target=self._run, args=(service, accepted), name="broker", daemon=True
        )
        self._thread.start()
        self._is_ready.wait()
        if self._error is not None:
            self.close()
            raise self._error
        for host, port in self.addresses:
            _log.info("listening to=%s:%d", host, port)

    def close(self) -> None:
        """Close all connections and listeners, and wait for the thread.

        A second call does nothing, and neither does one in a forked child.
        """
        if self.is_inherited:
            return
        self._stop()
        if self._thread is not None:
            self._thread.join()
        self._close_listeners()

    def _close_listeners(self) -> None:
        for one in self._sockets:
            one.close()
        for local in self._locals:
            local.remove()
        self._locals = []

    def after_fork(self, parent: int) -> None:
        """Close the copies of all sockets, in a forked child: the parent's would stay open.

        Its clients would not notice that it has ended, and nobody else could take the port.
        """
        if not self.is_inherited:
            sockets = [*self._sockets, *(one.socket for one in self._locals)]
            listeners = [one.fileno() for one in sockets]
            close_inherited([*listeners, *(one.descriptor for one in self._room.connections)])
        super().after_fork(parent)

    def _run(self, service: LogService, accepted: Sequence[socket.socket]) -> None:
        try:
            asyncio.run(self._serve(service, accepted))
        except BaseException as error:  # noqa: BLE001 - raised by ``start``, or logged
            self._error = error
            if self._is_ready.is_set():
                _log.exception("The broker has failed.")
                # Clients that connect would wait for ever: a listener accepts also unattended.
                self._close_listeners()
                self.on_failed()
        finally:
            self._is_ready.set()

    async def _serve(self, service: LogService, accepted: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        broker = Broker(service, self._config, self._make_timers())
        answers = self._between(broker.dispatcher)
        room = self._room
        local = partial(LocalConnection, answers, room, service.tasks.answer_mail)
        acceptors = [Acceptor(one.socket, local) for one in self._locals]
        for one in accepted:
            await loop.connect_accepted_socket(local, one)
        for listener, told in zip(self._sockets, self._config.advertised, strict=False):
            address = None if told is None else Address(*told)
            acceptors.append(Acceptor(listener, partial(Connection, answers, room, address)))

        def stop() -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(ended.set)

        self._stop = stop
        service.metric_sources.append(lambda: room.counts.metrics(room.count, broker.sizes()))
        self._is_ready.set()
        sweep = loop.create_task(self._close_idle(room))
        loading = loop.create_task(_load_rest())
        starting = loop.create_task(broker.start())
        try:
            await _first_of(starting, ended)
            await ended.wait()
        finally:
            sweep.cancel()
            # A connection that was just accepted is known then.
            await asyncio.gather(*(one.close() for one in acceptors))
            for connection in tuple(room.connections):
                connection.close()
            await asyncio.sleep(0)
            await broker.close()
            starting.cancel()
            loading.cancel()
            await asyncio.wait([starting, loading])

    async def _close_idle(self, room: Room) -> None:
        idle_s = self._config.connections_max_idle_ms / MS_PER_S
        while True:
            await asyncio.sleep(idle_s / _IDLE_LOOKS)
            for connection in tuple(room.connections):
                connection.close_if_idle(idle_s)


async def _load_rest() -> None:
    """Load on a thread what the first answers do without: NumPy soon, the kernels once they pay.

    A request that needs NumPy before loads it itself; the event loop never loads kernels.
    """
    wanted = asyncio.Event()
    end = ask_instead(wanted.set)
    try:
        await asyncio.sleep(_FIRST_ANSWERS_S)
        await in_thread(lambda: np.ndarray)
        await wanted.wait()
        modules = load_all()
        while await in_thread(lambda: next(modules, None)) is not None:
            pass
    finally:
        end()


async def _first_of(starting: asyncio.Task[None], ended: asyncio.Event) -> None:
    """Wait for the start, or for the end if that comes first; raise the error of the start."""
    stopped = asyncio.get_running_loop().create_task(ended.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if starting.done():
        starting.result()


def _listen(endpoints: Sequence[Endpoint]) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        for host, port in endpoints:
            found.append(listen_on(host, port, _BACKLOG))
    except BaseException:
        for one in found:
            one.close()
        raise
    return found
