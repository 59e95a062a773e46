"""A disk fails under a running manager; the others continue."""

from __future__ import annotations

import itertools
from errno import EIO, EMFILE, ENOSPC
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome, fill, values

from tidelog.errors import (
    DirectoryFull,
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.manager.partition import Hold

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from tidelog.log.log import Log
    from tidelog.manager.partition import Partition
    from tidelog.segment.filenames import TopicPartition
    from tidelog.service.log_service import LogService


IO_ERROR = OSError(EIO, "the disk failed")


def metric(manager: LogService, name: str) -> dict[str, float]:
    """Return the values of a metric by its directory."""
    found = [m for m in manager.metrics() if m.name == name]
    return {dict(m.tags).get("logDirectory", ""): m.value for m in found}


def test_the_other_directories_go_on() -> None:
    """Partitions there take records and give them; those of the failed one raise."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        first, second = manager.partition("t", 0), manager.partition("t", 1)
        home.fs.fail("pwrite", "/a/t-0/00000000000000000000.log", IO_ERROR)
        with pytest.raises(KafkaStorageError):
            fill(manager, "t", 0, 1)
        home.clock.advance(0)
        fill(manager, "t", 1, 2)

        assert (manager.live_dirs, values(manager, "t", 1)) == (["/b"], [b"value 0", b"value 1"])
        assert second.log.log_end_offset == 2
        with pytest.raises(KafkaStorageError, match="/a is offline"):
            first.append_records([(-1, None, b"x", ())])
        with pytest.raises(KafkaStorageError):
            manager.partition("t", 0)


def test_a_topic_may_lie_in_a_directory_that_is_offline() -> None:
    """So it is not said to be unknown, which a caller would take for good."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        with pytest.raises(UnknownTopicOrPartition):
            manager.topic("u")
        manager.take_dir_offline("/a", IO_ERROR)
        home.clock.advance(0)

        with pytest.raises(KafkaStorageError, match=r"topic u may lie in .* offline: /a"):
            manager.topic("u")


def test_metrics_tell_which_one() -> None:
    """As Kafka's do."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.take_dir_offline("/a", IO_ERROR)
        home.clock.advance(0)

        assert metric(manager, "LogDirectoryOffline") == {"/a": 1, "/b": 0}
        assert metric(manager, "OfflineLogDirectoryCount") == {"": 1}


def test_a_failed_directory_gets_no_mark() -> None:
    """What is there was not closed."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.take_dir_offline("/a", IO_ERROR)
        home.clock.advance(0)

    assert [home.is_marked(path) for path in home.paths] == [False, True]


def test_a_failed_directory_gives_its_lock_up() -> None:
    """Another process may look after it."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.take_dir_offline("/a", IO_ERROR)
        home.clock.advance(0)
        other = ManagerHome("/a")
        other.fs = home.fs
        other.make().shutdown()

        assert manager.live_dirs == ["/b"]


def test_the_owner_is_told_when_no_directory_is_left() -> None:
    """The service ends then."""
    home = ManagerHome("/a")
    with home.open() as manager:
        manager.take_dir_offline("/a", IO_ERROR)
        home.clock.advance(0)

        assert home.halts == 1


def test_a_disk_that_fails_while_logs_are_loaded_leaves_the_others() -> None:
    """The logs of the other directories are all there."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        fill(manager, "t", 1, 2)
    home.fs.fail("list", "/a/t-0", IO_ERROR)
    with home.open() as manager:
        assert (manager.live_dirs, values(manager, "t", 1)) == (["/b"], [b"value 0", b"value 1"])


def test_a_directory_that_comes_back_has_its_logs() -> None:
    """After a restart; nothing was made in its place meanwhile."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        fill(manager, "t", 0, 2)
        manager.flush()
    home.fs.fail("lock", "/a/.lock", OSError(EIO, "the disk failed"))
    with home.open() as manager:
        fill(manager, "t", 1, 1)
        with pytest.raises(KafkaStorageError):
            manager.partition("t", 0)
    with home.open() as manager:
        assert [len(values(manager, "t", number)) for number in (0, 1)] == [2, 1]


def test_a_full_disk_is_no_failed_one() -> None:
    """Appends raise, reads continue, and appends work again once there is space."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 1)
        home.fs.fail("pwrite", ".log", OSError(ENOSPC, "no space"))
        with pytest.raises(KafkaStorageError):
            fill(manager, "t", 0, 1)
        fill(manager, "t", 0, 1)

        assert (manager.live_dirs, len(values(manager, "t", 0))) == (["/data"], 2)


def test_the_reserve_closes_a_directory_before_it_is_full() -> None:
    """With a typed error; it opens again by itself when there is space."""
    home = ManagerHome()
    with home.open(tidelog_reserve_bytes=1_000_000) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 1)
        home.fs.set_free_bytes(999_999)
        home.clock.advance(1000)
        with pytest.raises(DirectoryFull):
            fill(manager, "t", 0, 1)
        read = len(values(manager, "t", 0))
        home.fs.set_free_bytes(2_000_000)
        home.clock.advance(1000)
        fill(manager, "t", 0, 1)

        assert (read, len(values(manager, "t", 0))) == (1, 2)


