"""Logs for which a disk had no space come into service, without a restart, once there is some."""

from __future__ import annotations

import itertools
import logging
from errno import EIO, EMFILE, ENOSPC
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.machinery.manager_home import ManagerHome, copy_log, delete_log, fill, values

from tidelog.embedded.logs import Logs
from tidelog.errors import CommitUnfinished, KafkaStorageError
from tidelog.log.topic_id import write_partition_metadata
from tidelog.segment.filenames import TopicPartition, log_future_directory_name
from tidelog.service.mover import PartitionMover

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log
    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)
COPY = log_future_directory_name(*KEY, "0" * 32)
LOG = f"{0:020}.log"
TIME_INDEX = f"{0:020}.timeindex"
FULL = OSError(ENOSPC, "full")
VALUES = [b"value 0", b"value 1", b"value 2"]
LONG_MS = 600_000


def closed_home() -> ManagerHome:
    """Return directories /a with t-0 and a-0, and /b with b-0, cleanly closed."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    with home.open() as manager:
        for name, path in (("t", "/a"), ("a", "/a"), ("b", "/b")):
            manager.create_topic(name, path=path)
            fill(manager, name, 0, 3)
    home.scheduler.forget()
    return home


def check_comes_back(home: ManagerHome, manager: LogService, expected: list[bytes]) -> None:
    """Check that t-0 is not served now and is some time later; others always are."""
    with pytest.raises(KafkaStorageError, match="full"):
        manager.partition(*KEY)
    assert values(manager, "a", 0) == VALUES
    home.clock.advance(60_000)

    assert values(manager, *KEY) == expected
    fill(manager, *KEY, 1)
    assert values(manager, *KEY) == [*expected, b"value 0"]
    assert manager.live_dirs == ["/a", "/b"]


@pytest.mark.parametrize(
    ("operation", "path"), [("make_directory", "/a/t-0"), ("open", f"/a/t-0/{LOG}")]
)
def test_a_missing_partition_is_created_when_there_is_space(operation: str, path: str) -> None:
    """Also where its directory was made before."""
    home = closed_home()
    delete_log(home, "/a/t-0")
    home.fs.fail(operation, path, FULL)
    with home.open() as manager:
        check_comes_back(home, manager, [])
    home.scheduler.forget()
    with home.open() as manager:
        assert values(manager, *KEY) == [b"value 0"]


@pytest.mark.parametrize("seed", range(4))
def test_a_partition_made_before_the_disk_was_full_is_there_after_a_power_cut(seed: int) -> None:
    """Its directory is durable before it is served."""
    home = ManagerHome("/a", retention_ms=-1, seed=seed)
    with home.open() as manager:
        manager.create_topic("t", 2)
    for number in range(2):
        delete_log(home, f"/a/t-{number}")
    home.fs.sync_directory("/a")
    home.fs.fail("make_directory", "/a/t-1", FULL, count=9)
    manager = home.open()
    home.clock.advance(2_000)
    fill(manager, *KEY, 1)
    manager.partition(*KEY).log.flush()
    home.power_cut()
    with home.open() as manager:
        assert values(manager, *KEY) == [b"value 0"]


def test_a_log_is_loaded_when_there_is_space_to_recover_it() -> None:
    """With all of its records, and its log start."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    manager = home.open()
    for name in "ta":
        manager.create_topic(name, path="/a")
        fill(manager, name, 0, 3)
    manager.on_demand.delete_records(KEY, 1)
    manager.flush()
    home.restart()
    home.fs.fail("truncate", f"/a/t-0/{TIME_INDEX}", FULL)
    with home.open() as manager:
        check_comes_back(home, manager, VALUES[1:])


@pytest.mark.parametrize("count", [1, 2])
def test_a_directory_whose_logs_are_all_back_ends_clean(count: int) -> None:
    """However often one was tried; the next start need not recover any of its logs."""
    home = closed_home()
    home.fs.fail("open", f"/a/t-0/{LOG}", FULL, count)
    with home.open():
        home.clock.advance(60_000)
    assert home.is_marked("/a")


def test_a_directory_with_a_log_that_is_not_back_ends_unclean() -> None:
    """It may be half recovered."""
    home = closed_home()
    home.fs.fail("open", f"/a/t-0/{LOG}", FULL)
    home.fs.fail("open", f"/a/a-0/{LOG}", FULL, count=99)
    with home.open() as manager:
        home.clock.advance(60_000)
        assert values(manager, *KEY) == VALUES
    assert not home.is_marked("/a")
    assert home.is_marked("/b")


