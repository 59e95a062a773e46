"""The life of a log manager: created, loaded, found, closed."""

from __future__ import annotations

from errno import EIO, ENOSPC
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, fill, values

import tidelog
from tidelog.datadir.metadata_files import (
    CleanShutdown,
    read_clean_shutdown,
    write_clean_shutdown,
)
from tidelog.errors import (
    DirectoryLocked,
    InvalidArgument,
    InvalidPartitions,
    InvalidReplicaAssignment,
    KafkaStorageError,
    LogDirNotFound,
    UnknownTopicOrPartition,
)
from tidelog.manager.lifecycle.load_progress import LoadProgress
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from tidelog.manager.log_manager import LogManager
    from tidelog.segment.filenames import TopicPartition

MARK = "/data/.kafka_cleanshutdown"
IO_ERROR = OSError(EIO, "the disk failed")


def test_a_new_log_can_be_appended_to() -> None:
    """A log that is not there is made where the directory is.

    Scenario: LogManagerTest.testCreateLog
    """
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 1)

        assert (manager.partition("t", 0).log.directory, values(manager, "t", 0)) == (
            "/data/t-0",
            [b"value 0"],
        )


def test_a_log_that_does_not_exist_is_not_made_by_asking() -> None:
    """Looking changes nothing.

    Scenario: LogManagerTest.testGetNonExistentLog
    """
    home = ManagerHome()
    with home.open() as manager:
        found = manager.get_log("t", 0)

        assert (found, "t-0" in home.files()) == (None, False)


def test_a_directory_that_cannot_be_used_leaves_the_others() -> None:
    """It counts as offline from the beginning.

    Scenario: LogManagerTest.testCreateLogWithInvalidLogDir,
    LogManagerTest.testInvalidLogDirNotFailLogManager
    """
    home = ManagerHome("/a", "/b")
    home.fs.fail("make_directory", "/b", IO_ERROR)
    with home.open() as manager:
        manager.create_topic("t")

        assert (manager.partition("t", 0).log.directory, manager.live_dirs) == ("/a/t-0", ["/a"])


def test_without_any_directory_there_is_no_manager() -> None:
    """A typed error names them."""
    home = ManagerHome("/a")
    home.fs.fail("make_directory", "/a", IO_ERROR)

    with pytest.raises(KafkaStorageError, match="/a"):
        home.make()


def test_new_logs_go_where_the_fewest_are() -> None:
    """The numbers of logs differ by at most one.

    Scenario: LogManagerTest.testLeastLoadedAssignment
    """
    home = ManagerHome("/a", "/b", "/c")
    with home.open() as manager:
        for number in range(10):
            manager.create_topic(f"t{number}")
            counts = manager._creator._count_by_directory()

            assert max(counts.values()) - min(counts.get(path, 0) for path in home.paths) <= 1


def test_a_cordoned_directory_gets_no_new_logs() -> None:
    """Unless all are cordoned: then the first one takes them."""
    home = ManagerHome("/a", "/b")
    with home.open(cordoned_log_dirs=("/a",)) as manager:
        manager.create_topic("t", 2)
        manager.update_config(home.config(cordoned_log_dirs=("*",)))
        manager.create_topic("u", 2)

        assert manager._creator._count_by_directory() == {"/b": 2, "/a": 2}


def test_a_transaction_creates_nothing_in_a_cordoned_directory() -> None:
    """As all else that creates topics; what is there already it writes to."""
    with tidelog.open("/a", "/b", files=CrashFileSystem(), cordoned_log_dirs="/a") as logs:
        txn = logs.transaction(path="/a")
        txn.create_topic("t")
        with pytest.raises(InvalidReplicaAssignment, match="/a is cordoned"):
            txn.commit()
        assert not logs.topics()
        with logs.transaction(path="/b") as txn:
            txn.create_topic("t")
        assert logs.topics().keys() == {"t"}


def test_a_directory_is_locked_until_the_manager_is_closed() -> None:
    """A second manager is refused, and the lock's file goes with the lock.

    Scenario: LogManagerTest.testTwoLogManagersUsingSameDirFails,
    LogManagerTest.testLock
    """
    home = ManagerHome()
    with home.open(), pytest.raises(DirectoryLocked):
        home.make()

    assert ".lock" not in home.files()