def test_logs_keep_to_their_share_of_the_disk() -> None:
    """The oldest segments of all logs together go first, down to the share."""
    home = ManagerHome(retention_ms=-1)
    with home.open(tidelog_retention_disk_percent=50) as manager:
        manager.create_topic("old")
        manager.create_topic("new")
        fill(manager, "old", 0, 100)
        home.clock.advance(1000)
        fill(manager, "new", 0, 100)
        logs = manager.all_logs()
        total = sum(log.size_bytes for log in logs)
        home.fs.set_free_bytes(total // 2)
        manager.tasks.cleanup_logs()
        old, new = manager.partition("old", 0).log, manager.partition("new", 0).log

        # Half of what the logs had and the disk had free: a quarter of the logs goes.
        assert total * 3 // 4 - 1024 <= old.size_bytes + new.size_bytes <= total * 3 // 4
        assert (old.log_start_offset > 0, new.log_start_offset) == (True, 0)


def test_what_has_expired_counts_towards_the_share_of_the_disk() -> None:
    """Once it is gone and the share is kept, no segment of another log has to go."""
    home = ManagerHome(retention_ms=-1)
    with home.open(tidelog_retention_disk_percent=50) as manager:
        config = {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
        manager.create_topic("expired", config=config)
        manager.create_topic("kept")
        fill(manager, "expired", 0, 100)
        home.clock.advance(2000)
        fill(manager, "kept", 0, 100)
        expired, kept = manager.partition("expired", 0).log, manager.partition("kept", 0).log
        total, excess = expired.size_bytes + kept.size_bytes, expired.size_bytes // 2
        home.fs.set_free_bytes(total - 2 * excess)
        manager.tasks.cleanup_logs()

        assert (expired.size_bytes, kept.log_start_offset) == (0, 0)


def test_a_share_of_the_disk_spares_compacted_logs() -> None:
    """Nothing of theirs is the oldest: it is the last word on its keys."""
    home = ManagerHome(retention_ms=-1, cleanup_policy=("compact",))
    with home.open(tidelog_retention_disk_percent=1) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 50)
        home.fs.set_free_bytes(0)
        manager.tasks.cleanup_logs()

        assert len(values(manager, "t", 0)) == 50


def test_a_share_of_the_disk_spares_a_log_that_is_being_cleaned() -> None:
    """The cleaning may still read what would be deleted; a later pass deletes it."""
    home = ManagerHome(retention_ms=-1, cleanup_policy=("compact", "delete"))
    with home.open(tidelog_retention_disk_percent=1) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 200)
        fill(manager, "t", 0, 5, key=b"other")
        home.fs.set_free_bytes(100_000)
        found: list[int] = []

        def retain(_: object) -> None:
            if not found:
                found.append(manager.tasks.cleanup_logs())
                home.clock.advance(home.defaults.file_delete_delay_ms)

        manager.on_demand.on_progress = retain
        assert manager.on_demand.compact("t")["t", 0].is_whole

        fill(manager, "t", 0, 200)
        assert found == [0]
        assert manager.live_dirs == ["/data"]
        assert manager.tasks.cleanup_logs() > 0


