"""Programs with an event loop: it never waits for a disk or a lock, and nothing leaks."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, fill
from tests.machinery.transactions import append_transaction

import tidelog
from tidelog.embedded.async_logs import AsyncGroupReader
from tidelog.env.event_loop import (
    CHUNK_BYTES,
    CHUNK_ITEMS,
    CallbackThreads,
    LoopBell,
    in_chunks,
    in_thread,
)
from tidelog.env.waiting import ThreadBell
from tidelog.errors import InvalidArgument, KafkaStorageError, UnknownTopicOrPartition
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
    from pathlib import Path

    from tidelog.manager.log_manager import LogManager

PATIENCE_S = 60


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine; if it hangs, it fails."""

    async def limited() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await coroutine

    asyncio.run(limited())


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks and threads work until a condition holds."""
    for _ in range(PATIENCE_S * 1000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError


def listeners(logs: tidelog.AsyncLogs) -> tuple[object, ...]:
    """Return what waits for new records on event loops."""
    bell = logs.logs.manager.bell
    assert isinstance(bell, ThreadBell)
    return bell._listeners


def open_descriptors() -> set[str]:
    """Return the numbers of this process's descriptors."""
    return set(os.listdir("/dev/fd"))


async def wait_for_descriptors(expected: set[str]) -> None:
    """Wait until these are the process's descriptors; its own tasks have one open at times."""
    for _ in range(200):
        if open_descriptors() == expected:
            return
        await asyncio.sleep(0.01)
    assert open_descriptors() == expected


def test_a_follower_gets_what_other_tasks_and_threads_append(tmp_path: Path) -> None:
    """In order, from the log start on; it ends when nothing comes for as long as it said."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t", exist_ok=True)
            assert await logs.append("t", b"a", key=b"k") == (0, 0)
            seen: list[bytes | None] = []
            followed = logs.follow("t", idle_ms=200)
            async for record in followed:
                seen.append(record.value)
                if record.value == b"a":
                    await logs.append("t", b"b")
                if record.value == b"b":
                    await asyncio.to_thread(logs.logs.append, "t", b"c")
            assert seen == [b"a", b"b", b"c"]
            read = [r.value async for r in logs.read("t", 0, 1, isolation="read_committed")]
            assert read == [b"b", b"c"]

    run(main())


def test_a_waiting_follower_is_woken(tmp_path: Path) -> None:
    """By the append itself: it does not look again and again."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            async with aclosing(logs.follow("t")) as followed:
                following = asyncio.ensure_future(anext(followed))
                await until(lambda: bool(listeners(logs)))
                await logs.append("t", b"a")
                assert (await following).value == b"a"

    run(main())


def test_a_follower_and_a_group_pass_markers_behind_their_last_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have missed nothing when the log start is after the marker of what they read."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            partition = logs.logs.partition("t", 0)
            append_transaction(partition, b"a")

            async def wait(_bell: LoopBell, _seen: int, _ms: int) -> None:
                if partition.log.log_end_offset == 2:
                    logs.logs.manager.on_demand.delete_records(TopicPartition("t", 0), -1)
                    await logs.append("t", b"b")

            monkeypatch.setattr(LoopBell, "wait", wait)
            async with logs.reader("t", group="g", start="none") as reader:
                seen = [record.value async for record in reader.read()]
                assert reader.lag() == {("t", 0): 0}
                followed = logs.follow("t", idle_ms=50)
                assert [record.value async for record in followed] == [b"a", b"b"]
                seen += [record.value async for record in reader.read()]
            assert seen == [b"a", b"b"]

    run(main())


def test_a_follower_is_told_that_its_topic_is_deleted_or_the_logs_closed(tmp_path: Path) -> None:
    """At once, with the errors of the follower of ``Logs``."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            await logs.create_topic("u")
            deleted = asyncio.ensure_future(anext(logs.follow("t")))
            closed = asyncio.ensure_future(anext(logs.follow("u")))
            await asyncio.sleep(0.01)
            await asyncio.to_thread(logs.logs.delete_topic, "t")
            with pytest.raises(UnknownTopicOrPartition):
                await deleted
        with pytest.raises(KafkaStorageError):
            await closed

    run(main())


@pytest.mark.parametrize("word", ["committed", "nonsense"])
def test_an_unknown_isolation_is_an_error(tmp_path: Path, word: str) -> None:
    """For each kind of read."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            beside = tidelog.AsyncReadOnlyLogs(tidelog.open_directory_read_only(tmp_path))
            for which in (logs, beside):
                for method in (which.read, which.follow):
                    with pytest.raises(InvalidArgument, match="isolation"):
                        await anext(method("t", isolation=word))

    run(main())


