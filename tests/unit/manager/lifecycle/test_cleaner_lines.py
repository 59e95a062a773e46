"""The checkpoint of the cleaner beside logs that end below their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.machinery.cleaning import last_values
from tests.machinery.manager_home import MARK, Loading, ManagerHome

if TYPE_CHECKING:
    from tidelog.manager.log_manager import LogManager

CLEANER_LINES: Final = "cleaner-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
SETTINGS: Final[dict[str, Any]] = {
    "cleanup_policy": ("compact",),
    "delete_retention_ms": 0,
    "retention_ms": -1,
    "internal_segment_bytes": 1000,
}


def put(manager: LogManager, key: bytes, value: bytes | None) -> None:
    """Append one record."""
    record = (manager.machine.clock.now_ms(), key, value, ())
    manager.partition("t", 0).append_records([record])


def cut_below_its_line() -> ManagerHome:
    """Leave a cleaned log that was damaged in what is clean, from its second segment on."""
    home = ManagerHome(**SETTINGS)
    with home.open() as manager:
        manager.create_topic("t")
        for number in range(100):
            put(manager, b"key %d" % number, b"value")
        manager.on_demand.compact("t")
        _, second, *_ = manager.partition("t", 0).log.segments
    data = bytearray(home.fs.read(second.path))
    data[70] ^= 1
    home.fs.write(second.path, bytes(data))
    home.fs.delete(f"/data/{MARK}")
    home.fs.write(f"/data/{RECOVERY_POINTS}", b"0\n1\nt 0 0\n")
    return home


@pytest.mark.parametrize("loading", Loading)
def test_what_is_deleted_after_a_cut_stays_deleted(loading: Loading) -> None:
    """Records at offsets that were clean before the cut are dirty: their keys must be read."""
    home = cut_below_its_line()
    with home.open_as(loading) as manager:
        log = manager.partition("t", 0).log
        assert home.lines(CLEANER_LINES) == [f"t 0 {log.segments.active.base_offset}"]
        put(manager, b"gone", b"value")
        put(manager, b"gone", None)
        for _ in range(2):
            for number in range(100):
                put(manager, b"key %d" % number, b"value")
            home.clock.advance(1_000)
            manager.on_demand.compact("t")

        assert b"gone" not in last_values(log)
