"""Records are deleted from a partition while it moves to another directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.held_lock import HeldLock
from tests.machinery.manager_home import ManagerHome, fill, values

from tidelog.segment.filenames import TopicPartition
from tidelog.service import copied_log, mover

if TYPE_CHECKING:
    import pytest

    from tidelog.log.log import Log

KEY = TopicPartition("t", 0)


def test_a_deletion_of_records_waits_for_the_end_of_a_move() -> None:
    """Else it would raise the start of the log that the copy has replaced, and be lost."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        partition = manager.partition(*KEY)
        starts: list[int] = []

        def end_move() -> None:
            starts.append(partition.log.log_start_offset)
            home.clock.advance(0)

        object.__setattr__(partition, "lock", HeldLock.until(end_move))

        shrunk = manager.on_demand.delete_records(KEY, 9)

        assert (starts, partition.log.data_dir) == ([0], "/b")
        assert (shrunk.log_start_offset, partition.log.log_start_offset) == (9, 9)


def test_a_move_survives_a_deletion_of_records_that_it_was_about_to_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whenever that is: also between two looks at where the log begins."""
    home, align = ManagerHome("/a", "/b"), copied_log.align
    monkeypatch.setattr(mover, "NEAR_BYTES", 0)
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)

        def aligned_too_early(current: Log, copy: Log) -> None:
            align(current, copy)
            current.delete_records(20)

        monkeypatch.setattr(copied_log, "align", aligned_too_early)
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)

        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert values(manager, "t", 0) == [b"value %d" % number for number in range(20, 30)]
