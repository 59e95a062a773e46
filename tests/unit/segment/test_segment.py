"""A segment: append, index entries, timestamps, when it rolls."""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.segment.conftest import entries

from tidelog.config.log_config import LogConfig
from tidelog.errors import InvalidArgument, SegmentOffsetOverflow
from tidelog.records.memory import walk
from tidelog.segment.roll import RollParams
from tidelog.segment.segment import NO_FIRST_TIMESTAMP, LogSegment

if TYPE_CHECKING:
    from tests.unit.segment.conftest import Room

INT32_MAX = 2**31 - 1
SIZE = 170
"""Bytes of a batch of one record, as the room builds it."""


# Append


def test_batches_are_written_contiguously(room: Room) -> None:
    """They follow each other with nothing in between.

    Scenario: LogSegmentTest.testAppendFromFile
    """
    segment = room.segment(40)
    first, second = room.batch([50, 51]), room.batch([60])

    room.append_data(segment, first)
    room.append_data(segment, second)

    assert room.stored(segment) == first + second
    assert segment.size_bytes == len(first + second)


def test_appending_nothing_changes_nothing(room: Room) -> None:
    """Not even the directory changes."""
    segment = room.segment(40)

    segment.append(-1, b"", walk(b"").batches)

    assert (segment.size_bytes, room.names()) == (0, ["00000000000000000040.log"])


def test_a_new_segment_has_only_a_log_file_until_the_first_append(room: Room) -> None:
    """Queries do not create index files; the first append does."""
    segment = room.segment(40)

    segment.read(40, 100)
    segment.find_offset_by_timestamp(0)
    segment.should_roll(RollParams(10, 41, -1, 0))
    _ = repr(segment), segment.max_timestamp, segment.read_next_offset()
    assert room.names() == ["00000000000000000040.log"]

    room.append(segment, [40])
    assert room.names() == [f"{40:020d}.{kind}" for kind in ("index", "log", "timeindex")]


def test_a_flush_creates_the_index_files(room: Room) -> None:
    """This holds for an empty segment too."""
    room.segment(40).flush()

    assert room.names() == [f"{40:020d}.{kind}" for kind in ("index", "log", "timeindex")]


@pytest.mark.parametrize("offset", [39, 40 + 2**31])
def test_an_offset_that_does_not_fit_is_rejected_before_writing(room: Room, offset: int) -> None:
    """The caller has to roll first.

    Scenario: LogSegmentTest.testAppendForLogSegmentOffsetOverflowException
    """
    segment = room.segment(40)
    data = room.batch([offset])

    with pytest.raises(SegmentOffsetOverflow):
        segment.append(offset, data, walk(data).batches)

    assert (segment.size_bytes, room.names()) == (0, ["00000000000000000040.log"])


def test_a_file_does_not_exceed_two_gibibytes(room: Room) -> None:
    """A position is a 32-bit number."""
    segment = room.segment(0)
    segment._size_bytes = INT32_MAX - SIZE + 1

    with pytest.raises(InvalidArgument):
        room.append(segment, [1])

    assert room.names() == [f"{0:020d}.log"]


def test_headers_must_match_the_bytes(room: Room) -> None:
    """Otherwise index entries would point to the wrong positions."""
    segment = room.segment(0)
    data = room.batch([0])

    with pytest.raises(InvalidArgument):
        segment.append(0, data + b"x", walk(data).batches)


def test_index_entries_follow_the_interval(room: Room) -> None:
    """Thirty single records, an interval one byte short of two of them: fourteen entries."""
    size = len(room.batch([0]))
    segment = room.segment(0, index_interval_bytes=2 * size - 1)

    for offset in range(30):
        room.append(segment, [offset], [offset])

    assert entries(segment) == (
        [(offset, offset * size) for offset in range(2, 30, 2)],
        [(offset, offset) for offset in range(2, 30, 2)],
    )
    segment.truncate_to(1)
    assert entries(segment) == ([], [])


def test_each_batch_of_one_append_can_get_an_entry(room: Room) -> None:
    """A follower's append of many batches is indexed as if they were appended one by one."""
    together = room.segment(0, index_interval_bytes=300)
    alone = room.segment(0, suffix=".cleaned", index_interval_bytes=300)
    batches = [room.batch([i], [i % 7]) for i in range(40)]

    room.append_data(together, b"".join(batches))
    for batch in batches:
        room.append_data(alone, batch)

    assert entries(together) == entries(alone)
    assert len(entries(together)[0]) > 9


def test_an_append_writes_each_file_once(room: Room) -> None:
    """This holds for any number of batches and entries."""
    segment = room.segment(0, index_interval_bytes=100)
    room.append(segment, [0], [0])
    before = len(room.fs.operations)

    room.append_data(segment, b"".join(room.batch([i], [i]) for i in range(1, 40)))

    names = [operation.name for operation in room.fs.operations[before:]]
    assert names == ["pwrite", "pwrite", "pwrite"]


def test_the_greatest_offset_is_rejected(room: Room) -> None:
    """The log end after it would not fit a file name: such a log could not be opened again."""
    segment = room.segment(2**63 - 3)
    room.append(segment, [2**63 - 2])

    with pytest.raises(InvalidArgument):
        room.append(segment, [2**63 - 1])

    assert segment.read_next_offset() == 2**63 - 1