def test_two_spellings_of_one_directory_are_refused() -> None:
    """Two logs of one partition would follow from it."""
    with pytest.raises(InvalidArgument, match="Duplicate log directory"):
        ManagerHome("/a", "/b/../a").make()


@pytest.mark.parametrize("paths", [("/a", "/a/sub"), ("/a/./b/c", "/a/b", "/d")])
def test_a_directory_in_another_is_refused(paths: tuple[str, ...]) -> None:
    """Kafka would not start on the outer one again; none is made."""
    home = ManagerHome(*paths)
    with pytest.raises(InvalidArgument, match=r"is in /a.*a data directory has no other in it"):
        home.make()

    assert home.files("/") == []


@pytest.mark.parametrize(
    "name", ["photos", "my copy-0", "dbus-1", "a-0.x-delete", f"a-{2**31}.{'0' * 32}-future"]
)
def test_a_directory_of_no_partition_is_left_alone(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names it, and the service serves its topics."""
    home = ManagerHome()
    home.fs.make_directory(f"/data/{name}")
    home.fs.write(f"/data/{name}/notes", b"theirs")

    with home.open() as manager:
        manager.create_topic("t", 1)
    with home.open() as manager:
        assert list(manager.topics()) == ["t"]

    assert home.fs.read(f"/data/{name}/notes") == b"theirs"
    warned = [record.getMessage() for record in caplog.records if "foreign-dir" in record.msg]
    assert [f"directory=/data/{name} " in message for message in warned] == [True, True]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("leader-epoch-checkpoint", b"0\n1\n-3 5 7\n"),
        ("leader-epoch-checkpoint", b"0\n1\nx 5\n"),
        (f"{9:020}.log/", b""),
    ],
)
def test_a_log_that_cannot_be_loaded_does_not_stop_the_others(file: str, content: bytes) -> None:
    """Its error is typed and names the file; the directory is not marked clean, nothing is lost."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 2)
        fill(manager, "t", 0, 3)
    if file.endswith("/"):
        home.fs.make_directory(f"/data/t-1/{file[:-1]}")
    else:
        home.fs.write(f"/data/t-1/{file}", content)

    with home.open() as manager:
        assert manager.partition("t", 0).log.log_end_offset == 3
        with pytest.raises(KafkaStorageError, match=f"t-1 could not be loaded.*{file.strip('/')}"):
            manager.partition("t", 1)
        assert [log.directory for log in manager.all_logs()] == ["/data/t-0"]
    assert not home.is_marked("/data")
    with home.open() as manager:
        manager.delete_topic("t")
        assert manager.topics() == {}


def test_logs_are_loaded_as_they_were_left() -> None:
    """After a shutdown every record is there, and every directory is marked clean."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2)
        fill(manager, "t", 0, 3)
        fill(manager, "t", 1, 2)
    marks = [home.is_marked(path) for path in home.paths]
    with home.open() as manager:
        found = [len(values(manager, "t", number)) for number in (0, 1)]

    assert (marks, found) == ([True, True], [3, 2])


def test_the_mark_goes_before_logs_are_loaded() -> None:
    """So that a process that dies while it loads leaves an unclean directory."""
    home = ManagerHome()
    home.open().shutdown()
    home.open()

    assert not home.is_marked()


def test_a_manager_that_never_started_leaves_the_mark() -> None:
    """It has changed no log.

    Scenario: LogManagerTest.testCleanShutdownFileWhenShutdownCalledBeforeStartupComplete
    """
    home = ManagerHome()
    home.open().shutdown()
    home.make().shutdown()

    assert home.is_marked()


def test_an_unclean_start_that_loaded_everything_ends_clean() -> None:
    """All logs were checked, flushed and closed by then."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 1)
        home.restart()
    before = home.is_marked()
    home.open().shutdown()

    assert (before, home.is_marked()) == (False, True)


def test_a_log_that_does_not_close_costs_its_directory_the_mark() -> None:
    """The other directories keep theirs.

    Scenario: LogManagerTest.testHandlingExceptionsDuringShutdown
    """
    home = ManagerHome("/a", "/b")
    manager = home.open()
    manager.create_topic("t", 2)
    fill(manager, "t", 0, 1)
    fill(manager, "t", 1, 1)
    home.fs.fail("sync", "/a/t-0/00000000000000000000.log", IO_ERROR)
    manager.shutdown()

    assert [home.is_marked("/a"), home.is_marked("/b")] == [False, True]


def test_every_close_is_tried_though_one_fails() -> None:
    """The others are flushed and closed.

    Scenario: LogManagerTest.testWaitForAllToComplete
    """
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t", 3)
    logs = manager.all_logs()
    fill(manager, "t", 0, 1)
    home.fs.fail("sync", "/data/t-0/00000000000000000000.log", IO_ERROR)
    manager.shutdown()
    snapshots = [name for path in ("/data/t-1", "/data/t-2") for name in home.files(path)]

    assert (len(logs), home.is_marked()) == (3, False)
    assert sum(name.endswith(".log") for name in snapshots) == 2


@pytest.mark.parametrize("loading", Loading)
def test_closing_raises_what_keeps_records_from_being_durable(loading: Loading) -> None:
    """Without the error, a program would count on them after a power cut."""
    home = ManagerHome()
    manager = home.open_as(loading)
    manager.create_topic("t")
    fill(manager, "t", 0, 1)
    home.fs.fail("sync", "/data/t-0/00000000000000000000.log", IO_ERROR)
    with pytest.raises(KafkaStorageError, match="flushing failed"):
        manager.close()
    manager.close()  # does nothing

    assert not home.is_marked()


@pytest.mark.parametrize(("loading", "epoch"), [(Loading.FIRST_USE, 12), (Loading.ALL, -1)])
def test_a_short_lived_writer_keeps_the_broker_epoch_in_the_mark(
    loading: Loading, epoch: int
) -> None:
    """The broker's next start may compare it; a service takes the broker's place."""
    home = ManagerHome()
    home.open().shutdown()
    write_clean_shutdown(home.fs, MARK, CleanShutdown(broker_epoch=12))
    with home.open_as(loading) as manager:
        manager.create_topic("t")

    mark = read_clean_shutdown(home.fs, MARK)
    assert mark is not None
    assert mark.broker_epoch == epoch


def test_each_directory_keeps_its_id() -> None:
    """One that has none gets one; all belong to one cluster.

    Scenario: LogManagerTest.testLoadDirectoryIds
    """
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        before = {one.path: one.directory_id for one in manager._log_dirs}
    with home.open() as manager:
        after = {one.path: one.directory_id for one in manager._log_dirs}
        clusters = {one.meta.cluster_id for one in manager._log_dirs}

    assert (before == after, len(set(after.values())), len(clusters)) == (True, 2, 1)


def test_a_log_of_another_topic_of_the_name_is_kept_aside() -> None:
    """A stray is renamed, and not served.

    Scenario: LogManagerTest.testIsStrayKraftReplicaInImage,
    LogManagerTest.testTopicRecreationInFullLAIR,
    LogManagerTest.testFindSomeStrayReplicasInFullLAIR
    """
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
    metadata = home.fs.read("/data/t-0/partition.metadata")
    home.fs.write("/data/t-0/partition.metadata", metadata[:-22] + b"A" * 21 + b"Q")
    with home.open() as manager:
        names = [name for name in home.files() if name.startswith("t-0")]

        assert [name.endswith("-stray") for name in names] == [False, True]
        assert manager.partition("t", 0).log.log_end_offset == 0


@pytest.mark.parametrize("loading", Loading)
def test_a_log_of_another_topic_adds_no_partition(loading: Loading) -> None:
    """A disk that was away has more of the deleted topic than there are of the one of today."""
    home = ManagerHome("/away")
    with home.open() as manager:
        manager.create_topic("t", 3)
    for name in ("meta.properties", "tidelog.topics.json"):
        home.fs.delete(f"/away/{name}")
    home.paths = ("/data",)
    with home.open() as manager:
        manager.create_topic("t", 1)
    home.paths = ("/data", "/away")

    for _ in range(2):
        with home.open_as(loading) as manager:
            assert sorted(manager.topic("t").partitions) == [0]
            assert manager.partition("t", 0).log.directory == "/data/t-0"


def test_a_log_of_its_topic_is_no_stray() -> None:
    """Nor is one that does not say whose it is.

    Scenario: LogManagerTest.testFindNoStrayReplicasInFullLAIR,
    LogManagerTest.testIsStrayKraftMissingTopicId
    """
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 2)
    home.fs.delete("/data/t-1/partition.metadata")
    with home.open() as manager:
        assert len(manager.all_logs()) == 2


