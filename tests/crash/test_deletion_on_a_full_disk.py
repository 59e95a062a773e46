"""Deleting a topic on a disk without room for a new catalogue, stopped at each operation."""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, fill, values

from tidelog.errors import KafkaStorageError
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tidelog.manager.log_manager import LogManager
    from tidelog.testing.disk import Kept

PATHS = ("/a", "/b")
WHOLE = {number: [b"value %d" % at for at in range(3)] for number in range(2)}
KEPT: Final[tuple[Kept | None, ...]] = ("all", "none", None)
SERVICE_MS = 2 * 60_000


def full(seed: int, loading: Loading) -> tuple[ManagerHome, LogManager]:
    """Open two directories without any free byte, with the topics t (in both) and other."""
    home = ManagerHome(*PATHS, seed=seed, retention_ms=-1)
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        manager.create_topic("other")
        for number in WHOLE:
            fill(manager, "t", number, 3)
        fill(manager, "other", 0, 1)
    opened = home.open_as(loading)
    values(opened, "t", 0)  # one of the partitions is open on first use
    home.fs.set_free_bytes(0)
    return home, opened


def operations(loading: Loading) -> int:
    """Return how many operations the deletion has that change the disk."""
    home, manager = full(0, loading)
    before = len(home.fs.operations)
    manager.delete_topic("t")
    return len(home.fs.operations) - before


def logs_of_t(home: ManagerHome) -> list[str]:
    """Return the directories of the topic that are not waiting for their deletion."""
    return [name for path in PATHS for name in home.files(path) if name in {"t-0", "t-1"}]


def names(home: ManagerHome) -> list[str]:
    """Return the topic's logs and the marks of its deletion, but not what waits for deletion."""
    marks = [name for path in PATHS for name in home.files(path) if name.endswith(".deleted")]
    return logs_of_t(home) + marks


def check_next(home: ManagerHome, loading: Loading, caplog: pytest.LogCaptureFixture) -> str:
    """Open the directories twice, first without room; return what became of the topic."""
    caplog.clear()
    for free_bytes in (0, None):
        home.fs.set_free_bytes(free_bytes)
        listed = {"t" in open_directory_read_only(path, fs=home.fs).topics for path in PATHS}
        manager = home.open_as(loading)
        assert manager.live_dirs == list(PATHS)
        is_there = "t" in manager.topics()
        found = {number: values(manager, "t", number) for number in WHOLE if is_there}
        if free_bytes is None:
            fill(manager, "other", 0, 1)  # one that changes nothing deletes nothing, either
            home.clock.advance(SERVICE_MS)
            manager.shutdown()
        else:
            with suppress(KafkaStorageError, OSError):
                manager.shutdown()
            home.restart()
        assert found == (WHOLE if is_there else {})
        assert is_there in listed
    assert is_there or names(home) == []
    assert [r for r in caplog.messages if r.startswith(("log-lost", "log-end-lost"))] == []
    return "kept" if is_there else "deleted"


@pytest.mark.slow
@pytest.mark.parametrize("loading", list(Loading))
def test_a_crash_leaves_the_whole_topic_or_none_of_it(
    loading: Loading, caplog: pytest.LogCaptureFixture
) -> None:
    """Its deletion is completed at the next start, also without room; no records are missing."""
    caplog.set_level(logging.WARNING)
    count = operations(loading)
    ended = []
    for number in range(count):
        home, manager = full(number, loading)
        home.fs.crash_after(number)
        with suppress(PowerCut, KafkaStorageError):
            manager.delete_topic("t")
        home.fs.power_cut(KEPT[number % len(KEPT)])
        home._forget_tasks()
        ended.append(check_next(home, loading, caplog))

    print(f"{loading}: {count} operations, kept {ended.count('kept')}")  # noqa: T201 - how much was tried
    assert count > 40
    assert {ended[0], ended[-1]} == {"kept", "deleted"}


@pytest.mark.slow
@pytest.mark.parametrize("loading", list(Loading))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_error_leaves_the_whole_topic_or_none_of_it(
    loading: Loading, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What was refused has changed nothing; what was not is not there any more."""
    caplog.set_level(logging.WARNING)
    home, manager = full(0, loading)
    traced = home.fs.trace()
    manager.delete_topic("t")
    count = len(traced)
    ended = []
    for number in range(count):
        home, manager = full(number, loading)
        home.fs.fail_at(number, OSError(code, os.strerror(code)))
        try:
            manager.delete_topic("t")
            is_refused = False
        except (KafkaStorageError, OSError):
            is_refused = True
        is_failed = manager.live_dirs != list(PATHS)  # as after any error of a sync
        if not is_failed:
            assert ("t" in manager.topics()) == is_refused
            if is_refused:
                assert {at: values(manager, "t", at) for at in WHOLE} == WHOLE
        home.restart()
        ended.append(check_next(home, loading, caplog))
        if not is_failed:
            assert (ended[-1] == "kept") == is_refused

    print(f"{loading}, {errno.errorcode[code]}: {count} cases, kept {ended.count('kept')}")  # noqa: T201 - how much was tried
    assert count > 40


def test_there_is_no_deletion_without_room_for_a_mark() -> None:
    """Nothing has changed then, and a repetition deletes the topic."""
    home, manager = full(0, Loading.ALL)
    home.fs.fail("open", ".deleted", OSError(errno.ENOSPC, "full"), skipped=1)

    with pytest.raises(KafkaStorageError, match="deleting t in /b"):
        manager.delete_topic("t")

    assert {number: values(manager, "t", number) for number in WHOLE} == WHOLE
    assert names(home) == ["t-0", "t-1"]
    manager.delete_topic("t")
    assert (list(manager.topics()), logs_of_t(home)) == (["other"], [])


def test_a_deletion_that_was_refused_does_not_happen_after_a_power_cut() -> None:
    """The mark in the first directory was durable, so its removal has to be."""
    home, manager = full(0, Loading.ALL)
    home.fs.fail("open", ".deleted", OSError(errno.ENOSPC, "no inode left"), skipped=1)

    with pytest.raises(KafkaStorageError):
        manager.delete_topic("t")
    home.fs.set_free_bytes(None)
    home.fs.power_cut("none")
    home.scheduler.forget()

    with home.open() as manager:
        assert "t" in manager.topics()


def test_a_topic_of_the_name_can_be_created_after_a_deletion_on_a_full_disk() -> None:
    """The mark names the id of the deleted topic, and is gone with the next catalogue."""
    home, manager = full(0, Loading.ALL)
    manager.delete_topic("t")

    home.fs.set_free_bytes(None)
    manager.create_topic("t")
    fill(manager, "t", 0, 1)
    manager.shutdown()

    assert [name for path in PATHS for name in home.files(path) if "deleted" in name] == []
    with home.open() as again:
        assert values(again, "t", 0) == [b"value 0"]
