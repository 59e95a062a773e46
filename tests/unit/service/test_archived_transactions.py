"""Transactions that begin in segments of which only the archive has the records."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome
from tests.machinery.transactions import begin_transaction, end_transaction
from tests.unit.service.test_archived_moves import KEY, moved
from tests.unit.service.test_archiving import ARCHIVED, append, archive, service, state_of

from tidelog.embedded.logs import Logs
from tidelog.log.log import Log
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import producer_snapshot_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.object_model import Timed

    from tidelog.service.log_service import LogService


def committed(manager: LogService) -> list[int]:
    """Return the offsets that the owner's readers of committed records get."""
    read = Logs(manager).read("t", 0, isolation=Isolation.READ_COMMITTED)
    return [record.offset for record in read]


def aborted_across_the_border(
    home: ManagerHome, store: Timed, roll: Callable[[Log], object] = Log.roll
) -> LogService:
    """Return a service with a transaction of an archived segment, aborted in the active one.

    Its record is 1; 0, 2, 3 and 6 are in no aborted transaction.
    """
    manager = service(home)
    manager.create_topic("t", config=ARCHIVED)
    partition, now_ms = manager.partition("t", 0), home.clock.now_ms()
    append(manager, 1)
    begin_transaction(partition, 7, [(now_ms, None, b"aborted", ())])
    append(manager, 1)
    roll(partition.log)
    begin_transaction(partition, 8, [(now_ms, None, b"committed", ())])
    end_transaction(partition, 8, is_commit=True, now_ms=now_ms)
    end_transaction(partition, 7, is_commit=False, now_ms=now_ms)
    append(manager, 1)
    archive(manager)
    home.clock.set_time_of_day(home.clock.now_ms() + 2_000)  # the tasks of the roll have not run
    manager.tasks.cleanup_logs()
    assert partition.log.local_log_start_offset == 3
    assert committed(manager) == [0, 2, 3, 6]
    assert store.objects
    return manager


@pytest.mark.parametrize("times", [1, 2])
def test_a_kill_shows_no_aborted_records_of_the_archive(store: Timed, times: int) -> None:
    """The segment with the marker is recovered without the records, from the snapshot before it."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    aborted_across_the_border(home, store)
    for _ in range(times):
        home.restart()
        manager = service(home)
        home.clock.advance(0)
        assert committed(manager) == [0, 2, 3, 6]


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_shows_no_aborted_records_of_the_archive(store: Timed, seed: int) -> None:
    """The snapshot before the marker is durable before the records leave the disk."""
    home = ManagerHome("/a", seed=seed, retention_ms=-1)
    aborted_across_the_border(home, store)
    home.fs.power_cut("any")
    home.scheduler.forget()
    assert committed(service(home)) == [0, 2, 3, 6]


def test_a_snapshot_that_a_full_disk_left_out_is_made_before_records_leave(store: Timed) -> None:
    """A roll continues without it, and nothing else would know the open transactions."""
    home = ManagerHome("/a", retention_ms=-1)

    def roll(log: Log) -> None:
        home.fs.fail("write", ".snapshot", OSError(errno.ENOSPC, "the disk is full"))
        log.roll()

    aborted_across_the_border(home, store, roll)
    for _ in range(2):
        home.restart()
        assert committed(service(home)) == [0, 2, 3, 6]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_snapshot_that_was_damaged_is_made_again_from_the_records(
    store: Timed, *, is_there: bool
) -> None:
    """As a start does it: the segment before it would never be copied, nor what comes after."""
    home = ManagerHome("/a", retention_ms=-1)

    def roll(log: Log) -> None:
        log.roll()
        path = producer_snapshot_file(log.directory, log.log_end_offset)
        if is_there:
            home.fs.write(path, home.fs.read(path)[:-1])
        else:
            home.fs.delete(path)

    manager = aborted_across_the_border(home, store, roll)
    (entry,) = state_of(store, manager).entries
    assert entry.opened == ((7, 1),)
    for _ in range(2):
        home.restart()
        assert committed(service(home)) == [0, 2, 3, 6]


def test_a_move_shows_no_aborted_records_of_the_archive(store: Timed) -> None:
    """The copy begins after them, and its index names where the transaction began."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    manager = aborted_across_the_border(home, store)
    moved(home, manager, KEY)
    assert committed(manager) == [0, 2, 3, 6]
    home.restart()
    assert committed(service(home)) == [0, 2, 3, 6]
