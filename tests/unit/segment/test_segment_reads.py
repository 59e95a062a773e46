"""Reading a segment: slices, positions, records by time, the next offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.errors import CorruptMessage, InvalidArgument
from tidelog.records.batch import TimestampType
from tidelog.records.control import build_marker
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.segment.segment_reads import TimestampAndOffset

if TYPE_CHECKING:
    from tests.machinery.fields import MarkerFields
    from tests.unit.segment.conftest import Room

    from tidelog.segment.segment import LogSegment


def with_gaps(room: Room) -> LogSegment:
    segment = room.segment(40)
    room.append(segment, [50, 51])
    room.append(segment, [60, 61])
    return segment


def bytes_read(segment: LogSegment, offset: int, max_bytes: int = 1_000, **how: Any) -> bytes:
    found = segment.read(offset, max_bytes, **how)
    assert found is not None
    with found.slice as taken:
        return taken.read()


@pytest.mark.parametrize(("offset", "base", "number"), [(41, 50, 0), (51, 50, 0), (55, 60, 1)])
def test_a_read_starts_with_the_batch_that_contains_the_offset_or_the_next(
    room: Room, offset: int, base: int, number: int
) -> None:
    """It returns that batch's base offset, which may be below the requested offset.

    Scenario: LogSegmentTest.testReadBeforeFirstOffset, LogSegmentTest.testReadFromGap,
    UnifiedLogTest.testReadAtLogGap
    """
    segment = with_gaps(room)
    size = segment.size_bytes // 2

    found = segment.read(offset, 1_000)

    assert found is not None
    place = LogOffsetMetadata(base, 40, number * size)
    assert found.first_offset_metadata == place
    assert (found.slice.position, found.slice.size) == (number * size, (2 - number) * size)
    found.slice.close()


def test_above_the_last_offset_the_segment_has_nothing(room: Room) -> None:
    """The caller continues with the next segment.

    Scenario: LogSegmentTest.testReadAfterLast, LogSegmentTest.testReadOnEmptySegment
    """
    assert with_gaps(room).read(62, 1_000) is None
    assert room.segment(100).read(100, 1_000) is None


def test_a_negative_size_is_rejected(room: Room) -> None:
    """It has no meaning."""
    with pytest.raises(InvalidArgument):
        with_gaps(room).read(50, -1)


def test_a_slice_may_end_inside_a_batch(room: Room) -> None:
    """Clients ignore a partial last batch; a slice without a whole batch is marked.

    Scenario: UnifiedLogTest.testReadWithTooSmallMaxLength
    """
    segment = with_gaps(room)
    whole = segment.size_bytes // 2

    assert len(bytes_read(segment, 50, whole + 10)) == whole + 10
    for size, incomplete in ((whole - 1, True), (whole, False), (0, True)):
        found = segment.read(50, size)
        assert found is not None
        assert (found.slice.size, found.first_entry_incomplete) == (size, incomplete)
        found.slice.close()


@pytest.mark.parametrize("max_bytes", [0, 1])
def test_one_whole_batch_can_be_requested(room: Room, max_bytes: int) -> None:
    """A reader with a small buffer still makes progress."""
    segment = with_gaps(room)

    data = bytes_read(segment, 60, max_bytes, min_one_batch=True)

    assert data == room.batch([60, 61])


def test_a_read_ends_at_the_given_position(room: Room) -> None:
    """It is that of the high watermark; at or below the batch found, the slice is empty.

    Scenario: LogSegmentTest.testReadWhenNoMaxPosition
    """
    segment = with_gaps(room)
    size = segment.size_bytes // 2

    sizes = [len(bytes_read(segment, 60, 999, max_position=p)) for p in (size, size + 9, 9_999)]

    assert sizes == [0, 9, size]
    assert bytes_read(segment, 60, max_position=None, min_one_batch=True) == b""
    assert bytes_read(segment, 50, max_position=size, min_one_batch=True) == room.batch([50, 51])


def test_a_slice_survives_the_deletion_of_the_segment(room: Room) -> None:
    """It holds the file, whatever happens to its name."""
    segment = with_gaps(room)
    found = segment.read(60, 1_000)
    assert found is not None

    segment.change_suffix("", ".deleted")
    segment.delete()

    with found.slice as taken:
        assert taken.read() == room.batch([60, 61])


def test_a_lookup_can_start_further_on(room: Room) -> None:
    """The given position must be known to be at or before the offset."""
    segment = with_gaps(room)
    size = segment.size_bytes // 2

    found = segment.translate_offset(50, size)

    assert found is not None
    assert (found.base_offset, found.position) == (60, size)


def test_lookups_use_the_index(room: Room) -> None:
    """Damage before the entry is skipped; an index whose entries are too low still finds all."""
    segment = room.segment(0, index_interval_bytes=100)
    sizes = [room.append(segment, [i]) for i in range(5)]
    file = room.fs.open(segment.path, "w")
    file.pwrite(bytes(20), 0)

    found = segment.translate_offset(3)

    assert found is not None
    assert found.position == sum(sizes[:3])
    with pytest.raises(CorruptMessage):
        segment.translate_offset(0)


def test_the_next_offset_is_read_from_the_last_batches(room: Room) -> None:
    """An empty segment has its base offset; missing last offsets of a batch count.

    Scenario: LogSegmentTest.testNextOffsetCalculation
    """
    segment = room.segment(40, index_interval_bytes=100)
    assert segment.read_next_offset() == 40

    for offset in (50, 55, 60):
        room.append(segment, [offset])
    room.append(segment, [70], last_offset=79)

    assert segment.read_next_offset() == 80


@pytest.mark.parametrize(("offset", "position"), [(2**31 - 1, 0), (0, 2**31 - 1), (1, 7), (1, -9)])
def test_the_next_offset_does_not_depend_on_a_wrong_index(
    room: Room, offset: int, position: int
) -> None:
    """Where the last entry points to no batch with its offset, the walk begins at the start."""
    segment = room.segment(40)
    room.append(segment, [40])
    room.append(segment, [41])
    segment.offset_index.append(40 + offset, position)

    assert segment.read_next_offset() == 42


def test_the_upper_bound_of_a_read_is_an_indexed_offset(room: Room) -> None:
    """It is the first entry at or after the bytes read; None after the last one."""
    segment = room.segment(0, index_interval_bytes=100)
    for offset in range(5):
        size = room.append(segment, [offset])
    place = LogOffsetMetadata(0, 0, 0)

    assert segment.fetch_upper_bound_offset(place, size + 1) == 2
    assert segment.fetch_upper_bound_offset(place, 5 * size) is None


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(399, 40), (400, 40), (401, 41), (420, 42), (421, 43), (430, 43), (431, 44), (491, None)],
)
@pytest.mark.parametrize("interval", [0, 4096])
def test_a_timestamp_finds_the_first_record_at_or_after_it(
    room: Room, timestamp: int, expected: int | None, interval: int
) -> None:
    """With many index entries or none; None above the maximum timestamp.

    Scenario: LogSegmentTest.testFindOffsetByTimestamp
    """
    segment = room.segment(40, index_interval_bytes=interval)
    for offset in range(40, 50):
        room.append(segment, [offset], [offset * 10], leader_epoch=7)

    found = segment.find_offset_by_timestamp(timestamp)

    answer = None if expected is None else TimestampAndOffset(expected * 10, expected, 7)
    assert found == answer


def test_records_below_the_starting_offset_do_not_count(room: Room) -> None:
    """A log may start inside a batch."""
    segment = room.segment(40)
    room.append(segment, [40, 41, 42], [400, 410, 420])

    found = segment.find_offset_by_timestamp(0, 41)

    assert found == TimestampAndOffset(410, 41, None)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_record_is_found_inside_a_batch(room: Room, codec: Codec) -> None:
    """Timestamps may jump; the result is the first record that fits, not the closest."""
    segment = room.segment(0)
    room.append(segment, [0, 1, 2, 3], [10, 50, 20, 60], codec=codec)

    assert segment.find_offset_by_timestamp(15) == TimestampAndOffset(50, 1, None)


def test_append_time_is_the_time_of_every_record(room: Room) -> None:
    """In a batch stamped by the log, all records have its maximum timestamp."""
    segment = room.segment(0)
    by_log = TimestampType.LOG_APPEND_TIME
    room.append(segment, [0, 1], [10, 20], timestamp_type=by_log, max_timestamp=99)

    assert segment.find_offset_by_timestamp(50) == TimestampAndOffset(99, 0, None)


def test_a_marker_has_a_timestamp_too(room: Room) -> None:
    """A lookup may return the offset of a control record."""
    segment = room.segment(0)
    room.append(segment, [0], [10])
    marker: MarkerFields = {
        "producer_id": 1,
        "producer_epoch": 0,
        "coordinator_epoch": 0,
        "is_commit": True,
    }
    room.append_data(segment, build_marker(**marker, base_offset=1, timestamp=20))

    found = segment.find_offset_by_timestamp(15)

    assert found is not None
    assert found.offset == 1


def test_old_formats_are_searched_inside(room: Room) -> None:
    """A compressed set of magic 1 is decompressed for its records."""
    segment = room.segment(0)
    room.append_data(segment, room.legacy_set([0, 1, 2], timestamp=30))

    assert segment.find_offset_by_timestamp(30, 1) == TimestampAndOffset(30, 1, None)
    assert segment.find_max_timestamp() == TimestampAndOffset(30, 0, None)


def test_the_maximum_timestamp_finds_its_first_record(room: Room) -> None:
    """This holds even in the middle of a batch, far after an index entry."""
    segment = room.segment(0, index_interval_bytes=100)
    assert segment.find_max_timestamp() is None

    room.append(segment, [0], [10])
    room.append(segment, [1], [20])
    room.append(segment, [2, 3, 4], [30, 90, 90])
    room.append(segment, [5], [90])

    assert segment.find_max_timestamp() == TimestampAndOffset(90, 3, None)


def test_without_timestamps_the_first_record_has_the_maximum(room: Room) -> None:
    """As in Kafka, -1 is the maximum if there is no other. Magic 0 has none."""
    segment, old = room.segment(0), room.segment(10)

    room.append(segment, [0, 1])
    room.append_data(old, build_old(0, [(-1, None, b"x")], base_offset=10))

    assert segment.find_max_timestamp() == TimestampAndOffset(-1, 0, None)
    assert old.find_max_timestamp() is None


@pytest.mark.parametrize("timestamp", [5, 15, 25])
def test_a_batch_with_a_wrong_checksum_answers_no_search_by_time(
    room: Room, timestamp: int
) -> None:
    """A record before the damage has perhaps a wrong timestamp, too."""
    segment = room.segment(0)
    size = room.append(segment, [0, 1, 2], [10, 20, 30])
    room.fs.open(segment.path, "w").pwrite(b"\xff" * 50, size - 50)

    with pytest.raises(CorruptMessage, match="the CRC of a batch is wrong at byte 0"):
        segment.find_offset_by_timestamp(timestamp)


def test_damage_stops_a_search_by_time(room: Room) -> None:
    """All batches before the damage are searched."""
    segment = room.segment(0)
    room.append(segment, [0], [10])
    end = segment.size_bytes
    room.append(segment, [1], [20])
    room.fs.open(segment.path, "w").pwrite(bytes(20), end)

    assert segment.find_offset_by_timestamp(10) == TimestampAndOffset(10, 0, None)
    with pytest.raises(CorruptMessage):
        segment.find_offset_by_timestamp(15)


def test_the_records_of_a_part_can_be_read(room: Room) -> None:
    """The part goes from a batch's position to the end, or to another position."""
    segment = with_gaps(room)
    size = segment.size_bytes // 2

    def offsets(start: int, end: int | None = None) -> list[int]:
        pieces = segment.file_records(start, end).pieces()
        return [offset for piece in pieces for offset in piece.batches.last_offset.tolist()]

    assert offsets(0) == [51, 61]
    assert offsets(0, size) == [51]
    assert offsets(size) == [61]
