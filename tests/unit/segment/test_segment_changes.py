"""Changes of a segment after it was written: truncated, closed, reopened and checked."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.unit.segment.conftest import entries

from tidelog.errors import CorruptIndex
from tidelog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from tests.unit.segment.conftest import Room


INT32_MAX = 2**31 - 1
SIZE = 170
"""Bytes of a batch of one record, as the room builds it."""


# Truncation


def test_truncation_removes_whole_batches(room: Room) -> None:
    """A batch that straddles the offset is removed too.

    Scenario: LogSegmentTest.testTruncate
    """
    segment = room.segment(40)
    size = room.append(segment, [50, 51])
    room.append(segment, [52, 53])

    cut = segment.truncate_to(53)

    assert (cut, segment.size_bytes, len(room.fs.read(segment.path))) == (size, size, size)
    assert segment.read_next_offset() == 52


def test_truncation_in_a_gap_removes_what_is_above(room: Room) -> None:
    """With offsets 40 and 43, truncation to 41 removes 43.

    Scenario: LogSegmentTest.shouldTruncateEvenIfOffsetPointsToAGapInTheLog
    """
    segment = room.segment(40)
    room.append(segment, [40])
    room.append(segment, [43])

    segment.truncate_to(41)

    assert segment.read_next_offset() == 41


def test_truncation_beyond_the_end_only_resizes_the_indexes(room: Room) -> None:
    """Records and entries are kept.

    Scenario: UnifiedLogTest.testIndexResizingAtTruncation
    """
    segment = room.segment(0, index_interval_bytes=100)
    for offset in range(3):
        room.append(segment, [offset], [offset])
    segment.become_inactive()
    before = room.stored(segment), entries(segment)

    cut = segment.truncate_to(3)

    assert (cut, (room.stored(segment), entries(segment))) == (0, before)
    assert room.fs.stat(segment.offset_index.path).size_bytes == 10 << 20
    assert not segment.offset_index.is_full


def test_truncation_updates_the_maximum_timestamp(room: Room) -> None:
    """It is found from the last index entries and the batches after them.

    Scenario: LogSegmentTest.testReloadLargestTimestampAndNextOffsetAfterTruncation
    """
    segment = room.segment(0, index_interval_bytes=200)
    for offset, timestamp in enumerate([5, 30, 10, 20, 40]):
        room.append(segment, [offset], [timestamp])

    segment.truncate_to(4)
    assert segment.largest_so_far() == (30, 1)

    segment.truncate_to(1)
    assert segment.largest_so_far() == (5, 0)

    segment.truncate_to(0)
    assert segment.largest_so_far() == (-1, 0)


def test_after_truncation_the_index_interval_starts_anew(room: Room) -> None:
    """It does so after opening, too."""
    segment = room.segment(0, index_interval_bytes=200)
    for offset in range(3):
        room.append(segment, [offset])

    segment.truncate_to(2)
    for offset in range(2, 5):
        room.append(segment, [offset])

    assert entries(segment)[0] == [(4, 4 * SIZE)]


def test_truncation_removes_aborted_transactions(room: Room) -> None:
    """They are those whose marker is removed."""
    segment = room.segment(0)
    for offset in range(3):
        room.append(segment, [offset])
    segment.update_txn_index([AbortedTxn(0, 7, 0, 1, 2), AbortedTxn(0, 8, 0, 2, 3)])

    segment.truncate_to(2)

    assert segment.collect_aborted(0, 9).aborted == (AbortedTxn(0, 7, 0, 1, 2),)


def test_a_segment_truncated_to_nothing_is_like_new(room: Room) -> None:
    """It can be filled again from its base offset.

    Scenario: LogSegmentTest.testTruncateEmptySegment, LogSegmentTest.testTruncateFull
    """
    segment = room.segment(0, index_interval_bytes=100)
    for offset in range(3):
        room.append(segment, [offset], [100 + offset])

    segment.truncate_to(0)
    room.append(segment, [0], [3])

    assert segment.first_batch_timestamp() == 3
    assert entries(segment) == ([], [])


# The end of its life


def test_becoming_inactive_trims_and_indexes_the_maximum_timestamp(room: Room) -> None:
    """It is the last entry of the time index; the files end with their last entry and byte."""
    segment = room.segment(0, preallocate=True, internal_segment_bytes=4_096)
    room.append(segment, [0, 1], [50, 40])

    segment.become_inactive()

    sizes = [room.fs.stat(room.path(name)).size_bytes for name in room.names()]
    assert (room.names(), sizes) == (
        [f"{0:020d}.{k}" for k in ("index", "log", "timeindex")],
        [0, segment.size_bytes, 12],
    )
    assert entries(segment) == ([], [(50, 1)])


def test_a_closed_segment_is_trimmed_and_durable(room: Room) -> None:
    """After a power cut all its bytes and entries are there."""
    segment = room.segment(
        0,
        preallocate=True,
        index_interval_bytes=100,
        internal_segment_bytes=4_096,
        segment_index_bytes=4_096,
    )
    for offset in range(4):
        room.append(segment, [offset], [offset])
    expected = room.stored(segment)

    segment.close()
    for directory in ("/", "/data", room.directory):
        room.fs.sync_directory(directory)
    room.fs.power_cut()

    again = room.segment(0)
    assert room.fs.read(again.path) == expected
    assert entries(again) == ([(i, i * SIZE) for i in (1, 2, 3)], [(i, i) for i in (1, 2, 3)])


def test_closing_twice_does_nothing(room: Room) -> None:
    """Neither does closing a segment whose handlers were closed."""
    segment = room.segment(0)
    room.append(segment, [0])
    segment.close()
    before = len(room.fs.operations)

    segment.close()
    segment.close_handlers()

    assert len(room.fs.operations) == before


def test_close_tries_every_file_and_raises_the_first_error(room: Room) -> None:
    """One bad file must not leave the others untrimmed."""
    segment = room.segment(0)
    room.append(segment, [0], [5])
    room.fs.fail("sync", ".index", OSError(errno.EIO, "bad block"))

    with pytest.raises(OSError, match="bad block"):
        segment.close()

    assert room.fs.stat(segment.time_index.path).size_bytes == 12


def test_a_failed_last_time_entry_does_not_keep_a_segment_open(room: Room) -> None:
    """It is only a hint; the records are closed."""
    segment = room.segment(0)
    room.append(segment, [0], [5])
    room.fs.fail("pwrite", ".timeindex", OSError(errno.ENOSPC, "full"))

    segment.close()

    assert room.fs.stat(segment.time_index.path).size_bytes == 0


def test_flushing_makes_records_and_indexes_durable(room: Room) -> None:
    """The records come first, then the indexes that point to them."""
    segment = room.segment(0, index_interval_bytes=100)
    for offset in range(3):
        room.append(segment, [offset], [offset])
    before = len(room.fs.operations)

    segment.flush()

    synced = [op for op in room.fs.operations[before:] if op.name == "sync"]
    assert [op.path.rpartition(".")[2] for op in synced] == ["log", "index", "timeindex"]


# Preallocation and opening


def test_a_preallocated_file_is_long_but_empty(room: Room) -> None:
    """Its logical size is that of the records.

    Scenario: LogSegmentTest.testCreateWithInitFileSizeAppendMessage
    """
    segment = room.segment(0, preallocate=True, internal_segment_bytes=4_096)

    room.append(segment, [0])

    assert (segment.size_bytes, len(room.fs.read(segment.path))) == (SIZE, 4_096)
    assert segment.read_next_offset() == 1


def test_an_existing_file_is_not_preallocated_again(room: Room) -> None:
    """All its bytes count as records.

    Scenario: LogSegmentTest.testCreateWithInitFileSizeClearShutdown
    """
    segment = room.segment(0)
    room.append(segment, [0])
    segment.close()

    again = room.segment(0, preallocate=True)

    assert again.size_bytes == SIZE


def test_a_reopened_segment_continues_at_its_end(room: Room) -> None:
    """Appends need the indexes at their full size."""
    segment = room.segment(0, index_interval_bytes=100)
    room.append(segment, [0], [0])
    segment.close()

    again = room.segment(0, index_interval_bytes=100)
    again.resize_indexes()
    room.append(again, [1], [1])
    room.append(again, [2], [2])

    assert entries(again) == ([(2, 2 * SIZE)], [(0, 0), (2, 2)])
    assert again.read_next_offset() == 3


# Checks at loading


def test_the_check_creates_a_missing_time_index_and_leaves_it_empty(room: Room) -> None:
    """Kafka does not rebuild it either."""
    segment = room.segment(0)
    room.append(segment, [0], [5])
    segment.close()
    room.fs.delete(segment.time_index.path)

    again = room.segment(0)
    again.sanity_check()

    assert again.has_offset_index()
    assert room.fs.stat(segment.time_index.path).size_bytes == 0


def test_the_check_does_not_read_the_other_indexes(room: Room) -> None:
    """Recovery does where it matters; only the transaction index is checked."""
    segment = room.segment(10)
    room.fs.write(segment.offset_index.path, b"garbage")
    room.fs.write(segment.time_index.path, b"garbage")
    segment.sanity_check()

    room.fs.write(segment.txn_index.path, bytes(34))

    with pytest.raises(CorruptIndex):
        room.segment(10).sanity_check()


def test_a_segment_can_lack_its_offset_index(room: Room) -> None:
    """In that case the loader recovers it."""
    assert not room.segment(0).has_offset_index()


@pytest.mark.parametrize(("last", "expected"), [(40 + INT32_MAX, False), (40 + 2**31, True)])
def test_an_overflow_is_a_last_offset_that_does_not_fit(
    room: Room, last: int, expected: bool
) -> None:
    """Only files of old Kafka versions have one."""
    room.fs.write(room.path(f"{40:020d}.log"), room.batch([40]) + room.batch([last]))

    assert room.segment(40).has_overflow() is expected
    assert not room.segment(41).has_overflow()