def test_the_loop_goes_on_while_an_append_waits(tmp_path: Path) -> None:
    """For a lock that another thread holds, as for a disk."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            with logs.logs.partition("t", 0).lock:
                appending = asyncio.ensure_future(logs.append("t", b"a"))
                for _ in range(1000):
                    await asyncio.sleep(0)
                assert not appending.done()
            assert (await appending).offset == 0

    run(main())


def test_a_cancelled_append_has_ended_when_its_task_has(tmp_path: Path) -> None:
    """The record is in the log, and no thread works on."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            with logs.logs.partition("t", 0).lock:
                appending = asyncio.ensure_future(logs.append("t", b"a"))
                await asyncio.sleep(0.01)
                appending.cancel()
                await asyncio.sleep(0.01)
                appending.cancel()
                await asyncio.sleep(0.01)
                assert not appending.done()
            with pytest.raises(asyncio.CancelledError):
                await appending
            assert [r.value async for r in logs.read("t")] == [b"a"]

    run(main())


def test_cancelled_followers_leave_nothing_behind(tmp_path: Path) -> None:
    """No listener, descriptor or thread, at whichever moment they are cancelled."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            count = await logs.append_all("t", (b"%d" % n for n in range(2_000)))
            assert count == 2_000
            beside = tidelog.AsyncReadOnlyLogs(tidelog.open_directory_read_only(tmp_path))

            async def follow(which: tidelog.AsyncLogs | tidelog.AsyncReadOnlyLogs) -> None:
                async for _ in which.follow("t"):
                    await asyncio.sleep(0)

            async def read_as_group() -> None:
                async with logs.reader("t", group="g") as reader:
                    async for _ in reader:
                        await asyncio.sleep(0)

            await asyncio.gather(*(logs.append("t", b"x") for _ in range(40)))
            before = open_descriptors()
            for turns in range(0, 3_000, 150):
                tasks = [asyncio.ensure_future(follow(which)) for which in (logs, beside)]
                tasks.append(asyncio.ensure_future(read_as_group()))
                for _ in range(turns):
                    await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                assert {type(one) for one in ended} == {asyncio.CancelledError}
                assert listeners(logs) == ()
                await wait_for_descriptors(before)

    threads = threading.active_count()
    run(main())
    assert threading.active_count() == threads


def test_a_follower_that_is_dropped_leaves_nothing_behind(tmp_path: Path) -> None:
    """As after a ``break`` out of its loop, without ``aclosing``."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            await logs.append_all("t", [b"a", b"b"])
            async for _ in logs.follow("t"):
                break
            await until(lambda: not listeners(logs))

    run(main())


def test_records_of_any_iterable_are_appended_in_batches(tmp_path: Path) -> None:
    """Asynchronous ones too; they are durable when the call returns."""

    async def records() -> AsyncIterator[bytes]:
        for number in range(1_201):
            yield b"%d" % number

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            assert await logs.append_all("t", records(), codec=tidelog.Codec.LZ4) == 1_201
            log = logs.logs.partition("t", 0).log
            assert (log.recovery_point, log.log_end_offset) == (1_201, 1_201)
            with pytest.raises(InvalidArgument):
                await logs.append_all("t", [5])  # type: ignore[list-item]  # a wrong type is the case

    run(main())


def test_closing_leaves_out_the_rest_of_a_call_that_failed(tmp_path: Path) -> None:
    """A caller that calls ``append_all`` again would have those records twice."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            with pytest.raises(InvalidArgument):
                await logs.append_all("t", [b"a", 5])  # type: ignore[list-item]  # a wrong type is the case
            await logs.append_all("t", [b"a", b"b"])
        async with tidelog.open_async(tmp_path) as logs:
            assert [record.value async for record in logs.read("t")] == [b"a", b"b"]

    run(main())


def test_a_group_reader_looks_for_the_end_of_a_partition_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take a request to the program that has the logs, or the reopening of one."""
    threads: list[int] = []
    end_of = AsyncGroupReader._end_of

    def noted(reader: AsyncGroupReader, key: TopicPartition) -> int:
        threads.append(threading.get_ident())
        return end_of(reader, key)

    monkeypatch.setattr(AsyncGroupReader, "_end_of", noted)

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            await logs.append("t", b"a")
            async with logs.reader("t", group="g") as reader:
                assert [record.value async for record in reader.read()] == [b"a"]
        assert threads
        assert threading.get_ident() not in threads

    run(main())


