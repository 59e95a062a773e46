"""Power cuts while the cleaner's checkpoint follows a cleaning, group by group."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tests.machinery.manager_home import ManagerHome
from tests.machinery.scale import stride

from tidelog.embedded.logs import Logs
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Enumerated

KEYS = b"aabbbbcdccef"
"""Two records fill a segment."""
LEFT = [1, 5, 7, 9, 10, 11]
"""The offsets of those that compaction leaves."""


def filled() -> ManagerHome:
    """Return a directory with a compacted topic of which nothing is cleaned."""
    home = ManagerHome(file_delete_delay_ms=0)
    with home.open() as manager:
        config = {"cleanup.policy": "compact", "internal.segment.bytes": "800"}
        manager.create_topic("t", 1, config)
        for key in KEYS:
            Logs(manager).append("t", bytes(300), key=b"%c" % key)
    return home


def after_cuts() -> Iterator[ManagerHome]:
    """Yield the directory for each operation of a cleaning at which the power fails."""
    base, whole = filled(), filled()
    with whole.open() as manager:
        before = len(whole.fs.operations)
        manager.on_demand.compact("t")
        total = len(whole.fs.operations) - before
    for operations in range(0, total, stride()):
        home = base.copied(operations)
        with suppress(PowerCut), home.open() as manager:
            home.fs.crash_after(operations)
            manager.on_demand.compact("t")
        home.power_cut()
        yield home


def test_what_a_crash_left_uncleaned_is_cleaned_later(enumerated: Enumerated) -> None:
    """What the checkpoint says is durable by then, at whichever operation the power fails."""
    homes = list(after_cuts())
    enumerated("power cuts", len(homes), at_least=50)
    for home in homes:
        with home.open() as manager:
            manager.on_demand.compact("t")
            assert [record.offset for record in Logs(manager).read("t")] == LEFT


def test_what_a_stopped_cleaning_left_out_is_not_taken_for_lost(enumerated: Enumerated) -> None:
    """When the topic is compacted no longer, wherever the cleaning ended."""
    homes = list(after_cuts())
    enumerated("power cuts", len(homes), at_least=50)
    for home in homes:
        with home.open() as manager:
            manager.alter_topic("t", {"cleanup.policy": "delete"})
            found = [record.offset for record in Logs(manager).read("t")]
            assert set(found) >= set(LEFT)
            manager.alter_topic("t", {"cleanup.policy": "compact"})
            manager.on_demand.compact("t")
            assert [record.offset for record in Logs(manager).read("t")] == LEFT
        assert not [name for name in home.files("/data/t-0") if ".cleaned" in name]
