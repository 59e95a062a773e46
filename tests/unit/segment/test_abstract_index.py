"""Entries of an index in memory and in its file: room, zeros, rebuilding, what is synced."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidelog.segment.offset_index import OffsetIndex
from tidelog.segment.time_index import TimeIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.unit.segment.conftest import Room

NAME = "00000000000000000000.index"
CHANGES = {"open", "pwrite", "truncate", "sync"}


def make(room: Room, max_bytes: int = 96) -> OffsetIndex:
    return OffsetIndex(room.fs, room.path(NAME), 0, max_bytes)


def data(*entries: tuple[int, int]) -> bytes:
    return np.array(entries, ">i4").tobytes()


def write(room: Room, *entries: tuple[int, int]) -> None:
    room.fs.write(room.path(NAME), data(*entries))


def read(room: Room) -> bytes:
    return room.fs.read(room.path(NAME))


def done(room: Room, count: int) -> list[str]:
    """Return the changes after the first ``count`` operations."""
    return [each.name for each in room.fs.operations[count:] if each.name in CHANGES]


@pytest.mark.parametrize(
    ("stored", "count", "last"),
    [
        ([], 0, None),
        ([(0, 0)], 1, (0, 0)),
        ([(0, 0), (0, 0)], 0, None),
        ([(1, 7), (0, 0)], 1, (1, 7)),
        ([(0, 7), (0, 0)], 1, (0, 7)),
        ([(1, 0), (0, 0)], 1, (1, 0)),
        ([(1, 0), (2, 7), (0, 0)], 2, (2, 7)),
        ([(0, 0), (2, 0)], 2, (2, 0)),
        ([(0, 0), (0, 7)], 2, (0, 7)),
        ([(1, 7), (2, 8), (0, 0), (0, 0)], 2, (2, 8)),
    ],
)
def test_entries_end_where_only_zeros_follow(
    room: Room, stored: list[tuple[int, int]], count: int, last: tuple[int, int] | None
) -> None:
    """Whether the last one is asked for first or the file is read."""
    room.fs.write(room.path(NAME), data(*stored) if stored else b"")

    assert make(room).last() == last
    index = make(room)
    assert (index.entry_count, index.last()) == (count, last)


def test_memory_doubles_as_entries_are_appended(room: Room) -> None:
    """From 64 entries on: neither is it copied for each one, nor is more than half unused."""
    index = make(room, 8 * 1000)
    sizes = []
    for number in range(1, 258):
        index.append(number, number)
        sizes.append(len(index.entries().keys))

    assert sizes == [64] * 64 + [128] * 64 + [256] * 128 + [512]


def test_room_is_counted_before_the_file_exists(room: Room) -> None:
    """By the maximum size: of one entry, and of less than one."""
    assert not make(room, 8).is_full
    assert not make(room, 16).is_full
    assert make(room, 7).is_full
    assert make(room, 8).free_entries == 1


def test_a_full_index_takes_none_of_many(room: Room) -> None:
    """A time index has no room after its reserved entry either."""
    index = make(room, 16)
    index.append_all(np.array([1, 2]), np.array([1, 2]))
    index.append_all(np.array([3, 4]), np.array([3, 4]))
    times = TimeIndex(room.fs, room.path("0.timeindex"), 0, 24)
    times.maybe_append(1, 1)
    times.maybe_append(2, 2, skip_full_check=True)
    times.maybe_append_all(np.array([3, 4]), np.array([3, 4]))

    assert (index.entry_count, index.free_entries) == (2, 0)
    assert (times.entry_count, times.free_entries) == (2, 0)


def test_a_trimmed_index_has_room_once_it_is_resized_or_may_grow(room: Room) -> None:
    """A resized one has its size at once, one that grows only as entries come."""
    write(room, (1, 7))
    trimmed, growing = make(room), make(room)
    growing.grow()
    fullness = trimmed.entries().filled, trimmed.is_full, growing.is_full, growing.free_entries

    growing.append(2, 8)
    growing.close()
    grown = read(room)
    trimmed = make(room)
    trimmed.resize(24)

    assert fullness == (1, True, False, 11)
    assert grown == data((1, 7), (2, 8))
    assert (trimmed.free_entries, read(room)) == (1, grown + bytes(8))


def test_an_index_may_grow_up_to_its_size_and_no_further(room: Room) -> None:
    """The last entry that fits is taken."""
    write(room, (1, 7))
    growing = make(room, max_bytes=24)
    growing.grow()

    fullness = []
    for entry in (2, 8), (3, 9):
        fullness.append(growing.is_full)
        growing.append(*entry)
    fullness.append(growing.is_full)
    assert fullness == [False, False, True]


def test_a_resized_or_growing_index_stays_open(room: Room) -> None:
    """``sync`` closes a sealed file only, and more entries are to come."""
    index = make(room)
    index.append(1, 7)
    index.seal()
    index.resize(16)
    index.sync()
    before = len(room.fs.operations)

    index.append(2, 8)
    index.seal()
    index.grow()
    index.sync()
    assert index._file is not None
    index.append(3, 9)

    assert "open" not in done(room, before)
    assert make(room).last() == (3, 9)
    index.resize(32)
    assert (index.free_entries, len(read(room))) == (1, 32)
    index.keep(0)
    index.resize(24)
    assert (index.free_entries, len(read(room))) == (3, 24)


@pytest.mark.parametrize("stored", [[], [(1, 7)], [(1, 7), (2, 9)], [(1, 7), (2, 8), (3, 9)]])
def test_a_rebuilt_file_has_the_new_entries(room: Room, stored: Sequence[tuple[int, int]]) -> None:
    """Whatever was in it, also if there was no file; it is durable after a sync."""
    if stored:
        write(room, *stored)
    index = make(room)
    if stored:
        index.sync()
    index.reset()
    index.create()
    index.append_all(np.array([1, 2, 5]), np.array([7, 8, 9]))
    index.truncate_to(5)
    assert [(name, read(room)) for name in room.names()] == [
        (NAME, data(*stored)) for _ in range(bool(stored))
    ]

    index.trim()
    before = len(room.fs.operations)
    index.sync()

    assert read(room) == data((1, 7), (2, 8))
    assert "sync" in done(room, before)
    assert index.last() == (2, 8)


def test_what_changed_is_synced_and_nothing_else(room: Room) -> None:
    """Entries and the size; a second sync and a second trim do nothing."""
    index = make(room)
    counts = []
    index.create()
    changes: list[Callable[[], object]] = [
        lambda: index.append(1, 7),
        lambda: None,
        index.trim,
        index.trim,
        lambda: index.resize(16),
    ]
    for change in changes:
        change()
        before = len(room.fs.operations)
        index.sync()
        counts.append(done(room, before))

    assert counts == [["sync"], [], ["sync"], [], ["sync"]]
    before = len(room.fs.operations)
    index.trim()
    index.trim()
    assert done(room, before) == ["truncate"]


def test_closing_an_index_that_was_read_changes_nothing(room: Room) -> None:
    """It is trimmed already."""
    write(room, (1, 7), (2, 8))
    index = make(room)
    assert index.entry_count == 2
    trace = room.fs.trace()

    index.close()

    assert trace == []


def test_trimming_goes_by_the_size_of_the_file(room: Room) -> None:
    """It may have become longer since it was read."""
    write(room, (1, 7))
    index = make(room)
    assert index.entry_count == 1
    write(room, (1, 7), (2, 8))

    index.trim()

    assert read(room) == data((1, 7))


def test_a_part_of_a_failed_write_is_trimmed(room: Room) -> None:
    """Also where the file grows with its entries."""
    write(room, (1, 7))
    index = make(room)
    index.grow()
    index.create()
    assert index.entry_count == 1
    room.fs.fail_at(0, OSError(errno.ENOSPC, "full"), is_short=True)
    with pytest.raises(OSError, match="full"):
        index.append(2, 8)
    size = len(read(room))

    index.close()

    assert (size, read(room)) == (12, data((1, 7)))


def test_a_truncation_that_removes_nothing_copies_nothing(room: Room) -> None:
    """The published entries are the same."""
    index = make(room)
    index.append(1, 7)
    before = index.entries()

    index.truncate_to(2)

    assert index.entries() is before


def test_a_file_that_cannot_be_preallocated_is_deleted(room: Room) -> None:
    """The next attempt makes it."""
    index = make(room)
    room.fs.fail("truncate", ".index", OSError(errno.ENOSPC, "full"))
    with pytest.raises(OSError, match="full"):
        index.create()
    assert room.names() == []

    index.create()

    assert read(room) == bytes(96)
