"""One cleaning of one log: which records are retained."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.machinery.cleaning import DAY_MS, CleanerHome, batch_headers, kept, last_values
from tests.machinery.counted_lines import Lines
from tests.machinery.log_home import all_records
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.errors import CleaningAborted, CorruptMessage, InvalidArgument, InvalidRecord
from tidelog.records.batch import INT64_MAX
from tidelog.records.builder import build_batch
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from tests.machinery.fields import SequenceFields


pytestmark = pytest.mark.usefixtures("engine")
BOTH_READERS = Isolation.LOG_END, Isolation.READ_COMMITTED


def test_the_last_record_of_each_key_stays() -> None:
    """Of each key the record with the greatest offset is retained, at its offset.

    Scenario: LogCleanerTest.testCleanSegments
    """
    home = CleanerHome()
    with home.open() as log:
        for number in range(12):
            home.append(log, (number % 4, f"value-{number}"))
        log.roll()

        cleaned = home.clean(log)

        assert kept(log) == [(n, str(n % 4), f"value-{n}") for n in range(8, 12)]
        assert cleaned.end_offset == log.log_end_offset == 12
        assert (cleaned.stats.records_read, cleaned.stats.records_written) == (12, 4)


def test_the_active_segment_stays_as_it_is() -> None:
    """Records of the active segment are neither dropped nor supersede others."""
    home = CleanerHome()
    with home.open() as log:
        home.append(log, ("a", 1), ("b", 1))
        log.roll()
        home.append(log, ("a", 2))
        home.append(log, ("a", 3))

        home.clean(log)

        assert kept(log) == [(0, "a", "1"), (1, "b", "1"), (2, "a", "2"), (3, "a", "3")]


def test_a_cleaning_costs_in_proportion_to_the_segments() -> None:
    """None of them is copied with a look at all after it, or grouped with a look at its group."""

    def cost(segments: int) -> int:
        home, lines = CleanerHome(), Lines()
        with home.open() as log:
            for number in range(segments):
                home.append(log, (number % 4, "value"))
                log.roll()
            with lines.counted():
                home.clean(log)
        return lines.count

    assert cost(120) - cost(60) < 1.25 * (cost(60) - cost(1))


def test_records_without_a_key_go_and_are_counted() -> None:
    """A compacted log retains no record without a key.

    Scenario: LogCleanerTest.testCleaningWithUnkeyedMessages
    """
    home = CleanerHome(cleanup_policy=("delete",))
    with home.open() as log:
        home.append(log, ("a", 1), (None, 2), (None, 3))
        home.append(log, (None, 4))
        log.roll()

        cleaned = home.clean(log)

        assert kept(log) == [(0, "a", "1")]
        assert cleaned.stats.invalid_records == 3


def test_a_tombstone_goes_in_the_second_cleaning_after_its_time() -> None:
    """The first gives its batch a delete horizon; a cleaning after that drops the tombstone.

    Scenario: LogCleanerTest.testCleaningWithDeletes, LogCleanerTest.testCleanTombstone
    """
    home = CleanerHome(delete_retention_ms=1000)
    with home.open() as log:
        home.append(log, ("a", 1), ("b", 1))
        home.append(log, ("a", None))
        log.roll()

        home.clean(log)
        first = kept(log)
        horizons = [h.base_timestamp for h in batch_headers(log) if h.attributes & 0x40]
        home.clock.advance(999)
        home.clean(log)
        second = kept(log)
        home.clock.advance(1)
        home.clean(log)

        assert first == second == [(1, "b", "1"), (2, "a", None)]
        assert horizons == [home.clock.now_ms()]
        assert kept(log) == [(1, "b", "1")]
        assert log.log_end_offset == 3


@pytest.mark.parametrize("retention_ms", [INT64_MAX, INT64_MAX - 1_000_000_000_000])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_tombstones_that_are_to_stay_for_ever_do(codec: Codec, retention_ms: int) -> None:
    """A ``delete.retention.ms`` that reaches beyond the last timestamp gives the last one.

    The records of such a batch keep their timestamps, even those that have none.
    """
    home = CleanerHome(delete_retention_ms=retention_ms)
    now_ms = home.clock.now_ms()
    with home.open() as log:
        home.append(log, ("a", 1), ("b", 1))
        records = [(-1, b"a", None, ()), (0, b"c", b"1", ()), (now_ms, b"d", b"1", ())]
        log.append_as_leader(build_batch(records, codec=codec))
        log.update_high_watermark(log.log_end_offset)
        log.roll()

        home.clean(log)
        horizons = [h.base_timestamp for h in batch_headers(log) if h.attributes & 0x40]
        home.clock.advance(30 * DAY_MS)
        home.clean(log)

        found = [(record.key, record.timestamp) for record in all_records(log)]
        assert horizons == [INT64_MAX]
        assert found[1:] == [(b"a", -1), (b"c", 0), (b"d", now_ms)]


def test_a_batch_that_stays_whole_keeps_its_bytes() -> None:
    """A batch of which no record is dropped is copied byte by byte."""
    home = CleanerHome()
    with home.open() as log:
        for number in range(5):
            home.append(log, (number, "x" * 20))
        log.roll()
        before = home.read("00000000000000000000.log")

        home.clean(log)

        assert before == home.read("00000000000000000000.log")


@pytest.mark.parametrize("codec", range(5))
def test_a_rewritten_batch_keeps_what_its_header_says(codec: int) -> None:
    """Codec, offsets, producer and sequence stay as they are, and so do timestamps."""
    from tidelog.codec.compression import Codec

    home = CleanerHome()
    with home.open() as log:
        home.append(log, ("x", 0))
        home.clock.advance(5)
        fields: SequenceFields = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 40}
        home.append(log, ("a", 1), ("b", 2), ("a", 3), ("c", 4), codec=Codec(codec), **fields)
        home.append(log, ("c", 5))
        log.roll()
        before = [record for record in log.records() if record.offset in {2, 3}]

        home.clean(log)

        header = list(batch_headers(log))[1]
        assert (header.base_offset, header.last_offset_delta, header.records_count) == (1, 3, 2)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 40)
        assert header.attributes == codec
        assert before == [record for record in log.records() if record.offset in {2, 3}]


def test_a_full_map_ends_the_round_and_the_next_one_goes_on() -> None:
    """Records after the last one in the map are all retained; the next cleaning drops them.

    Scenario: LogCleanerTest.testPartialSegmentClean, LogCleanerTest.testBuildPartialOffsetMap,
    LogCleanerTest.testBuildOffsetMap
    """
    home = CleanerHome()
    with home.open() as log:
        for number in (0, 1, 0, 1, 1):
            home.append(log, (number, "v"))
        log.roll()

        first = home.clean(log, map_bytes=3 * 24, load_factor=0.5)
        after_first = [offset for offset, _, _ in kept(log)]
        second = home.clean(log, first_dirty=first.end_offset, map_bytes=72, load_factor=0.5)
        after_second = [offset for offset, _, _ in kept(log)]

        assert (first.end_offset, second.end_offset) == (1, 2)
        assert after_first == [0, 1, 2, 3, 4]
        assert after_second == [0, 1, 2, 3, 4]
        home.clean(log, first_dirty=2)
        assert [offset for offset, _, _ in kept(log)] == [2, 4]


@pytest.mark.parametrize("magic", [0, 2])
def test_the_time_of_a_tombstone_begins_when_what_it_deletes_is_dropped(magic: int) -> None:
    """A full map may end the round between the two: both are copied, and neither is dropped.

    If its time began there, the next round could drop both at once: a reader that has read the
    value, and no more yet, would keep it.
    """
    home = CleanerHome(delete_retention_ms=DAY_MS)
    with home.open() as log:
        home.append(log, ("gone", "v"))
        home.append(log, ("other", "v"))
        if magic:
            home.append(log, ("gone", None))
        else:
            old = build_old(0, [(0, b"gone", None)], base_offset=2)
            log.append_as_follower(old, 0)
            log.update_high_watermark(3)
        log.roll()
        first = home.clean(log, map_bytes=3 * 24, load_factor=0.5)
        assert first.end_offset == 1
        home.clock.advance(2 * DAY_MS)

        home.clean(log, first_dirty=first.end_offset)

        assert kept(log) == [(1, "other", "v"), (2, "gone", None)]


def test_three_slots_at_three_quarters_hold_two_keys() -> None:
    """The third record ends the round, although the map contains its key.

    Scenario: LogCleanerTest.testBuildOffsetMapFakeLarge
    """
    home = CleanerHome()
    with home.open() as log:
        for number in (0, 1, 1):
            home.append(log, (number, "v"))
        log.roll()

        cleaned = home.clean(log, map_bytes=3 * 24, load_factor=0.75)

        assert cleaned.end_offset == 2


def test_cleaning_ends_below_what_must_not_be_cleaned() -> None:
    """Nothing at or above the first uncleanable offset is read.

    Scenario: LogCleanerTest.testCleaningWithUncleanableSection
    """
    home = CleanerHome()
    with home.open() as log:
        for _ in range(3):
            home.append(log, ("a", "v"), ("b", "v"))
            log.roll()

        cleaned = home.clean(log, end=4)

        assert cleaned.end_offset == 4
        assert [offset for offset, _, _ in kept(log)] == [2, 3, 4, 5]


def test_the_batch_before_the_end_keeps_its_header() -> None:
    """At least its header is retained, so that the end of the cleaned part stays known.

    Scenario: LogCleanerTest.testCleanSegmentsRetainingLastEmptyBatch
    """
    home = CleanerHome()
    with home.open() as log:
        home.append(log, ("a", 1))
        home.append(log, ("b", 1), ("c", 2))
        log.roll()
        home.append(log, ("b", 3), ("c", 3))
        log.roll()

        home.clean(log, end=3)
        home.clean(log)
        home.append(log, ("b", 4), ("c", 4))
        log.roll()
        home.clean(log, first_dirty=3)

        counts = [(h.base_offset, h.records_count) for h in batch_headers(log)]
        assert counts == [(0, 1), (5, 2)]


def test_small_segments_become_one() -> None:
    """Small segments are merged when cleaned; the log end offset and all offsets stay."""
    home = CleanerHome()
    with home.open() as log:
        for number in range(10):
            home.append(log, (number % 2, "v"))
            log.roll()

        home.clean(log)

        assert log.segments.base_offsets == [0, 10]
        assert [offset for offset, _, _ in kept(log)] == [8, 9]
        home.clock.advance(home.config.file_delete_delay_ms)
        assert home.files(".deleted") == []


def test_an_abort_leaves_the_old_segments(engine: bool) -> None:
    """An aborted cleaning deletes what it was writing and changes nothing.

    Scenario: LogCleanerTest.testCleanSegmentsWithAbort
    """
    del engine
    home = CleanerHome()
    steps = []

    def check() -> None:
        steps.append(1)
        if len(steps) == 3:
            raise CleaningAborted("requested")

    with home.open() as log:
        for number in range(10):
            home.append(log, (number % 2, "v" * 100))
        log.roll()
        before = kept(log)

        with pytest.raises(CleaningAborted):
            home.clean(log, check=check)

        assert before == kept(log)
        assert home.files(".cleaned") == []


def test_a_damaged_batch_stops_the_cleaning() -> None:
    """Damaged bytes are neither dropped nor copied; the error has their position.

    Scenario: LogCleanerTest.testCleanCorruptMessageSet,
    LogCleanerTest.testMessageLargerThanMaxMessageSizeWithCorruptHeader,
    LogCleanerTest.testCorruptMessageSizeLargerThanBytesAvailable,
    LogCleanerTest.testClientHandlingOfCorruptMessageSet
    """
    home = CleanerHome()
    name = "00000000000000000000.log"
    with home.open() as log:
        home.append(log, ("a", 1))
        home.append(log, ("a", 2))
        log.roll()
        data = bytearray(home.read(name))
        data[-1] ^= 1
        file = home.fs.open(f"{home.directory}/{name}", "w")
        file.pwrite(data, 0)
        file.close()

        with pytest.raises((CorruptMessage, InvalidRecord)) as caught:
            home.clean(log)

        assert caught.value.position == len(data) // 2
        assert home.read(name) == data


@pytest.mark.parametrize("first_dirty", [0, 5])
@pytest.mark.parametrize("cut", [0, 1])
def test_a_batch_that_runs_past_the_end_of_its_file_stops_the_cleaning(
    engine: bool, first_dirty: int, cut: int
) -> None:
    """Nothing behind such a batch is dropped, in a clean part or a dirty one: there may be records.

    Neither is a batch that is cut off in a segment that is not the last one.
    """
    del engine
    home = CleanerHome(internal_segment_bytes=100_000)
    name = "00000000000000000000.log"
    with home.open() as log:
        for number in range(5):
            home.append(log, (f"key {number}", "value"))
        log.roll()
        home.append(log, ("key 5", "value"))
        log.roll()
        data = bytearray(home.read(name))
        position = len(data) // 5 * 3
        data[position + 8] ^= 0 if cut else 1
        home.write(name, data[: position + 30] if cut else data)
        before = {name: home.read(name) for name in home.files(".log")}

        with pytest.raises(CorruptMessage, match=name) as caught:
            home.clean(log, first_dirty=first_dirty)

        assert caught.value.position == position
        assert before == {name: home.read(name) for name in home.files(".log")}


@pytest.mark.parametrize("keys", [2, 3, 900])
@pytest.mark.parametrize("first_dirty", [0, 4, 8])
@pytest.mark.parametrize("damaged", range(4))
def test_damage_is_copied_nowhere_and_hidden_nowhere(
    keys: int, first_dirty: int, damaged: int
) -> None:
    """A damaged batch keeps its bytes, in a clean or a dirty part, within the map or after it.

    Rewriting it would give it a CRC that hides the damage.
    """
    home = CleanerHome()
    with home.open() as log:
        for number in range(8):
            home.append(log, ("same", number), (f"key {number}", "value"))
            if number % 2:
                log.roll()
        name = f"{4 * damaged:020}.log"
        data = bytearray(home.read(name))
        data[-1] ^= 1
        file = home.fs.open(f"{home.directory}/{name}", "w")
        file.pwrite(data, 0)
        file.close()

        with suppress(CorruptMessage, InvalidRecord):
            end_offset = home.clean(log, first_dirty=first_dirty, map_bytes=24 * keys).end_offset
            assert end_offset <= 4 * damaged

        assert bytes(data[len(data) // 2 :]) in b"".join(map(home.read, home.files(".log")))


def test_a_large_record_is_cleaned() -> None:
    """A batch larger than the piece size is read whole, and cleaned.

    Scenario: LogCleanerTest.testLargeMessage, LogCleanerTest.testMessageLargerThanMaxMessageSize
    """
    home = CleanerHome(internal_segment_bytes=100_000)
    with home.open() as log:
        home.append(log, ("a", "x" * 20_000))
        home.append(log, ("a", "y" * 20_000), ("b", "z"))
        log.roll()

        home.clean(log)

        assert [(offset, key) for offset, key, _ in kept(log)] == [(1, "a"), (2, "b")]


def test_offsets_may_have_gaps() -> None:
    """Empty segments between others, and gaps in offsets, do not stop a cleaning.

    Scenario: LogCleanerTest.testCleaningBeyondMissingOffsets
    """
    from tidelog.testing import build_batch

    home = CleanerHome()
    with home.open() as log:
        for base in (0, 500, 2000):
            data = build_batch(
                [(1, b"a", b"v", ()), (1, b"b", b"v", ())], base_offset=base, leader_epoch=0
            )
            log.append_as_follower(data, 0)
            log.roll()
        log.update_high_watermark(log.log_end_offset)

        cleaned = home.clean(log)

        assert cleaned.end_offset == 2002
        assert [offset for offset, _, _ in kept(log)] == [2000, 2001]


def test_a_preallocated_segment_is_cut() -> None:
    """A cleaned segment takes no more disk space than its batches.

    Scenario: LogCleanerTest.testSizeTrimmedForPreallocatedAndCompactedTopic
    """
    home = CleanerHome(preallocate=True)
    with home.open() as log:
        for _ in range(5):
            home.append(log, ("a", "v"))
        log.roll()

        home.clean(log)

        segment = next(iter(log.segments))
        assert len(home.read("00000000000000000000.log")) == segment.size_bytes > 0


def test_last_values_do_not_change() -> None:
    """The last value of each key is the same before and after a cleaning."""
    home = CleanerHome()
    with home.open() as log:
        for number in range(60):
            home.append(log, (number % 7, None if number % 5 == 0 else number), (number % 3, "w"))
        log.roll()
        before = last_values(log)

        home.clean(log)

        assert before == last_values(log)


def test_nothing_dirty_means_nothing_done() -> None:
    """A cleaning without a dirty part changes no file, even if tombstones have expired."""
    home = CleanerHome()
    with home.open() as log:
        home.append(log, ("a", None))
        log.roll()
        before = home.files()

        cleaned = home.clean(log, first_dirty=1)

        assert (cleaned.end_offset, home.files()) == (1, before)


def test_a_segment_deleted_meanwhile_stays_deleted() -> None:
    """Segments that retention deletes during a cleaning stay deleted; the others are replaced.

    Scenario: LogCleanerTest.testCleanSegmentsWithConcurrentSegmentDeletion
    """
    home = CleanerHome(cleanup_policy=("compact", "delete"))
    with home.open() as log:
        for _ in range(3):
            home.append(log, ("a", "v"), ("b", "v"))
            log.roll()
        state = {"steps": 0}

        def delete() -> None:
            state["steps"] += 1
            if state["steps"] == 5:  # the map is built, copying has begun
                log.maybe_increment_log_start_offset(2)
                log.delete_old_segments()

        home.clean(log, check=delete)

        assert log.segments.base_offsets[-1] == 6
        assert [offset for offset, _, _ in kept(log) if offset >= 2] == [4, 5]


def test_the_time_of_the_last_source_segment_stays() -> None:
    """A cleaned segment gets the modification time of the last one that was copied into it."""
    home = CleanerHome()
    with home.open() as log:
        for _ in range(2):
            home.append(log, ("a", "v"))
            log.roll()
            home.clock.advance(1000)
        times = [segment.modified_ms for segment in log.segments]

        home.clean(log)

        assert next(segment.modified_ms for segment in log.segments) == times[1]


@pytest.mark.parametrize("end", [5, 10, 1_000])
def test_a_range_that_does_not_end_in_the_log_is_refused(end: int) -> None:
    """Below the first segment, or above the log end; nothing is written."""
    home = CleanerHome()
    log = home.open()
    for number in range(20):
        home.append(log, (number % 3, number))
        log.roll()
    log.maybe_increment_log_start_offset(10)
    log.delete_old_segments()

    with pytest.raises(InvalidArgument, match=rf"\[0, {end}\) cannot be cleaned: the log holds"):
        home.clean(log, end=end)

    assert [record.offset for record in all_records(log)] == list(range(10, 20))
    assert home.clean(log, end=15).end_offset == 15
