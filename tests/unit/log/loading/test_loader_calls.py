"""What opening a log asks of the disk: as little as it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.counted_lines import Lines
from tests.machinery.log_home import LogHome, all_values

from tidelog.log.loading.load_watch import LoadWatcher
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile, OpenMode

NOW_MS = 1_700_000_000_000
VALUES = [b"0", b"1", b"2", b"3", b"4"]


def batch(value: bytes) -> bytes:
    """Make a batch of one record."""
    return build_batch([(NOW_MS, b"key", value, ())])


def home_of(values: list[bytes] = VALUES, *, close: bool = True) -> LogHome:
    """Leave a log of one-record batches behind, two in each segment: bases 0, 2 and 4."""
    home = LogHome(internal_segment_bytes=2 * len(batch(b"0")), index_interval_bytes=0)
    log = home.open()
    for value in values:
        log.append_as_leader(batch(value))
    if close:
        log.close()
    else:
        home.restart()
    return home


def changes(home: LogHome) -> list[str]:
    """Name what was done to files since the last process ended."""
    kept = {"open", "read", "list", "stat", "exists", "pread"}
    return [operation.name for operation in home.fs.operations if operation.name not in kept]


def test_a_start_after_a_clean_stop_writes_nothing() -> None:
    """No file is written, cut or made durable, so that a thousand logs load in a second."""
    home = home_of()
    before = len(changes(home))

    home.open()

    assert changes(home)[before:] == []


def test_files_of_inactive_segments_are_opened_when_they_are_read() -> None:
    """A thousand logs need a thousand descriptors, however many segments they have."""
    home = home_of()
    log = home.open()
    at_start = {segment.base_offset: segment.is_open for segment in log.segments}

    values = [value for _, value in all_values(log)]

    assert (at_start, values) == ({0: False, 2: False, 4: True}, VALUES)
    assert all(segment.is_open for segment in log.segments)


def test_a_log_that_lost_nothing_is_not_synced() -> None:
    """A kill loses nothing: a thousand syncs, one a log, would only make the start wait."""
    home = home_of(close=False)
    before = len(changes(home))

    home.open(clean=False, recovery_point=4)

    assert [name for name in changes(home)[before:] if name.startswith("sync")] == []


@pytest.mark.usefixtures("engine")
def test_a_recovery_costs_in_proportion_to_the_segments() -> None:
    """None of them is recovered with a look at all others, or at all files in the directory."""

    def cost(segments: int) -> int:
        home, lines = home_of([b"0"] * 2 * segments, close=False), Lines()
        with lines.counted():
            assert len(home.open(clean=False).segments) == segments
        return lines.count

    assert cost(200) - cost(100) < 1.1 * (cost(100) - cost(1))


def test_a_snapshot_of_a_recovery_is_durable_once_the_log_is_closed() -> None:
    """After a clean stop nothing else holds the producers."""
    home = home_of(close=False)
    log = home.open(clean=False)
    log.close()

    assert log.producers.snapshots.unsynced == set()


class Told(LoadWatcher):
    """Keeps how many segments were left."""

    def __init__(self) -> None:
        self.left: list[int] = []

    def recovering(self, directory: str, segments_left: int) -> None:
        assert directory == LogHome.directory
        self.left.append(segments_left)


def test_a_watcher_hears_how_many_segments_are_left() -> None:
    """Before each that is checked."""
    home, told = home_of(close=False), Told()

    home.open(clean=False, recovery_point=2, watcher=told)

    assert told.left == [2, 1]


def test_a_file_is_found_by_a_reader_whose_directory_is_renamed_meanwhile() -> None:
    """A partition that moves or goes is renamed; a file not opened before has another path then.

    The renaming comes as late as it can: when the reader has the old path in its hands.
    """
    home = home_of()
    log = home.open()
    renamed = iter([True])
    plain_open = home.fs.open

    def open_late(path: str, mode: OpenMode = "r") -> OpenFile:
        if path.endswith("0.log") and next(renamed, False):
            log.rename_directory("flights-0.00000000000000000000000000000000-delete")
        return plain_open(path, mode)

    home.fs.open = open_late  # type: ignore[method-assign]  # the moment cannot be had otherwise
    values = [value for _, value in all_values(log)]

    assert (values, home.failures) == (VALUES, [])
