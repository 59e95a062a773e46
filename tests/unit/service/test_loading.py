"""How logs are loaded at start: on how many threads, and what a start leaves that fails."""

from __future__ import annotations

from errno import EACCES, EDQUOT, EMFILE, ENFILE, ENOMEM, ENOSPC
from typing import TYPE_CHECKING, Final, TypeVar

import pytest
from tests.machinery.manager_home import (
    Loading,
    ManagerHome,
    fill,
    home_with_two_logs_of_a_partition,
    values,
)

from tidelog.errors import KafkaStorageError, StartAborted
from tidelog.manager.metrics.metrics_file import MetricsFiles
from tidelog.records.builder import build_batch
from tidelog.testing.manual_time import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from tidelog.testing.manual_time import ManualClock

RECOVERY: Final = "recovery-point-offset-checkpoint"

T = TypeVar("T")


class ToldScheduler(ManualScheduler):
    """Keeps how many threads were asked for, by the name of the work."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.threads: dict[str, int] = {}

    def run_all(self, name: str, tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
        """Run all tasks on this thread, whatever was asked for."""
        self.threads[name] = threads
        return super().run_all(name, tasks, threads)

    def run_ahead(
        self, name: str, tasks: Iterable[Callable[[], T]], threads: int
    ) -> Generator[T, None, None]:
        """Run each task when its result is needed."""
        self.threads[name] = threads
        return super().run_ahead(name, tasks, threads)


@pytest.mark.parametrize(("size_bytes", "threads"), [(3 << 20, 1), (20 << 20, 4)])
def test_threads_share_the_logs_of_a_directory_where_there_is_much_to_check(
    size_bytes: int, threads: int
) -> None:
    """Around small logs it is Python that takes the time, which one thread at a time can run."""
    home = ManagerHome()
    home.scheduler = told = ToldScheduler(home.clock)
    for partition in range(2):
        home.fs.make_directory(f"/data/t-{partition}")
        home.fs.write(f"/data/t-{partition}/{0:020}.log", bytes(size_bytes))

    with home.open(num_recovery_threads_per_data_dir=4) as manager:
        assert len(manager.all_logs()) == 2

    assert told.threads["log-recovery-/data"] == threads


@pytest.mark.parametrize(("partitions", "threads"), [(1, 4), (2, 2), (3, None)])
def test_threads_that_have_no_log_of_their_own_help_with_another(
    partitions: int, threads: int | None
) -> None:
    """A single log is checked by all of them."""
    home = ManagerHome()
    home.scheduler = told = ToldScheduler(home.clock)
    value = bytes(1 << 20)
    data = b"".join(build_batch([(1, None, value, ())], base_offset=n) for n in range(20))
    for partition in range(partitions):
        home.fs.make_directory(f"/data/t-{partition}")
        home.fs.write(f"/data/t-{partition}/{0:020}.log", data)

    with home.open(num_recovery_threads_per_data_dir=4) as manager:
        assert sum(log.log_end_offset for log in manager.all_logs()) == 20 * partitions

    assert told.threads.get("segment-recovery") == threads


# Starts that are stopped, or fail


def home_after_a_kill(partitions: int = 4) -> ManagerHome:
    """Return a home that has to recover, on one disk, logs of three segments with 30 records."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t", partitions)
    for number in range(partitions):
        fill(manager, "t", number, 30)
    home.restart()
    return home


class StopAfter:
    """Asks to stop at the call after the first ``calls``."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def __call__(self) -> bool:
        """Count a call; return whether to stop."""
        self.calls -= 1
        return self.calls < 0


def test_a_stop_while_logs_are_loaded_keeps_what_was_recovered() -> None:
    """At any moment: no directory fails, all is unlocked, every log is recovered once.

    What was recovered has its recovery point; the next start does not check it again.
    """
    counts = set()
    calls = 0
    killed = home_after_a_kill()
    while True:
        home = killed.copied(seed=0)
        manager = home.make()
        try:
            manager.startup(StopAfter(calls))
        except StartAborted:
            pass
        else:
            manager.close()
            break
        lines = home.lines(RECOVERY)
        counts.add(len(lines))
        calls += 1

        assert home.fs.exists("/data/.lock") is False
        assert {line.split()[2] for line in lines} <= {"30"}
        assert not home.is_marked()
        with home.open() as again:
            assert again.live_dirs == ["/data"]
            assert [len(values(again, "t", number)) for number in range(4)] == [30] * 4
        assert home.is_marked()

    assert counts == {0, 1, 2, 3}
    assert calls > 12


def test_a_stop_while_logs_of_a_clean_directory_are_loaded_leaves_it_clean() -> None:
    """Nothing was changed, and the next start need not recover anything."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 4)
        fill(manager, "t", 0, 30)
    stopped = home.make()
    with pytest.raises(StartAborted):
        stopped.startup(StopAfter(3))

    assert home.is_marked()
    with home.open() as manager:
        assert len(values(manager, "t", 0)) == 30


def test_a_stop_while_logs_are_loaded_leaves_what_readers_see() -> None:
    """The high watermarks stand as they were before the start."""
    home = home_after_a_kill()
    with home.open():
        home.clock.advance(5_000)
    seen = home.lines("replication-offset-checkpoint")
    home.fs.delete("/data/.kafka_cleanshutdown")
    with pytest.raises(StartAborted):
        home.make().startup(StopAfter(9))

    assert (len(seen), home.lines("replication-offset-checkpoint")) == (4, seen)


