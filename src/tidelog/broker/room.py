"""What all connections may hold together. Kafka: ``ConnectionQuotas`` and ``MemoryPool``."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.broker.request_counts import RequestCounts
from tidelog.broker.seldom_lines import SeldomLines
from tidelog.config.broker_config import MOST_JOINED
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.config.serve_config import ServeConfig


_log = logging.getLogger(__name__)

_LOOK_S: Final = 1
_ARRIVAL_S: Final = 10
_ARRIVAL_BYTES_PER_S: Final = 1 << 20
"""A request that others wait for arrives at this rate at least, after ``_ARRIVAL_S``."""

_MOST_WIDE: Final = 128
"""Connections that may have a wide buffer: 64 MiB together, if all of them are filled."""

_TLS: Final = "TLS"
_TLS_HANDSHAKE: Final = 0x1603
_HTTP_METHODS: Final = {0x47455420, 0x504F5354, 0x48454144, 0x50555420}
"""GET, POST, HEAD and PUT, as the size of a request."""


class Visitor(Protocol):
    """A connection."""

    @property
    def descriptor(self) -> int:
        """The descriptor of its socket; -1 without one."""

    @property
    def host(self) -> str:
        """The host of the other end."""

    @property
    def is_local(self) -> bool:
        """Whether the other end is a program of this machine's, by the socket beside the data."""

    def close_if_idle(self, limit_s: float) -> None:
        """Close the connection if no byte has moved for ``limit_s``, and that is not for us."""

    def close(self) -> None:
        """Close the connection at once."""


class Room:
    """Counts connections, and the bytes of their large requests until these are answered.

    Only the event loop uses it.
    """

    def __init__(self, config: ServeConfig) -> None:
        self._most_clients: Final = config.max_connections
        self.most_joined = MOST_JOINED
        """Connections of programs of this machine; clients that have taken all of theirs leave
        these."""
        self._counts: Counter[bool] = Counter()
        self._is_told_full = False
        self.largest: Final = config.socket_request_max_bytes
        self._free = config.most_request_bytes
        self._held: dict[Visitor, tuple[int, float]] = {}
        """What arriving requests hold, and until when that is granted, in the loop's seconds."""
        self._waiting: dict[Visitor, tuple[int, Callable[[], None]]] = {}
        """Who waits for how much, in the order in which they came."""
        self._is_looking = False
        self._wide: set[Visitor] = set()
        self.connections: set[Visitor] = set()
        self.counts: Final = RequestCounts()
        self.lines: Final = SeldomLines(SYSTEM_CLOCK)

    @property
    def count(self) -> int:
        """How many connections there are; on any thread."""
        return len(self.connections)

    def enter(self, connection: Visitor) -> bool:
        """Count a connection; return False, and do not, where there are too many."""
        is_local = connection.is_local
        if self._counts[is_local] >= (self.most_joined if is_local else self._most_clients):
            return False
        self._counts[is_local] += 1
        self.connections.add(connection)
        return True

    def widen(self, connection: Visitor) -> bool:
        """Let a connection have a wide buffer for as long as it lives, unless too many have one."""
        may = len(self._wide) < _MOST_WIDE and connection in self.connections
        if may:
            self._wide.add(connection)
        return may

    def is_full_of_joined_anew(self) -> bool:
        """Return whether no joined program was refused since one has left: each tries again."""
        was_told, self._is_told_full = self._is_told_full, True
        return not was_told

    def leave(self, connection: Visitor) -> None:
        """Forget a connection; nothing if it is not counted."""
        if connection in self.connections:
            self._is_told_full &= not connection.is_local
            self.connections.discard(connection)
            self._wide.discard(connection)
            self._counts[connection.is_local] -= 1

    def check(self, size: int) -> None:
        """Raise InvalidRecord for a request of a size that is not possible."""
        if not 0 <= size <= self.largest:
            other = _protocol_of(size)
            if other is not None:
                text = f"the client speaks {other}, and this listener is PLAINTEXT"
                remedy = ": set the client's security.protocol to PLAINTEXT"
                raise InvalidRecord(text + remedy * (other == _TLS))
            raise InvalidRecord(
                f"a request of {size} bytes is not one of 0 to {self.largest}, the limit"
                " (socket.request.max.bytes)"
            )

    def take(self, connection: Visitor, size: int, when_free: Callable[[], None]) -> bool:
        """Reserve bytes for a request that has begun to arrive, instead of what it had before.

        Where too many are taken return False, and call ``when_free`` later.
        """
        self.give_back(connection)
        if size <= self._free:
            self._free -= size
            now_s = asyncio.get_running_loop().time()
            self._held[connection] = size, now_s + _ARRIVAL_S + size / _ARRIVAL_BYTES_PER_S
            return True
        self._waiting[connection] = size, when_free
        self._look_later()
        return False

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._is_looking = False
        self.close_late(asyncio.get_running_loop().time())
        if self._waiting:
            self._look_later()

    def close_late(self, now_s: float) -> None:
        """Close the connections whose requests arrive too slowly, as long as others wait."""
        for connection, (size, until) in tuple(self._held.items()):
            if self._waiting and until < now_s and connection in self._held:
                text = "connection-closed host=%s reason=%d bytes did not come in time"
                _log.warning(text, connection.host, size)
                self.counts.closed += 1
                connection.close()

    def answering(self, connection: Visitor, more_bytes: int) -> Callable[[], None]:
        """Let a request hold what it has taken while it is answered; return what frees that.

        With ``more_bytes``, which it holds from now on. The connection may take room again.
        """
        size, _ = self._held.pop(connection, (0, 0.0))
        self._free -= more_bytes
        return partial(self._release, size + more_bytes)

    def give_back(self, connection: Visitor) -> None:
        """Free what a connection holds or waits for; the first of those who wait try again."""
        self._waiting.pop(connection, None)
        size, _ = self._held.pop(connection, (0, 0.0))
        self._release(size)

    def _release(self, size: int) -> None:
        self._free += size
        while self._waiting:
            first, (wanted, when_free) = next(iter(self._waiting.items()))
            if wanted > self._free:
                return
            del self._waiting[first]
            when_free()


def _protocol_of(size: int) -> str | None:
    """Return the protocol that begins with these four bytes; None: it may be Kafka's."""
    if size >> 16 == _TLS_HANDSHAKE:
        return _TLS
    return "HTTP" if size in _HTTP_METHODS else None
