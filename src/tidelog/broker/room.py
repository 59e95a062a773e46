"""What all connections may hold together. Kafka: ``ConnectionQuotas`` and ``MemoryPool``."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.broker.request_counts import RequestCounts
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.config.serve_config import ServeConfig


class Visitor(Protocol):
    """A connection."""

    last_used: float
    """When it last brought a request, in the loop's seconds."""

    @property
    def descriptor(self) -> int:
        """The descriptor of its socket; -1 without one."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""

    def close(self) -> None:
        """Close the connection at once."""


class Room:
    """Counts connections and the bytes of their large requests. Only the event loop uses it."""

    def __init__(self, config: ServeConfig) -> None:
        self._most_connections: Final = config.max_connections
        self._largest: Final = config.socket_request_max_bytes
        self._free = max(config.queued_max_request_bytes, self._largest + 4)
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.connections: set[Visitor] = set()
        self.counts: Final = RequestCounts()

    @property
    def count(self) -> int:
        """How many connections there are; on any thread."""
        return len(self.connections)

    def enter(self, connection: Visitor) -> bool:
        """Count a connection; return False, and do not, where there are too many."""
        if len(self.connections) >= self._most_connections:
            return False
        self.connections.add(connection)
        return True

    def leave(self, connection: Visitor) -> None:
        """Forget a connection; nothing if it is not counted."""
        self.connections.discard(connection)

    def check(self, size: int) -> None:
        """Raise InvalidRecord for a request of a size that is not possible."""
        if not 0 <= size <= self._largest:
            raise InvalidRecord(
                f"a request of {size} bytes is not one of 0 to {self._largest}, the limit"
                " (socket.request.max.bytes)"
            )

    def take(self, size: int, when_free: Callable[[], None]) -> bool:
        """Reserve bytes; where too many are taken return False, and call ``when_free`` later."""
        if size <= self._free:
            self._free -= size
            return True
        self._waiting.append((size, when_free))
        return False

    def give_back(self, size: int) -> None:
        """Free bytes; those who wait try again, in the order in which they came."""
        self._free += size
        while self._waiting and self._waiting[0][0] <= self._free:
            _, when_free = self._waiting.popleft()
            when_free()
