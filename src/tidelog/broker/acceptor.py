"""Accepts the connections of one listener. Kafka: ``SocketServer.Acceptor``.

Not by asyncio's own server. Where there are no descriptors, that tries hundreds of times at once,
logs each, and sets a timer for each: each of them makes it do so again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 100
"""How many are accepted before others have their turn."""
_PAUSE_S: Final = 1.0


class Acceptor:
    """Accepts, on the event loop that made it, until it is closed.

    ``make`` makes the protocol of a connection. While none can be accepted, those that come wait in
    the backlog of ``listener``, and are accepted after a pause.
    """

    def __init__(self, listener: socket.socket, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self._listener = listener
        self._to = _shown(listener.getsockname())
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._puts_off = False
        self._tasks: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._watch()

    def _watch(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                found, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:  # it has gone again
                continue
            except OSError as error:
                self._put_off(error)
                return
            self._puts_off = False
            task = self._loop.create_task(self._connect(found))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _put_off(self, error: OSError) -> None:
        if not self._puts_off:  # once: it may last
            self._puts_off = True
            _log.warning("connections-put-off to=%s reason=%s", self._to, error)
        # It stays acceptable: without a pause this would spin.
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(_PAUSE_S, self._watch)

    async def _connect(self, found: socket.socket) -> None:
        try:
            found.setblocking(False)
            await self._loop.connect_accepted_socket(self._make, found)
        except OSError as error:  # it was reset, as a rule
            found.close()
            _log.info("connection-lost to=%s reason=%s", self._to, error)

    async def close(self) -> None:
        """Close the listener; what was accepted has its protocol then."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _shown(address: object) -> str:
    return ":".join(map(str, address[:2])) if isinstance(address, tuple) else str(address)
