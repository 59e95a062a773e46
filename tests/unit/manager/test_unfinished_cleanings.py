"""A cleaning that ends early: its checkpoint has how far it came."""

from __future__ import annotations

from errno import ENOSPC
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome

from tidelog.cleaner.states import Event
from tidelog.embedded.logs import Logs
from tidelog.errors import CleaningAborted, KafkaStorageError

if TYPE_CHECKING:
    from tidelog.cleaner.compaction import CompactionProgress
    from tidelog.manager.log_manager import LogManager

KEY = ("t", 0)
COMPACT = {"cleanup.policy": "compact", "internal.segment.bytes": "800"}
KEYS = b"abbbcbddef"
"""Each record fills a segment."""
LEFT = [0, 4, 5, 7, 8, 9]
"""The offsets of those that compaction leaves."""


def append_keys(manager: LogManager) -> None:
    """Create topic t, and append a record of each of ``KEYS``."""
    manager.create_topic("t", 1, COMPACT)
    for key in KEYS:
        Logs(manager).append("t", bytes(600), key=b"%c" % key)


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
        append_keys(manager)

        cleaned_in_part(manager, offset, error)

        manager.alter_topic("t", {"cleanup.policy": "delete"})
        end = manager.cleaning.manager.checkpoint(KEY, manager.partition(*KEY).log)
        assert end is not None
        assert offset < end < len(KEYS) - 1
        assert offsets(manager) == [one for one in LEFT if one < end] + [*range(end, len(KEYS))]
        manager.alter_topic("t", {"cleanup.policy": "compact"})
        manager.on_demand.compact("t")
        assert offsets(manager) == LEFT


@pytest.mark.parametrize(
    ("mark", "line"),
    [
        ("cleaned-4-{size}", ["t 0 4"]),
        ("cleaned-4-{size}.swap", ["t 0 4"]),
        ("cleaned-7-{size}", ["t 0 5"]),
        ("cleaned-1-{size}", ["t 0 2"]),
        ("cleaned-4-1", ["t 0 2"]),
        ("cleaned-4-{size}.cleaned", ["t 0 2"]),
    ],
)
def test_the_mark_of_a_segment_raises_the_cleaners_line(mark: str, line: list[str]) -> None:
    """Beside that segment alone, up to the next one, and once.

    Kafka may have completed the replacement, and have written to the log since.
    """
    home = ManagerHome()
    with home.open() as manager:
        append_keys(manager)
        manager.on_demand.compact("t")
        assert offsets(manager) == LEFT
    name = f"/data/t-0/{4:020}"
    size = home.fs.stat(f"{name}.log").size_bytes
    home.fs.write("/data/cleaner-offset-checkpoint", b"0\n1\nt 0 2\n")
    home.fs.write(f"{name}.{mark.format(size=size)}", b"")

    with home.open():
        assert home.lines("cleaner-offset-checkpoint") == line
        assert not [name for name in home.files("/data/t-0") if ".cleaned" in name]


def test_a_cleaning_leaves_no_mark() -> None:
    """The cleaner's checkpoint says as much."""
    home = ManagerHome()
    with home.open() as manager:
        append_keys(manager)
        manager.on_demand.compact("t")

        assert not [name for name in home.files("/data/t-0") if ".cleaned" in name]


@pytest.mark.parametrize(("end", "kept"), [("log", 2), ("log.swap", 2), ("cleaned-3-0.swap", 3)])
def test_a_log_that_a_full_disk_stopped_in_a_cleaning_has_its_line(end: str, kept: int) -> None:
    """Once it is opened again; a replacement without records is taken back then."""
    home = ManagerHome(file_delete_delay_ms=0)
    with home.open() as manager:
        append_keys(manager)
        home.fs.fail("rename", f"{2:020}.{end}", OSError(ENOSPC, "full"), count=1)
        with pytest.raises(KafkaStorageError):
            manager.on_demand.compact("t")

        manager.alter_topic("t", {"cleanup.policy": "delete"})
        assert offsets(manager) == [0, *range(kept, len(KEYS))]
        assert not [name for name in home.files("/data/t-0") if ".cleaned" in name]
