"""Reads at each isolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import pytest
from tests.machinery.counted_lines import Lines
from tests.machinery.log_home import LogHome, all_values

from tidelog.errors import CorruptMessage, OffsetOutOfRange
from tidelog.log.reading.committed import AbortedTransaction
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.segment.segment import LogSegment
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tests.machinery.fields import SequenceFields

    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields
    from tidelog.records.damage.sound_offsets import OffsetBounds

NOW_MS = 1_700_000_000_000
WATERMARK, COMMITTED, END = Isolation


def batch(*values: bytes, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch with a record per value."""
    return build_batch([(NOW_MS, b"key", value, ()) for value in values], **fields)


SIZE = len(batch(b"a"))


def log_of(*values: bytes, segment_bytes: int = 2 * SIZE) -> Log:
    """Make a log of one-record batches, two in each segment."""
    log = LogHome(internal_segment_bytes=segment_bytes).open()
    for value in values:
        log.append_as_leader(batch(value))
    return log


def write_txn(log: Log, producer_id: int, value: bytes, sequence: int = 0) -> None:
    """Append a transactional batch."""
    guard = log.start_verification(producer_id, 0, 0, supports_epoch_bump=False)
    fields: SequenceFields = {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": sequence,
    }
    data = batch(value, transactional=True, **fields)
    log.append_as_leader(data, verification_guard=guard)


def end_txn(log: Log, producer_id: int, *, commit: bool) -> None:
    """Append a marker."""
    marker = build_marker(
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        is_commit=commit,
        timestamp=NOW_MS,
    )
    log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)


def test_a_read_spans_one_segment() -> None:
    """The slice ends with the segment, and says where its first batch begins.

    Scenario: UnifiedLogTest.testFetchUpToLogEndOffset
    """
    log = log_of(b"a", b"b", b"c", b"d", b"e")

    with log.read(2, isolation=END) as found:
        assert found.size_bytes == 2 * SIZE
        assert found.first_offset == LogOffsetMetadata(2, 2, 0)


def test_a_slice_stays_readable_while_the_log_moves_on() -> None:
    """Deleting the segment and closing the log leave a held slice as it was."""
    log = log_of(b"a", b"b", b"c")
    with log.read(0, isolation=END) as found:
        log.update_high_watermark(3)
        log.delete_records(2)
        log.delete_old_segments()
        log.close()

        assert len(found.read()) == 2 * SIZE


def test_outside_the_log_is_out_of_range() -> None:
    """Below the start and above the end there is nothing; at the end there is an empty read.

    Scenario: UnifiedLogTest.testReadOutOfRange
    """
    log = log_of(b"a", b"b", b"c")
    log.update_high_watermark(3)
    log.delete_records(1)

    for offset in (0, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset)
    with log.read(3) as found:
        assert (found.slice, found.first_offset.offset) == (None, 3)


@pytest.mark.parametrize("watermark", range(6))
def test_a_reader_sees_what_is_below_the_high_watermark(watermark: int) -> None:
    """Offsets from the high watermark on are read as empty, not as an error.

    Scenario: UnifiedLogTest.testFetchUpToHighWatermark
    """
    log = log_of(b"0", b"1", b"2", b"3", b"4")
    log.update_high_watermark(watermark)

    assert [offset for offset, _ in all_values(log, WATERMARK)] == list(range(watermark))
    with log.read(5, isolation=WATERMARK) as found:
        assert found.slice is None


def test_max_bytes_bounds_the_slice_but_for_the_first_batch() -> None:
    """A batch larger than max_bytes is given whole if at least one batch is asked for.

    Scenario: UnifiedLogTest.testReadWithMinMessage
    """
    log = log_of(b"a", b"b")

    with log.read(0, SIZE + 1, isolation=END) as found:
        assert found.size_bytes == SIZE + 1
    with log.read(0, 10, isolation=END) as found:
        assert (found.size_bytes, found.is_first_batch_cut) == (SIZE, False)
    with log.read(0, 10, isolation=END, min_one_batch=False) as found:
        assert (found.size_bytes, found.is_first_batch_cut) == (10, True)


