"""What acknowledgements promise: flushes of logs, shared by all who wait for one.

Kafka has no such thing: its brokers trust in replicas, and flush later.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.client_request import Later
from tidelog.config.serve_config import FlushPolicy
from tidelog.env.event_loop import CallbackThreads

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.partition import Partition

    _Ended = Callable[[BaseException | None], None]

_THREADS: Final = 4


class Flushes:
    """Flushes logs on helper threads; one flush serves all that was appended before it began.

    Only the event loop uses it. The threads are its own: acknowledgements do not wait for those who
    wait for a partition that is held, or for an archive.
    """

    def __init__(self, policy: FlushPolicy) -> None:
        self.policy: Final = policy
        self._threads: Final = CallbackThreads(_THREADS, "flush")
        self._running: dict[Partition, _LogFlushes] = {}

    def begin(self, partition: Partition, ended: _Ended) -> None:
        """Call ``ended`` once all records of now are durable, or with the error that it came to.

        KafkaStorageError: the disk has failed. The flush begins at the next turn of the loop: all
        requests that came together share it.
        """
        running = self._running.get(partition)
        if running is None:
            drop = partial(self._running.__delitem__, partition)
            running = self._running[partition] = _LogFlushes(partition, self._threads, drop)
        running.waiting.append(ended)

    async def wait(self, partition: Partition) -> None:
        """Wait until all records of now are durable; raise KafkaStorageError."""
        later = Later()

        def ended(error: BaseException | None) -> None:
            if error is None:
                later.give({})
            else:
                later.fail(error)

        self.begin(partition, ended)
        await later

    async def wait_if_wanted(self, partition: Partition) -> None:
        """Wait as ``wait``, if acknowledgements promise it at all."""
        if self.policy is not FlushPolicy.NONE:
            await self.wait(partition)

    def close(self) -> None:
        """Begin no more flushes."""
        self._threads.close()


class _LogFlushes:
    """Flushes one log as long as somebody waits; ``on_idle`` is called when nobody does.

    There are no tasks: each would take turns of the loop between a request and its answer.
    """

    def __init__(
        self, partition: Partition, threads: CallbackThreads, on_idle: Callable[[], None]
    ) -> None:
        self._partition: Final = partition
        self._threads: Final = threads
        self._on_idle: Final = on_idle
        self.waiting: list[_Ended] = []
        """Who came since the last flush began."""
        asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        served, self.waiting = self.waiting, []
        ended = partial(self._ended, served)
        try:
            self._threads.call(self._flush, ended)
        except RuntimeError as error:
            ended(error)

    def _flush(self) -> None:
        """Flush once, on a thread."""
        self._partition.log.flush_records()

    def _ended(self, served: list[_Ended], error: BaseException | None) -> None:
        try:
            # The last first: a connection then sends all its answers with the first one, in one
            # call.
            while served:
                served.pop()(error)
        finally:
            if served:  # one has raised: the others are not to blame, and wait for this alone
                asyncio.get_running_loop().call_soon(self._ended, served, error)
            elif self.waiting:
                self._begin()
            else:
                self._on_idle()
