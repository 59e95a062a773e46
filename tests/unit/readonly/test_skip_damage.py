"""Reads that continue after damage, and report what they skip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.stored_log import BATCHES, SIZE, flipped, home_with, name_of

from tidelog.errors import CorruptMessage
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import pack_batch
from tidelog.records.isolation import ReadUpTo
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tests.machinery.directory_home import DataHome

    from tidelog.readonly.missing.damaged_range import DamagedRange

PATH = "/data/t-0"


def read(home: DataHome, start: int | None = None) -> tuple[list[int], list[DamagedRange]]:
    """Return the offsets that can be read, and what was skipped."""
    skipped: list[DamagedRange] = []
    with open_read_only(PATH, fs=home.fs, on_damage=skipped.append) as log:
        end = log.end_offset(ReadUpTo.LOG_END)
        return [record.offset for record in log.records(start, end)], skipped


def test_a_bad_batch_is_skipped() -> None:
    """In an inactive segment and in the last one; file, bytes and offsets are reported."""
    home = home_with(
        [BATCHES[0], flipped(BATCHES[1]), BATCHES[2]], [flipped(BATCHES[3]), *BATCHES[4:]]
    )

    offsets, skipped = read(home)

    assert offsets == [0, 2, *range(4, len(BATCHES))]
    assert [(one.path, one.start_offset, one.end_offset) for one in skipped] == [
        (f"/data/{name_of(0)}", 1, 2),
        (f"/data/{name_of(3)}", 3, 4),
    ]
    first = skipped[0]
    assert (first.position, first.end) == (len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1]))
    assert "offset 1: the CRC of a batch is wrong" in str(first)


def test_neighbours_are_one_range() -> None:
    """So is a batch whose length is bad with those that it hides."""
    home = home_with([BATCHES[0], flipped(BATCHES[1]), flipped(BATCHES[2]), *BATCHES[3:]])
    offsets, skipped = read(home)
    assert offsets == [0, *range(3, len(BATCHES))]
    assert [(one.start_offset, one.end_offset) for one in skipped] == [(1, 3)]

    home = home_with([BATCHES[0], flipped(BATCHES[1], at=9), *BATCHES[2:]])
    offsets, skipped = read(home)
    assert offsets == [0, *range(2, len(BATCHES))]
    assert [(one.start_offset, one.end_offset) for one in skipped] == [(1, 2)]


def test_a_batch_that_does_not_decode_is_skipped_alone() -> None:
    """Its CRC is right; the batches before and after it in the same segment are read."""
    undecodable = [
        pack_batch(BATCH_HEADER.unpack(BATCHES[at])._replace(attributes=6), BATCHES[at][61:])
        for at in (1, 3)
    ]
    home = home_with([BATCHES[0], undecodable[0], BATCHES[2], undecodable[1], *BATCHES[4:]])

    offsets, skipped = read(home)

    assert offsets == [0, 2, *range(4, len(BATCHES))]
    assert [(one.position, one.start_offset, one.end_offset) for one in skipped] == [
        (SIZE, 1, 2),
        (3 * SIZE, 3, 4),
    ]
    assert read(home, 2)[0] == offsets[1:]


def test_damage_before_a_read_is_not_reported() -> None:
    """A read begins at the batch that holds its first offset."""
    home = home_with([BATCHES[0], flipped(BATCHES[1]), BATCHES[2]], BATCHES[3:])

    assert read(home, 2) == ([*range(2, len(BATCHES))], [])


def test_without_it_damage_is_an_error() -> None:
    """After all records before it."""
    home = home_with([BATCHES[0], flipped(BATCHES[1]), BATCHES[2]], BATCHES[3:])

    with open_read_only(PATH, fs=home.fs) as log, pytest.raises(CorruptMessage):
        list(log.records())


def test_offsets_that_reach_into_the_next_segment_are_damage() -> None:
    """A flipped base offset does not hide the records after it."""
    far = build_batch([(1, None, b"far", ())], base_offset=1 << 40)
    home = home_with([BATCHES[0], far, BATCHES[2]], BATCHES[3:])

    offsets, skipped = read(home)

    assert offsets == [0, *range(2, len(BATCHES))]
    assert [(one.start_offset, one.end_offset) for one in skipped] == [(1, 2)]


def test_missing_offsets_below_the_high_watermark_are_reported() -> None:
    """There are no bytes to skip, and the records before them are read."""
    home = home_with(BATCHES[:3])
    home.write("replication-offset-checkpoint", "0\n1\nt 0 5\n")

    offsets, skipped = read(home)

    assert offsets == [0, 1, 2]
    assert [(one.start_offset, one.end_offset) for one in skipped] == [(3, 5)]