@pytest.mark.parametrize("errno", [EMFILE, ENFILE, ENOMEM])
@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("open", f"/a/t-0/{0:020}.log"),
        ("open", "/a/t-0/leader-epoch-checkpoint"),
        ("list", "/a/t-0"),
        ("list", "/a"),
        ("open", "/a/tidelog.topics.json"),
        ("open", "/a/meta.properties"),
    ],
)
def test_a_lack_of_descriptors_or_memory_fails_the_start_and_no_directory(
    caplog: pytest.LogCaptureFixture, errno: int, operation: str, path: str
) -> None:
    """The error is typed, everything is unlocked, and the next start has all logs."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        fill(manager, "t", 0, 3)
    home.fs.delete("/a/.kafka_cleanshutdown")
    home.fs.fail(operation, path, OSError(errno, "not now"))

    with pytest.raises(KafkaStorageError, match="not now"):
        home.open()

    assert "log-dir-offline" not in caplog.text
    with home.open() as manager:
        assert len(values(manager, "t", 0)) == 3


def test_an_error_that_names_all_directories_is_not_logged_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A command would print it twice; beside others that are used, it is logged."""
    home = ManagerHome("/a", "/b")
    home.fs.fail("open", "/a/meta.properties", PermissionError(EACCES, "denied"), count=9)

    home.open().close()
    assert caplog.text.count("log-dir-offline directory=/a") == 1

    caplog.clear()
    home.fs.fail("open", "/b/meta.properties", PermissionError(EACCES, "denied"), count=9)
    with pytest.raises(KafkaStorageError, match=r"/b is offline: .*; /a is offline: "):
        home.open()
    assert "log-dir-offline" not in caplog.text


@pytest.mark.parametrize("code", [ENOSPC, EDQUOT])
@pytest.mark.parametrize("operation", [("write", ".snapshot"), ("truncate", ".timeindex")])
def test_a_full_disk_fails_the_log_that_needs_space_and_no_directory(
    code: int, operation: tuple[str, str]
) -> None:
    """Its error is typed and the others are there; after the next start it is there, too."""
    home = home_after_a_kill(2)
    home.fs.fail(*operation, OSError(code, "full"))
    with home.open() as manager:
        assert manager.live_dirs == ["/data"]
        assert values(manager, "t", 1)
        with pytest.raises(KafkaStorageError, match="full"):
            manager.partition("t", 0)
    with home.open() as manager:
        assert values(manager, "t", 0) == values(manager, "t", 1)


def test_a_lack_of_descriptors_on_first_use_is_an_error_of_that_use() -> None:
    """The directory stays online, and the next use works."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
    with home.open_as(Loading.FIRST_USE) as manager:
        home.fs.fail("open", f"/data/t-0/{0:020}.log", OSError(EMFILE, "not now"))
        with pytest.raises(KafkaStorageError, match="not now"):
            manager.partition("t", 0)

        assert manager.live_dirs == ["/data"]
        assert len(values(manager, "t", 0)) == 3


def test_logs_are_closed_when_they_cannot_be_reconciled() -> None:
    """Also those that were loaded and are not in service yet."""
    home = home_with_two_logs_of_a_partition()
    with pytest.raises(KafkaStorageError, match="both in"):
        home.open()

    assert home.fs.descriptors.open_count == 0


def test_what_remains_to_be_loaded_is_in_the_metrics_while_it_is_loaded() -> None:
    """A start of an hour is watched: the file is written before, and again during the loading."""
    home = ManagerHome()
    seen: list[str] = []

    class Watching(ManualScheduler):
        """Looks at the file between the loading of two logs."""

        def run_all(self, name: str, tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
            if not name.startswith("log-recovery"):
                return super().run_all(name, tasks, threads)
            done: list[T] = []
            for task in tasks:
                files.write()
                seen.append(home.fs.read("/data/tidelog.metrics.prom").decode())
                done += super().run_all(name, [task], threads)
            return done

    home.scheduler = Watching(home.clock)
    for partition in range(2):
        home.fs.make_directory(f"/data/t-{partition}")
        home.fs.write(f"/data/t-{partition}/{0:020}.log", b"")
    with home.make() as manager:
        files = MetricsFiles(manager)
        files.start()
        before = home.fs.read("/data/tidelog.metrics.prom").decode()
        manager.startup()
        files.stop()

    name = 'kafka_log_log_manager_remaining_logs_to_recover{dir="/data"}'
    assert name not in before
    assert [f"{name} {count}" in text for count, text in zip((2, 1), seen, strict=True)] == [
        True
    ] * 2


def test_a_topic_whose_id_cannot_be_read_does_not_stop_the_others() -> None:
    """Its partitions are not served, those without an id included; the directory is not clean."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 2)
        manager.create_topic("other")
        fill(manager, "other", 0, 1)
    home.fs.delete("/data/tidelog.topics.json")
    home.fs.write("/data/t-0/partition.metadata", b"garbage")
    home.fs.delete("/data/t-1/partition.metadata")
    with home.open() as manager:
        assert (list(manager.topics()), values(manager, "other", 0)) == (["other"], [b"value 0"])
    assert not home.is_marked()
