"""A copy that was left while its log was compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.manager_home import Loading, ManagerHome

from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
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


def test_a_key_that_was_deleted_and_compacted_away_does_not_come_back() -> None:
    """The copy has its value; the tombstone, which it lacks, is no longer in the log."""
    home = ManagerHome(
        *("/a", "/b"),
        cleanup_policy=("compact",),
        delete_retention_ms=0,
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
