"""What cleaning does with transactions, markers and producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.cleaning import CleanerHome, batch_headers, kept, last_values

from tidelog.errors import OutOfOrderSequenceNumber
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from tidelog.log.log import Log


pytestmark = pytest.mark.usefixtures("engine")
RETENTION_MS = 1000
CONTROL, HORIZON = 0x20, 0x40


def home_of() -> CleanerHome:
    return CleanerHome(delete_retention_ms=RETENTION_MS)


def markers(log: Log) -> list[tuple[int, bool]]:
    """Return offset of each marker, and whether it has a delete horizon."""
    return [
        (h.base_offset, bool(h.attributes & HORIZON))
        for h in batch_headers(log)
        if h.attributes & CONTROL and h.records_count
    ]


def test_aborted_records_go_and_supersede_nothing() -> None:
    """A record of an aborted transaction is dropped, and the last one before it is retained.

    Scenario: LogCleanerTest.testBasicTransactionAwareCleaning
    """
    home = home_of()
    with home.open() as log:
        one, two = home.producer(log, 1), home.producer(log, 2)
        one.send(("a", 1), ("b", 1), transactional=True)
        one.end(commit=True)
        two.send(("a", 2), ("c", 2), transactional=True)
        one.send(("b", 3), transactional=True)
        two.end(commit=False)
        one.end(commit=True)
        log.roll()
        before = last_values(log)

        home.clean(log)

        assert kept(log) == [(0, "a", "1"), (5, "b", "3")]
        assert before == last_values(log)


def test_an_aborted_transaction_is_named_as_long_as_records_were_seen() -> None:
    """The cleaning that drops its records keeps its index entry; the next one drops the entry.

    Scenario: LogCleanerTest.testAbortMarkerRemoval,
    LogCleanerTest.testMultiPassSegmentCleaningWithAbortedTransactions
    """
    home = home_of()
    with home.open() as log:
        home.producer(log, 1).send(("a", 1), transactional=True)
        home.end_transaction(log, 1, commit=False)
        other = home.producer(log, 2)
        other.send(("b", 1))
        other.send(("c", 1))
        log.producers._producers.pop(1)
        log.roll()
        found = []
        for _ in range(3):
            home.clean(log)
            segment = next(iter(log.segments))
            found.append((markers(log), len(segment.txn_index.all_aborted())))

        home.clock.advance(RETENTION_MS)
        home.clean(log)

        assert found == [([(1, False)], 1), ([(1, True)], 0), ([(1, True)], 0)]
        assert markers(log) == []
        assert [offset for offset, _, _ in kept(log)] == [2, 3]


def test_a_commit_marker_goes_once_its_records_are_gone() -> None:
    """It is retained while its transaction has records, then for delete.retention.ms.

    Scenario: LogCleanerTest.testCommitMarkerRemoval
    """
    home = home_of()
    with home.open() as log:
        one = home.producer(log, 1)
        one.send(("a", 1), transactional=True)
        one.end(commit=True)
        home.append(log, ("a", 2))
        home.append(log, ("z", 2))
        log.producers._producers.pop(1)
        log.roll()

        home.clean(log)
        first = markers(log)
        home.clean(log)
        second = markers(log)
        home.clock.advance(RETENTION_MS)
        home.clean(log)

        assert (first, second, markers(log)) == ([(1, False)], [(1, True)], [])


def test_a_marker_stays_while_its_batch_stays_empty() -> None:
    """An empty batch retained for its producer counts as a record of its transaction.

    Scenario: LogCleanerTest.testCommitMarkerRetentionWithEmptyBatch,
    LogCleanerTest.testAbortMarkerRetentionWithEmptyBatch
    """
    for commit in (True, False):
        home = home_of()
        with home.open() as log:
            one = home.producer(log, 1)
            one.send(("a", 1), transactional=True)
            one.end(commit=commit)
            home.append(log, ("a", 2))
            home.append(log, ("z", 2))
            log.roll()

            for _ in range(3):
                home.clean(log)
                home.clock.advance(2 * RETENTION_MS)

            empty = [h.base_offset for h in batch_headers(log) if not h.records_count]
            assert empty == [0]
            assert markers(log) == [(1, False)]


def test_transactions_reach_over_segments() -> None:
    """Records, marker and index entry of one transaction may be in three segments.

    Scenario: LogCleanerTest.testCleanWithTransactionsSpanningSegments,
    LogCleanerTest.testCommittedTransactionSpanningSegments,
    LogCleanerTest.testAbortedTransactionSpanningSegments
    """
    home = CleanerHome(delete_retention_ms=RETENTION_MS, internal_segment_bytes=300)
    with home.open() as log:
        one, two = home.producer(log, 1), home.producer(log, 2)
        for number in range(4):
            one.send((number, "x" * 30), transactional=True)
            two.send((number, "y" * 30), transactional=True)
        one.end(commit=False)
        two.end(commit=True)
        home.append(log, (0, "z"))
        log.roll()
        before = last_values(log)

        home.clean(log)
        home.clean(log)

        assert before == last_values(log)
        assert [value for _, _, value in kept(log)] == ["y" * 30] * 3 + ["z"]


def test_an_open_transaction_is_not_cleaned() -> None:
    """Cleaning ends at the last stable offset.

    Scenario: LogCleanerManagerTest.testUndecidedTransactionalDataNotCleanable
    """
    from tidelog.cleaner.pick import examine

    home = home_of()
    with home.open() as log:
        home.append(log, ("a", 1))
        log.roll()
        home.producer(log, 1).send(("a", 2), transactional=True)
        log.roll()
        home.append(log, ("a", 3))

        found = examine(log, None, home.clock.now_ms())

        assert found.offsets == (0, 1)
        assert found.held_by == "an open transaction"


def test_the_last_batch_of_a_producer_keeps_its_header() -> None:
    """Its sequence continues after a cleaning that dropped all of its records.

    Scenario: LogCleanerTest.testDuplicateCheckAfterCleaning,
    LogCleanerTest.testLogCleanerRetainsProducerLastSequence
    """
    home = home_of()
    with home.open() as log:
        one = home.producer(log, 1)
        one.send(("a", 1))
        one.send(("a", 2))
        home.append(log, ("a", 3))
        log.roll()

        home.clean(log)

        headers = [(h.base_offset, h.records_count, h.base_sequence) for h in batch_headers(log)]
        assert headers == [(1, 0, 1), (2, 1, -1)]
        log.flush()
    home.restart()
    with home.open(clean=False) as log:
        assert log.producers.producers[1].last_sequence == 1
        one = home.producer(log, 1)
        one.sequence = 5
        with pytest.raises(OutOfOrderSequenceNumber):
            one.send(("b", 1))


def test_the_last_batch_of_an_aborted_transaction_keeps_its_header_too() -> None:
    """Its records are dropped, its sequence is retained.

    Scenario: LogCleanerTest.testLogCleanerRetainsLastSequenceEvenIfTransactionAborted
    """
    home = home_of()
    with home.open() as log:
        one = home.producer(log, 1)
        one.send(("a", 1), ("b", 2), transactional=True)
        one.end(commit=False)
        log.roll()

        home.clean(log)

        header = next(iter(batch_headers(log)))
        assert (header.records_count, header.base_sequence, header.last_offset_delta) == (0, 0, 1)
        assert kept(log) == []


def test_an_emptied_batch_goes_when_its_producer_has_gone_on() -> None:
    """Of two epochs of a producer with the same sequence, the newer header is retained.

    Scenario: LogCleanerTest.testEmptyBatchRemovalWithSequenceReuse,
    LogCleanerTest.testDeletedBatchesWithNoMessagesRead
    """
    home = home_of()
    with home.open() as log:
        home.producer(log, 1, epoch=0).send(("a", 1))
        home.append(log, ("a", 2))
        log.roll()
        home.clean(log)
        first = [h.base_offset for h in batch_headers(log)]
        home.producer(log, 1, epoch=1).send(("b", 1))
        log.roll()

        home.clean(log, first_dirty=2)

        assert first == [0, 1]
        assert [h.base_offset for h in batch_headers(log)] == [1, 2]


def test_an_empty_control_batch_goes() -> None:
    """A control batch without records is dropped, unless it is the last of its producer.

    Scenario: LogCleanerTest.testCleanEmptyControlBatch
    """
    from tidelog.records.builder import empty_batch
    from tidelog.records.control import build_marker
    from tidelog.records.memory import walk

    marker = build_marker(
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        is_commit=True,
        timestamp=1,
        base_offset=1,
        leader_epoch=0,
    )
    home = home_of()
    with home.open() as log:
        home.append(log, ("a", 1))
        log.append_as_follower(empty_batch(walk(marker).batches.header(0)), 0)
        log.update_high_watermark(2)
        home.append(log, ("b", 1))
        log.producers._producers.pop(1, None)
        log.roll()

        home.clean(log)

        assert [h.base_offset for h in batch_headers(log)] == [0, 2]


def test_keys_like_those_of_markers_are_keys() -> None:
    """A record whose key equals a marker's key is cleaned like any other.

    Scenario: LogCleanerTest.testCleaningWithKeysConflictingWithTxnMarkerKeys
    """
    home = home_of()
    key = bytes([0, 0, 0, 1])
    with home.open() as log:
        one = home.producer(log, 1)
        one.send((key, "old"), transactional=True)
        one.end(commit=True)
        home.append(log, (key, "new"))
        log.roll()

        home.clean(log)

        assert [(offset, value) for offset, _, value in kept(log)] == [(2, "new")]
        assert markers(log) == [(1, False)]


def test_readers_of_committed_records_see_none_of_the_aborted() -> None:
    """After a cleaning that ended within an aborted transaction, both isolation levels agree."""
    home = home_of()
    with home.open() as log:
        one = home.producer(log, 1)
        one.send(("a", 1), transactional=True)
        log.roll()
        one.send(("b", 1), transactional=True)
        one.end(commit=False)
        home.append(log, ("c", 1))
        log.roll()

        home.clean(log)

        assert kept(log) == kept(log, Isolation.READ_COMMITTED) == [(3, "c", "1")]