@pytest.mark.parametrize("error", [EIO, EMFILE])
def test_a_share_of_the_disk_leaves_out_a_log_that_cannot_be_read(error: int) -> None:
    """The others keep to theirs; only a failed disk takes the directory offline."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    with home.open() as manager:
        for topic, path in (("t", "/a"), ("u", "/a"), ("v", "/b")):
            manager.create_topic(topic, path=path)
            fill(manager, topic, 0, 100)
    home.scheduler.forget()
    with home.open(tidelog_retention_disk_percent=1) as manager:
        home.fs.set_free_bytes(1000)
        for operation in ("open", "pread"):
            name = f"/a/t-0/{0:020d}.timeindex"
            home.fs.fail(operation, name, OSError(error, "failed"), 5)
        manager.tasks.cleanup_logs()

        assert manager.live_dirs == (["/b"] if error == EIO else ["/a", "/b"])
        assert manager.partition("v", 0).log.log_start_offset > 0
        if error == EMFILE:
            starts = [manager.partition(topic, 0).log.log_start_offset for topic in "tu"]
            assert (starts[0], starts[1] > 0) == (0, True)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_share_of_the_disk_spares_a_transaction_that_is_to_be_applied(
    monkeypatch: pytest.MonkeyPatch,
    is_late: bool,
) -> None:
    """Readers see its records already; the other logs keep to the share, however late it came."""
    home = ManagerHome(retention_ms=-1)
    with home.open(tidelog_retention_disk_percent=1) as manager:
        for topic in "tu":
            manager.create_topic(topic)
            fill(manager, topic, 0, 100)
        home.fs.set_free_bytes(1000)
        held, other = manager.partition("t", 0), manager.partition("u", 0)
        log, look = held.log, held.log.maybe_increment_log_start_offset

        def hold_first(offset: int) -> bool:
            held.hold(Hold("txn", 5, is_shown=True))
            return look(offset)

        if is_late:
            monkeypatch.setattr(log, "maybe_increment_log_start_offset", hold_first)
        else:
            held.hold(Hold("txn", 5, is_shown=True))
        manager.tasks.cleanup_logs()

        assert (log.log_start_offset, log.high_watermark) == (0, 100)
        assert other.log.log_start_offset > 0


def test_a_lack_of_descriptors_while_free_space_is_measured_takes_no_directory_offline() -> None:
    """Only an error of the disk does."""
    home = ManagerHome("/a", "/b")
    with home.open(tidelog_retention_disk_percent=50) as manager:
        home.fs.fail("free_bytes", "/a", OSError(EMFILE, "too many open files"))
        manager.tasks.cleanup_logs()
        after_passing = manager.live_dirs
        home.fs.fail("free_bytes", "/a", IO_ERROR)
        manager.tasks.cleanup_logs()

        assert (after_passing, manager.live_dirs) == (["/a", "/b"], ["/b"])


def test_a_reserve_that_cannot_be_measured_for_lack_of_descriptors_stays_as_it_was() -> None:
    """The directory stays online, and as full as it was known to be."""
    home = ManagerHome()
    with home.open(tidelog_reserve_bytes=1_000_000) as manager:
        home.fs.set_free_bytes(999_999)
        home.clock.advance(1000)
        home.fs.set_free_bytes(2_000_000)
        home.fs.fail("free_bytes", "/data", OSError(EMFILE, "too many open files"))
        home.clock.advance(1000)

        assert (manager.live_dirs, set(manager.shared.registry.reserve.full)) == (
            ["/data"],
            {"/data"},
        )
        home.clock.advance(1000)
        assert not manager.shared.registry.reserve.full


def test_a_log_of_a_failed_disk_is_not_reopened_before_its_directory_is_offline() -> None:
    """Another thread may look for logs to reopen between the two."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        log = manager.partition("t", 0).log
        guard = log._state.context.guard
        reopened: list[int] = []
        guard._on_failure = lambda _path, _error: reopened.append(manager._reopener.reopen_all())
        home.fs.fail("pwrite", ".log", IO_ERROR)
        with pytest.raises(KafkaStorageError):
            fill(manager, "t", 0, 1)

        assert (reopened, log.is_offline, log.needs_reopening) == ([0], True, False)


