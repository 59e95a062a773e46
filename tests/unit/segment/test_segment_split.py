"""Splitting a segment whose offsets do not fit."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from tidelog.errors import CorruptMessage, InvalidArgument
from tidelog.segment.segment_split import split_overflowed

if TYPE_CHECKING:
    from tests.unit.segment.conftest import Room

    from tidelog.segment.segment import LogSegment

FAR = 2**31 + 5


def write(room: Room, *parts: bytes) -> LogSegment:
    room.fs.write(room.path(f"{0:020d}.log"), b"".join(parts))
    return room.segment(0)


def split(room: Room, segment: LogSegment) -> list[LogSegment]:
    return split_overflowed(segment, lambda base: room.segment(base, suffix=".cleaned"))


def test_each_part_starts_where_the_previous_one_cannot_continue(room: Room) -> None:
    """Batches are copied byte for byte; base offsets are those of the first batches.

    Scenario: LogLoaderTest.testOverCompactedLogRecoveryMultiRecord,
    UnifiedLogTest.testDegenerateSegmentSplit,
    UnifiedLogTest.testDegenerateSegmentSplitWithOutOfRangeBatchLastOffset
    """
    parts = [
        room.batch([3]),
        room.batch([2**31 + 2]),
        room.batch([FAR, FAR + 1]),
        room.batch([2**33]),
    ]
    segment = write(room, *parts)

    new = split(room, segment)

    assert [(made.base_offset, room.fs.read(made.path)) for made in new] == [
        (3, parts[0] + parts[1]),
        (FAR, parts[2]),
        (2**33, parts[3]),
    ]
    assert [made.has_suffix(".cleaned") for made in new] == [True, True, True]
    assert not any(made.has_overflow() for made in new)


def test_the_parts_are_complete_segments(room: Room) -> None:
    """They are indexed, trimmed, and have the modification time of the original."""
    segment = write(room, room.batch([3], [50]), room.batch([FAR], [40]))
    segment.set_modified_ms(777)

    new = split(room, segment)

    assert [made.largest_so_far() for made in new] == [(50, 3), (40, FAR)]
    assert [made.modified_ms for made in new] == [777, 777]
    assert [room.fs.stat(made.time_index.path).size_bytes for made in new] == [12, 12]


def test_the_old_segment_is_not_changed(room: Room) -> None:
    """The log swaps the new segments in and deletes the old one."""
    parts = [room.batch([3]), room.batch([FAR])]
    segment = write(room, *parts)

    split(room, segment)

    assert room.fs.read(segment.path) == b"".join(parts)


def test_a_compressed_old_set_uses_its_first_offset(room: Room) -> None:
    """The segment must not start above a record it contains.

    Scenario: LogLoaderTest.testOverCompactedLogRecoveryMultiRecordV1
    """
    parts = [room.legacy(0), room.legacy_set([FAR, FAR + 1, FAR + 2])]

    new = split(room, write(room, *parts))

    assert [made.base_offset for made in new] == [0, FAR]


def test_a_segment_in_which_everything_fits_is_rejected(room: Room) -> None:
    """So is one whose files have a suffix."""
    with pytest.raises(InvalidArgument):
        split(room, write(room, room.batch([0]), room.batch([2**31 - 1])))

    segment = write(room, room.batch([0]), room.batch([FAR]))
    segment.change_suffix("", ".deleted")
    with pytest.raises(InvalidArgument):
        split(room, segment)


def test_after_an_error_no_new_file_is_left(room: Room) -> None:
    """The old segment is still there for another attempt."""
    segment = write(room, room.batch([0]), room.batch([FAR]))
    room.fs.fail("sync", ".log.cleaned", OSError(errno.EIO, "bad block"))

    with pytest.raises(OSError, match="bad block"):
        split(room, segment)

    assert [name for name in room.names() if name.endswith(".cleaned")] == []


def test_damage_is_not_copied(room: Room) -> None:
    """A split is not a recovery: it rejects what it cannot read."""
    far = room.batch([FAR])
    segment = write(room, room.batch([0]), far, room.batch([FAR + 1]))
    room.fs.open(segment.path, "w").pwrite(b"\0" * 17, 0)
    segment = room.segment(0)

    with pytest.raises((CorruptMessage, InvalidArgument)):
        split(room, segment)

    assert [name for name in room.names() if name.endswith(".cleaned")] == []
