"""Where a log ends that somebody else may be writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.stored_log import BATCHES, SIZE, flipped, home_with, index, name_of

from tidelog.readonly.checkpoints import NO_LINES, Lines
from tidelog.readonly.log_end import LogEnd, find_end
from tidelog.readonly.partition_files import PartitionFiles
from tidelog.readonly.read_files import ReadFiles

if TYPE_CHECKING:
    from tests.machinery.directory_home import DataHome


def files_of(home: DataHome, lines: Lines = NO_LINES, later: Lines | None = None) -> PartitionFiles:
    """Take a snapshot of t-0 of a data directory with these lines in its checkpoints."""
    return PartitionFiles("/data/t-0", ReadFiles(home.fs), lines, lambda: later or lines)


def end_of(home: DataHome, start: int, high_watermark: int) -> LogEnd:
    """Find the end of a log with these lines in the checkpoints."""
    return find_end(files_of(home, Lines(high_watermark, start)))


def restated(batch: bytes, offset: int) -> bytes:
    """Return the batch with another base offset, which no CRC covers."""
    return offset.to_bytes(8, "big", signed=True) + batch[8:]


def test_a_log_ends_behind_its_last_batch() -> None:
    """Found from the last index entry on."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    home.write(name_of(2, ".index"), index((2, 2 * SIZE)))

    assert end_of(home, 0, 6)[:2] == (6, None)


@pytest.mark.parametrize("tail", [BATCHES[4][:30], bytes(300), flipped(BATCHES[4])])
def test_an_unfinished_batch_is_the_end(tail: bytes) -> None:
    """Nothing follows what it declares."""
    assert end_of(home_with(BATCHES[:4], tail=tail), 0, 4)[:2] == (4, None)


@pytest.mark.parametrize("offset", [-1, 2, 2**63 - 1])
def test_a_last_batch_of_impossible_offset_is_damage(offset: int) -> None:
    """It is not part of the log, but it is whole: its records would be missing without a word."""
    home = home_with([*BATCHES[:4], restated(BATCHES[4], offset)])

    end = end_of(home, 0, 4)

    assert end.damage is not None
    assert (end.offset, end.damage.position) == (4, 4 * SIZE)


def test_bytes_behind_a_bad_batch_are_damage() -> None:
    """With file and byte."""
    home = home_with([*BATCHES[:2], flipped(BATCHES[2]), *BATCHES[3:]])

    end = end_of(home, 0, 2)

    assert end.damage is not None
    assert (end.offset, end.damage.position) == (2, 2 * SIZE)
    assert end.damage.path == f"/data/{name_of(0)}"


def test_an_end_below_what_was_promised_is_damage() -> None:
    """Readers saw offsets that are not there."""
    end = end_of(home_with(BATCHES[:2]), 0, 5)

    assert end.offset == 2
    assert "offsets 2 to 4, below the high watermark, are missing" in str(end.damage)


@pytest.mark.parametrize(("start", "expected"), [(0, 3), (7, 7)])
def test_a_log_does_not_end_below_its_start(start: int, expected: int) -> None:
    """All its records may have been deleted; its first segment says where it begins, too."""
    assert end_of(home_with([], first=3), start, 0)[:2] == (expected, None)


def test_without_segments_a_log_ends_where_it_starts() -> None:
    """As its checkpoint says."""
    assert end_of(home_with(), 4, 0)[:2] == (4, None)


def test_a_last_segment_that_is_gone_is_looked_for_in_a_new_listing() -> None:
    """Retention may have rolled and deleted it since; the new segments are the reader's then."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    files.release()
    home.fs.delete(f"/data/{name_of(0)}")
    home.write(name_of(2), BATCHES[2])

    end = find_end(files)

    assert end[:2] == (3, None)
    assert [segment.base_offset for segment in files.segments] == [2]


def test_lines_that_contradict_the_log_are_read_anew() -> None:
    """They may be those of a topic that was deleted and created again since they were read."""
    fresh = Lines(None, 0)

    files = files_of(home_with(BATCHES[:2]), Lines(5, 4), fresh)

    assert (find_end(files)[:2], files.lines) == ((2, None), fresh)


def test_bytes_that_come_after_the_snapshot_do_not_count() -> None:
    """A writer finishes the batch that was half there: the snapshot still ends before it."""
    home = home_with(BATCHES[:4], tail=BATCHES[4][:30])
    files = files_of(home, Lines(4, 0))
    home.write(name_of(0), b"".join(BATCHES) + b"and more")

    assert find_end(files)[:2] == (4, None)
