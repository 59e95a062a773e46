"""What acknowledgements promise: flushes of logs, shared by all who wait for one.

Kafka has no such thing: its brokers trust in replicas, and flush later.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.config.serve_config import FlushPolicy
from tidelog.env.event_loop import OwnThreads

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.partition import Partition

    _Waiter = asyncio.Future[None]

_THREADS: Final = 4


class Flushes:
    """Flushes logs on helper threads; one flush serves all that was appended before it began.

    Only the event loop uses it. The threads are its own: acknowledgements do not wait for those who
    wait for a partition that is held, or for an archive.
    """

    def __init__(self, policy: FlushPolicy) -> None:
        self.policy: Final = policy
        self._threads: Final = OwnThreads(_THREADS, "flush")
        self._running: dict[Partition, _LogFlushes] = {}

    def begin(self, partition: Partition) -> asyncio.Future[None]:
        """Return what is done once all records of now are durable, or fails.

        KafkaStorageError: the disk has failed. The flush begins at the next turn of the loop: all
        requests that came together share it.
        """
        running = self._running.get(partition)
        if running is None:
            drop = partial(self._running.__delitem__, partition)
            running = self._running[partition] = _LogFlushes(partition, self._threads, drop)
        return running.waiter()

    async def wait(self, partition: Partition) -> None:
        """Wait until all records of now are durable; raise KafkaStorageError."""
        await self.begin(partition)

    async def wait_if_wanted(self, partition: Partition) -> None:
        """Wait as ``wait``, if acknowledgements promise it at all."""
        if self.policy is not FlushPolicy.NONE:
            await self.wait(partition)

    def close(self) -> None:
        """Begin no more flushes."""
        self._threads.shutdown(wait=False)


class _LogFlushes:
    """Flushes one log as long as somebody waits; ``on_idle`` is called when nobody does.

    There are no tasks: each would take turns of the loop between a request and its answer.
    """

    def __init__(
        self, partition: Partition, threads: OwnThreads, on_idle: Callable[[], None]
    ) -> None:
        self._partition: Final = partition
        self._threads: Final = threads
        self._on_idle: Final = on_idle
        self._loop: Final = asyncio.get_running_loop()
        self._waiting: list[_Waiter] = []
        """Who came since the last flush began."""
        self._loop.call_soon(self._begin)

    def waiter(self) -> _Waiter:
        """Return what the next flush that begins will complete."""
        waiter: _Waiter = self._loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def _begin(self) -> None:
        served, self._waiting = self._waiting, []
        try:
            self._threads.submit(self._flush, served)
        except RuntimeError as error:  # they were shut down
            self._ended(served, error)

    def _flush(self, served: list[_Waiter]) -> None:
        """Flush once, on a thread."""
        failed: BaseException | None = None
        try:
            self._partition.log.flush_records()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            failed = error
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._ended, served, failed)

    def _ended(self, served: list[_Waiter], error: BaseException | None) -> None:
        for waiter in served:
            if waiter.done():  # its connection was closed
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
                waiter.exception()  # it counts as retrieved: the connection may be closed by now
        if self._waiting:
            self._begin()
        else:
            self._on_idle()
