"""The time index: format, lookups, the reserved slot, and what makes it corrupt."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.segment.conftest import Room, is_refused, time_entries

from tidelog.errors import (
    InvalidArgument,
    InvariantError,
    OffsetsOutOfOrder,
    SegmentOffsetOverflow,
)
from tidelog.segment.index_entries import TimestampOffset
from tidelog.segment.time_index import TimeIndex

NAME = "00000000000000000345.timeindex"
BASE = 345


def make(room: Room, max_bytes: int = 30 * 12, name: str = NAME) -> TimeIndex:
    return TimeIndex(room.fs, room.path(name), BASE, max_bytes)


def filled(room: Room, count: int = 5) -> TimeIndex:
    index = make(room)
    for i in range(1, count + 1):
        index.maybe_append(i * 10, BASE + i * 10)
    return index


def test_an_entry_is_timestamp_and_relative_offset_in_big_endian(room: Room) -> None:
    """Twelve bytes: milliseconds, then offset minus base offset.

    Scenario: TimeIndexTest.testEntry, TimeIndexTest.testEntrySize, TimeIndexTest.testParseEntry
    """
    index = make(room)

    index.maybe_append(258, BASE + 1)

    assert room.fs.read(room.path(NAME))[:12].hex() == "000000000000010200000001"


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (9, (-1, BASE)),
        (10, (10, BASE + 10)),
        (29, (20, BASE + 20)),
        (30, (30, BASE + 30)),
        (2**62, (50, BASE + 50)),
        (-1, (-1, BASE)),
    ],
)
def test_lookup_returns_the_last_entry_at_or_before(
    room: Room, timestamp: int, expected: tuple[int, int]
) -> None:
    """Before all entries, the result is -1 and the base offset.

    Scenario: TimeIndexTest.testLookUp
    """
    assert filled(room).lookup(timestamp) == expected


def test_an_empty_index_has_no_timestamp(room: Room) -> None:
    """Its last entry and every lookup are (-1, base offset), with or without a file.

    Scenario: TimeIndexTest.testLastEntry
    """
    index = make(room)
    assert index.last_entry == index.lookup(100) == (-1, BASE)

    index.create()

    assert index.last_entry == index.lookup(100) == (-1, BASE)


def test_entries_survive_reopening(room: Room) -> None:
    """The last entry is found without loading the file."""
    filled(room).close()

    again = make(room)

    assert again.last_entry == TimestampOffset(50, BASE + 50)
    assert time_entries(again)[0] == (10, BASE + 10)


def test_a_timestamp_that_is_not_greater_is_skipped(room: Room) -> None:
    """One equal to the last is skipped, and so is -1 in an empty index."""
    index = make(room)

    added = [index.maybe_append(time, BASE + 1) for time in (-1, 0, 0)]

    assert added == [False, True, False]
    assert index.entry_count == 1


def test_only_timestamps_above_the_last_one_are_appended(room: Room) -> None:
    """One or many; offsets may stay the same."""
    index = make(room)
    index.maybe_append(1000, BASE + 5)

    assert not index.maybe_append(1000, BASE + 6)
    index.maybe_append_all(np.array([1000, 1001, 1001]), BASE + np.array([5, 7, 7]))
    index.maybe_append_all(np.array([], np.int64), np.array([], np.int64))

    assert index.entries().filled_keys.tolist() == [1000, 1001]
    assert index.entries().filled_values.tolist() == [5, 7]


def test_many_new_timestamps_are_appended(room: Room) -> None:
    """From the base offset on, also several at one offset."""
    index = make(room)

    index.maybe_append_all(np.array([1, 2, 3]), BASE + np.array([0, 1, 1]))
    index.maybe_append_all(np.array([4, 5, 6]), BASE + np.array([1, 2, 2**31 - 1]))

    assert index.entries().filled_keys.tolist() == [1, 2, 3, 4, 5, 6]
    assert index.entries().filled_values.tolist() == [0, 1, 1, 1, 2, 2**31 - 1]


@pytest.mark.parametrize("relative", [[4, 7, 8], [6, 9, 8], [6, 5, 7]])
def test_each_offset_is_compared_with_the_one_before(room: Room, relative: list[int]) -> None:
    """The first with the last entry's."""
    index = make(room)
    index.maybe_append(1000, BASE + 5)
    wrong = next(new for old, new in pairwise([5, *relative]) if new < old)

    with pytest.raises(OffsetsOutOfOrder, match=f"offset {BASE + wrong} "):
        index.maybe_append_all(np.array([1001, 1002, 1003]), BASE + np.array(relative))

    assert index.entry_count == 1


