"""Tasks that are cancelled in the middle of a transaction: its records are there once, or not."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome

import tidelog
from tidelog.errors import IllegalGeneration
from tidelog.staging.staged_file import list_staged

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from tests.conftest import Enumerated

PATIENCE_S = 60


class Gate(ThreadPoolExecutor):
    """The threads of a loop; one call, by its number, waits until it is opened."""

    def __init__(self) -> None:
        super().__init__(max_workers=2)
        self.closed_at = -1
        self.calls = 0
        self.is_reached = asyncio.Event()
        self.opened = threading.Event()
        self._loop = asyncio.get_running_loop()

    def close_at(self, number: int) -> None:
        """Let the call of this number wait, counted from now on."""
        self.closed_at, self.calls = number, 0
        self.is_reached.clear()
        self.opened.clear()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call on a thread."""
        number, self.calls = self.calls, self.calls + 1
        call = partial(fn, *args, **kwargs)
        return super().submit(
            partial(self._wait_and_call, call) if number == self.closed_at else call
        )

    def _wait_and_call(self, call: Callable[[], Any]) -> object:
        self._loop.call_soon_threadsafe(self.is_reached.set)
        assert self.opened.wait(PATIENCE_S)
        return call()


async def copy(logs: tidelog.AsyncLogs) -> None:
    """Copy what a group has not read yet from ``in`` to ``out``."""
    async with logs.reader("in", group="g") as reader, logs.transaction() as txn:
        async for record in reader.read():
            await txn.append("out", record.value)
        await reader.commit(txn)


async def copy_by_hand(logs: tidelog.AsyncLogs) -> None:
    """Do as ``copy`` with the calls of ``Logs``, each on a thread that cancellation leaves."""
    async with logs.reader("in", group="g") as reader:
        txn = await asyncio.to_thread(logs.logs.transaction)
        txn.is_left_to_owner = True  # a task that is cancelled drops it, without a warning
        async for record in reader.read():
            await asyncio.to_thread(txn.append, "out", record.value)
        await reader.commit(txn)
        await asyncio.to_thread(txn.commit)


@pytest.mark.parametrize("job", [copy, copy_by_hand])
def test_a_task_that_is_cancelled_at_any_of_its_calls_doubles_and_loses_nothing(
    job: Callable[[tidelog.AsyncLogs], Any], enumerated: Enumerated
) -> None:
    """Its transaction is committed whole or dropped whole, and the next reader goes by that.

    Where a cancelled task leaves the thread that commits, the commit and the next reader's race,
    and the later one is fenced.
    """
    home = ManagerHome(retention_ms=-1)
    numbers = fenced = 0

    async def main() -> None:
        nonlocal numbers, fenced
        logs = tidelog.AsyncLogs(tidelog.Logs(home.open()))
        asyncio.get_running_loop().set_default_executor(gate := Gate())
        for topic in ("in", "out"):
            await logs.create_topic(topic)
        while True:
            await logs.append_all("in", [b"%d" % (2 * numbers), b"%d" % (2 * numbers + 1)])
            gate.close_at(numbers)
            task = asyncio.ensure_future(job(logs))
            reached = asyncio.ensure_future(gate.is_reached.wait())
            await asyncio.wait([task, reached], return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            if not gate.is_reached.is_set():
                await task
                gate.close_at(-1)
                break
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0)
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            try:
                await copy(logs)
            except IllegalGeneration:
                fenced += 1
                await copy(logs)
            numbers += 1
        assert [int(one.value or b"") async for one in logs.read("out")] == [
            *range(2 * numbers + 2)
        ]
        async with logs.reader("in", group="g") as reader:
            assert list((await reader.committed()).values()) == [2 * numbers + 2]
        await logs.close()

    async def limited() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await main()

    asyncio.run(limited())
    if job is copy:
        assert (fenced, list_staged(home.fs, "/data")) == (0, [])
    enumerated("calls of a task that was cancelled at them", numbers, at_least=6)


def test_a_cancelled_commit_says_that_it_was_made() -> None:
    """The task ends when the commit has, however often it is cancelled."""
    home = ManagerHome()

    async def main() -> None:
        logs = tidelog.AsyncLogs(tidelog.Logs(home.open()))
        asyncio.get_running_loop().set_default_executor(gate := Gate())
        await logs.create_topic("t")
        made: list[tidelog.AsyncTransaction] = []

        async def write() -> None:
            async with logs.transaction("x") as txn:
                made.append(txn)
                await txn.append("t", b"a")
                gate.close_at(0)

        task = asyncio.ensure_future(write())
        await gate.is_reached.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert made[0].committed is not None
        assert [one.value async for one in logs.read("t")] == [b"a"]
        async with logs.transaction("x") as again:
            assert (again.txn, again.is_repeat) == ("x", True)
        await logs.close()

    asyncio.run(main())
