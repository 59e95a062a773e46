"""Deletion of logs and topics."""

from __future__ import annotations

from contextlib import suppress
from errno import EIO, EMFILE, ENOSPC
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, as_service, fill, values

from tidelog.config.broker_config import BrokerConfig
from tidelog.env.machine import Machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.service.log_service import LogService
from tidelog.testing import ManualClock, ManualScheduler, PowerCut

if TYPE_CHECKING:
    from pathlib import Path

DELAY_MS = 60_000


def test_a_deleted_topic_is_gone_at_once_and_its_files_later() -> None:
    """The directory is renamed first, so that the name is free."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        manager.delete_topic("t")
        names = [name for name in home.files() if name.startswith("t-")]
        home.clock.advance(30_000)
        home.clock.advance(DELAY_MS)
        later = [name for name in home.files() if name.startswith("t-")]

        assert (manager.topics(), [n.endswith("-delete") for n in names]) == ({}, [True, True])
        assert later == []


def test_a_clock_that_is_set_back_does_not_keep_the_files() -> None:
    """Of a topic that was deleted, and of those that are deleted after it."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        manager.delete_topic("t")
        home.clock.set_time_of_day(home.clock.now_ms() - 10**9)
        home.clock.advance(30_000)
        home.clock.advance(DELAY_MS)

        assert [name for name in home.files() if name.startswith("t-")] == []


@pytest.mark.parametrize("loading", Loading)
def test_a_deletion_without_a_descriptor_for_the_sync_is_finished_later(loading: Loading) -> None:
    """The directory gets its name back, and is renamed durably by the next pass."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", path="/a")
    with home.open_as(loading) as manager:
        fail_after_rename(home, "-delete")
        manager.delete_topic("t")
        at_first = home.files("/a")
        if loading is Loading.ALL:
            as_service(manager).tasks.cleanup_logs()
        home.clock.advance(30_000 + DELAY_MS)

        assert "t-0" in at_first
        assert (manager.topics(), manager.live_dirs) == ({}, ["/a", "/b"])
    assert [name for name in home.files("/a") if name.startswith("t-")] == []


def test_a_log_that_was_stopped_in_a_change_is_deleted() -> None:
    """What is deleted need not be made whole before."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        home.fs.fail("truncate", ".index", OSError(EMFILE, "too many open files"))
        with pytest.raises(KafkaStorageError):
            manager.partition("t", 0).log.truncate_to(1)
        manager.delete_topic("t")
        home.clock.advance(30_000 + DELAY_MS)

        assert [name for name in home.files() if name.startswith("t-")] == []
        assert manager.live_dirs == ["/data"]


@pytest.mark.parametrize("error", [EMFILE, ENOSPC])
@pytest.mark.parametrize("operation", ["list", "delete", "delete_directory"])
def test_files_that_could_not_be_deleted_are_deleted_later(operation: str, error: int) -> None:
    """A full disk, or a lack of descriptors, passes."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        manager.delete_topic("t")
        [name] = [name for name in home.files() if name.startswith("t-")]
        ending = ".log" if operation == "delete" else name
        home.fs.fail(operation, ending, OSError(error, "it does not work"))
        home.clock.advance(30_000 + DELAY_MS)
        at_first = home.fs.exists(f"/data/{name}")
        home.clock.advance(DELAY_MS)

        assert (at_first, home.fs.exists(f"/data/{name}")) == (True, False)
        assert manager.live_dirs == ["/data"]


def test_files_that_cannot_be_deleted_are_tried_once_a_minute() -> None:
    """Also where they are to be deleted at once."""
    home = ManagerHome(file_delete_delay_ms=0)
    with home.open() as manager:
        manager.create_topic("t")
        manager.delete_topic("t")
        home.fs.fail("list", "-delete", OSError(EMFILE, "too many open files"), 1_000)
        next_ms = manager.delete_renamed_logs()

        assert next_ms == DELAY_MS
        assert len(manager._queue) == 1


@pytest.mark.parametrize("is_moving", [False, True])
def test_nothing_is_kept_in_memory_of_a_topic_that_was_deleted(is_moving: bool) -> None:
    """A service may create and delete topics for ever; one of the same name begins again."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        manager.config_of("t")
        if is_moving:
            manager.move_partition("t", 0, "/b")
        manager.delete_topic("t")
        kept = (dict(manager._mover.ended), dict(manager._topics._configs))
        home.clock.advance(0)
        manager.create_topic("t")

        assert kept == ({}, {})
        assert manager.why_not_moved("t", 0) == ""


