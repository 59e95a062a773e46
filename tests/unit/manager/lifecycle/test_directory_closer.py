"""Leaving data directories in order."""

from __future__ import annotations

from errno import EIO, ENOSPC
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import (
    Loading,
    ManagerHome,
    fill,
    home_with_two_logs_of_a_partition,
    values,
)

from tidelog.embedded.logs import Logs
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

FIRST_USE = Loading.FIRST_USE


def operations_after_unlock(home: ManagerHome, path: str, since: int = 0) -> list[str]:
    """Return what was done in a directory after its lock file was deleted for the last time."""
    done = [(str(one.name), str(one.path)) for one in home.fs.operations[since:]]
    unlocked = max(at for at, one in enumerate(done) if one == ("delete", f"{path}/.lock"))
    return [f"{name} {where}" for name, where in done[unlocked + 1 :] if where.startswith(path)]


def home_with_a_half_deleted_topic() -> ManagerHome:
    """Return a home whose topic ``t`` is deleted by the catalogue, with its directories there."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("kept", 2, is_spread=True)
        manager.create_topic("t", 2, is_spread=True)
        fill(manager, "t", 0, 3)
        manager._topics.delete("t")
    return home


def test_a_short_lived_writer_tidies_up_before_it_unlocks_any_directory() -> None:
    """What is left of deleted topics may lie in a directory that it did not change."""
    home = home_with_a_half_deleted_topic()
    manager = home.open_as(FIRST_USE)
    before = len(home.fs.operations)
    fill(manager, "kept", 1, 1)
    manager.close()

    assert [n for p in home.paths for n in home.files(p) if n.startswith("t-")] == []
    assert [operations_after_unlock(home, path, before) for path in home.paths] == [[], []]


def test_a_log_that_cannot_be_closed_leaves_the_other_directories_clean() -> None:
    """Its own directory is not marked, and all are unlocked."""
    home = ManagerHome("/a", "/b")
    manager = home.open()
    manager.create_topic("t", 2, is_spread=True)
    fill(manager, "t", 0, 3)
    log = manager.partition("t", 0).log
    home.fs.fail("sync", f"{log.directory}/{0:020}.log", OSError(EIO, "the disk failed"))
    manager.shutdown()

    assert [home.is_marked(path) for path in home.paths] == [False, True]
    home.open().close()


def test_a_full_disk_at_the_end_is_a_typed_error_with_the_directory() -> None:
    """It says what follows from it; what was appended is there."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    fill(manager, "t", 0, 3)
    home.fs.fail("pwrite", ".kafka_cleanshutdown.tmp", OSError(ENOSPC, "full"))
    with pytest.raises(KafkaStorageError, match=r"^closing /data failed: .*full; it is not marked"):
        manager.close()

    assert not home.is_marked()
    with home.open() as again:
        assert len(values(again, "t", 0)) == 3


def test_no_log_is_loaded_once_the_manager_is_closed() -> None:
    """A load that began before waits for the lock of changes, and is refused then."""
    home = ManagerHome()
    with home.open() as service:
        service.create_topic("t")
    manager = home.open_as(FIRST_USE)
    manager.close()
    before = len(home.fs.operations)

    with pytest.raises(KafkaStorageError, match="closed"):
        manager._first_use.load("t", 0)
    with pytest.raises(KafkaStorageError, match="closed"):
        manager.partition("t", 0)
    assert home.fs.operations[before:] == []


def test_no_log_is_deleted_once_the_manager_is_closed() -> None:
    """The next start finds it; one that is deleted just before is closed all the same."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    fill(manager, "t", 0, 3)
    log = manager.partition("t", 0).log
    manager.stop_background()
    manager.delete_topic("t")
    manager.shutdown()
    before = len(home.fs.operations)
    home.clock.advance(200_000)

    assert home.fs.operations[before:] == []
    assert len([name for name in home.files() if name.endswith("-delete")]) == 1
    with pytest.raises(KafkaStorageError, match="closed"):
        log.flush()
    with home.open():
        home.clock.advance(200_000)
    assert [name for name in home.files() if name.endswith("-delete")] == []


def test_a_start_that_fails_unlocks_every_directory() -> None:
    """The next one need not wait for the process to end."""
    home = home_with_two_logs_of_a_partition()
    with pytest.raises(KafkaStorageError, match="both in /a and in /b"):
        home.open()
    home.fs.rename("/b/t-0", "/b/t-1")

    with home.open() as manager:
        assert values(manager, "t", 1) == []


@pytest.mark.parametrize("loading", list(Loading))
def test_a_checkpoint_pass_that_runs_late_writes_nothing(loading: Loading) -> None:
    """Another process may hold the directory by then, with other offsets."""
    home = ManagerHome()
    with home.open() as service:
        service.create_topic("t")
    late = home.open_as(loading)
    fill(late, "t", 0, 3)
    late.close()
    with home.open() as other:
        fill(other, "t", 0, 5)
        other.flush()
        home.fs.delete("/data/log-start-offset-checkpoint")
        before = len(home.fs.operations)
        late._checkpointing.checkpoint_recovery_points()
        late._checkpointing.checkpoint_log_start_offsets()
        late._checkpointing.checkpoint_high_watermarks()

        assert home.fs.operations[before:] == []
        assert home.lines("recovery-point-offset-checkpoint") == ["t 0 8"]


def test_the_scheduler_ends_before_any_directory_is_unlocked() -> None:
    """A task of a log, such as a deletion of its old files, never runs beside another process."""
    home = ManagerHome()
    manager = home.open()
    locked: list[bool] = []

    class Scheduler:
        def shutdown(self) -> None:
            locked.append(home.fs.exists("/data/.lock"))

    logs = Logs(manager, Scheduler())  # type: ignore[arg-type]  # all that it uses
    logs.close()

    assert (locked, home.fs.exists("/data/.lock"), home.is_marked()) == ([True], False, True)


def test_a_retention_pass_ends_after_its_log_when_the_manager_stops() -> None:
    """A pass over thousands of logs holds up no stop, and meets no closed log."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t", 3)
    passed: list[str] = []
    for number in range(3):
        _stop_after(manager, number, passed)
    deleted = manager.tasks.cleanup_logs()
    manager.close()

    assert (deleted, passed) == (0, ["t-0"])
    assert home.is_marked()


def _stop_after(manager: LogService, number: int, passed: list[str]) -> None:
    """Stop the tasks once the retention of a partition has run."""
    log = manager.partition("t", number).log
    retain = log.delete_old_segments

    def delete_old_segments(now_ms: int | None = None) -> int:
        passed.append(f"t-{number}")
        manager.tasks.stop()
        return retain(now_ms)

    log.delete_old_segments = delete_old_segments  # type: ignore[method-assign]  # to stop in it