def test_a_log_that_cannot_be_reopened_does_not_keep_others_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is wrong with it: the others are opened in the same pass."""
    home = ManagerHome("/a")
    with home.open() as manager:
        manager.create_topic("t", 2)
        logs = [manager.partition("t", number).log for number in range(2)]
        opener = manager._reopener._opener
        reopen = opener.reopen

        def reopen_the_second(key: TopicPartition, log: Log, *rules: Any) -> Log:
            if log is logs[0]:
                raise InvalidArgument("the value of a transaction marker is cut short")
            return reopen(key, log, *rules)

        monkeypatch.setattr(opener, "reopen", reopen_the_second)
        for log in logs:
            log._state.context.guard.take_offline(OSError(ENOSPC, "full"))

        assert manager._reopener.reopen_all() == 1
        fill(manager, "t", 1, 1)
        assert values(manager, "t", 1) == [b"value 0"]


def test_a_log_that_cannot_be_reopened_waits_longer_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A try may recover it, with changes of topics held up, and each failure is logged."""
    home = ManagerHome("/a")
    with home.open() as manager:
        manager.create_topic("t")
        opener, tried = manager._reopener._opener, list[int]()

        def reopen(*_: Any) -> Log:
            tried.append(home.clock.elapsed_ms() // 1000)
            raise InvalidArgument("the value of a transaction marker is cut short")

        monkeypatch.setattr(opener, "reopen", reopen)
        manager.partition("t", 0).log._state.context.guard.take_offline(OSError(ENOSPC, "full"))
        home.clock.advance(200_000)
        monkeypatch.undo()

        gaps = [later - earlier for earlier, later in itertools.pairwise(tried)]
        assert gaps == [1, 2, 4, 8, 16, 32, 60, 60]
        assert caplog.text.count("log-not-reopened log=t-0") == len(tried)
        fill(manager, "t", 0, 1)
        assert values(manager, "t", 0) == [b"value 0"]


def test_a_partition_that_has_ended_is_not_reopened(caplog: pytest.LogCaptureFixture) -> None:
    """Only the next start serves it; no pass says that it failed."""
    home = ManagerHome("/a")
    with home.open() as manager:
        manager.create_topic("t", 2)
        partitions = [manager.partition("t", number) for number in range(2)]
        partitions[0].end(KafkaStorageError("the catalogues may name either place"))
        partitions[1].log._state.context.guard.take_offline(OSError(ENOSPC, "full"))

        assert manager._reopener.reopen_all() == 1
        assert "log-not-reopened" not in caplog.text


def test_a_failed_directory_is_closed_while_no_log_changes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A move that has just been committed keeps its partition in service, in the other directory.

    An exchange holds the lock under which logs come and go.
    """
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        lock = _CountingLock(manager._registry.change_lock)
        monkeypatch.setattr(manager._registry, "change_lock", lock)
        held = []
        remove = manager._registry.remove

        def removing(key: TopicPartition) -> Partition | None:
            held.append(lock.holds)
            return remove(key)

        monkeypatch.setattr(manager._registry, "remove", removing)
        manager.take_dir_offline("/a", IO_ERROR)
        manager.handle_failures()

        assert held == [1]
        assert lock.holds == 0


class _CountingLock:
    """A lock that counts how often it is held."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._lock = lock
        self.holds = 0

    def __enter__(self) -> None:
        self._lock.__enter__()
        self.holds += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.holds -= 1
        self._lock.__exit__(kind, error, trace)