def test_a_log_whose_place_could_not_be_noted_is_served_from_there() -> None:
    """No new log is made where the catalogue says that it is."""
    home = closed_home()
    home.fs.rename("/a/t-0", "/b/t-0")
    home.fs.fail("rename", "/b/tidelog.topics.json.tmp", FULL)
    with home.open() as manager:
        check_comes_back(home, manager, VALUES)
        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert "t-0" not in home.files("/a")


def test_a_move_that_was_decided_is_finished_when_there_is_space() -> None:
    """The older log that it has left stays out of service."""
    home = closed_home()
    copy_log(home, "/a/t-0", "/b/t-0")
    home.fs.rename("/a/t-0", f"/a/{COPY}")
    home.fs.fail("rename", f"/a/{COPY}", FULL)
    with home.open() as manager:
        check_comes_back(home, manager, VALUES)
        assert manager.partition(*KEY).log.directory == "/a/t-0"


def test_no_log_is_created_in_place_of_a_copy_that_cannot_be_loaded() -> None:
    """The catalogue says that the copy is the log: its records would be hidden, and then lost."""
    home = closed_home()
    home.fs.rename("/a/t-0", f"/a/{COPY}")
    home.fs.fail("open", f"/a/{COPY}/{LOG}", FULL)
    with home.open() as manager:
        check_comes_back(home, manager, VALUES)


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_move_goes_on_when_its_partition_is_back(is_clean: bool) -> None:
    """From where it was, or from the start if the copy may have holes."""
    home = closed_home()
    copy_log(home, "/a/t-0", f"/b/{COPY}")
    if not is_clean:
        home.fs.delete("/b/.kafka_cleanshutdown")
    home.fs.fail("open", f"/a/t-0/{LOG}", FULL)
    with home.open() as manager:
        with pytest.raises(KafkaStorageError, match="full"):
            manager.partition(*KEY)
        home.clock.advance(60_000)

        assert manager.moves() == []
        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert values(manager, *KEY) == VALUES


def test_a_start_resumes_moves_before_logs_are_loaded_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: a move is resumed once, and its copy cut once."""
    home = closed_home()
    for name in "at":
        copy_log(home, f"/a/{name}-0", f"/b/{COPY.replace('t-0', f'{name}-0')}")
    home.fs.delete("/b/.kafka_cleanshutdown")
    home.fs.fail("open", f"/a/t-0/{LOG}", FULL)
    resume_all, resumed = PartitionMover.resume_all, []

    def resume(_: PartitionMover, key: TopicPartition) -> None:
        resumed.append(key.topic)

    def slowly(mover: PartitionMover) -> None:
        home.clock.advance(60_000)
        resume_all(mover)

    monkeypatch.setattr(PartitionMover, "_resume", resume)
    monkeypatch.setattr(PartitionMover, "resume_all", slowly)
    with home.open():
        before = list(resumed)
        home.clock.advance(60_000)

    assert (before, resumed) == (["a"], ["a", "t"])


def test_it_is_tried_ever_more_rarely_and_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """At least once a minute; one event says that it is there."""
    home = closed_home()
    delete_log(home, "/a/t-0")
    home.fs.fail("make_directory", "/a/t-0", FULL, count=9)
    with home.open() as manager:
        caplog.clear()
        caplog.set_level(logging.INFO)
        home.clock.advance(120_000)
        assert caplog.text == ""
        home.clock.advance(180_000)
        assert caplog.text.count("log-loaded-late directory=/a/t-0") == 1
        home.clock.advance(LONG_MS)
        assert caplog.text.count("log-loaded-late") == 1
        assert values(manager, *KEY) == []


@pytest.mark.parametrize(("names", "least"), [("t", 6), ("ta", 2)])
def test_long_tries_leave_time_to_others(
    names: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creating a topic waits for a try: the wait after it grows with it, from its end on."""
    home = closed_home()
    for name in names:
        home.fs.fail("open", f"/a/{name}-0/{LOG}", FULL)
    with home.open() as manager:
        home.scheduler.forget()
        begun = []

        def recover(*_: object) -> None:
            begun.append(home.clock.elapsed_ms())
            home.clock.advance(LONG_MS)
            raise KafkaStorageError("full") from FULL

        monkeypatch.setattr(manager._first_use, "load", recover)
        for _ in range(1_000):
            home.clock.advance(10_000)
            manager.tasks.load_late()
        gaps = [later - earlier for earlier, later in itertools.pairwise(begun)]
        assert len(gaps) > 1
        assert min(gaps) >= least * LONG_MS


