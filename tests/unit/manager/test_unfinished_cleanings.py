"""A cleaning that ends early: its checkpoint has how far it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome

from tidelog.cleaner.states import Event
from tidelog.embedded.logs import Logs
from tidelog.errors import CleaningAborted

if TYPE_CHECKING:
    from tidelog.cleaner.compaction import CompactionProgress
    from tidelog.manager.log_manager import LogManager

KEY = ("t", 0)
COMPACT = {"cleanup.policy": "compact", "internal.segment.bytes": "800"}
KEYS = b"abbbcbddef"
"""Each record fills a segment."""
LEFT = [0, 4, 5, 7, 8, 9]
"""The offsets of those that compaction leaves."""


def cleaned_in_part(manager: LogManager, offset: int, error: type[BaseException]) -> None:
    """Begin to clean topic t, and end that with an error once no record is left at an offset."""
    log = manager.partition(*KEY).log

    def end(_progress: CompactionProgress) -> None:
        if log.segments.all[offset].size_bytes:
            return
        if error is not CleaningAborted:
            raise error
        if manager.cleaning.manager.state(KEY).pauses == 0:  # as another thread does in ``abort``
            manager.cleaning.manager._apply(KEY, Event.PAUSE)

    manager.on_demand.on_progress = end
    with pytest.raises(error):
        manager.on_demand.compact("t")
    manager.on_demand.on_progress = lambda _: None
    if error is CleaningAborted:
        manager.cleaning.manager.resume([KEY])


def offsets(manager: LogManager) -> list[int]:
    """Return the offsets of all records; DataLoss if some pass for lost."""
    return [record.offset for record in Logs(manager).read("t")]


@pytest.mark.parametrize("error", [CleaningAborted, KeyboardInterrupt])
@pytest.mark.parametrize("offset", [1, 2, 3, 6])
def test_what_an_unfinished_cleaning_left_out_is_not_taken_for_lost(
    error: type[BaseException], offset: int
) -> None:
    """When the topic is compacted no longer; until then the next cleaning does the rest."""
    home = ManagerHome(file_delete_delay_ms=0)
    with home.open() as manager:
        manager.create_topic("t", 1, COMPACT)
        for key in KEYS:
            Logs(manager).append("t", bytes(600), key=b"%c" % key)

        cleaned_in_part(manager, offset, error)

        manager.alter_topic("t", {"cleanup.policy": "delete"})
        end = manager.cleaning.manager.checkpoint(KEY, manager.partition(*KEY).log)
        assert end is not None
        assert offset < end < len(KEYS) - 1
        assert offsets(manager) == [one for one in LEFT if one < end] + [*range(end, len(KEYS))]
        manager.alter_topic("t", {"cleanup.policy": "compact"})
        manager.on_demand.compact("t")
        assert offsets(manager) == LEFT