def test_questions_about_other_directories_are_refused() -> None:
    """A path that was not configured is an error, not offline."""
    home = ManagerHome()
    with home.open() as manager, pytest.raises(LogDirNotFound):
        manager.directory_id("/elsewhere")


def test_a_partition_that_is_not_there_is_an_error() -> None:
    """As a topic that is not there."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        with pytest.raises(UnknownTopicOrPartition):
            manager.partition("t", 1)
        with pytest.raises(UnknownTopicOrPartition):
            manager.partition("u", 0)


def test_nothing_is_left_to_recover_once_all_is_loaded() -> None:
    """The progress of loading is there only while logs are loaded.

    Scenario: LogManagerTest.testLogRecoveryMetricsShouldBeRemovedAfterLogRecovered
    """
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 4)
    with home.open() as manager:
        assert manager.progress is None


def test_a_manager_without_file_delete_delay_closes() -> None:
    """Nothing waits for anything.

    Scenario: LogManagerTest.testShutdownWithZeroFileDeleteDelayMs
    """
    home = ManagerHome(file_delete_delay_ms=0)
    with home.open() as manager:
        manager.create_topic("t")
        manager.delete_topic("t")
        home.clock.advance(30_000)

        assert len(manager._queue) == 0


def test_progress_counts_logs_and_bytes_down() -> None:
    """Bytes where logs have to be checked.

    Scenario: LogManagerTest.testLogRecoveryMetrics
    """
    progress = LoadProgress()
    progress.add("/a", 4, 400)
    progress.done("/a", 100)

    assert (progress.remaining_logs("/a"), progress.done_of_all()) == (3, (100, 400, 1, 4))


def directories_of(manager: LogManager, topic: str) -> list[str]:
    """Return the data directory of each partition, in order."""
    return [partition.log.data_dir for partition in manager.partitions(topic)]


def test_a_topic_is_created_whole_in_one_directory() -> None:
    """So one transaction can write all of it; the next topic goes where the fewest logs are."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 3)
        manager.create_topic("u", 2)

        assert directories_of(manager, "t") == ["/a"] * 3
        assert directories_of(manager, "u") == ["/b"] * 2


