"""Lets other programs of the same user join one that has data directories open.

The sockets are there from the start on; what answers is loaded when the first request comes, so a
program that nobody joins pays for a thread that waits. Kafka has no such door.
"""

from __future__ import annotations

import logging
import select
import selectors
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.env.forks import OfOneProcess, close_inherited
from tidelog.env.scheduler import start_threads
from tidelog.env.unix_sockets import LOOKED, listen_in
from tidelog.errors import TidelogError
from tidelog.log.directory_guard import NO_RESOURCES

if TYPE_CHECKING:
    from tidelog.broker.server import BrokerServer
    from tidelog.env.unix_sockets import LocalListener
    from tidelog.service.log_service import LogService

_PAUSE_S: Final = 1

_log = logging.getLogger(__name__)


class OpenDoor(OfOneProcess):
    """Listens beside the data of a service, and answers, until it is closed.

    Where that is not possible, it is logged: the directory is in use as ever, and cannot be joined.
    """

    def __init__(self, service: LogService) -> None:
        self._service: Final = service
        self._locals: list[LocalListener] = []
        self._accepted: set[socket.socket] = set()
        self._server: BrokerServer | None = None
        self._unheard: set[str] = set()
        """Directories beside which it is to listen once there are descriptors for that."""
        self._puts_off = False
        """Whether connections wait, since there are no descriptors for them."""
        self._stopped, self._stop = socket.socketpair()
        self._thread = start_threads(1, "tidelog-door")
        try:
            for path in service.live_dirs:
                self._listen(path)
            self._thread.schedule("tidelog-door", self._watch)
        except BaseException:
            self._stop.close()
            self._thread.shutdown()
            self._close_sockets()
            raise

    def _listen(self, path: str) -> None:
        try:
            self._locals.append(listen_in(path, self._service.machine.rng))
        except OSError as error:
            if path not in self._unheard:  # once: it may last
                _log.warning("cannot-be-joined directory=%s reason=%s", path, error)
            if error.errno in NO_RESOURCES:
                self._unheard.add(path)
                return
        self._unheard.discard(path)

    def close(self) -> None:
        """Close all connections and sockets; a second call does nothing, nor one in a child."""
        if self.is_inherited:
            return
        self._stop.close()
        self._thread.shutdown()
        if self._server is not None:
            self._server.close()
        self._close_sockets()

    def _close_sockets(self) -> None:
        for one in (self._stop, self._stopped, *self._accepted):
            one.close()
        for local in self._locals:
            local.remove()
        self._locals = []
        self._accepted.clear()

    def after_fork(self, parent: int) -> None:
        """Close the copies of all sockets, in a forked child; see ``BrokerServer.after_fork``."""
        if not self.is_inherited:
            own = self._stop, self._stopped, *self._accepted, *(one.socket for one in self._locals)
            close_inherited([one.fileno() for one in own])
        super().after_fork(parent)

    # On the thread

    def _watch(self) -> None:
        # Where it cannot be answered, or waited, as there are no descriptors, the next who asks is.
        while True:
            try:
                if not self._is_asked() or self._serve():
                    return
            except OSError as error:
                _log.warning("connections-put-off to=%s reason=%s", self._service.live_dirs, error)
            if self._is_stopped_within(_PAUSE_S):
                return

    def _is_stopped_within(self, seconds: float) -> bool:
        """Wait, without a descriptor of its own; return whether this is closed."""
        return bool(select.select([self._stopped], (), (), seconds)[0])

    def _is_asked(self) -> bool:
        """Wait for the first request; return False if this is closed before.

        Raises OSError where there are no descriptors to wait with.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._stopped, selectors.EVENT_READ)
            for connection in self._accepted:
                selector.register(connection, selectors.EVENT_READ)
            heard = 0
            while True:
                for path in tuple(self._unheard):
                    self._listen(path)
                for local in self._locals[heard:]:
                    local.socket.setblocking(False)
                    selector.register(local.socket, selectors.EVENT_READ)
                heard = len(self._locals)
                for key, _ in selector.select(_PAUSE_S if self._unheard else None):
                    ready = key.fileobj
                    if ready is self._stopped:
                        return False
                    if not isinstance(ready, socket.socket):
                        continue
                    if ready not in self._accepted:
                        self._accept(ready, selector)
                    elif self._asks(ready, selector):
                        return True

    def _accept(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        try:
            found, _ = listener.accept()
        except BlockingIOError:  # it has gone again
            return
        except OSError as error:
            if not self._puts_off:  # once: it may last
                self._puts_off = True
                _log.warning("connections-put-off to=%s reason=%s", listener.getsockname(), error)
            # There are no descriptors, and it stays acceptable: without a pause this would spin.
            self._is_stopped_within(_PAUSE_S)
            return
        self._puts_off = False
        found.setblocking(False)
        self._accepted.add(found)
        selector.register(found, selectors.EVENT_READ)

    def _asks(self, connection: socket.socket, selector: selectors.BaseSelector) -> bool:
        """Return whether a request has come; do what a connection without one is there for."""
        try:
            if connection.recv(1, socket.MSG_PEEK):
                return True
        except BlockingIOError:
            return False
        except OSError:  # it was reset
            pass
        selector.unregister(connection)
        self._accepted.discard(connection)
        self._service.tasks.answer_mail(partial(_say_looked, connection), connection.close)
        return False

    def _serve(self) -> bool:
        """Let a broker answer from now on; return False if it cannot, and listen again."""
        from tidelog.broker.server import BrokerServer  # noqa: PLC0415 - only if somebody joins
        from tidelog.config.serve_config import ServeConfig  # noqa: PLC0415 - as above

        server = BrokerServer(ServeConfig(), endpoints=())
        local, self._locals = self._locals, []
        accepted, self._accepted = self._accepted, set()
        try:
            server.take_over(self._service, local, list(accepted))
        except (TidelogError, OSError) as error:
            for one in accepted:
                one.close()
            _log.error("cannot-be-joined directory=%s reason=%s", self._service.live_dirs, error)
            for path in self._service.live_dirs:
                self._listen(path)
            return False
        self._server = server
        return True


def _say_looked(connection: socket.socket) -> None:
    with suppress(OSError):  # who has rung has gone
        connection.send(LOOKED)
