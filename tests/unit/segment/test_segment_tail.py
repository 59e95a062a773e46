"""The quick check of the end of a segment after a clean shutdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.segment.segment_tail import tail_end

if TYPE_CHECKING:
    from tests.unit.segment.conftest import Room


def test_the_end_is_the_offset_after_the_last_batch(room: Room) -> None:
    """This holds however many batches follow the last index entry."""
    segment = room.segment(40)
    for offset in range(40, 49):
        room.append_data(segment, room.batch([offset]))

    assert tail_end(segment.view()) == 49


def test_an_empty_segment_ends_where_it_starts(room: Room) -> None:
    """It ends at its base offset without any check."""
    assert tail_end(room.segment(40).view()) == 40


@pytest.mark.parametrize(
    "end",
    [b"\0" * 100, b"torn", None],
    ids=["zeros", "torn", "flipped"],
)
def test_an_incomplete_end_needs_a_closer_check(room: Room, end: bytes | None) -> None:
    """The caller decides what to do about it."""
    segment = room.segment(40)
    room.append_data(segment, room.batch([40]))
    data = room.fs.read(segment.path)[: segment.size_bytes]
    odd = data[:-1] + bytes([data[-1] ^ 1]) if end is None else data + end
    segment.close()
    room.fs.write(segment.path, odd)

    assert tail_end(room.segment(40).view()) is None


@pytest.mark.parametrize("offset", [39, 2**31 + 41, -1])
def test_offsets_that_do_not_fit_need_a_closer_check(room: Room, offset: int) -> None:
    """The CRC does not cover a batch's base offset."""
    segment = room.segment(40)
    room.append_data(segment, room.batch([40]))
    data = room.fs.read(segment.path)[: segment.size_bytes]
    segment.close()
    room.fs.write(segment.path, offset.to_bytes(8, "big", signed=True) + data[8:])

    assert tail_end(room.segment(40).view()) is None


def test_an_index_that_points_beyond_the_end_needs_a_closer_check(room: Room) -> None:
    """The log was truncated, and the index was not."""
    segment = room.segment(40)
    for offset in (40, 41, 42):
        room.append_data(segment, room.batch([offset]))
    size = segment.size_bytes
    segment.offset_index.append(50, size)

    assert tail_end(segment.view()) is None
