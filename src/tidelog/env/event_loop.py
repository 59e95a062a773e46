"""What asyncio programs need: blocking calls on a thread, and waits on their event loop.

The threads are those of the loop's default executor, which ``asyncio.run`` shuts down.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tidelog.env.addresses import naming_address
from tidelog.env.clock import MS_PER_S

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
    from typing import Self

    from tidelog.env.waiting import Bell

    _Ended = Callable[[BaseException | None], None]
    _Call = tuple[Callable[[], object], _Ended]

T = TypeVar("T")

CHUNK_ITEMS: Final = 500
"""Items of an iterator that are taken on a thread at a time."""
CHUNK_BYTES: Final = 1 << 20
"""Bytes after which no more are taken at that time."""


async def in_thread(
    function: Callable[[], T],
    *,
    undo: Callable[[T], object] | None = None,
    threads: OwnThreads | None = None,
) -> T:
    """Call ``function`` on a thread and return its result, while the event loop runs on.

    ``threads``: its threads, None: those of the loop.

    A call that runs cannot be interrupted. So a task that is cancelled meanwhile waits for its end,
    drops the result, or passes it to ``undo`` on a thread, and raises CancelledError.
    """
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(threads, partial(copy_context().run, function))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await _ended(future)
        if undo is not None and future.exception() is None:
            await _ended(loop.run_in_executor(None, undo, future.result()))
        raise


class OwnThreads(ThreadPoolExecutor):
    """Threads for calls that must not wait for other calls; their owner shuts them down.

    Args: how many threads, and what their names begin with.
    """


class CallbackThreads:
    """Threads that make calls for the event loop, which is notified when one ends.

    Cheaper than an executor, which completes a future for each call, too. There are up to
    ``most`` threads, which end with the process, and with ``close``.
    """

    def __init__(self, most: int, name: str) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._most: Final = most
        self._name: Final = name
        self._calls: Final[SimpleQueue[_Call | None]] = SimpleQueue()
        self._busy = self._count = 0
        self._is_closed = False

    def call(self, function: Callable[[], object], ended: _Ended) -> None:
        """Call ``function`` on a thread, then ``ended`` on the event loop, perhaps with its error.

        With CancelledError where the threads were closed. Raises RuntimeError if the system has no
        thread for it.
        """
        if self._is_closed:
            self._loop.call_soon(ended, asyncio.CancelledError())
            return
        if self._busy >= self._count < self._most:
            name = f"{self._name}_{self._count}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
            self._count += 1
        self._busy += 1
        self._calls.put((function, ended))

    def close(self) -> None:
        """Make no more calls than those that were asked for."""
        self._is_closed = True
        for _ in range(self._count):
            self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, ended = call
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._ended, ended, _error_of(function))

    def _ended(self, ended: _Ended, error: BaseException | None) -> None:
        self._busy -= 1
        ended(error)


def _error_of(function: Callable[[], object]) -> BaseException | None:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        return error
    return None


class ThreadCall(Generic[T]):
    """A call that is made once its turn has come, on any thread, while a task waits for it."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function: Callable[[], T] | None = function
        self._result: Future[T] = Future()

    def make(self) -> None:
        """Call the function, unless nobody waits any more."""
        if not self._result.set_running_or_notify_cancel():
            return
        assert self._function is not None
        try:
            result = self._function()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._result.set_exception(error)
        else:
            self._result.set_result(result)

    def drop(self) -> bool:
        """Let the call not be made; return False if it has begun."""
        is_dropped = self._result.cancel()
        if is_dropped:
            self._function = None  # what it holds may be large
        return is_dropped

    def fail(self, error: BaseException) -> None:
        """Raise an error where the call is waited for, instead of making it."""
        if self._result.set_running_or_notify_cancel():
            self._result.set_exception(error)

    async def result(self) -> T:
        """Await the result; a task that is cancelled drops the call, or waits for its end."""
        waiting = asyncio.wrap_future(self._result)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not self.drop():
                await _ended(waiting)
            raise


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work that has to be done whole: a task that is cancelled meanwhile waits for its end.

    It raises CancelledError then, and drops the result. A loop that closes cancels the work itself.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _ended(task)
        raise