@pytest.mark.parametrize("relative", [[4, 3, 8], [0, 9, 8], [2, 1, 0]])
def test_the_first_entries_are_compared_with_each_other(room: Room, relative: list[int]) -> None:
    """An empty index has nothing for the first one to follow; later ones follow the first."""
    index = make(room)
    wrong = next(new for old, new in pairwise(relative) if new < old)

    with pytest.raises(OffsetsOutOfOrder, match=f"offset {BASE + wrong} "):
        index.maybe_append_all(np.array([1001, 1002, 1003]), BASE + np.array(relative))
    with pytest.raises(InvariantError, match="timestamp 1001 "):
        index.maybe_append_all(np.array([1002, 1001, 1003]), BASE + np.arange(3))

    assert index.entry_count == 0


@pytest.mark.parametrize("timestamps", [[-1, 7, 8], [-1, -1, 8]])
def test_no_timestamp_is_no_entry(room: Room, timestamps: list[int]) -> None:
    """Records without timestamps may come before the first that has one."""
    index = make(room)

    index.maybe_append_all(np.array(timestamps), np.array([-1, BASE, BASE + 1]))

    assert index.entries().filled_keys.tolist() == [time for time in timestamps if time >= 0]
    assert index.last_entry == (8, BASE + 1)


def test_an_equal_timestamp_is_skipped_before_greater_ones(room: Room) -> None:
    """However many follow; and the first offset of several is checked like a single one."""
    index = make(room)
    index.maybe_append(1000, BASE + 5)

    index.maybe_append_all(np.array([1000, 1001, 1002]), BASE + np.array([5, 7, 8]))

    assert index.entries().filled_keys.tolist() == [1000, 1001, 1002]
    with pytest.raises(SegmentOffsetOverflow, match=f"{BASE - 1}"):
        make(room, name="other").maybe_append_all(np.array([1, 2]), BASE + np.array([-1, 5]))


def test_an_entry_at_the_greatest_relative_offset_fits(room: Room) -> None:
    """One above it does not, at the end of many either."""
    index = make(room)

    with pytest.raises(SegmentOffsetOverflow):
        index.maybe_append_all(np.array([10, 20]), BASE + np.array([0, 2**31]))
    assert index.maybe_append(10, BASE + 2**31 - 1)


@settings(max_examples=200, deadline=None)
@given(
    before=st.integers(0, 4),
    entries=st.lists(
        st.tuples(st.integers(-1, 9), st.integers(-1, 9) | st.just(2**31)), max_size=8
    ),
    are_sorted=st.booleans(),
)
def test_a_few_entries_are_appended_as_many_are(
    before: int, entries: list[tuple[int, int]], *, are_sorted: bool
) -> None:
    """Those with a new timestamp, while there is room, and none where one is refused."""
    room, kept = Room(), np.arange(before)
    made = [make(room, 6 * 12, name) for name in ("few", "many")]
    for index in made:
        index.maybe_append_all(kept, BASE + kept)
    if are_sorted:
        entries = sorted(zip(*map(sorted, zip(*entries, strict=True)), strict=True))
    times, offsets = np.array(entries, np.int64).reshape(-1, 2).T

    few = is_refused(lambda: made[0].maybe_append_few([(t, BASE + at) for t, at in entries]))

    assert few == is_refused(lambda: made[1].maybe_append_all(times, BASE + offsets))
    assert made[0].entry_count == made[1].entry_count
    assert room.fs.exists(room.path("few")) == room.fs.exists(room.path("many"))
    if room.fs.exists(room.path("few")):
        assert room.fs.read(room.path("few")) == room.fs.read(room.path("many"))


