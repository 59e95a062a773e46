"""A disk that fails, or is full, while a start puts logs in order: everything else is served."""

from __future__ import annotations

from errno import EACCES, EIO, EMFILE, ENOSPC, EROFS
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, copy_log, delete_log, fill, values

from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import KafkaStorageError
from tidelog.log.topic_id import write_partition_metadata
from tidelog.manager.metrics.health import degraded_reasons
from tidelog.segment.filenames import TopicPartition, log_future_directory_name

if TYPE_CHECKING:
    from tidelog.manager.log_manager import LogManager

KEY = TopicPartition("t", 0)
COPY = log_future_directory_name(*KEY, "0" * 32)
ERRORS = [EIO, ENOSPC, EACCES, EROFS]
OFFLINE = {EIO, EACCES, EROFS}
VALUES = [b"value 0", b"value 1", b"value 2"]


def home_with_topics() -> ManagerHome:
    """Return directories with t-0 in /a, u-0 in /b and more in both, cleanly closed."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    with home.open() as manager:
        for name, path in (("t", "/a"), ("u", "/b"), ("a", "/a"), ("b", "/b")):
            manager.create_topic(name, path=path)
            fill(manager, name, 0, 3)
    home.scheduler.forget()
    return home


def left_of_a_move() -> ManagerHome:
    """Return directories where t-0 has moved to /b, and its older log is still in /a."""
    home = home_with_topics()
    copy_log(home, "/a/t-0", "/b/left")
    with home.open() as manager:
        manager.move_partition(*KEY, "/b")
        home.clock.advance(90_000)
        fill(manager, "t", 0, 1)
    home.scheduler.forget()
    copy_log(home, "/b/left", "/a/t-0")
    delete_log(home, "/b/left")
    return home


def live(error: int, failing: str) -> list[str]:
    """Return which directories are online after an error in one of them."""
    return [path for path in ("/a", "/b") if path != failing or error not in OFFLINE]


def check_not_served(manager: LogManager, topic: str) -> None:
    """Check that a partition is refused with a typed error."""
    with pytest.raises(KafkaStorageError):
        manager.partition(topic, 0)


@pytest.mark.parametrize("error", ERRORS)
def test_a_missing_partition_that_cannot_be_created_is_left_out(error: int) -> None:
    """It is created by a later start."""
    home = home_with_topics()
    delete_log(home, "/b/u-0")
    home.fs.fail("make_directory", "/b/u-0", OSError(error, "bad"), count=9)
    with home.open() as manager:
        check_not_served(manager, "u")
        assert manager.live_dirs == live(error, "/b")
        assert values(manager, "a", 0) == VALUES
    home.scheduler.forget()
    again = home.copied(1)
    with again.open() as manager:
        assert values(manager, "u", 0) == []


@pytest.mark.parametrize("error", [EIO, EACCES])
def test_a_partition_that_cannot_be_looked_for_does_not_stop_the_start(error: int) -> None:
    """Its directory goes offline, and the logs of the others are served."""
    home = home_with_topics()
    delete_log(home, "/b/u-0")
    home.fs.fail("exists", "/b/u-0", OSError(error, "bad"), count=9)
    with home.open() as manager:
        check_not_served(manager, "u")
        assert manager.live_dirs == ["/a"]
        assert values(manager, "a", 0) == VALUES


def test_the_other_missing_partitions_of_a_topic_are_created() -> None:
    """Each in its own directory."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("s", 2, is_spread=True)
    delete_log(home, "/a/s-0")
    delete_log(home, "/b/s-1")
    home.fs.fail("make_directory", "/a/s-0", OSError(ENOSPC, "full"))
    with home.open() as manager:
        with pytest.raises(KafkaStorageError, match="s-0 could not be loaded"):
            manager.partition("s", 0)
        fill(manager, "s", 1, 1)
        assert values(manager, "s", 1) == [b"value 0"]


def test_a_missing_log_whose_files_cannot_be_created_is_left_out() -> None:
    """The directory is there by then."""
    home = home_with_topics()
    delete_log(home, "/b/u-0")
    home.fs.fail("open", f"/b/u-0/{0:020}.log", OSError(ENOSPC, "full"))
    with home.open() as manager:
        check_not_served(manager, "u")
        assert [values(manager, name, 0) for name in ("a", "b")] == [VALUES, VALUES]
    home.scheduler.forget()
    with home.open() as manager:
        assert values(manager, "u", 0) == []


