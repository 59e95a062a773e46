"""What acknowledgements promise: flushes of logs, shared by all who wait for one.

Kafka has no such thing: its brokers trust in replicas, and flush later.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tidelog.config.serve_config import FlushPolicy
from tidelog.env.event_loop import OwnThreads, in_thread

if TYPE_CHECKING:
    from tidelog.manager.partition import Partition

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

    async def wait(self, partition: Partition, end_offset: int) -> None:
        """Wait until the records below ``end_offset`` are durable; raise KafkaStorageError."""
        running = self._running.get(partition)
        if running is None:
            running = self._running[partition] = _LogFlushes(partition, self._threads)
            running.task = asyncio.get_running_loop().create_task(self._run(running))
        waiter = asyncio.get_running_loop().create_future()
        running.waiting.append((end_offset, waiter))
        await waiter

    async def wait_if_wanted(self, partition: Partition, end_offset: int) -> None:
        """Wait as ``wait``, if acknowledgements promise it at all."""
        if self.policy is not FlushPolicy.NONE:
            await self.wait(partition, end_offset)

    async def _run(self, running: _LogFlushes) -> None:
        try:
            while running.waiting:
                await running.flush()
        finally:
            del self._running[running.partition]

    def close(self) -> None:
        """Begin no more flushes."""
        self._threads.shutdown(wait=False)


class _LogFlushes:
    """Who waits for flushes of one log."""

    def __init__(self, partition: Partition, threads: OwnThreads) -> None:
        self.partition: Final = partition
        self._threads: Final = threads
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []
        self.task: asyncio.Task[None] | None = None

    def _flush_now(self) -> None:
        self.partition.log.flush_records()

    async def flush(self) -> None:
        """Flush once; those who came meanwhile wait for the next flush."""
        served, self.waiting = self.waiting, []
        error: BaseException | None = None
        try:
            await in_thread(self._flush_now, threads=self._threads)
        except Exception as caught:  # noqa: BLE001 - raised where it is waited for
            error = caught
        for _, waiter in served:
            if waiter.done():  # its connection was closed
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