async def _ended(future: asyncio.Future[T]) -> None:
    """Wait for the end of a future, however often this task is cancelled meanwhile."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    future.exception()  # it counts as retrieved; else asyncio logs it


async def in_chunks(
    items: Generator[T, None, None], size_of: Callable[[T], int]
) -> AsyncGenerator[T, None]:
    """Yield the items of a generator that blocks, which runs on a thread, a chunk at a time.

    No more than one chunk is taken ahead of the consumer: ``CHUNK_ITEMS`` or, by ``size_of``,
    ``CHUNK_BYTES`` and an item. The generator is closed when this ends, or is closed.
    """
    chunks = _Chunks(items, size_of)
    with closing(items):
        while not chunks.is_done:
            for item in await in_thread(chunks.take):
                yield item


class _Chunks(Generic[T]):
    """Takes items of an iterator by the list; an error is raised after the items before it."""

    def __init__(self, items: Generator[T, None, None], size_of: Callable[[T], int]) -> None:
        self._items: Generator[T, None, None] = items
        self._size_of = size_of
        self._error: Exception | None = None
        self.is_done = False

    def take(self) -> list[T]:
        """Return the next items."""
        if self._error is not None:
            raise self._error
        found: list[T] = []
        size = 0
        try:
            for item in self._items:
                found.append(item)
                size += self._size_of(item)
                if len(found) >= CHUNK_ITEMS or size >= CHUNK_BYTES:
                    return found
            self.is_done = True
        except Exception as error:
            if not found:
                raise
            self._error = error
        return found


class LoopBell:
    """Waits for a ``Bell`` on the event loop of this task, without a thread; use it in a ``with``.

    ``rings`` and ``wait`` are those of the bell.
    """

    def __init__(self, bell: Bell) -> None:
        self._bell: Final = bell
        self._loop: Final = asyncio.get_running_loop()
        self._event: Final = asyncio.Event()
        self._is_posted = False

    def __enter__(self) -> Self:
        self._bell.add_listener(self._post)
        return self

    def __exit__(self, *_: object) -> None:
        self._bell.remove_listener(self._post)

    @property
    def rings(self) -> int:
        """Number of rings so far; read it before checking the condition that is waited for."""
        return self._bell.rings

    async def wait(self, seen: int, timeout_ms: int) -> None:
        """Wait at most ``timeout_ms`` for a ring after the first ``seen`` ones."""
        self._event.clear()
        if self._bell.rings != seen:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / MS_PER_S):
                await self._event.wait()

    def _post(self) -> None:
        """Wake the loop, on any thread; rings before it wakes up count as one."""
        if not self._is_posted:
            self._is_posted = True
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_posted = False
        self._event.set()


def listen_on(host: str, port: int, backlog: int) -> socket.socket:
    """Return a socket that listens; an OSError names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with naming_address(host, port):
        listener = socket.create_server((host, port), family=family, backlog=backlog)
    # Connections inherit it. Without it the second of two responses waits for the client's delayed
    # acknowledgement of the first, 40 ms; asyncio sets it only where the protocol of the socket is
    # named, which here it is not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def sleep(ms: int) -> None:
    """Suspend this task."""
    await asyncio.sleep(ms / MS_PER_S)


class LoopTimers:
    """Runs tasks later on the event loop of this task, one at a time.

    The part of ``Scheduler`` that what lives on the loop needs.
    """

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()

    def schedule(
        self, name: str, task: Callable[[], object], *, delay_ms: int = 0
    ) -> asyncio.TimerHandle:
        """Run ``task`` once after ``delay_ms``; ``name`` is for the scheduler that tests use."""
        del name
        return self._loop.call_later(delay_ms / MS_PER_S, task)