def fail_after_rename(home: ManagerHome, ending: str) -> None:
    """Let the sync of a name that ends like this lack a descriptor, once."""
    rename = home.fs.rename
    patch = pytest.MonkeyPatch()

    def renamed(source: str, target: str) -> None:
        rename(source, target)
        if target.endswith(ending):
            patch.undo()
            parent = target.rpartition("/")[0]
            home.fs.fail("sync_directory", parent, OSError(EMFILE, "too many open files"))

    patch.setattr(home.fs, "rename", renamed)


def test_a_service_deletes_the_link_of_an_open_log_and_nothing_behind_it(tmp_path: Path) -> None:
    """The files are not in the data directory."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    clock = ManualClock()

    def started() -> LogService:
        machine = Machine(SYSTEM_FILES, clock, ManualScheduler(clock), Random(0), clock.advance)
        manager = LogService(BrokerConfig(log_dirs=(str(data),)), machine)
        manager.startup()
        return manager

    with started() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 2)
    (data / "t-0").rename(elsewhere)
    (data / "t-0").symlink_to(elsewhere)
    before = (elsewhere / f"{0:020d}.log").read_bytes()
    with started() as manager:
        assert len(values(manager, "t", 0)) == 2
        manager.delete_topic("t")
        clock.advance(30_000 + DELAY_MS)

        assert not [path for path in data.iterdir() if path.name.startswith("t-")]
    assert (elsewhere / f"{0:020d}.log").read_bytes() == before


def test_a_reader_of_a_deleted_log_keeps_its_slice() -> None:
    """Files open by reference stay readable, whatever became of their names.

    Scenario: LogManagerTest.testFileReferencesAfterAsyncDelete
    """
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 2)
        partition = manager.partition("t", 0)
        with partition.log.read(0) as found:
            manager.delete_topic("t")
            home.clock.advance(30_000 + DELAY_MS)

            assert len(found.read()) == found.size_bytes > 0
        with pytest.raises(UnknownTopicOrPartition):
            partition.append_records([(-1, None, b"late", ())])


def test_only_the_checkpoints_of_the_directory_change() -> None:
    """The others are not written.

    Scenario: LogManagerTest.testCheckpointForOnlyAffectedLogs
    """
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        manager.create_topic("u", path="/a")
        for name, number in (("t", 0), ("t", 1), ("u", 0)):
            fill(manager, name, number, 1)
        manager.flush()
        before = len(home.fs.operations)
        manager.delete_topic("u")
        touched = {operation.path for operation in home.fs.operations[before:]}
        name = "recovery-point-offset-checkpoint"

        assert home.lines(name, "/a") == ["t 0 1"]
        assert [path for path in touched if path.startswith("/b/") and "checkpoint" in path] == []


def test_a_deleted_log_leaves_no_metrics_and_a_new_one_has_its_own() -> None:
    """Also while the old one's files wait to be deleted.

    Scenario: LogManagerTest.testMetricsExistWhenLogIsRecreatedBeforeDeletion
    """
    home = ManagerHome()
    with home.open() as manager:

        def names() -> list[str]:
            return [m.kafka_name for m in manager.metrics() if m.type == "Log"]

        manager.create_topic("t")
        first = names()
        manager.delete_topic("t")
        between = names()
        manager.create_topic("t")
        home.clock.advance(30_000 + DELAY_MS)

        assert (len(first), between, names() == first) == (5, [], True)


def test_a_new_topic_of_the_name_starts_empty() -> None:
    """No line of a checkpoint cuts it or moves its start."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 40)
        manager.partition("t", 0).log.delete_records(35)
        manager.flush()
        manager.delete_topic("t")
        manager.create_topic("t")
        fill(manager, "t", 0, 1)
        home.restart()
    with home.open() as manager:
        assert (manager.partition("t", 0).log.log_start_offset, values(manager, "t", 0)) == (
            0,
            [b"value 0"],
        )