def test_a_topic_can_be_spread() -> None:
    """On request each partition goes where the fewest logs are."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 3, is_spread=True)

        assert directories_of(manager, "t") == ["/a", "/b", "/a"]


@pytest.mark.parametrize("loading", list(Loading))
def test_partitions_are_added_beside_the_others(loading: Loading) -> None:
    """They are empty logs in the topic's directory, and survive a restart."""
    home = ManagerHome("/a", "/b")
    with home.open_as(loading) as manager:
        manager.create_topic("t", 2)
        added = manager.create_partitions("t", 4)
        fill(manager, "t", 3, 2)
    with home.open() as manager:
        assert (sorted(added.partitions), directories_of(manager, "t")) == (
            [0, 1, 2, 3],
            ["/a"] * 4,
        )
        assert len(values(manager, "t", 3)) == 2


@pytest.mark.parametrize("count", [0, 1, 2])
def test_partitions_are_only_added(count: int) -> None:
    """As in Kafka, a topic never has fewer."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 2)

        with pytest.raises(InvalidPartitions, match="2 partitions"):
            manager.create_partitions("t", count)


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_no_partitions_are_added_to_a_topic_of_kafkas_own(name: str) -> None:
    """A group, or transactional id, is looked for where its name and their number say."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic(name)

        with pytest.raises(InvalidPartitions, match="keeps its 1 partitions"):
            manager.create_partitions(name, 50)


def test_a_partition_that_comes_into_service_while_it_is_looked_up_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is neither said to be offline nor not loaded."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
    home.fs.fail("open", f"/data/t-0/{0:020}.log", OSError(ENOSPC, "full"), count=2)
    with home.open() as manager:
        with pytest.raises(KafkaStorageError, match="full"):
            manager.partition("t", 0)
        check = manager._registry.check_loaded

        def check_late(key: TopicPartition) -> None:
            home.clock.advance(60_000)
            check(key)

        monkeypatch.setattr(manager._registry, "check_loaded", check_late)
        fill(manager, "t", 0, 1)
