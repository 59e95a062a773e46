"""Waiting on the event loop for new records of some partitions.

Kafka: ``DelayedOperationPurgatory`` with ``DelayedFetch``.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import TYPE_CHECKING, Final

from tidelog.env.clock import MS_PER_S
from tidelog.log.listeners import LogListener

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tidelog.manager.partition import Partition


class Arrivals:
    """Who waits for which partitions. Only the event loop uses it.

    A partition is listened to from the first wait for it on, for as long as it exists.
    """

    def __init__(self) -> None:
        self._news: dict[Partition, _News] = {}

    @contextmanager
    def watching(self, partitions: Collection[Partition]) -> Iterator[Watch]:
        """Return what waits for news of partitions; news after this call are not missed."""
        watch = Watch()
        news = [self._of(partition) for partition in partitions]
        for one in news:
            one.watches.add(watch)
        try:
            yield watch
        finally:
            for one in news:
                one.watches.discard(watch)

    def _of(self, partition: Partition) -> _News:
        found = self._news.get(partition)
        if found is None:
            for gone in [one for one in self._news if one.has_ended]:
                del self._news[gone]
            found = self._news[partition] = _News()
            partition.add_listener(found)
            partition.call_at_end(found.ring)
        return found


class Watch:
    """Waits for news."""

    def __init__(self) -> None:
        self.news: Final = asyncio.Event()

    async def wait(self, timeout_ms: float) -> None:
        """Wait for news since the last wait, at most ``timeout_ms``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / MS_PER_S):
                await self.news.wait()
        self.news.clear()


class _News(LogListener):
    """Wakes those who wait for a partition; called on any thread."""

    def __init__(self) -> None:
        self.watches: set[Watch] = set()
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    def on_high_watermark_updated(self, high_watermark: int) -> None:  # noqa: ARG002 - any new one counts
        """Wake those who wait."""
        self.ring()

    def on_last_stable_offset_updated(self, last_stable_offset: int) -> None:  # noqa: ARG002 - as above
        """Wake those who wait."""
        self.ring()

    def ring(self) -> None:
        """Wake those who wait."""
        if not self.watches:
            return
        if get_ident() == self._thread:
            self._wake()
            return
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for watch in self.watches:
            watch.news.set()
