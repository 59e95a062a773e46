"""Appends of the event loop, which never waits for a lock that another thread has.

A large commit, the cleaner or a slow disk holds a partition for as long as it takes. On the event
loop, waiting for it would keep all clients waiting, and so would compressing a large batch, or
writing down the leader epoch that an append begins. Kafka's brokers append on threads of requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidelog.env.event_loop import OwnThreads, ThreadCall, in_thread
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.partition import Partition

T = TypeVar("T")

_THREADS: Final = 4
_PATIENCE_S: Final = 0.05
"""How long a thread waits for one partition before another partition has its turn."""
_LAST_TURNS_S: Final = 1.0
"""How long the end of a broker waits for partitions that are held."""
_AT_ONCE: Final = 16
"""How many appends that have waited are made on the event loop before others have their turn."""


class Appends:
    """Calls what appends to a partition: at once, or on a thread if that takes long.

    Only the event loop uses it. What one partition is called for happens in the order of the calls.
    The threads are its own, one for a partition at a time, and they take turns: neither calls of
    other partitions nor other work wait for a partition that is held.
    """

    def __init__(self) -> None:
        self._threads: Final = OwnThreads(_THREADS, "append")
        self._queues: dict[Partition, _Queue] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def call(
        self,
        partition: Partition,
        append: Callable[[], T],
        *,
        is_long: bool = False,
    ) -> T | asyncio.Task[T]:
        """Call ``append``; return what it returns, or a task that will.

        It has to wait while others hold the partition, and for a thread if it ``is_long``. A task
        that is cancelled before its turn has come drops the call; later it waits for the end of the
        call.
        """
        # After a crash each log begins an epoch: with two syncs each, they took seconds together.
        is_long = is_long or partition.begins_epoch
        if not is_long:
            found = self.at_once(partition, append)
            if found is not None:
                return found[0]
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue(partition)
            self._begin(self._run(queue))
        waiting = ThreadCall(append)
        queue.calls.append((waiting, is_long))
        return self._begin(waiting.result())

    def at_once(self, partition: Partition, append: Callable[[], T]) -> tuple[T] | None:
        """Call ``append`` and return what it returns; None: others hold the partition, or wait."""
        if partition in self._queues:
            return None
        return partition.call_locked(append)

    async def run(self, partition: Partition, append: Callable[[], T]) -> T:
        """As ``call``, awaited."""
        found = self.call(partition, append)
        return await found if isinstance(found, asyncio.Task) else found

    def _begin(self, work: Any) -> asyncio.Task[Any]:  # noqa: ANN401 - a coroutine of any result
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the event loop itself holds tasks only weakly
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, queue: _Queue) -> None:
        try:
            while queue.calls and not self._is_closed:
                if queue.take_turn(0.0, _AT_ONCE, with_long=False):
                    # Free again: the rest need no thread, and the queue comes to an end.
                    await asyncio.sleep(0)
                else:
                    turn = partial(queue.take_turn, _PATIENCE_S, len(queue.calls))
                    await in_thread(turn, threads=self._threads)
        except RuntimeError as error:  # the system has no thread for it
            queue.fail(error)
        finally:
            del self._queues[queue.partition]
            for call, _ in queue.calls:
                call.drop()

    async def close(self) -> None:
        """Make no more calls that have to wait; drop those whose turn does not come in a moment."""
        if self._tasks:
            # What nobody waits for may be among them: a group that was left would have its member
            # again after the next start.
            await asyncio.wait(self._tasks, timeout=_LAST_TURNS_S)
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Queue:
    """The calls that wait for one partition; one thread at a time makes them."""

    def __init__(self, partition: Partition) -> None:
        self.partition: Final = partition
        self.calls: deque[tuple[ThreadCall[Any], bool]] = deque()
        """The calls that wait, each with whether it takes long."""

    def take_turn(self, patience_s: float, most: int, *, with_long: bool = True) -> bool:
        """Make up to ``most`` calls; return False at one that cannot be made here and now."""
        partition = self.partition
        for _ in range(min(most, len(self.calls))):
            is_long = self.calls[0][1]
            if is_long and not with_long:
                return False
            if partition.call_locked(self._make_next, patience_s) is None:
                return False
        return True

    def _make_next(self) -> None:
        # Not the one that was looked at: ``fail`` may have taken that meanwhile.
        self.calls.popleft()[0].make()

    def fail(self, reason: RuntimeError) -> None:
        """Make none of the calls that wait: who waits for them would do so for ever.

        The executor may still take the turn for which it had no thread, and finds none of them.
        """
        while self.calls:
            call, _ = self.calls.popleft()
            error = KafkaStorageError(f"{self.partition} was not appended to: {reason}")
            error.__cause__ = reason
            call.fail(error)