def test_many_short_tries_leave_time_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second of them there is a rest; then those have their turn that had none."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 30)
    home.fs.fail("open", LOG, FULL, count=30)
    with home.open() as manager:
        home.scheduler.forget()
        tried = []

        def load(_: str, number: int, *__: object) -> None:
            tried.append(number)
            home.clock.advance(100)
            raise KafkaStorageError("full") from FULL

        monkeypatch.setattr(manager._first_use, "load", load)
        manager.tasks.load_late()
        home.clock.advance(10_000)
        manager.tasks.load_late()
        manager.tasks.load_late()
        assert tried == list(range(10))
        for _ in range(2):
            home.clock.advance(1_000)
            manager.tasks.load_late()
        assert tried == list(range(30))


def test_a_lack_of_descriptors_meanwhile_does_not_end_the_waiting() -> None:
    """It passes as well."""
    home = closed_home()
    delete_log(home, "/a/t-0")
    home.fs.fail("make_directory", "/a/t-0", FULL)
    with home.open() as manager:
        home.fs.fail("make_directory", "/a/t-0", OSError(EMFILE, "too many open files"))
        home.clock.advance(60_000)
        assert values(manager, *KEY) == []


def test_a_log_that_fails_for_another_reason_is_left_to_the_next_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reason of the moment is logged, once, and given to callers."""
    home = closed_home()
    delete_log(home, "/a/t-0")
    home.fs.fail("make_directory", "/a/t-0", FULL)
    with home.open() as manager:
        home.fs.make_directory("/a/t-0")
        write_partition_metadata(home.fs, "/a/t-0/partition.metadata", UUID(int=9, version=4))
        home.clock.advance(LONG_MS)
        with pytest.raises(KafkaStorageError, match=str(UUID(int=9, version=4))[-4:]):
            manager.partition(*KEY)
    assert caplog.text.count("log-not-loaded-late log=t-0") == 1


def test_a_partition_of_a_disk_that_failed_meanwhile_is_not_created_elsewhere() -> None:
    """Its log may be there."""
    home = closed_home()
    home.fs.fail("open", f"/a/t-0/{LOG}", FULL)
    with home.open() as manager:
        with pytest.raises(KafkaStorageError, match="full"):
            manager.partition(*KEY)
        manager.take_dir_offline("/a", OSError(EIO, "bad"))
        home.clock.advance(60_000)
        with pytest.raises(KafkaStorageError, match="offline"):
            manager.partition(*KEY)
        assert "t-0" not in home.files("/b")


def test_no_log_is_created_while_a_disk_is_offline_that_may_hold_the_one_there_is() -> None:
    """The next start would delete that one in favour of the new log, which the catalogue names."""
    home = closed_home()
    home.fs.rename("/a/t-0", "/b/t-0")
    home.fs.fail("open", f"/b/t-0/{LOG}", FULL)
    with home.open() as manager:
        manager.take_dir_offline("/b", OSError(EIO, "bad"))
        home.clock.advance(60_000)
        with pytest.raises(KafkaStorageError, match="offline"):
            manager.partition(*KEY)
        assert "t-0" not in home.files("/a")
    home.scheduler.forget()
    with home.open() as manager:
        assert values(manager, *KEY) == VALUES


def test_a_disk_that_fails_while_a_place_is_noted_keeps_no_log_of_others_out() -> None:
    """The catalogues of the other directories say where the log lies."""
    home = ManagerHome("/a", "/b", "/c")
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        fill(manager, *KEY, 3)
    home.scheduler.forget()
    home.fs.rename("/a/t-0", "/b/t-0")
    home.fs.fail("open", f"/b/t-0/{LOG}", FULL)
    with home.open() as manager:
        home.fs.fail("rename", "/c/tidelog.topics.json.tmp", OSError(EIO, "bad"))
        home.clock.advance(60_000)
        assert values(manager, *KEY) == VALUES
        assert manager.live_dirs == ["/a", "/b"]


def test_a_disk_that_fails_while_links_are_looked_for_ends_no_pass() -> None:
    """Its logs are offline; those of other directories come into service."""
    home = closed_home()
    for path in ("/a/t-0", "/b/b-0"):
        home.fs.fail("open", f"{path}/{LOG}", FULL)
    with home.open() as manager:
        home.fs.fail("is_link", "/b/b-0", OSError(EIO, "bad"))
        home.clock.advance(1_000)
        home.clock.advance(1_000)
        assert values(manager, *KEY) == VALUES
        assert manager.live_dirs == ["/a"]


def test_many_missing_partitions_list_the_directory_once() -> None:
    """However many entries it has."""
    home = closed_home()
    for name in "ta":
        delete_log(home, f"/a/{name}-0")
        home.fs.fail("make_directory", f"/a/{name}-0", FULL)
    with home.open() as manager:
        home.scheduler.forget()
        trace = home.fs.trace()
        assert manager.tasks.load_late() == 0
        home.clock.advance(1_000)
        assert manager.tasks.load_late() == 2
        assert [one.path for one in trace if one.name == "list"].count("/a") == 1


def test_a_new_partition_that_comes_late_is_not_missed() -> None:
    """The line that an earlier one of its name has left is about another log.

    No log of it can lie in a directory that is offline.
    """
    home = ManagerHome("/a", "/b")
    home.open().shutdown()
    home.scheduler.forget()
    home.fs.write("/b/replication-offset-checkpoint", b"0\n1\nt 1 3\n")
    with home.open() as manager:
        home.fs.fail("make_directory", "/a/t-0", OSError(EIO, "bad"))
        home.fs.fail("rename", "/b/replication-offset-checkpoint.tmp", FULL)
        with pytest.raises(KafkaStorageError, match="bad"):
            manager.create_topic("t", 2, is_spread=True)
        home.clock.advance(60_000)
        assert values(manager, "t", 1) == []
        assert manager._registry.lost == set()


def test_a_topic_that_is_deleted_meanwhile_does_not_come_back() -> None:
    """Nor does one that is made again suffer from what kept the first one out."""
    home = closed_home()
    home.fs.fail("open", f"/a/t-0/{LOG}", FULL)
    with home.open() as manager:
        assert KEY in manager._registry.failed()
        home.fs.fail("rename", "/a/t-0", FULL)
        manager.delete_topic("t")
        home.clock.advance(60_000)
        assert "t" not in manager.topics()
        manager.create_topic("t", path="/a")
        assert values(manager, *KEY) == []


def test_a_stray_log_that_cannot_be_renamed_is_not_served_later() -> None:
    """Only a start knows it from the log of the partition."""
    home = closed_home()
    other = home.fs.read("/a/a-0/partition.metadata")
    home.fs.write("/a/t-0/partition.metadata", other)
    home.fs.fail("rename", "/a/t-0", FULL)
    with home.open() as manager:
        home.clock.advance(60_000)
        with pytest.raises(KafkaStorageError, match="full"):
            manager.partition(*KEY)


def create_in_transaction(manager: LogService) -> None:
    """Create topic t in a transaction, with a record."""
    with Logs(manager).transaction("x", "/data") as txn:
        txn.create_topic("t")
        txn.append("t", b"a")


def test_a_committed_topic_is_there_when_there_is_space() -> None:
    """The service applies its transaction then."""
    home = ManagerHome()
    with home.open() as manager:
        home.fs.fail("open", f"/data/t-0/{LOG}", FULL)
        with pytest.raises(CommitUnfinished):
            create_in_transaction(manager)
        home.clock.advance(60_000)

        assert values(manager, *KEY) == [b"a"]


def test_a_stop_begins_no_further_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is up to the next start."""
    home = closed_home()
    for name in "ta":
        delete_log(home, f"/a/{name}-0")
        home.fs.fail("make_directory", f"/a/{name}-0", FULL)
    with home.open() as manager:
        late, tried = manager.tasks._late, []
        monkeypatch.setattr(late, "due", lambda: iter([TopicPartition("a", 0), KEY]))

        def load(key: TopicPartition, _: Callable[[], bool]) -> bool:
            tried.append(key.topic)
            manager.tasks._gate.close()
            return False

        monkeypatch.setattr(late, "load", load)
        manager.tasks.load_late()
        assert tried == ["a"]


def test_a_stop_ends_the_recovery_of_a_large_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two pieces, as while a service starts; the next start recovers the log."""
    home = ManagerHome(retention_ms=-1)
    manager = home.open()
    manager.create_topic("t")
    fill(manager, *KEY, 3)
    manager.flush()
    home.restart()
    home.fs.fail("truncate", f"/data/t-0/{TIME_INDEX}", FULL)
    with home.open() as manager:
        load = manager._opener.load

        def load_when_stopped(*args: Any, **kwargs: Any) -> Log:
            manager.tasks._gate.close()
            return load(*args, **kwargs)

        monkeypatch.setattr(manager._opener, "load", load_when_stopped)
        home.clock.advance(60_000)
        with pytest.raises(KafkaStorageError, match="full"):
            manager.partition(*KEY)
    assert "log-not-loaded-late" not in caplog.text
    assert not home.is_marked()
    home.scheduler.forget()
    with home.open() as manager:
        assert values(manager, *KEY) == VALUES
