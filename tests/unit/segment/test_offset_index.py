"""The offset index: format, lookups, room, and what makes it corrupt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.segment.conftest import Room, is_refused, offset_entries

from tidelog.errors import (
    InvalidArgument,
    OffsetsOutOfOrder,
    SegmentOffsetOverflow,
)
from tidelog.segment.index_entries import OffsetPosition
from tidelog.segment.offset_index import OffsetIndex

NAME = "00000000000000000045.index"
BASE = 45


def make(room: Room, max_bytes: int = 30 * 8, base_offset: int = BASE) -> OffsetIndex:
    return OffsetIndex(room.fs, room.path(NAME), base_offset, max_bytes)


def filled(room: Room) -> OffsetIndex:
    index = make(room)
    for offset, position in [(46, 0), (48, 100), (60, 300), (61, 400)]:
        index.append(offset, position)
    return index


def test_an_entry_is_relative_offset_and_position_in_big_endian(room: Room) -> None:
    """Eight bytes: offset minus base offset, then byte position.

    Scenario: OffsetIndexTest.testEntry
    """
    index = make(room)

    index.append(BASE + 1, 258)

    assert room.fs.read(room.path(NAME))[:8].hex() == "0000000100000102"


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (45, (45, 0)),
        (46, (46, 0)),
        (47, (46, 0)),
        (59, (48, 100)),
        (60, (60, 300)),
        (2**40, (61, 400)),
        (0, (45, 0)),
    ],
)
def test_lookup_returns_the_last_entry_at_or_below(
    room: Room, offset: int, expected: tuple[int, int]
) -> None:
    """Below all entries, the result is the start of the file.

    Scenario: OffsetIndexTest.randomLookupTest
    """
    assert filled(room).lookup(offset) == expected


def test_an_impossible_position_is_read_as_the_start_of_the_file(room: Room) -> None:
    """Garbage in an unchecked index must not cause a disk error."""
    room.fs.write(room.path(NAME), np.array([1, -7], ">i4").tobytes())

    assert make(room).lookup(BASE + 1) == (BASE + 1, 0)


def test_an_empty_index_returns_the_start_of_the_file(room: Room) -> None:
    """Without entries, or without a file, an offset may be anywhere in the segment.

    Scenario: OffsetIndexTest.lookupExtremeCases
    """
    index = make(room)

    assert index.lookup(1_000) == OffsetPosition(BASE, 0)
    assert index.last_offset == BASE
    assert index.entry_count == 0
    assert room.names() == []


def test_lookups_survive_reopening(room: Room) -> None:
    """A closed index has only its entries, and reads back unchanged.

    Scenario: OffsetIndexTest.testReopen
    """
    filled(room).close()

    again = make(room)

    assert again.last_offset == 61
    assert offset_entries(again) == [(46, 0), (48, 100), (60, 300), (61, 400)]


def test_a_lookup_in_a_full_file_finds_the_entry_between_the_first_and_the_last(room: Room) -> None:
    """As files of closed segments are: their last entry ends them, and no zeros do."""
    filled(room).close()

    assert make(room, max_bytes=4 * 8).lookup(59) == (48, 100)


def test_the_base_offset_itself_may_have_an_entry(room: Room) -> None:
    """Its relative offset is 0."""
    index = make(room)
    index.append(BASE, 7)

    assert offset_entries(index) == [(BASE, 7)]


def test_the_upper_bound_of_a_fetch_goes_by_position(room: Room) -> None:
    """It is the first entry at or after the end of the bytes read.

    Scenario: OffsetIndexTest.testFetchUpperBoundOffset
    """
    index = filled(room)

    assert index.fetch_upper_bound(100, 200) == OffsetPosition(60, 300)
    assert index.fetch_upper_bound(100, 201) == OffsetPosition(61, 400)
    assert index.fetch_upper_bound(0, 401) is None
    assert index.fetch_upper_bound(2**30, 2**31 - 1) is None


def test_a_full_index_rejects_an_entry(room: Room) -> None:
    """The room is the size of the file in whole entries.

    Scenario: OffsetIndexTest.appendTooMany
    """
    index = make(room, max_bytes=3 * 8 + 7)
    for offset in range(46, 49):
        assert not index.is_full
        index.append(offset, offset)

    assert index.is_full
    with pytest.raises(InvalidArgument):
        index.append(49, 49)


def test_many_entries_are_appended_while_there_is_room(room: Room) -> None:
    """The rest is left out: an index may always be sparser."""
    index = make(room, max_bytes=3 * 8)

    index.append_all(np.arange(46, 51), np.arange(5))

    assert [offset for offset, _ in offset_entries(index)] == [46, 47, 48]


@pytest.mark.parametrize("offset", [60, 61])
def test_offsets_must_increase(room: Room, offset: int) -> None:
    """An offset at or below the last one is rejected, and nothing is appended.

    Scenario: OffsetIndexTest.appendOutOfOrder
    """
    index = filled(room)

    with pytest.raises(OffsetsOutOfOrder):
        index.append(offset, 500)
    with pytest.raises(OffsetsOutOfOrder):
        index.append_all(np.array([70, offset]), np.array([500, 600]))

    assert index.last_offset == 61
    assert index.entry_count == 4


@pytest.mark.parametrize(
    ("offsets", "wrong"),
    [
        ([70, 80, 80, 90], 80),
        ([75, 70, 90], 70),
        ([60, 70, 80], 60),
        ([61, 70, 80], 61),
        ([70, 80, 79], 79),
    ],
)
def test_the_offset_that_does_not_increase_is_named(
    room: Room, offsets: list[int], wrong: int
) -> None:
    """The first of many is compared with the last entry, each other one with that before it."""
    index = filled(room)

    with pytest.raises(OffsetsOutOfOrder, match=f"offset {wrong} "):
        index.append_all(np.array(offsets), np.arange(len(offsets)) + 500)

    assert index.entry_count == 4


@pytest.mark.parametrize(
    ("offsets", "wrong"),
    [
        ([BASE - 1, BASE, BASE + 1], BASE - 1),
        ([BASE, BASE + 1, BASE + 2**31], BASE + 2**31),
        ([BASE + 2**31 - 1, BASE + 2**31], BASE + 2**31),
    ],
)
def test_the_offset_that_does_not_fit_is_named(room: Room, offsets: list[int], wrong: int) -> None:
    """The base offset and the greatest relative one fit."""
    index = make(room)

    with pytest.raises(SegmentOffsetOverflow) as caught:
        index.append_all(np.array(offsets), np.arange(len(offsets)))

    assert str(wrong) in str(caught.value)
    assert index.entry_count == 0


def test_many_entries_follow_the_last_one(room: Room) -> None:
    """No entries at all are appended without a file; positions do not matter for the order."""
    make(room).append_all(np.array([], np.int64), np.array([], np.int64))
    assert room.names() == []
    index = filled(room)

    index.append_all(np.array([62, 63]), np.array([500, 600]))

    assert (index.entry_count, index.last_offset) == (6, 63)


@settings(max_examples=150, deadline=None)
@given(
    before=st.integers(0, 4),
    offsets=st.lists(st.integers(BASE - 1, BASE + 9) | st.just(BASE + 2**31), max_size=8),
    is_sorted=st.booleans(),
)
def test_a_few_entries_are_appended_as_many_are(
    before: int, offsets: list[int], *, is_sorted: bool
) -> None:
    """In one write, while there is room, and none of them where one is refused."""
    room, offsets = Room(), sorted(set(offsets)) if is_sorted else offsets
    made = [OffsetIndex(room.fs, room.path(name), BASE, 6 * 8) for name in ("few", "many")]
    for index in made:
        index.append_all(BASE + np.arange(before), np.arange(before))
    entries = list(zip(offsets, range(500, 600), strict=False))

    few = is_refused(lambda: made[0].append_few(entries))

    assert few == is_refused(
        lambda: made[1].append_all(np.array(offsets, int), 500 + np.arange(len(offsets)))
    )
    assert made[0].entry_count == made[1].entry_count
    if made[1].entry_count:
        assert room.fs.read(room.path("few")) == room.fs.read(room.path("many"))


def test_entries_at_both_ends_of_the_range_are_found_and_removed(room: Room) -> None:
    """Relative offsets 0 and 2**31 - 1."""
    index = make(room)
    index.append_all(np.array([BASE, BASE + 2**31 - 1]), np.array([5, 6]))

    assert index.lookup(BASE) == (BASE, 5)
    assert index.lookup(BASE + 2**31 - 2) == (BASE, 5)
    assert index.lookup(BASE + 2**31 - 1) == (BASE + 2**31 - 1, 6)
    index.truncate_to(BASE + 2**31 - 1)
    assert index.entry_count == 1
    index.truncate_to(BASE)
    assert index.entry_count == 0


def test_a_negative_relative_offset_is_read_as_the_start_of_the_file(room: Room) -> None:
    """Garbage in an unchecked index, again."""
    room.fs.write(room.path(NAME), np.array([-5, 7], ">i4").tobytes())

    assert make(room).lookup(BASE - 3) == (BASE, 0)


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_offsets_must_fit_four_bytes(room: Room, offset: int) -> None:
    """A relative offset is 0 to 2**31 - 1."""
    index = make(room)

    with pytest.raises(SegmentOffsetOverflow):
        index.append(offset, 0)
    with pytest.raises(SegmentOffsetOverflow):
        index.append_all(np.array([offset]), np.array([0]))

    assert index.entry_count == 0


def test_the_greatest_relative_offset_is_stored(room: Room) -> None:
    """The last entry that fits is found again."""
    index = make(room)

    index.append(BASE + 2**31 - 1, 2**31 - 2)

    assert index.lookup(2**40) == OffsetPosition(BASE + 2**31 - 1, 2**31 - 2)


@pytest.mark.parametrize(
    ("offset", "left"), [(0, 0), (46, 0), (47, 1), (60, 2), (61, 3), (62, 4), (2**40, 4)]
)
def test_truncation_removes_entries_at_or_above(room: Room, offset: int, left: int) -> None:
    """The remaining entries can be looked up, and appends continue after them.

    Scenario: OffsetIndexTest.truncate
    """
    index = filled(room)

    index.truncate_to(offset)
    index.append(BASE + 500, 900)

    assert index.entry_count == left + 1
    assert index.lookup(BASE + 499).offset == [45, 46, 48, 60, 61][left]


def test_readers_keep_their_entries_when_the_index_is_truncated(room: Room) -> None:
    """Entries that a reader holds do not change."""
    index = filled(room)
    before = index.entries()

    index.truncate_to(47)
    index.append(200, 999)

    assert before.filled_keys.tolist() == [1, 3, 15, 16]
    assert before.filled_values.tolist() == [0, 100, 300, 400]


def test_removing_all_entries_keeps_the_size_of_the_file(room: Room) -> None:
    """Truncation removes entries; only trimming shortens the file."""
    index = filled(room)

    index.keep(0)

    assert index.entry_count == 0
    assert room.fs.stat(room.path(NAME)).size_bytes == 240
