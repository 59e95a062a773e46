"""A copy that was left while its log was compacted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, fill

from tidelog.errors import KafkaStorageError
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition
from tidelog.service import copied_log
from tidelog.service.log_service import LogService
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.manager.log_manager import LogManager

KEY = TopicPartition("t", 0)


def put(manager: LogManager, key: bytes, value: bytes | None) -> None:
    """Append one record."""
    record = (manager.machine.clock.now_ms(), key, value, ())
    manager.partition("t", 0).append_records([record])


def keys(manager: LogManager) -> list[bytes | None]:
    """Return the keys of the records that have a value."""
    records = manager.partition("t", 0).log.records(isolation=Isolation.LOG_END)
    return [record.key for record in records if record.value is not None]


def begun() -> ManagerHome:
    """Leave a move whose copy has the value of a key that the log has deleted since."""
    home = ManagerHome(
        *("/a", "/b"),
        cleanup_policy=("compact",),
        delete_retention_ms=0,
        min_cleanable_dirty_ratio=0.0,
        internal_segment_bytes=3 << 20,
        max_message_bytes=2 << 20,
    )
    with home.open() as manager:
        manager.create_topic("t")
        put(manager, b"gone", bytes(1 << 20))
        for number in range(7):
            put(manager, b"k%d" % number, bytes(1 << 20))
        manager.move_partition(*KEY, "/b")
        manager._mover.step(KEY)
        manager._mover.step(KEY)
        put(manager, b"gone", None)
    home.scheduler.forget()
    return home


def test_a_key_that_was_deleted_and_compacted_away_does_not_come_back() -> None:
    """The copy has its value; the tombstone, which it lacks, is no longer in the log."""
    home = begun()
    for number in range(3):
        with home.open_as(Loading.FIRST_USE) as writer:
            for part in range(3):
                put(writer, b"m%d%d" % (number, part), bytes(1 << 20))
            writer.on_demand.compact("t")
            left = keys(writer)
        home.clock.advance(1_000)
    with home.open() as manager:
        home.clock.advance(0)
        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert keys(manager) == left


def test_a_log_is_not_cleaned_once_it_was_compared_with_its_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cleaner runs already when a service continues a move: the log is paused before."""
    home = begun()
    with home.open_as(Loading.FIRST_USE) as writer:
        for number in range(4):
            put(writer, b"m%d" % number, bytes(1 << 20))
        left = keys(writer)[1:]
    take_up, services = copied_log.take_up, list[LogService]()

    def clean_after(key: TopicPartition, current: Log, copy: Log) -> None:
        take_up(key, current, copy)
        run_cleaner(services[0])

    monkeypatch.setattr(copied_log, "take_up", clean_after)
    services.append(home.make(log_cleaner_enable=True))
    services[0].startup()
    with services[0] as manager:
        home.clock.advance(1_000)
        assert manager.partition("t", 0).log.directory == "/b/t-0"
        for number in range(4):
            put(manager, b"n%d" % number, bytes(1 << 20))
            run_cleaner(manager)
            home.clock.advance(1_000)
        assert [key for key in keys(manager) if key in left] == left
        assert b"gone" not in keys(manager)


@pytest.mark.parametrize("operations", range(0, 120, 2))
def test_a_power_cut_leaves_the_cleaners_line_beside_the_log(operations: int) -> None:
    """Else offsets that a cleaning has left out would count as lost, once the policy is delete."""
    home = ManagerHome("/a", "/b", seed=operations)
    manager = home.open()
    manager.create_topic("t", path="/a")
    fill(manager, "t", 0, 30)
    with manager.cleaning.exclusive(KEY):
        manager.cleaning.manager.note_cleaned(KEY, manager.partition("t", 0).log, 2)
    manager.flush()
    home.fs.crash_after(operations)
    with suppress(PowerCut, KafkaStorageError):
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)
    home.power_cut()
    for _ in range(2):
        with home.open() as manager:
            place = manager.partition("t", 0).log.data_dir
            assert "t 0 2" in home.lines("cleaner-offset-checkpoint", place)
            home.clock.advance(0)


def run_cleaner(manager: LogService) -> None:
    """Let the cleaner clean what it may."""
    cleaner = manager.cleaning.cleaner
    assert cleaner is not None
    cleaner.run_once()