def test_what_waited_for_deletion_goes_after_a_restart() -> None:
    """A ``-delete`` directory is not loaded as a log."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        manager.delete_topic("t")
    with home.open() as manager:
        waiting = len(manager._queue)
        home.clock.advance(30_000 + DELAY_MS)

        assert (waiting, [name for name in home.files() if "delete" in name]) == (1, [])


def test_a_topic_with_a_part_offline_is_not_deleted() -> None:
    """Its other part would come back with the disk."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        manager.take_dir_offline("/b", OSError(EIO, "the disk failed"))
        home.clock.advance(0)

        with pytest.raises(KafkaStorageError):
            manager.delete_topic("t")
        assert manager.partition("t", 0).log.log_end_offset == 0


@pytest.mark.parametrize("loading", Loading)
def test_a_disk_that_fails_in_a_deletion_leaves_no_log_of_the_topic_in_service(
    loading: Loading,
) -> None:
    """A topic made again has logs of its own, which the next start keeps."""
    home = ManagerHome("/a", "/b")
    with home.open_as(loading) as manager:
        manager.create_topic("t", 4, is_spread=True)
        old = [manager.partition("t", number) for number in range(4)]
        for number in range(4):
            fill(manager, "t", number, 3)
        home.fs.fail("rename", "/b/t-1", OSError(EIO, "the disk failed"))
        with pytest.raises(KafkaStorageError, match="the disk failed"):
            manager.delete_topic("t")
        for partition in old:
            with pytest.raises(UnknownTopicOrPartition):
                partition.append_records([(-1, None, b"late", ())])
        manager.create_topic("t", 4)
        for number in range(4):
            fill(manager, "t", number, 2)

        assert [len(values(manager, "t", number)) for number in range(4)] == [2] * 4
    home.paths = ("/a",)
    home.restart()
    with home.open() as manager:
        assert [len(values(manager, "t", number)) for number in range(4)] == [2] * 4


def test_a_log_whose_copy_cannot_be_renamed_is_deleted_with_its_topic() -> None:
    """The copy is renamed by the next pass."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        fill(manager, "t", 0, 3)
        manager.move_partition("t", 0, "/b")
        home.fs.fail("rename", "-future", OSError(ENOSPC, "the disk is full"), count=2)
        manager.delete_topic("t")

        assert manager.all_logs() == []
        assert copies(home) == ["t-0-delete", "t-0-future"]
        manager.tasks.cleanup_logs()
        assert copies(home) == ["t-0-delete", "t-0-delete"]


def test_a_creation_that_is_undone_while_a_disk_fails_does_not_count_as_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The topic is deleted; what the failing disk has of it waits for the next start."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        home.fs.fail("make_directory", "/a/t-0", OSError(ENOSPC, "the disk is full"))
        home.fs.fail("rename", "/b/t-1", OSError(EIO, "the disk failed"))
        with pytest.raises(KafkaStorageError, match="the disk is full"):
            manager.create_topic("t", 2, is_spread=True)

        assert (manager.topics(), manager.live_dirs) == ({}, ["/a"])
        assert "creation-not-undone" not in caplog.text


def test_a_topic_is_not_made_again_while_the_old_one_cannot_be_renamed() -> None:
    """The full disk is met before the catalogue names the topic: it can be made later."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 2)
        fill(manager, "t", 0, 3)
        home.fs.fail("rename", "/data/t-0", OSError(ENOSPC, "the disk is full"), count=2)
        manager.delete_topic("t")
        with pytest.raises(KafkaStorageError):
            manager.create_topic("t", 2)
        between = manager.topics()
        manager.create_topic("t", 2)
        fill(manager, "t", 0, 1)

        assert (between, len(values(manager, "t", 0))) == ({}, 1)