@pytest.mark.parametrize("error", [EIO, ENOSPC])
def test_a_log_that_has_moved_is_served_though_its_old_one_cannot_be_renamed(error: int) -> None:
    """The disk that it was moved away from is the one likely to fail."""
    home = left_of_a_move()
    home.fs.fail("rename", "/a/t-0", OSError(error, "bad"), count=9)
    with home.open() as manager:
        assert manager.live_dirs == live(error, "/a")
        assert values(manager, "t", 0) == [*VALUES, b"value 0"]


def test_what_a_move_has_left_is_deleted_with_its_topic() -> None:
    """A start that finds it would take it for the topic otherwise, with its old records."""
    home = left_of_a_move()
    home.fs.fail("rename", "/a/t-0", OSError(ENOSPC, "full"), count=1)
    with home.open() as manager:
        assert "t-0" in home.files("/a")
        manager.delete_topic("t")
        assert "t-0" not in home.files("/a")
        manager.create_topic("t", path="/a")
        manager.delete_topic("t")
    home.scheduler.forget()
    with home.open() as manager:
        assert "t" not in manager.topics()


@pytest.mark.parametrize("loading", Loading)
def test_no_log_is_created_while_a_disk_is_offline_that_may_hold_it(loading: Loading) -> None:
    """It was moved there without the catalogue; it is served once that disk is back."""
    home = home_with_topics()
    home.fs.rename("/a/t-0", "/b/t-0")
    home.fs.fail("list", "/b", OSError(EIO, "the disk failed"), count=99)
    with home.open_as(loading) as manager:
        with pytest.raises(KafkaStorageError, match="t-0 may lie in a directory that is offline"):
            manager.partition("t", 0)
        assert values(manager, "a", 0) == VALUES
    assert "t-0" not in home.files("/a")
    home.scheduler.forget()
    with home.copied(1).open() as manager:
        assert values(manager, "t", 0) == VALUES