def test_indexes_without_room_stay_sparse(room: Room) -> None:
    """More batches than entries fit: the records are stored, and the segment must roll."""
    segment = room.segment(0, index_interval_bytes=0, segment_index_bytes=24)

    room.append_data(segment, b"".join(room.batch([i], [i]) for i in range(40)))

    assert entries(segment) == ([(i, i * SIZE) for i in (1, 2, 3)], [(1, 1)])
    assert segment.should_roll(RollParams(1, 41, 41, 0))
    assert segment.read_next_offset() == 40


def test_an_index_has_room_for_an_entry_whatever_the_setting(room: Room) -> None:
    """Kafka's minimum is less than that, and its segments with it cannot be appended to."""
    segment = room.segment(0, index_interval_bytes=0, segment_index_bytes=4)

    room.append_data(segment, b"".join(room.batch([i], [i]) for i in range(3)))

    assert entries(segment)[0] == [(1, SIZE)]
    assert segment.read_next_offset() == 3


@pytest.mark.parametrize("file", [".log", ".index", ".timeindex"])
def test_a_full_disk_leaves_the_segment_unchanged(room: Room, file: str) -> None:
    """Whichever write fails, the segment is truncated again; the next append succeeds."""
    segment = room.segment(0, index_interval_bytes=100)
    room.append(segment, [0], [5])
    before = room.stored(segment), entries(segment), segment.max_timestamp
    room.fs.fail("pwrite", file, OSError(errno.ENOSPC, "full"))

    with pytest.raises(OSError, match="full"):
        room.append(segment, [1], [6])

    after = room.stored(segment), entries(segment), segment.max_timestamp
    assert after == before
    assert room.fs.read(segment.path) == before[0]
    room.append(segment, [1], [7])
    assert entries(segment) == ([(1, SIZE)], [(7, 1)])


def test_a_short_write_is_truncated(room: Room) -> None:
    """The bytes that reached the full disk are removed again."""
    segment = room.segment(0)
    room.append(segment, [0])
    room.fs.set_free_bytes(50)

    with pytest.raises(OSError, match="No space"):
        room.append(segment, [1])

    assert len(room.fs.read(segment.path)) == segment.size_bytes == SIZE


# Timestamps


def test_the_maximum_timestamp_comes_with_the_last_offset_of_its_batch(room: Room) -> None:
    """The first such batch counts; an empty segment has none."""
    segment = room.segment(40)
    assert segment.largest_so_far() == (-1, 40)

    room.append(segment, [40, 41], [9, 3])
    room.append(segment, [42], [9])

    assert segment.largest_so_far() == (9, 41)


def test_a_reopened_segment_takes_the_maximum_from_the_time_index(room: Room) -> None:
    """Closing has appended it, regardless of interval and of the full check."""
    segment = room.segment(0, segment_index_bytes=12)
    room.append(segment, [0, 1], [9, 3])
    segment.close()

    again = room.segment(0)

    assert again.largest_so_far() == (9, 1)
    assert again.largest_timestamp() == 9


def test_without_timestamps_the_modification_time_counts(room: Room) -> None:
    """It is used for retention."""
    segment = room.segment(0)
    room.append(segment, [0])

    segment.set_modified_ms(12_345)

    assert segment.largest_timestamp() == segment.modified_ms == 12_345


def test_the_first_batch_gives_its_maximum_timestamp(room: Room) -> None:
    """After reopening too; a very large number if there is none, for the compaction lag.

    Scenario: LogSegmentTest.testGetFirstBatchTimestamp,
    UnifiedLogTest.testGetFirstBatchTimestampForSegments
    """
    segment = room.segment(0)
    assert segment.first_batch_timestamp() == NO_FIRST_TIMESTAMP

    room.append(segment, [0, 1], [7, 5])
    room.append(segment, [2], [9])

    assert segment.first_batch_timestamp() == room.segment(0).first_batch_timestamp() == 7


# Roll


def test_age_is_taken_from_the_first_batch_on_disk(room: Room) -> None:
    """This includes a segment that another process wrote."""
    config = LogConfig(segment_ms=100)
    segment = room.segment(0)
    room.append(segment, [0], [1_000])

    segment.close()

    again = room.segment(0)
    again.resize_indexes()

    assert not again.should_roll(RollParams(1, 1, 1_100, 0), config)
    assert again.should_roll(RollParams(1, 1, 1_101, 0), config)


def test_age_without_timestamps_counts_from_opening(room: Room) -> None:
    """A truncated segment starts again."""
    config = LogConfig(segment_ms=100)
    segment = room.segment(0)
    room.append(segment, [0])

    room.clock.advance(101)
    assert segment.should_roll(RollParams(1, 1, -1, room.clock.now_ms()), config)

    segment.truncate_to(0)
    room.append(segment, [0])
    assert not segment.should_roll(RollParams(1, 1, -1, room.clock.now_ms()), config)


def test_jitter_is_drawn_once_and_stays_below_the_age(room: Room) -> None:
    """It keeps segments of many partitions from rolling at the same time."""

    def jitter(seed: int, **config: Any) -> int:
        settings = LogConfig(**config)
        segment = LogSegment.open(
            room.directory, 0, settings, fs=room.fs, clock=room.clock, rng=Random(seed)
        )
        return segment.jitter_ms

    assert jitter(1) == 0
    assert 0 <= jitter(1, segment_jitter_ms=10**9, segment_ms=50) < 50
    # Else each append to a compacted log would roll.
    compacted = {"cleanup_policy": ("compact",), "max_compaction_lag_ms": 50}
    assert 0 <= jitter(1, segment_jitter_ms=10**9, **compacted) < 50
    assert len({jitter(seed, segment_jitter_ms=1_000) for seed in range(5)}) > 1
