"""A move begins only where there is space for its copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome, fill

from tidelog.errors import DirectoryFull
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)


def sized(manager: LogService, name: str) -> int:
    """Create a topic with records; return the size of its log."""
    manager.create_topic(name, path="/a")
    fill(manager, name, 0, 30)
    return manager.partition(name, 0).log.size_bytes


@pytest.mark.parametrize("reserve", [0, 5_000_000])
def test_a_move_without_space_is_refused(reserve: int) -> None:
    """Nothing is begun, and the reserve of the disk is not for copies."""
    home = ManagerHome("/a", "/b")
    with home.open(tidelog_reserve_bytes=reserve) as manager:
        size = sized(manager, "t")
        home.fs.set_free_bytes(reserve + size - 1)
        with pytest.raises(DirectoryFull) as raised:
            manager.move_partition(*KEY, "/b")
        assert f"{size:,}" in str(raised.value)
        assert ("tidelog.reserve.bytes" in str(raised.value)) == bool(reserve)
        assert "1 are missing, and nothing was moved" in str(raised.value)
        assert (manager.moves(), [name for name in home.files("/b") if name.startswith("t-")]) == (
            [],
            [],
        )

        home.fs.set_free_bytes(reserve + size)
        assert manager.move_partition(*KEY, "/b")


def test_what_moves_in_flight_are_to_copy_is_not_free() -> None:
    """Two moves that would fit one by one do not fit together; a repeat of one needs nothing."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        sizes = [sized(manager, name) for name in ("t", "u")]
        home.fs.set_free_bytes(sum(sizes) - 1)
        with pytest.raises(DirectoryFull):
            manager.check_room_to_move([KEY, TopicPartition("u", 0)], "/b")
        assert manager.move_partition(*KEY, "/b")
        with pytest.raises(DirectoryFull, match=f"{sum(sizes):,} are needed"):
            manager.move_partition("u", 0, "/b")
        assert not manager.move_partition(*KEY, "/b")
        manager.check_room_to_move([KEY], "/b")
        home.fs.set_free_bytes(sum(sizes))
        assert manager.move_partition("u", 0, "/b")
