"""Which segments are cleaned into one."""

from __future__ import annotations

import pytest
from tests.machinery.cleaning import CleanerHome

from tidelog.cleaner.cleanable_range import (
    GroupLimits,
    OffsetsToClean,
    SegmentSize,
    group_by_size,
    sizes_of,
)

LIMITS = GroupLimits(segment_bytes=100, index_bytes=100)


def sizes(*parts: tuple[int, ...]) -> list[SegmentSize]:
    """Make adjacent segments of ten offsets; each of ``parts`` is the three sizes in bytes."""
    return [SegmentSize(10 * number, 10 * number + 9, *part) for number, part in enumerate(parts)]


def grouped(found: list[SegmentSize], limits: GroupLimits = LIMITS) -> list[int]:
    return [len(group) for group in group_by_size(found, limits)]


@pytest.mark.parametrize("which", range(3))
def test_sums_stay_within_the_limits(which: int) -> None:
    """Adjacent segments are grouped while bytes, index and time index fit.

    Scenario: LogCleanerTest.testSegmentGrouping
    """
    one, two, three = (30 if at == which else 1 for at in range(3))

    assert grouped(sizes(*[(one, two, three)] * 10)) == [3, 3, 3, 1]


@pytest.mark.parametrize("which", range(3))
def test_a_group_may_become_exactly_full(which: int) -> None:
    """A sum may reach its limit, not pass it."""
    full, over = (
        [tuple(part if at == which else 1 for at in range(3)) for part in parts]
        for parts in ((40, 60), (40, 61))
    )

    assert grouped(sizes(*full)) == [2]
    assert grouped(sizes(*over)) == [1, 1]


@pytest.mark.parametrize(
    ("first_dirty", "first_uncleanable", "is_empty"), [(5, 6, False), (5, 5, True), (5, 4, True)]
)
def test_a_range_without_offsets_is_empty(
    first_dirty: int, first_uncleanable: int, is_empty: bool
) -> None:
    """The end is exclusive."""
    assert OffsetsToClean(first_dirty, first_uncleanable).is_empty is is_empty


def test_a_large_segment_is_alone() -> None:
    """A segment larger than the limit is a group of its own."""
    assert grouped(sizes((200, 1, 1), (10, 1, 1), (200, 1, 1))) == [1, 1, 1]


def test_offsets_of_a_group_fit_its_base() -> None:
    """The last offset of a group is at most 2**31 - 1 above its first base offset.

    Scenario: LogCleanerTest.testSegmentGroupingWithSparseOffsets
    """
    near = SegmentSize(5, 2**31 - 1, 10, 1, 1)
    far = SegmentSize(2**31, 2**31 + 5, 10, 1, 1)

    assert grouped([SegmentSize(0, 4, 10, 1, 1), near, far]) == [2, 1]
    first = SegmentSize(100, 109, 10, 1, 1)
    middle, far = SegmentSize(110, 119, 10, 1, 1), SegmentSize(120, 100 + 2**31, 10, 1, 1)
    assert grouped([first, middle, far._replace(last_offset=99 + 2**31)]) == [3]
    assert grouped([first, middle, far]) == [2, 1]


def test_an_empty_segment_fits_with_any_offsets() -> None:
    """A segment without records has no offset that must fit.

    Scenario: LogCleanerTest.testSegmentGroupingWithSparseOffsetsAndEmptySegments
    """
    empty = SegmentSize(5, 2**32, 0, 0, 0)

    assert grouped([SegmentSize(0, 4, 10, 1, 1), empty]) == [2]


def test_sizes_count_the_entries_of_indexes() -> None:
    """Of an index only the entries count, not the preallocated bytes after them.

    Scenario: LogCleanerTest.testSegmentGroupingFollowingLoadOfZeroIndex
    """
    home = CleanerHome(index_interval_bytes=0)
    with home.open() as log:
        for number in range(4):
            home.append(log, (number, "v"))
        log.roll()

        found = sizes_of(tuple(log.segments), 9)

        assert found[0][:3] == (0, 3, log.size_bytes)
        assert found[0][3:] == (8 * 3, 12 * log.segments.all[0].time_index.entry_count)
        assert found[1] == (4, 8, 0, 0, 0)