def test_what_another_process_writes_is_followed_from_its_files(tmp_path: Path) -> None:
    """Without a lock, up to the high watermark that its flushes publish."""

    async def main() -> None:
        logs = tidelog.open(tmp_path)
        logs.create_topic("t")
        logs.append_all("t", [b"a", b"b"])
        beside = tidelog.AsyncReadOnlyLogs(tidelog.open_directory_read_only(tmp_path))
        assert [record.value async for record in beside.read("t", 0, 1)] == [b"b"]
        seen: list[bytes | None] = []
        async for record in beside.follow("t", start_offset=1, idle_ms=1_000):
            seen.append(record.value)
            if record.value == b"b":
                await asyncio.to_thread(logs.append_all, "t", [b"c"])
            if record.value == b"c":
                break
        assert seen == [b"b", b"c"]
        logs.close()

    run(main())


def test_a_position_moves_as_its_record_is_handed_over(tmp_path: Path) -> None:
    """Not when it is read ahead: a commit covers what the program has seen, and no more."""

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            await logs.append_all("t", [b"%d" % number for number in range(10)])
            async with logs.reader("t", group="g") as reader:
                async with aclosing(reader.read()) as records:
                    async for record in records:
                        if record.offset == 3:
                            break
                await reader.commit()
                assert await reader.committed() == {TopicPartition("t", 0): 4}
            async with logs.reader("t", group="g") as reader:
                with logs.logs.transaction() as txn:
                    offsets = [record.offset async for record in reader.read()]
                    await reader.commit(txn)
                assert offsets == list(range(4, 10))
                reader.seek("t", 0, 9)
                assert [record.offset async for record in reader.read(idle_ms=1)] == [9]
                await reader.rewind()
                assert reader.positions == {TopicPartition("t", 0): 10}
            with pytest.raises(InvalidArgument, match="closed"):
                await anext(reader.read())

    run(main())


def noted(items: Iterable[int], taken: list[int]) -> Generator[int, None, None]:
    """Yield items; ``taken`` gets each as it is taken."""
    for item in items:
        taken.append(item)
        yield item