def test_offsets_must_not_decrease(room: Room) -> None:
    """An offset below the last one is rejected, an equal one is not."""
    index = filled(room)

    assert index.maybe_append(60, BASE + 50)
    with pytest.raises(OffsetsOutOfOrder):
        index.maybe_append(70, BASE + 49)
    with pytest.raises(OffsetsOutOfOrder):
        index.maybe_append_all(np.array([70, 80]), np.array([BASE + 60, BASE + 59]))

    assert index.last_entry == (60, BASE + 50)


def test_timestamps_must_not_decrease(room: Room) -> None:
    """The caller passes a running maximum, so a smaller one is a bug.

    Scenario: TimeIndexTest.testAppend
    """
    index = filled(room)

    with pytest.raises(InvariantError):
        index.maybe_append(49, BASE + 60)
    with pytest.raises(InvariantError):
        index.maybe_append_all(np.array([60, 59]), np.array([BASE + 60, BASE + 61]))

    assert index.entry_count == 5


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_offsets_must_fit_four_bytes(room: Room, offset: int) -> None:
    """A relative offset is 0 to 2**31 - 1."""
    index = make(room)

    with pytest.raises(SegmentOffsetOverflow):
        index.maybe_append(10, offset)
    with pytest.raises(SegmentOffsetOverflow):
        index.maybe_append_all(np.array([10]), np.array([offset]))

    assert index.entry_count == 0


def test_one_slot_is_reserved_for_closing_the_segment(room: Room) -> None:
    """The index is full one entry early; only the last entry of a segment uses that slot.

    Scenario: TimeIndexTest.testIsFull
    """
    index = make(room, max_bytes=3 * 12)
    index.maybe_append(10, BASE)
    index.maybe_append(20, BASE)

    assert index.is_full
    with pytest.raises(InvalidArgument):
        index.maybe_append(30, BASE)
    assert index.maybe_append(30, BASE, skip_full_check=True)
    assert index.size_bytes == 36


def test_many_entries_are_appended_while_there_is_room(room: Room) -> None:
    """Skipped entries need no room; the reserved slot stays free."""
    index = make(room, max_bytes=4 * 12)

    index.maybe_append_all(np.array([1, 1, 2, 3, 4]), BASE + np.arange(5))

    assert index.entries().filled_keys.tolist() == [1, 2, 3]
    assert index.entries().filled_values.tolist() == [0, 2, 3]


def test_skipped_entries_create_no_file(room: Room) -> None:
    """A segment of records without timestamps has an empty time index."""
    index = make(room)

    index.maybe_append_all(np.array([-1, -1]), np.array([-1, -1]))
    index.maybe_append(-1, BASE, skip_full_check=True)

    assert room.names() == []


@pytest.mark.parametrize(
    ("offset", "left"), [(0, 0), (BASE + 10, 0), (BASE + 11, 1), (BASE + 50, 4), (2**40, 5)]
)
def test_truncation_goes_by_offset(room: Room, offset: int, left: int) -> None:
    """Entries at or above the offset are removed, regardless of timestamps.

    Scenario: TimeIndexTest.testTruncate
    """
    index = filled(room)

    index.truncate_to(offset)

    assert index.entry_count == left


def test_truncation_to_the_base_offset_removes_its_entry(room: Room) -> None:
    """Relative offset 0 is at or above it."""
    index = make(room)
    index.maybe_append(5, BASE)

    index.truncate_to(BASE)

    assert index.entry_count == 0


def test_truncation_to_nothing(room: Room) -> None:
    """The last entry is then that of an empty index."""
    index = filled(room)

    index.keep(0)

    assert index.last_entry == (-1, BASE)