@pytest.mark.parametrize("operations", range(0, 24, 2))
def test_a_deletion_is_finished_after_a_crash_or_never_began(operations: int) -> None:
    """Half a topic never comes back, and its name is not adopted from what is left."""
    home = ManagerHome("/a", "/b", seed=operations)
    manager = home.open()
    manager.create_topic("t", 2, is_spread=True)
    fill(manager, "t", 0, 1)
    fill(manager, "t", 1, 1)
    manager.flush()
    home.fs.crash_after(operations)
    with suppress(PowerCut, KafkaStorageError):
        manager.delete_topic("t")
    home.power_cut()
    with home.open() as manager:
        found = manager.topics()
        sizes = [len(values(manager, "t", number)) for number in (0, 1)] if found else []
        live = [n for path in home.paths for n in home.files(path) if n in {"t-0", "t-1"}]

    assert sizes == ([1, 1] if found else [])
    assert len(live) == (2 if found else 0)


def home_with_a_move_under_way() -> ManagerHome:
    """Return a home with the incomplete copies of two topics."""
    home = ManagerHome("/a", "/b")
    manager = home.open()
    for name in ("t", "u"):
        manager.create_topic(name)
        fill(manager, name, 0, 3)
        manager.move_partition(
            name, 0, "/a" if "/b" in manager.partition(name, 0).log.directory else "/b"
        )
    home.restart()
    return home


def copies(home: ManagerHome) -> list[str]:
    """Return the names of all copies and of what was deleted, without the random part."""
    names = [name for path in home.paths for name in home.files(path)]
    return sorted(f"{n.split('.')[0]}{n[-7:]}" for n in names if n.endswith(("-future", "-delete")))


def test_a_topic_deleted_by_a_short_lived_writer_takes_its_copy_along() -> None:
    """Nothing had opened the copy; those of other topics stay."""
    home = home_with_a_move_under_way()
    with home.open_as(Loading.FIRST_USE) as manager:
        manager.delete_topic("t")

        assert copies(home) == ["t-0-delete", "t-0-delete", "u-0-future"]
    assert copies(home) == ["u-0-future"]


def test_what_is_left_of_a_deleted_topic_includes_its_copy() -> None:
    """A process that ended between the catalogue and the renaming left it."""
    home = home_with_a_move_under_way()
    with home.open_as(Loading.FIRST_USE) as manager:
        manager._topics.delete("t")
        fill(manager, "u", 0, 1)

    assert copies(home) == ["u-0-future"]


@pytest.mark.parametrize("loading", list(Loading))
@pytest.mark.parametrize(
    "damaged", ["t-0", "t-1.0123456789abcdef0123456789abcdef-future"], ids=["log", "copy"]
)
def test_damage_in_another_partition_does_not_stop_a_deletion(
    loading: Loading, damaged: str
) -> None:
    """Neither one that begins now nor one that an earlier process has left unfinished."""
    home = ManagerHome()
    with home.open() as manager:
        for name in ("t", "begun", "now"):
            manager.create_topic(name)
        manager._topics.delete("begun")
        home.restart()
    if damaged != "t-0":
        home.fs.make_directory(f"/data/{damaged}")
    home.fs.write(f"/data/{damaged}/partition.metadata", b"garbage")
    with home.open_as(loading) as manager:
        manager.delete_topic("now")
    with home.open() as manager:
        assert (list(manager.topics()), manager.live_dirs) == (["t"], ["/data"])
        home.clock.advance(30_000 + DELAY_MS)
    assert [name for name in home.files() if name.startswith(("begun", "now"))] == []