def test_a_watermark_between_batches_is_found_after_a_restart() -> None:
    """A high watermark that came without a place is looked up, and then kept.

    Scenario: UnifiedLogTest.testConvertToOffsetMetadataDoesNotThrowOffsetOutOfRangeError
    """
    log = log_of(b"0", b"1", b"2", b"3", segment_bytes=1000)
    log.update_high_watermark(2)

    assert [offset for offset, _ in all_values(log, WATERMARK)] == [0, 1]
    assert log.offset_snapshot().high_watermark == LogOffsetMetadata(2, 0, 2 * SIZE)


def test_an_open_transaction_holds_back_committed_readers() -> None:
    """Records after an open transaction are not yet decided, for readers of committed ones.

    Scenario: UnifiedLogTest.testFetchUpToLastStableOffset
    """
    log = log_of(b"plain", segment_bytes=1000)
    write_txn(log, 1, b"open")
    log.append_as_leader(batch(b"behind"))
    log.update_high_watermark(3)

    assert [value for _, value in all_values(log, COMMITTED)] == [b"plain"]
    assert [value for _, value in all_values(log, WATERMARK)] == [b"plain", b"open", b"behind"]


def test_committed_readers_skip_what_was_aborted() -> None:
    """Of two interleaved transactions only the committed one shows, and no marker.

    Scenario: UnifiedLogTest.testTransactionIndexUpdated
    """
    log = log_of(segment_bytes=1000)
    write_txn(log, 1, b"aborted")
    write_txn(log, 2, b"committed")
    end_txn(log, 1, commit=False)
    end_txn(log, 2, commit=True)
    log.append_as_leader(batch(b"plain"))
    log.update_high_watermark(log.log_end_offset)

    assert [value for _, value in all_values(log, COMMITTED)] == [b"committed", b"plain"]
    with log.read(0, isolation=COMMITTED) as found:
        assert found.aborted == (AbortedTransaction(1, 0),)


def test_aborted_transactions_are_found_in_later_segments() -> None:
    """A marker some segments later still marks the records read as aborted.

    Scenario: UnifiedLogTest.testAbortedTransactionSpanningMultipleSegments
    """
    log = log_of(segment_bytes=200)
    write_txn(log, 1, b"aborted")
    for number in range(6):
        log.append_as_leader(batch(b"plain-%d" % number))
    end_txn(log, 1, commit=False)
    log.update_high_watermark(log.log_end_offset)

    with log.read(0, isolation=COMMITTED) as found:
        assert found.aborted == (AbortedTransaction(1, 0),)
    assert b"aborted" not in [value for _, value in all_values(log, COMMITTED)]