@pytest.mark.parametrize(("size", "most"), [(1, CHUNK_ITEMS), (CHUNK_BYTES // 4, 4)])
def test_no_more_is_read_ahead_than_a_chunk(size: int, most: int) -> None:
    """A consumer that is slow keeps few items waiting, and few bytes."""

    async def main() -> None:
        taken: list[int] = []
        async with aclosing(in_chunks(noted(range(5_000), taken), lambda _: size)) as chunks:
            assert await anext(chunks) == 0
            assert len(taken) == most
            async for number in chunks:
                assert len(taken) <= number + most

    run(main())


def test_an_error_comes_after_the_items_before_it() -> None:
    """As from the generator itself, and once."""

    def items() -> Generator[int, None, None]:
        yield from range(3)
        raise KafkaStorageError("the disk failed")

    async def main() -> None:
        chunks = in_chunks(items(), lambda _: 1)
        assert [await anext(chunks) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(KafkaStorageError):
            await anext(chunks)
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)

    run(main())


def test_what_a_cancelled_task_has_opened_is_closed_again(tmp_path: Path) -> None:
    """The directory is free once the task has ended."""
    go_on = threading.Event()

    async def main() -> None:
        def open_late() -> tidelog.Logs:
            go_on.wait(PATIENCE_S)
            return tidelog.open(tmp_path)

        opening = asyncio.ensure_future(in_thread(open_late, undo=tidelog.Logs.close))
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with suppress(asyncio.CancelledError):
            await opening
        tidelog.open(tmp_path).close()

    run(main())
    assert go_on.is_set()


def briefly(home: ManagerHome) -> LogManager:
    """Open the directory as a command does, whose close raises what it meets; append a record."""
    manager = home.open_as(Loading.FIRST_USE)
    manager.create_topic("t")
    fill(manager, "t", 0, 1)
    return manager


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, asyncio.CancelledError])
def test_an_error_of_the_body_is_not_replaced_by_one_of_closing(kind: type[BaseException]) -> None:
    """As without an event loop; that of closing is logged, and the locks are released."""
    home = ManagerHome()
    manager = briefly(home)

    async def main() -> None:
        home.fs.fail("sync", "t-0/00000000000000000000.log", OSError(errno.EIO, "the disk failed"))
        async with tidelog.AsyncLogs(tidelog.Logs(manager)):
            raise kind

    with pytest.raises(kind):
        run(main())
    assert not home.is_marked()
    home.fs.lock("/data/.lock").release()


def test_an_error_of_closing_is_raised_if_the_body_had_none() -> None:
    """Not everything that was appended may be durable."""
    home = ManagerHome()
    manager = briefly(home)

    async def main() -> None:
        home.fs.fail("sync", "t-0/00000000000000000000.log", OSError(errno.EIO, "the disk failed"))
        async with tidelog.AsyncLogs(tidelog.Logs(manager)):
            pass

    with pytest.raises(KafkaStorageError, match="the disk failed"):
        run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_a_task_that_is_cancelled_while_it_closes_the_logs_closes_them_first(
    *, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the program would end, or open the directory again, in the middle of it."""
    home = ManagerHome()
    manager = briefly(home)
    is_closing, may_close = threading.Event(), threading.Event()
    close, shutdown = manager.close, manager.shutdown

    def when_allowed(end: Callable[[], None]) -> Callable[[], None]:
        def wait_and_end() -> None:
            is_closing.set()
            may_close.wait(PATIENCE_S)
            end()

        return wait_and_end

    monkeypatch.setattr(manager, "close", when_allowed(close))
    monkeypatch.setattr(manager, "shutdown", when_allowed(shutdown))

    async def use() -> None:
        async with tidelog.AsyncLogs(tidelog.Logs(manager)):
            if fails:
                raise ValueError

    async def main() -> None:
        task = asyncio.create_task(use())
        await until(is_closing.is_set)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        may_close.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert home.is_marked()
    home.fs.lock("/data/.lock").release()


def test_asyncio_is_loaded_when_it_is_used(tmp_path: Path) -> None:
    """Programs without an event loop do not pay for one."""
    code = (
        f"import sys, tidelog; tidelog.open({str(tmp_path)!r}).close(); "
        "sys.exit('asyncio' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_closing_a_reader_does_not_hold_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for those who read the positions, so it does so on a thread."""
    closed_on: list[threading.Thread] = []
    close = AsyncGroupReader.close

    def watched(reader: AsyncGroupReader) -> None:
        closed_on.append(threading.current_thread())
        close(reader)

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            async with logs.reader("t", group="g"):
                pass

    monkeypatch.setattr(AsyncGroupReader, "close", watched)
    run(main())

    assert len(closed_on) == 1
    assert closed_on[0] is not threading.main_thread()


def test_records_given_to_a_task_may_be_in_one_buffer(tmp_path: Path) -> None:
    """Each is taken before the next one is asked for."""
    buffer = bytearray(1)

    async def filled() -> AsyncIterator[Any]:
        for number in range(3):
            buffer[0] = number
            yield buffer

    async def main() -> None:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            await logs.append_all("t", filled())
            async with aclosing(logs.read("t")) as records:
                assert [one.value async for one in records] == [b"\x00", b"\x01", b"\x02"]

    run(main())


def test_the_loop_is_notified_how_each_call_on_a_thread_ends() -> None:
    """Calls run at the same time, and those that come after the threads were closed never."""

    async def test() -> None:
        threads, ends = (
            CallbackThreads(2, "test"),
            asyncio.Queue[tuple[str, BaseException | None]](),
        )
        both = threading.Barrier(2, timeout=10)

        def fail() -> None:
            raise KafkaStorageError("the disk failed")

        def call(name: str, function: Callable[[], object]) -> None:
            threads.call(function, lambda error: ends.put_nowait((name, error)))

        call("first", both.wait)
        call("second", both.wait)
        assert {await ends.get(), await ends.get()} == {("first", None), ("second", None)}
        call("failed", fail)
        assert isinstance((await ends.get())[1], KafkaStorageError)
        threads.close()
        call("late", both.wait)
        assert isinstance((await ends.get())[1], asyncio.CancelledError)

    run(test())
