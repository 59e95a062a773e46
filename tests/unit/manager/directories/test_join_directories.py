"""Data directories that were made apart, and belong together afterwards."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.datadir.catalogue import read_catalogue, write_catalogue
from tidelog.datadir.deletion_marks import mark_deleted
from tidelog.errors import DirectoryLocked, InvalidArgument, KafkaStorageError
from tidelog.manager.directories.join_directories import join_directories
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tests.conftest import Enumerated

    from tidelog.embedded.logs import Logs
    from tidelog.manager.directories.join_directories import Joined
    from tidelog.testing.disk import Kept

PATHS = ("/a", "/b", "/c")
KEPT: tuple[Kept, ...] = ("all", "none")


@pytest.fixture
def home() -> DataHome:
    """Three directories, each made alone, with a topic of its own."""
    return made()


def made(seed: int = 0) -> DataHome:
    """Return a machine with directories that were made apart."""
    home = DataHome(seed)
    for path in PATHS:
        with opened(home, path) as logs:
            name = f"t{path[1:]}"
            logs.create_topic(name)
            logs.append(name, name.encode())
    return home


def opened(home: DataHome, *paths: str) -> Logs:
    """Open some directories together."""
    return home.open(paths=paths)


def join(home: DataHome, *paths: str, **how: Any) -> list[Joined]:
    """Join some directories."""
    return join_directories(paths, fs=home.fs, rng=Random(7), **how)


def values(home: DataHome, *paths: str) -> dict[str, list[bytes | None]]:
    """Return what the topics of directories hold that are opened together."""
    with opened(home, *paths) as logs:
        return {name: [one.value for one in logs.read(name)] for name in sorted(logs.topics())}


ALL = {"ta": [b"ta"], "tb": [b"tb"], "tc": [b"tc"]}


def test_directories_made_apart_are_opened_together_once_they_are_joined(home: DataHome) -> None:
    """The error names the command; nothing is lost, and a repeat changes nothing."""
    with pytest.raises(InvalidArgument, match="`tidelog join /a /b /c` lets them belong"):
        opened(home, *PATHS)

    first, again = join(home, *PATHS), join(home, *PATHS)

    assert [one.was_changed for one in first] == [False, True, True]
    assert [one.was_changed for one in again] == [False, False, False]
    assert len({(one.cluster_id, one.node_id) for one in (*first, *again)}) == 1
    assert values(home, *PATHS) == ALL
    assert all(home.fs.exists(f"{path}/.kafka_cleanshutdown") for path in PATHS)


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_a_join_that_was_cut_off_loses_nothing_and_can_be_repeated(
    step: int, enumerated: Enumerated
) -> None:
    """After each operation, with all or nothing of what was not synced."""
    home = made()
    begun = len(home.fs.operations)
    join(home, *PATHS)
    count, crashes = len(home.fs.operations) - begun, 0
    for operations in range(0, count + 1, step):
        for kept in KEPT:
            home = made()
            home.fs.crash_after(operations)
            with suppress(PowerCut):
                join(home, *PATHS)
            home.fs.power_cut(kept)
            for path in PATHS:
                name = f"t{path[1:]}"
                assert values(home.copied(1), path)[name] == [name.encode()]
            join(home, *PATHS)
            assert values(home, *PATHS) == ALL
            crashes += 1
    enumerated("crashes", crashes, at_least=4)


def test_a_repeated_join_is_durable() -> None:
    """Also where a call that was killed has written all, and a power cut follows."""
    home = made()
    home.fs.fail("sync_directory", "/b", OSError(errno.EMFILE, "no descriptor"))
    with pytest.raises(OSError, match="no descriptor"):
        join(home, *PATHS)
    home.fs.kill()

    join(home, *PATHS)
    home.fs.power_cut("none")

    assert values(home, *PATHS) == ALL


def refusal(home: DataHome, *paths: str) -> str:
    """Return why directories are not joined; nothing was changed."""
    before = [home.fs.read(f"{path}/meta.properties") for path in PATHS]
    with pytest.raises(InvalidArgument, match="nothing was changed") as refused:
        join(home, *paths)
    assert [home.fs.read(f"{path}/meta.properties") for path in PATHS] == before
    return str(refused.value)


def test_topics_of_one_name_are_refused(home: DataHome) -> None:
    """One of them would hide the other; so would names that metrics do not distinguish."""
    for name in ("both", "x.y"):
        with opened(home, "/a") as logs:
            logs.create_topic(name)
    with opened(home, "/b") as logs:
        logs.create_topic("both")
    with opened(home, "/c") as logs:
        logs.create_topic("x_y")

    assert "topic both is in /a and in /b: delete it in one" in refusal(home, "/a", "/b")
    assert "topic x_y collides with x.y" in refusal(home, "/a", "/c")


@pytest.mark.parametrize("is_full", [False, True])
def test_a_topic_that_another_directory_has_deleted_is_refused(
    home: DataHome, *, is_full: bool
) -> None:
    """Together they would delete it; also where a full disk had room for no more than a mark."""
    topic = read_catalogue(home.fs, "/b").topics["tb"]
    known = read_catalogue(home.fs, "/a")
    if is_full:
        mark_deleted(home.fs, "/a", topic.topic_id)
    else:
        write_catalogue(home.fs, "/a", replace(known, deleted=frozenset({topic.topic_id})))

    assert "topic tb of /b was deleted in another" in refusal(home, "/a", "/b")


def test_a_copy_is_refused(home: DataHome) -> None:
    """It has the same directory.id."""
    home.fs.write("/b/meta.properties", home.fs.read("/a/meta.properties"))

    assert "one is a copy of the other" in refusal(home, "/a", "/b")


def test_a_part_of_a_set_is_refused(home: DataHome) -> None:
    """The rest of the set would no longer belong to it."""
    join(home, "/b", "/c")
    with opened(home, "/b", "/c") as logs:
        logs.create_topic("wide", 2, is_spread=True)

    assert "topic tc of /b has partitions in a directory that is not given" in refusal(
        home, "/a", "/b"
    )
    assert [one.was_changed for one in join(home, "/a", "/b", "/c")] == [False, True, True]
    assert sorted(values(home, *PATHS)) == ["ta", "tb", "tc", "wide"]


@pytest.mark.parametrize("how", ["formatted", "adopted", "metadata"])
def test_a_brokers_own_directory_is_refused_unless_it_is_meant(home: DataHome, how: str) -> None:
    """The broker would not start on it."""
    if how == "formatted":
        home.fs.delete("/b/tidelog.topics.json")
        meta = home.fs.read("/b/meta.properties")
        home.fs.write("/b/meta.properties", b"#\n#Sat Nov 21 09:00:00 UTC 2026\n" + meta)
    else:
        name = "t-0" if how == "adopted" else "__cluster_metadata-0"
        home.fs.make_directory(f"/b/{name}")
        home.fs.write(f"/b/{name}/{0:020d}.log", b"")
        if how == "adopted":
            opened(home, "/b").close()

    assert "/b is the directory of a Kafka broker" in refusal(home, "/a", "/b")
    assert join(home, "/a", "/b", is_kafka_allowed=True)[1].was_changed


def test_one_directory_twice_one_alone_and_none_are_refused(home: DataHome) -> None:
    """And nothing is created for a name that is mistyped."""
    for paths in (("/a",), ("/a", "/a"), ("/a", "/nowhere")):
        refusal(home, *paths)
    assert not home.fs.exists("/nowhere")


def test_a_directory_in_use_is_refused(home: DataHome) -> None:
    """Its owner knows the old identity."""
    with opened(home, "/b"), pytest.raises(DirectoryLocked):
        join(home, "/a", "/b")


def test_a_catalogue_that_cannot_be_read_is_not_taken_for_kafkas(home: DataHome) -> None:
    """Without it, all topics of a directory look as a broker has left them."""
    home.fs.fail("open", "/a/tidelog.topics.json", OSError(errno.EMFILE, "no descriptor"))

    with pytest.raises(KafkaStorageError, match="no descriptor"):
        join(home, "/a", "/b")