def test_reads_between_appends_find_each_transaction_once_it_is_aborted() -> None:
    """A reader learns again of the segments once one of them has changed."""
    log = log_of(b"first")
    found = []
    for producer_id in range(5):
        write_txn(log, producer_id, b"aborted")
        found.append(committed_from_start(log))
        end_txn(log, producer_id, commit=False)
        found.append(committed_from_start(log))
    log.truncate_to(4)
    found.append(committed_from_start(log))

    firsts = [1, 3, 5, 7, 9]
    assert found == [firsts[: at // 2] for at in range(1, 11)] + [[1]]


def committed_from_start(log: Log) -> list[int]:
    """Return the first offsets of the transactions that a reader of all has to skip."""
    return [txn.first_offset for txn in log.collect_aborted_transactions(0, log.log_end_offset)]


@pytest.mark.usefixtures("engine")
def test_a_committed_read_asks_no_segment_that_has_no_aborted_transaction() -> None:
    """Its cost depends on what it reads, not on how many segments follow."""

    def cost(segments: int) -> int:
        log, lines = log_of(*[b"0"] * segments, segment_bytes=SIZE), Lines()
        log.update_high_watermark(log.log_end_offset)
        log.read(0, isolation=COMMITTED).close()
        with lines.counted():
            log.read(0, isolation=COMMITTED).close()
        return lines.count

    assert cost(60) == cost(20)


def test_the_last_stable_offset_follows_the_transactions() -> None:
    """It stays at the oldest transaction until the watermark has passed that one's marker.

    Scenario: ProducerStateManagerTest.testLastStableOffsetCompletedTxn,
    UnifiedLogTest.testFirstUnstableOffsetWithTransactionalData,
    UnifiedLogTest.testLastStableOffsetWithMixedProducerData
    """
    log = LogHome().open()
    for number in range(8):
        log.append_as_leader(batch(b"%d" % number))
    log.truncate_fully_and_start_at(0)
    write_txn(log, 1, b"first")
    for _ in range(7):
        log.append_as_leader(batch(b"plain"))
    write_txn(log, 2, b"second")
    log.update_high_watermark(9)
    seen = [log.last_stable_offset]
    end_txn(log, 1, commit=True)
    seen.append(log.last_stable_offset)
    log.update_high_watermark(10)
    seen.append(log.last_stable_offset)
    end_txn(log, 2, commit=False)
    seen.append(log.last_stable_offset)
    log.update_high_watermark(11)

    assert [*seen, log.last_stable_offset] == [0, 0, 8, 8, 11]


def at(offset: int, *values: bytes) -> bytes:
    """Make a batch as a follower gets it."""
    return batch(*values, base_offset=offset, leader_epoch=0)


def log_with_a_gap() -> Log:
    """Make a follower's log of the offsets 0 and 1, and 10 to 18 in a segment of their own."""
    batches = [at(0, b"a"), at(1, b"b"), at(10, *[b"c"] * 9)]
    log = LogHome(internal_segment_bytes=SIZE + len(batches[-1])).open()
    for data in batches:
        log.append_as_follower(data, 0)
    return log


def offsets_shown(log: Log, isolation: Isolation) -> list[int]:
    """Return the offsets that a reader at this isolation sees."""
    return [offset for offset, _ in all_values(log, isolation)]


@pytest.mark.parametrize("is_looked_up", [False, True])
def test_a_watermark_in_a_gap_holds_after_a_truncation(*, is_looked_up: bool) -> None:
    """Its place was that of the next batch, in a segment that the truncation has removed."""
    log = log_with_a_gap()
    log.update_high_watermark(2)
    if is_looked_up:
        assert log.offset_snapshot().high_watermark == LogOffsetMetadata(2, 10, 0)

    log.truncate_to(5)
    log.append_as_follower(at(5, b"new"), 0)

    assert log.high_watermark == 2
    assert offsets_shown(log, WATERMARK) == offsets_shown(log, COMMITTED) == [0, 1]
    assert log.offset_snapshot().high_watermark == LogOffsetMetadata(2, 0, 2 * SIZE)


def test_a_place_looked_up_before_a_truncation_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watermark is the same offset, but lies elsewhere."""
    log = log_with_a_gap()
    log.update_high_watermark(2)
    find = LogSegment.find

    def find_and_truncate(segment: LogSegment, offset: int, bounds: OffsetBounds) -> object:
        found = find(segment, offset, bounds)
        if segment.base_offset == 10:
            monkeypatch.undo()
            log.truncate_to(5)
            log.append_as_follower(at(5, b"new"), 0)
        return found

    monkeypatch.setattr(LogSegment, "find", find_and_truncate)
    log.offset_snapshot()

    assert offsets_shown(log, WATERMARK) == [0, 1]
    assert log.offset_snapshot().high_watermark == LogOffsetMetadata(2, 0, 2 * SIZE)


def test_offsets_that_go_back_end_a_read_with_an_error() -> None:
    """Records before the damaged batch are yielded; none after it is passed over silently."""
    home = LogHome(internal_segment_bytes=3 * SIZE)
    log = home.open()
    for value in (b"a", b"b", b"c", b"d"):
        log.append_as_leader(batch(value))
    log.close()
    name = "00000000000000000000.log"
    data = home.read(name)
    home.write(name, data[: 2 * SIZE] + bytes(8) + data[2 * SIZE + 8 :])

    found: list[bytes | None] = []
    reading = (record.value for record in home.open().records(isolation=END))
    with pytest.raises(CorruptMessage, match="impossible offsets 0 to 0") as raised:
        found.extend(reading)

    assert (found, raised.value.position) == ([b"a", b"b"], 2 * SIZE)
