"""In which directory new logs are created, and what is said of it."""

from __future__ import annotations

from errno import EIO, ENOSPC
from typing import TYPE_CHECKING

import pytest
from tests.machinery.counted_lines import Lines
from tests.machinery.manager_home import Loading, ManagerHome, fill, values

from tidelog.embedded.logs import Logs
from tidelog.errors import (
    CommitUnfinished,
    InvalidPartitions,
    KafkaStorageError,
    TopicAlreadyExists,
)
from tidelog.staging.directory import CommitPoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.log_manager import LogManager

FIRST_USE = Loading.FIRST_USE
WATERMARKS = "replication-offset-checkpoint"


def test_a_short_lived_writer_creates_topics_in_the_emptiest_directory() -> None:
    """The logs that it has not loaded count, too."""
    home = ManagerHome("/a", "/b", "/c")
    with home.open() as manager:
        for number in range(3):
            manager.create_topic(f"t{number}")
        manager.create_topic("u")
    with home.open_as(FIRST_USE) as manager:
        manager.create_topic("v", 2)
        manager.create_topic("w")
        found = {path: [n for n in home.files(path) if n[-2:-1] == "-"] for path in home.paths}

    assert found == {"/a": ["t0-0", "u-0"], "/b": ["t1-0", "v-0", "v-1"], "/c": ["t2-0", "w-0"]}


def test_a_new_topic_over_stale_checkpoint_lines_has_lost_nothing() -> None:
    """The lines are those of an earlier topic of the name, as another program left them."""
    for loading in Loading:
        home = ManagerHome()
        with home.open() as manager:
            manager.create_topic("other")
            fill(manager, "other", 0, 1)
        lines = b"0\n2\nother 0 1\nt 0 7\n"
        home.fs.write(f"/data/{WATERMARKS}", lines)
        with home.open_as(loading) as manager:
            manager.create_topic("t")

            assert manager._registry.lost == set()
            assert values(manager, "t", 0) == []


def test_nothing_is_created_once_all_directories_are_offline() -> None:
    """The error names them."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        for path in home.paths:
            manager.take_dir_offline(path, OSError(EIO, "bad disk"))
        with pytest.raises(KafkaStorageError, match=r"/a is offline.*/b is offline"):
            manager.create_topic("u")
        with pytest.raises(KafkaStorageError, match=r"/a is offline.*/b is offline"):
            manager.create_partitions("t", 2)


@pytest.mark.parametrize(
    ("operation", "path"),
    [("make_directory", "/a/t-0"), ("open", "/a/t-0/00000000000000000000.log")],
)
def test_a_disk_that_fails_in_a_creation_leaves_the_other_partitions_in_service(
    operation: str, path: str
) -> None:
    """The topic exists; what lies in the disk that failed is created by a later start."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        home.fs.fail(operation, path, OSError(EIO, "the disk failed"))
        with pytest.raises(KafkaStorageError, match="the disk failed"):
            manager.create_topic("t", 4, is_spread=True)
        for number in (1, 3):
            fill(manager, "t", number, 1)

        assert manager.live_dirs == ["/b"]
    with home.open() as manager:
        assert [len(values(manager, "t", number)) for number in range(4)] == [0, 1, 0, 1]


@pytest.mark.parametrize("loading", list(Loading))
@pytest.mark.parametrize("where", ["/a/u-0", "/b/u-0", "/a/t-1"])
@pytest.mark.parametrize("name", ["photo.jpg", "partition.metadata", None])
def test_a_partition_is_not_created_over_what_is_there(
    loading: Loading, where: str, name: str | None
) -> None:
    """In none of the data directories: a deletion would take it away, or a start find two logs."""
    home = ManagerHome("/a", "/b")
    with home.open_as(loading) as manager:
        manager.create_topic("t", path="/a")
        home.fs.make_directory(where)
        if name is not None:
            home.fs.write(f"{where}/{name}", b"not an id")
        calls: list[Callable[[], object]]
        calls = [lambda: manager.create_partitions("t", 3)]
        if "u-0" in where:
            calls = [
                lambda: manager.create_topic("u", path="/a"),
                lambda: create_in_transaction(manager, "u"),
            ]
        for call in calls:
            with pytest.raises(KafkaStorageError, match=f"{where} is left alone"):
                call()
        assert (list(manager.topics()), list(manager.topic("t").partitions)) == (["t"], [0])

    assert home.files(where) == ([] if name is None else [name])
    assert [name for name in home.files("/a") if name[-2:-1] == "-"] == sorted(
        {"t-0", where[3:]} if where.startswith("/a") else {"t-0"}
    )