@pytest.mark.parametrize("paths", [("/a", "/b"), ("/b", "/a"), ("/a",)])
def test_partitions_of_a_directory_that_is_not_in_use_degrade_the_service(
    paths: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Its disk is not mounted, so that the path is empty, or it was not named."""
    home = home_with_topics()
    with home.open() as manager:
        directory_id = manager.directory_id("/b")
        assert degraded_reasons(manager.state_metrics()) == []
    home.scheduler.forget()
    home.fs.rename("/b", "/unmounted")
    home.fs.make_directory("/b")
    home.paths = paths
    with home.open() as manager:
        check_not_served(manager, "u")
        reasons = degraded_reasons(manager.state_metrics())
        told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]

    place = format_uuid(directory_id)
    (reason,) = reasons
    assert reason.startswith("partitions not served, ")
    assert reason.endswith(": 2")
    assert f"directory.id {place}" in reason
    assert told == [f"partitions-elsewhere count=2 directory_id={place} topic=b, u"]


@pytest.mark.parametrize("loading", Loading)
def test_a_log_is_found_where_the_catalogue_does_not_name_it(loading: Loading) -> None:
    """It was moved there by hand."""
    home = home_with_topics()
    home.fs.rename("/a/t-0", "/b/t-0")
    with home.open_as(loading) as manager:
        assert values(manager, "t", 0) == VALUES
        fill(manager, "t", 0, 1)
    home.scheduler.forget()
    assert "t-0" not in home.files("/a")
    with home.open() as manager:
        assert values(manager, "t", 0) == [*VALUES, b"value 0"]


def test_a_log_that_is_longer_than_the_one_in_its_place_is_not_deleted() -> None:
    """It may have been written while nobody knew of the one that the catalogue names."""
    home = home_with_topics()
    copy_log(home, "/a/t-0", "/b/t-0")
    with home.open() as manager:
        assert "t-0" not in home.files("/b")
    home.scheduler.forget()
    home.fs.rename("/a/t-0", "/b/kept")
    with home.open() as manager:
        fill(manager, "t", 0, 1)
    home.scheduler.forget()
    home.fs.rename("/b/kept", "/b/t-0")
    with pytest.raises(KafkaStorageError, match="t-0 lies both in"):
        home.open()
    assert home.fs.exists("/b/t-0/00000000000000000000.log")


def test_the_log_that_a_move_has_left_is_not_served_while_the_other_is_offline() -> None:
    """It lacks what was appended since; the next start with both serves the newer one."""
    home = left_of_a_move()
    home.fs.fail("lock", "/b/.lock", OSError(EIO, "the disk failed"))
    with home.open() as manager:
        check_not_served(manager, "t")
        assert values(manager, "a", 0) == VALUES
    home.scheduler.forget()
    with home.open() as manager:
        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert values(manager, "t", 0) == [*VALUES, b"value 0"]


def test_the_log_that_a_move_has_left_is_not_served_if_the_other_cannot_be_loaded() -> None:
    """Though its disk works."""
    home = left_of_a_move()
    home.fs.fail("open", f"/b/t-0/{0:020}.log", OSError(ENOSPC, "full"), count=9)
    with home.open() as manager:
        check_not_served(manager, "t")
        assert values(manager, "a", 0) == VALUES


@pytest.mark.parametrize("error", [EIO, ENOSPC])
def test_a_copy_that_is_the_log_and_cannot_be_renamed_is_left_out(error: int) -> None:
    """A later start finishes the move."""
    home = home_with_topics()
    home.fs.rename("/b/u-0", f"/b/{COPY.replace('t-0', 'u-0')}")
    home.fs.fail("rename", "-future", OSError(error, "bad"))
    with home.open() as manager:
        check_not_served(manager, "u")
        assert manager.live_dirs == live(error, "/b")
        assert values(manager, "a", 0) == VALUES
    home.scheduler.forget()
    with home.open() as manager:
        assert values(manager, "u", 0) == VALUES


@pytest.mark.parametrize("error", [EIO, ENOSPC])
def test_a_stray_log_that_cannot_be_renamed_is_left_out(error: int) -> None:
    """The partition of that name is not created over it."""
    home = home_with_topics()
    home.fs.delete("/b/u-0/partition.metadata")
    write_partition_metadata(home.fs, "/b/u-0/partition.metadata", UUID(int=9, version=4))
    home.fs.fail("rename", "/b/u-0", OSError(error, "bad"))
    with home.open() as manager:
        check_not_served(manager, "u")
        assert manager.live_dirs == live(error, "/b")
        assert values(manager, "a", 0) == VALUES


def test_the_log_of_a_deleted_topic_that_cannot_be_renamed_stays_deleted() -> None:
    """The next pass of retention renames it; no start adopts it."""
    home = home_with_topics()
    copy_log(home, "/b/u-0", "/b/left")
    with home.open() as manager:
        manager.take_dir_offline("/a", OSError(EIO, "bad"))
        manager.delete_topic("u")
        home.clock.advance(90_000)
    home.scheduler.forget()
    home.fs.rename("/b/left", "/b/u-0")
    home.fs.fail("rename", "/b/u-0", OSError(ENOSPC, "full"))
    with home.open() as manager:
        assert "u" not in manager.topics()
        assert "u-0" in home.files("/b")
        manager.tasks.cleanup_logs()
        assert "u-0" not in home.files("/b")
    home.scheduler.forget()
    with home.open() as manager:
        assert sorted(manager.topics()) == ["a", "b", "t"]


def test_catalogues_are_written_though_one_disk_fails() -> None:
    """That of another directory is."""
    home = home_with_topics()
    for path in home.paths:
        home.fs.delete(f"{path}/tidelog.topics.json")
    home.fs.fail("rename", "/a/tidelog.topics.json.tmp", OSError(EIO, "bad"), count=9)
    with home.open() as manager:
        assert (manager.live_dirs, values(manager, "b", 0)) == (["/b"], VALUES)
    assert "tidelog.topics.json" in home.files("/b")


def test_a_log_whose_place_is_noted_is_served_though_another_disk_fails() -> None:
    """It was in another directory before, as after a copy by hand."""
    home = home_with_topics()
    home.fs.rename("/a/t-0", "/b/t-0")
    home.fs.fail("rename", "/a/tidelog.topics.json.tmp", OSError(EIO, "bad"), count=9)
    with home.open() as manager:
        assert (manager.live_dirs, values(manager, "t", 0)) == (["/b"], VALUES)


@pytest.mark.parametrize("error", [EIO, ENOSPC])
def test_a_move_whose_copy_cannot_be_truncated_is_given_up(error: int) -> None:
    """After an unclean end; the log is served from where it is."""
    home = home_with_topics()
    copy_log(home, "/a/t-0", f"/b/{COPY}")
    home.fs.delete("/b/.kafka_cleanshutdown")
    home.fs.fail("truncate", f"{COPY}/{0:020}.log", OSError(error, "bad"), count=9)
    with home.open() as manager:
        assert manager.live_dirs == live(error, "/b")
        assert values(manager, "t", 0) == VALUES
        assert manager.why_not_moved(*KEY) != ""


def test_a_start_that_lacks_descriptors_fails() -> None:
    """Nothing is wrong with the disk, and the next start serves everything."""
    home = left_of_a_move()
    home.fs.fail("rename", "/a/t-0", OSError(EMFILE, "too many open files"))
    with pytest.raises(KafkaStorageError):
        home.open()
    home.restart()
    with home.open() as manager:
        assert values(manager, "t", 0) == [*VALUES, b"value 0"]
