"""Processes that are forked while a data directory is open: it belongs to the one that opened it.

``multiprocessing`` forks by default until Python 3.14, and so does Spark to start Java.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.crash.children import in_child

import tidelog
from tidelog.env.forks import OfOneProcess
from tidelog.env.scheduler import ThreadScheduler
from tidelog.env.system_files import SYSTEM_FILES, SystemFile
from tidelog.env.waiting import ThreadBell
from tidelog.errors import DirectoryLocked, ForkedProcess, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETTINGS = {"log.flush.scheduler.interval.ms": "3600000"}


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[tidelog.Logs]:
    """Yield an open directory with records in two topics, each in two segments."""
    with tidelog.open(tmp_path / "data", config=SETTINGS) as opened:
        for topic in ("t", "u"):
            opened.create_topic(topic)
            opened.append_all(topic, [b"%d" % number for number in range(5)])
            opened.partition(topic, 0).log.roll()
            opened.append(topic, b"5")
        opened.flush()
        yield opened


def contents(top: Path) -> dict[str, tuple[int, bytes]]:
    """Return inode and bytes of each file in a directory."""
    files = sorted(path for path in top.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_ino, path.read_bytes()) for path in files}


def open_files_of(top: Path) -> list[str]:
    """Return the files of a directory of which this process has descriptors, as Linux knows."""
    table = Path("/proc/self/fd")
    links = sorted(table.iterdir()) if table.exists() else []
    found = []
    for link in links:
        with suppress(OSError):
            found.append(str(link.readlink()))
    return sorted(name for name in found if name.startswith(str(top)))


def errors_of(uses: dict[str, Callable[[], object]]) -> dict[str, str]:
    """Return what each use raises: the class of the error, or that it raised none."""
    found = {}
    for name, use in uses.items():
        try:
            use()
        except BaseException as error:  # noqa: BLE001 - its class is the result
            found[name] = type(error).__name__
        else:
            found[name] = "no error"
    return found


def run_program(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, with a data directory as its argument."""
    script = path.parent / "program.py"
    script.write_text(program, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(tidelog.__file__).parents[1])}
    command = [sys.executable, str(script), str(path)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


@contextmanager
def uses_of(logs: tidelog.Logs) -> Iterator[dict[str, Callable[[], object]]]:
    """Yield a use of every kind of owner, each opened here and now."""
    manager, partition, txn = logs.manager, logs.partition("t", 0), logs.transaction("later")
    log, reader, writer = partition.log, logs.reader("u", group="g"), logs.writer("t")
    beside, cleaner = tidelog.AsyncLogs(logs), manager.cleaning.cleaner
    assert cleaner is not None
    reading, following = logs.read("t"), logs.follow("u")
    assert (next(reading).value, next(following).value) == (b"0", b"0")
    fetched = log.read(5)
    writer.append(b"gathered")
    txn.append("t", b"staged")
    yield {
        "append": lambda: logs.append("t", b"no"),
        "create": lambda: logs.create_topic("no"),
        "topics": logs.topics,
        "flush": logs.flush,
        "read": lambda: list(logs.read("t")),
        "metrics": logs.metrics,
        "retain": manager.on_demand.retain,
        "manager": lambda: manager.delete_topic("t"),
        "live_dirs": lambda: manager.live_dirs,
        "partition": lambda: partition.append_records([(1, None, b"no", ())]),
        "log": lambda: log.append_records([(1, None, b"no", ())]),
        "log end": lambda: log.log_end_offset,
        "log deletion": log.delete,
        "truncation": lambda: log.truncate_to(0),
        "log flush": log.flush,
        "writer": lambda: writer.append(b"no"),
        "writer flush": writer.flush,
        "txn append": lambda: txn.append("t", b"no"),
        "txn commit": txn.commit,
        "positions": logs.group_positions,
        "reader": lambda: next(reader.read()),
        "commit": reader.commit,
        "iterator": lambda: list(reading),
        "follower": lambda: list(following),
        "slice": fetched.read,
        "asyncio": lambda: asyncio.run(beside.append("t", b"no")),
        "cleaner": cleaner.startup,
        "pickle": lambda: pickle.dumps(logs),
    }
    txn.abort()
    fetched.close()


def test_every_use_in_a_child_is_refused_by_name(logs: tidelog.Logs, tmp_path: Path) -> None:
    """The error says which process owns the object; the child has changed no file."""
    with uses_of(logs) as uses:
        before = contents(tmp_path)

        found = in_child(lambda: errors_of(uses))

        assert found == {**dict.fromkeys(uses, "ForkedProcess"), "pickle": "InvalidArgument"}
        assert contents(tmp_path) == before

    def owner() -> tuple[Any, ...]:
        with pytest.raises(ForkedProcess) as refused:
            logs.topics()
        return *refused.value.args, "tidelog.join" in str(refused.value)

    assert in_child(owner) == ("Logs", os.getpid(), True)


def test_nothing_is_written_deleted_or_unlocked_by_closing_in_a_child(
    logs: tidelog.Logs, tmp_path: Path
) -> None:
    """Leaving the with, normally or by an error, does nothing there; the parent continues."""
    writer, reader, txn = logs.writer("t"), logs.reader("u", group="g"), logs.transaction("id")
    manager, log, beside = logs.manager, logs.partition("t", 0).log, tidelog.AsyncLogs(logs)
    cleaner, scheduler = manager.cleaning.cleaner, logs._scheduler
    assert cleaner is not None
    assert isinstance(scheduler, ThreadScheduler)
    writer.append(b"gathered")
    txn.append("t", b"staged")
    before = contents(tmp_path)

    def close_all() -> list[str]:
        error = ValueError("of the body")
        for owner in (txn, writer, reader, logs, logs):
            owner.__exit__(None, None, None)
            owner.__exit__(ValueError, error, None)
        manager.__exit__(None, None, None)
        for close in (txn.abort, reader.close, log.close, log.close_handlers, logs.close):
            close()
        for close in (manager.stop_background, manager.shutdown, manager.close, manager.abandon):
            close()
        cleaner.shutdown()
        scheduler.shutdown()
        asyncio.run(beside.close())
        asyncio.run(beside.__aexit__(None, None, None))
        return open_files_of(tmp_path)

    assert in_child(close_all) == []
    assert contents(tmp_path) == before
    with pytest.raises(DirectoryLocked):
        tidelog.open(tmp_path / "data")
    writer.flush()
    txn.commit()
    assert [record.value for record in logs.read("t", 0, 6)] == [b"gathered", b"staged"]


def test_a_lock_that_another_thread_held_stops_no_child(logs: tidelog.Logs, tmp_path: Path) -> None:
    """A log, a partition, the manager and the lock registry are in use when the process forks."""
    partition, manager = logs.partition("t", 0), logs.manager
    log = partition.log
    beside = tidelog.open_directory_read_only(tmp_path / "data")
    is_held, is_over = threading.Event(), threading.Event()

    def hold_all() -> None:
        from tidelog.env import locks
        from tidelog.env.descriptors import PROCESS_DESCRIPTORS

        with (
            manager._registry.change_lock,
            manager._registry._lock,
            manager._topics._lock,
            partition.lock,
            log._state.lock,
            locks._registry.lock,
            PROCESS_DESCRIPTORS._lock,
            logs.groups._lock,
            manager._registry.bell._condition,  # type: ignore[attr-defined]  # of a ThreadBell
        ):
            is_held.set()
            is_over.wait()

    thread = threading.Thread(target=hold_all)
    with uses_of(logs) as uses:
        thread.start()
        is_held.wait()
        try:
            found = in_child(lambda: errors_of(uses))
            other = in_child(lambda: use_another(tmp_path / "other"))
            read = in_child(lambda: len(list(beside.read("t"))))
            here, there = repr([logs, log, partition]), in_child(lambda: repr([logs, log, beside]))
        finally:
            is_over.set()
            thread.join()
    assert set(found.values()) == {"ForkedProcess", "InvalidArgument"}
    assert other == [b"of the child"]
    assert read == 6
    # Reprs wait for no lock, neither in the child nor in the process that the locks belong to.
    assert "log_end_offset=6" in here
    pid = os.getpid()
    assert there == f"[<Logs of process {pid}>, <Log of process {pid}>, {beside!r}]"


def test_what_is_not_an_owner_gets_new_locks_in_a_child(tmp_path: Path) -> None:
    """A file that is read, a bell, and a scheduler that ends do not wait for the parent's threads.

    A bell rings for no listener of the parent's, such as its event loop.
    """
    bell, scheduler = ThreadBell(), ThreadScheduler(1)
    scheduler.start()
    file = SYSTEM_FILES.open(str(tmp_path / "file"), "w")
    assert isinstance(file, SystemFile)
    file.pwrite(b"bytes", 0)
    is_held, is_over = threading.Event(), threading.Event()
    heard: list[str] = []
    bell.add_listener(lambda: heard.append("a ring"))

    def hold_all() -> None:
        with bell._condition, scheduler._wake, file._lock:
            is_held.set()
            is_over.wait()

    def use_all() -> tuple[bool, bytes, list[str]]:
        bell.ring()
        scheduler.schedule("never", bell.ring)
        scheduler.shutdown()
        held = file.hold()
        found = held.pread(5, 0)
        held.close()
        return bell.wait(bell.rings, 1), found, heard

    thread = threading.Thread(target=hold_all)
    thread.start()
    is_held.wait()
    try:
        used = in_child(use_all)
    finally:
        is_over.set()
        thread.join()
        file.close()
        scheduler.shutdown()
    assert used == (False, b"bytes", [])


def test_what_an_owner_holds_is_not_finalized_in_a_child() -> None:
    """A finalizer of the parent's could close, write or warn there."""
    ended: list[str] = []

    class Held:
        def __del__(self) -> None:
            ended.append("finalized")

    class Owner(OfOneProcess):
        def __init__(self) -> None:
            self.held = Held()

    owner = Owner()

    def look() -> list[str]:
        gc.collect()
        return ended

    assert in_child(look) == []
    assert owner.held is not None


def test_a_descriptor_that_somebody_else_has_closed_stops_no_step_after_a_fork(
    tmp_path: Path,
) -> None:
    """As of a program that closes whatever it has inherited; the child gets its error all the same.

    In a process of its own, since Python prints what a step after a fork raises.
    """
    program = """
import os, sys, warnings
import tidelog
warnings.simplefilter("ignore")
logs = tidelog.open(sys.argv[1])
for number in range(8):
    logs.create_topic(f"t{number}")
    logs.append(f"t{number}", b"a")
os.closerange(3, 256)
if os.fork() == 0:
    raised = []
    for number in range(8):
        try:
            logs.append(f"t{number}", b"b")
        except tidelog.errors.ForkedProcess:
            raised.append(number)
    os._exit(len(raised))
print(os.wait()[1] >> 8, flush=True)
os._exit(0)
"""
    done = run_program(program, tmp_path / "data")

    assert (done.stdout.split(), done.stderr) == (["8"], "")


@contextmanager
def appending(logs: tidelog.Logs, partitions: int) -> Iterator[list[list[int]]]:
    """Append to each partition of a topic, and flush, on threads; yield the offsets they got."""
    acked: list[list[int]] = [[] for _ in range(partitions)]
    logs.create_topic("many", partitions)
    is_over = threading.Event()

    def append(partition: int) -> None:
        while not is_over.is_set():
            acked[partition].append(logs.append("many", b"mine", partition=partition).offset)

    def flush() -> None:
        while not is_over.is_set():
            logs.flush()

    threads = [threading.Thread(target=append, args=[number]) for number in range(partitions)]
    threads.append(threading.Thread(target=flush))
    for thread in threads:
        thread.start()
    try:
        yield acked
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("way", ["fork", "exec"])
def test_a_fork_during_appends_on_other_threads_changes_nothing(
    logs: tidelog.Logs, way: str
) -> None:
    """Whatever they do at that moment; a hook between fork and exec, as PySpark's, sees no more."""

    def use() -> set[str]:
        found = errors_of({"append": lambda: logs.append("many", b"no"), "flush": logs.flush})
        logs.close()
        return set(found.values())

    with appending(logs, 2) as acked, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        for _ in range(12):
            if way == "fork":
                assert in_child(use) == {"ForkedProcess"}
            else:
                subprocess.run(["true"], check=True, preexec_fn=use)
    for number, offsets in enumerate(acked):
        found = [record.offset for record in logs.read("many", number)]
        assert offsets == found == list(range(len(found)))


def test_a_fork_in_a_coroutine_leaves_the_loop_of_the_parent(tmp_path: Path) -> None:
    """The child's own loop is refused the logs; the parent's follows on."""

    def child(logs: tidelog.AsyncLogs, path: Path) -> tuple[str, int]:
        async def read() -> int:
            beside = tidelog.AsyncReadOnlyLogs(tidelog.open_directory_read_only(path))
            return len([record async for record in beside.read("t")])

        refused = errors_of({"append": lambda: asyncio.run(logs.append("t", b"no"))})
        return refused["append"], asyncio.run(read())

    async def main() -> tuple[Any, list[bytes | None]]:
        async with tidelog.open_async(tmp_path) as logs:
            await logs.create_topic("t")
            await logs.append("t", b"0")
            await logs.flush()  # so that the checkpoints let a reader beside see it
            following = logs.follow("t")
            found = [(await anext(following)).value]
            forked = in_child(lambda: child(logs, tmp_path))
            await logs.append("t", b"1")
            found.append((await anext(following)).value)
            await following.aclose()
        return forked, found

    assert asyncio.run(main()) == (("ForkedProcess", 1), [b"0", b"1"])


def use_another(path: Path) -> list[bytes | None]:
    """Append to another directory, close it, and read it."""
    with tidelog.open(path) as logs:
        logs.create_topic("t", exist_ok=True)
        logs.append("t", b"of the child")
    return [record.value for record in tidelog.open_directory_read_only(path).read("t")]


def test_a_child_may_open_another_directory_and_not_the_same(
    logs: tidelog.Logs, tmp_path: Path
) -> None:
    """The error for the same one names the parent, also to a grandchild."""

    def open_again() -> int:
        with pytest.raises(DirectoryLocked) as refused:
            tidelog.open(tmp_path / "data")
        return refused.value.pid

    def both() -> tuple[Any, ...]:
        mine = tidelog.open(tmp_path / "other")
        mine.create_topic("t")
        theirs = in_child(lambda: (open_again(), *errors_of({"a": mine.topics, "b": logs.topics})))
        mine.append("t", b"of the child")
        mine.close()
        return theirs, open_again(), use_another(tmp_path / "other")

    assert in_child(both) == (
        (os.getpid(), "a", "b"),
        os.getpid(),
        [b"of the child", b"of the child"],
    )
    assert logs.append("t", b"continues").offset == 6


def test_what_only_reads_goes_on_in_a_child(logs: tidelog.Logs, tmp_path: Path) -> None:
    """An iterator continues where it was, and another process reads the same."""
    beside = tidelog.open_directory_read_only(tmp_path / "data")
    one = tidelog.open_read_only(tmp_path / "data/u-0")
    reading = iter(beside.read("t"))
    assert next(reading).value == b"0"

    def read() -> list[list[bytes | None]]:
        return [[record.value for record in them] for them in (reading, one.records(4))]

    assert in_child(read) == [[b"1", b"2", b"3", b"4", b"5"], [b"4", b"5"]]
    assert [record.value for record in reading] == [b"1", b"2", b"3", b"4", b"5"]
    assert logs.append("t", b"continues").offset == 6


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.slow
def test_a_pool_of_processes_is_refused_the_logs_of_its_parent(method: str, tmp_path: Path) -> None:
    """By fork each use is refused; by the others the logs cannot be handed over at all."""
    program = f"""
import multiprocessing, os, sys, warnings
from concurrent.futures import ProcessPoolExecutor
import tidelog
warnings.simplefilter("ignore")
def work(number):
    return logs.append("t", b"%d" % number)
def at(path):
    return tidelog.open_directory_read_only(path).offsets("t", 0).log_end_offset
if __name__ == "__main__":
    logs = tidelog.open(sys.argv[1])
    logs.create_topic("t")
    context = multiprocessing.get_context({method!r})
    function = work if {method!r} == "fork" else logs.append
    with context.Pool(2) as pool, ProcessPoolExecutor(2, context) as executor:
        for map_to_processes in (pool.map, lambda *call: list(executor.map(*call))):
            try:
                map_to_processes(function, [1, 2])
            except tidelog.errors.TidelogError as error:
                print(type(error).__name__)
            print(map_to_processes(at, sys.argv[1:])[0])
    print(logs.append("t", b"mine").offset)
    logs.close()
"""
    done = run_program(program, tmp_path / "data")

    refused = "ForkedProcess" if method == "fork" else "InvalidArgument"
    assert done.stdout.split() == [refused, "0", refused, "0", "0"]
    assert method in multiprocessing.get_all_start_methods()


def test_a_child_that_exits_in_order_leaves_the_parents_files(tmp_path: Path) -> None:
    """Its exit runs finalizers and what was registered to run at the end."""
    program = """
import os, sys, warnings
import tidelog
from tidelog.spark.sessions.scripts import make_temporary_folder
warnings.simplefilter("ignore")
folder = make_temporary_folder()
with tidelog.open(sys.argv[1]) as logs:
    logs.create_topic("t")
    if os.fork() == 0:
        sys.exit(7)
    print(os.wait()[1] >> 8, os.path.exists(folder))
    print(logs.append("t", b"mine").offset, ".lock" in os.listdir(sys.argv[1]))
print(os.path.exists(os.path.join(sys.argv[1], ".kafka_cleanshutdown")))
"""
    done = run_program(program, tmp_path / "data")

    assert (done.stdout.split(), done.stderr) == (["7", "True", "0", "True", "True"], "")


def test_a_child_reads_though_kernels_were_being_loaded(tmp_path: Path) -> None:
    """The thread that loads them holds locks; to compile them takes it some 20 seconds."""
    program = """
import os, signal, sys, threading, time, warnings
from importlib.machinery import ModuleSpec
from tidelog.kernels.runtime import gate
from tidelog.records.builder import build_batch
from tidelog.records.memory import walk
warnings.simplefilter("ignore")
begun = threading.Event()
class Compiling:
    def find_spec(self, name, path, target=None):
        if name == "tidelog.kernels.runtime.jit":
            return ModuleSpec(name, self)
    def create_module(self, spec):
        pass
    def exec_module(self, module):
        begun.set()
        threading.Event().wait()
sys.meta_path.insert(0, Compiling())
threading.Thread(target=lambda: list(gate.load_all()), daemon=True).start()
begun.wait()
data = build_batch([(1, b"k", b"v", ())]) * 66_000
if os.fork() == 0:
    signal.alarm(60)
    os._exit(len(walk(data).batches) == 66_000)
print(os.wait()[1] >> 8)
os._exit(0 if sys.stdout.flush() is None else 1)
"""
    done = run_program(program, tmp_path / "data")

    assert done.stdout.split() == ["1"]


@pytest.mark.parametrize("how", ["np.int64", "__import__('numpy')"])
def test_a_child_uses_numpy_though_a_thread_was_importing_it(how: str, tmp_path: Path) -> None:
    """A fork waits for that: the lock of a module that is being imported is released by nobody.

    Also where the stand-in does not import it: numba does, and so does the module of the cleaner.
    """
    program = f"""
HOW = {how!r}
"""
    program += """
import os, signal, sys, threading, time, warnings
from importlib.machinery import ModuleSpec
from tidelog.lazy import np
warnings.simplefilter("ignore")
begun = threading.Event()
class Slow:
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            return ModuleSpec(name, self)
    def create_module(self, spec):
        pass
    def exec_module(self, module):
        begun.set()
        time.sleep(0.1)
        module.int64 = int
sys.meta_path.insert(0, Slow())
threading.Thread(target=lambda: eval(HOW)).start()
begun.wait()
if os.fork() == 0:
    signal.alarm(20)
    os._exit(np.int64(7))
print(os.wait()[1] >> 8, np.int64(8))
"""
    done = run_program(program, tmp_path / "data")

    assert (done.stdout.split(), done.stderr) == (["7", "8"], "")


def test_an_owner_is_not_handed_to_a_process_that_is_spawned(logs: tidelog.Logs) -> None:
    """It is refused when it is pickled, with what to hand over instead."""
    with pytest.raises(InvalidArgument, match="pass the path of the data directory"):
        pickle.dumps(logs)