def create_in_transaction(manager: LogManager, topic: str) -> None:
    """Create a topic in a transaction."""
    with Logs(manager).transaction("x", "/a") as txn:
        txn.create_topic(topic)
        txn.append(topic, b"a")


def test_a_creation_that_a_handler_of_a_signal_breaks_off_is_completed_by_its_first_use() -> None:
    """It may raise an OSError, which is then not one of the disk."""
    home = ManagerHome()
    manager = home.open()
    home.fs.fail("open", "partition.metadata.tmp", TimeoutError("of the program"))

    with pytest.raises(TimeoutError, match="of the program"):
        manager.create_topic("t", 2)

    fill(manager, "t", 1, 1)
    assert [values(manager, "t", number) for number in (0, 1)] == [[], [b"value 0"]]
    assert manager.live_dirs == [*home.paths]


def test_a_committed_topic_waits_for_its_place() -> None:
    """What came there since the commit stays, and the topic is created once it is moved away."""
    home = ManagerHome("/a")
    manager = home.open()

    def put_there(point: CommitPoint) -> None:
        if point is CommitPoint.COMMITTED:
            home.fs.make_directory("/a/u-0")
            home.fs.write("/a/u-0/photo.jpg", b"photo")

    manager.staged_commits.on_point = put_there
    with pytest.raises(CommitUnfinished, match="u-0 is left alone"):
        create_in_transaction(manager, "u")
    assert "u" not in manager.topics()
    home.fs.rename("/a/u-0", "/a/photos")
    manager.staged_commits.finish_all()

    assert values(manager, "u", 0) == [b"a"]
    assert home.files("/a/photos") == ["photo.jpg"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_a_deleted_topic_has_left_makes_room_for_a_new_one(is_killed: bool) -> None:
    """Its directory is known by its id, also in the process after the one that was killed."""
    home = ManagerHome()
    manager = home.open_as(FIRST_USE)
    manager.create_topic("t")
    fill(manager, "t", 0, 1)
    home.fs.fail("rename", "/data/t-0", OSError(ENOSPC, "full"))
    manager.delete_topic("t")
    assert "t-0" in home.files()
    if is_killed:
        home.restart()
        manager = home.open_as(FIRST_USE)
    manager.create_topic("t")
    fill(manager, "t", 0, 2)

    assert values(manager, "t", 0) == [b"value 0", b"value 1"]


def test_a_creation_that_is_refused_leaves_nothing_of_what_it_finished() -> None:
    """It finished the deletion of a topic: that directory has changed, and is tidied up."""
    home = ManagerHome()
    manager = home.open_as(FIRST_USE)
    for name in ("t", "u"):
        manager.create_topic(name)
    home.fs.fail("rename", "/data/t-0", OSError(ENOSPC, "full"))
    manager.delete_topic("t")
    home.restart()
    assert "t-0" in home.files()
    with home.open_as(FIRST_USE) as manager:
        home.fs.make_directory("/data/s-0")
        with pytest.raises(KafkaStorageError, match="s-0 is left alone"):
            manager.create_topic("s")

    assert [name for name in home.files() if name.startswith("t-")] == []


@pytest.mark.parametrize("errors", [(EIO, ENOSPC), (ENOSPC, EIO)])
@pytest.mark.parametrize("operation", ["make_directory", "open"])
def test_a_partition_that_one_disk_has_no_space_for_comes_later_if_another_disk_fails(
    operation: str, errors: tuple[int, int]
) -> None:
    """The topic cannot be removed then; each partition is refused with the reason of its disk."""
    home = ManagerHome("/a", "/b", "/c")
    name = f"/{0:020}.log" if operation == "open" else ""
    with home.open() as manager:
        for path, at, error in zip(("/a", "/b"), range(2), errors, strict=False):
            home.fs.fail(operation, f"{path}/t-{at}{name}", OSError(error, f"error of {path}"))
        with pytest.raises(KafkaStorageError, match="error of /a"):
            manager.create_topic("t", 3, is_spread=True)
        for at, path in enumerate(("/a", "/b")):
            with pytest.raises(KafkaStorageError, match=f"error of {path}"):
                manager.partition("t", at)
        home.clock.advance(60_000)
        fill(manager, "t", errors.index(ENOSPC), 1)

        assert values(manager, "t", errors.index(ENOSPC)) == [b"value 0"]
        assert values(manager, "t", 2) == []


@pytest.mark.parametrize("operation", ["make_directory", "open"])
def test_a_creation_that_is_undone_leaves_no_partition_to_come_later(operation: str) -> None:
    """Of a topic, and of partitions that are added; they are created by the next call."""
    home = ManagerHome()
    name = f"/{0:020}.log" if operation == "open" else ""
    with home.open() as manager:
        manager.create_topic("u")
        for topic, at in (("t", 0), ("u", 1)):
            home.fs.fail(operation, f"/data/{topic}-{at}{name}", OSError(ENOSPC, "full"))
        with pytest.raises(KafkaStorageError, match="full"):
            manager.create_topic("t")
        with pytest.raises(KafkaStorageError, match="full"):
            manager.create_partitions("u", 2)
        home.clock.advance(60_000)

        assert manager._registry.failed() == {}
        assert (list(manager.topics()), list(manager.topic("u").partitions)) == (["u"], [0])
        manager.create_partitions("u", 2)
        fill(manager, "u", 1, 1)


def test_partitions_that_a_full_disk_keeps_listed_come_into_service_later() -> None:
    """They could not be created, nor taken from the catalogue again; each has its reason."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("u")
        home.fs.fail("open", f"/data/u-2/{0:020}.log", OSError(ENOSPC, "full"))
        home.fs.fail("rename", "tidelog.topics.json.tmp", OSError(ENOSPC, "full"), skipped=1)
        with pytest.raises(KafkaStorageError, match="full"):
            manager.create_partitions("u", 3)
        assert len(manager.topic("u").partitions) == 3
        for number in (1, 2):
            with pytest.raises(KafkaStorageError, match="full"):
                manager.partition("u", number)
        home.clock.advance(60_000)
        for number in (1, 2):
            fill(manager, "u", number, 1)

        assert [values(manager, "u", number) for number in (1, 2)] == [[b"value 0"]] * 2


def add_partitions(manager: LogManager) -> object:
    """Give a topic two more partitions."""
    return manager.create_partitions("t", 3)


def create_another(manager: LogManager) -> object:
    """Create a topic with a setting."""
    return manager.create_topic("u", 3, {"retention.ms": "5"})


@pytest.mark.parametrize("act", [add_partitions, create_another])
@pytest.mark.parametrize("loading", Loading)
def test_a_repetition_creates_what_a_failed_disk_has_left_out(
    act: Callable[[LogManager], object], loading: Loading
) -> None:
    """The catalogue names all partitions by then, but it is not refused for that."""
    home = ManagerHome()
    with home.open() as service:
        service.create_topic("t")
    failing = home.open_as(FIRST_USE)
    home.fs.fail("make_directory", "-2", OSError(EIO, "bad block"))
    with pytest.raises(KafkaStorageError, match="bad block"):
        act(failing)
    home.restart()
    home.fs.mend()

    with home.open_as(FIRST_USE) as manager:
        act(manager)

        name = "t" if act is add_partitions else "u"
        assert {f"{name}-{number}" for number in range(3)} <= set(home.files("/data"))
        assert not manager._registry.lost
    with home.open_as(loading) as manager:
        with pytest.raises((InvalidPartitions, TopicAlreadyExists)):
            act(manager)
        fill(manager, name, 2, 1)


def test_a_topic_of_other_settings_is_not_taken_for_one_that_was_begun() -> None:
    """It exists, whether its directories are there or not."""
    home = ManagerHome()
    with home.open() as service:
        service.create_topic("u", 3, {"retention.ms": "6"})
    home.fs.rename("/data/u-2", "/lost")

    with home.open_as(FIRST_USE) as manager, pytest.raises(TopicAlreadyExists):
        create_another(manager)

    assert "u-2" not in home.files("/data")


@pytest.mark.usefixtures("engine")
def test_a_topic_is_created_with_hardly_a_look_at_the_others() -> None:
    """Its catalogue is written whole; nothing else is asked of each topic that is there."""

    def cost(topics: int) -> int:
        home, lines = ManagerHome("/a"), Lines()
        with home.open() as manager:
            for number in range(topics):
                manager.create_topic(f"t{number}")
            with lines.counted():
                manager.create_topic("another")
        return lines.count

    assert cost(90) - cost(30) <= 4 * 60
