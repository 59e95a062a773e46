"""How many requests this process has sent to stores, and how many bytes: what they charge for."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS: Final = ("get", "head", "list", "put", "delete")
"""Kinds of requests. A put also creates an object, or sends a part of one."""


class StoreUse(NamedTuple):
    """Requests by kind, and bytes of objects: those of ``get`` were received, of ``put`` sent.

    What the library repeats on its own is not in there.
    """

    requests: Mapping[str, int]
    size_bytes: Mapping[str, int]

    @property
    def total_requests(self) -> int:
        """Requests of all kinds."""
        return sum(self.requests.values())

    @property
    def total_bytes(self) -> int:
        """Bytes in both directions."""
        return sum(self.size_bytes.values())


class StoreCounts:
    """Counts; any thread may call it. ``_lock`` guards the numbers."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, kind: str, size_bytes: int = 0, requests: int = 1) -> None:
        """Count requests of a kind, and their bytes."""
        with self._lock:
            self._requests[kind] += requests
            self._bytes[kind] += size_bytes

    def clear(self) -> None:
        """Count from 0 again."""
        with self._lock:
            self._requests.clear()
            self._bytes.clear()

    def now(self) -> StoreUse:
        """Return what was counted so far."""
        with self._lock:
            requests = {kind: self._requests[kind] for kind in KINDS}
            return StoreUse(requests, {kind: self._bytes[kind] for kind in ("get", "put")})


STORE_COUNTS: Final = StoreCounts()
"""Of all stores that this process uses."""
