"""Reads of archives for clients: on threads of their own, and no fetch waits long for one.

A store may take a minute to answer, or to fail. Kafka: ``remote.log.reader.threads`` and
``remote.fetch.max.wait.ms``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidelog.broker.client_request import Later
from tidelog.env.event_loop import CallbackThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

_THREADS: Final = 10
PATIENCE_S: Final = 0.5
"""How long a fetch waits for archives, for the sake of what it has of the disk."""
_KEPT_S: Final = 10
"""How long what was read for a fetch that did not wait is kept for the next one."""


class ArchiveReads:
    """Makes calls that read archives; only the event loop uses it.

    The threads are its own: nothing that needs no archive waits for a store. Nor does the end of
    the broker, which would wait for the calls of an executor.
    """

    def __init__(self) -> None:
        self._threads: Final = CallbackThreads(_THREADS, "archive")
        self._reads: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, read: Callable[[], T]) -> T:
        """Call ``read`` on a thread; return what it returns."""
        later, found = Later(), []

        def ended(error: BaseException | None) -> None:
            if error is None:
                later.give({})
            else:
                later.fail(error)

        self._threads.call(lambda: found.append(read()), ended)
        await later
        return found[0]

    async def run_for(self, key: Hashable, read: Callable[[], T], wait_s: float) -> T | None:
        """Call ``read``, and wait for it that long; None: it takes longer.

        It continues then, and the next call with this key waits for the same one: else a store
        whose answers take longer than a fetch waits would never be read.
        """
        reading = self._reads.get(key)
        if reading is None:
            reading = self._reads[key] = asyncio.get_running_loop().create_task(self.run(read))
            reading.add_done_callback(lambda ended: self._keep(key, ended))
        await asyncio.wait([reading], timeout=wait_s)
        if not reading.done():
            return None
        self._forget(key, reading)
        found: T = reading.result()
        return found

    def _keep(self, key: Hashable, reading: asyncio.Task[Any]) -> None:
        if not reading.cancelled():
            reading.exception()  # it counts as retrieved; else asyncio logs it
        asyncio.get_running_loop().call_later(_KEPT_S, self._forget, key, reading)

    def _forget(self, key: Hashable, reading: asyncio.Task[Any]) -> None:
        if self._reads.get(key) is reading:
            del self._reads[key]

    def close(self) -> None:
        """Make no more calls."""
        self._threads.close()
