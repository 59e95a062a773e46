"""What an append may do to a producer."""

from __future__ import annotations

import pytest

from tidelog.errors import (
    InvalidArgument,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from tidelog.log.producers.producer_append import (
    UNKNOWN_TRANSACTION_VERSION,
    ProducerAppendInfo,
    ProducerBatch,
)
from tidelog.log.producers.producer_entry import (
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
    VerificationStateEntry,
    rewind_sequence,
)
from tidelog.records.batch import INT32_MAX
from tidelog.records.control import EndTxnMarker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.offset_metadata import LogOffsetMetadata

CLIENT, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.REPLICATION
UNKNOWN = ProducerStateEntry(1)
KNOWN = ProducerStateEntry(1, 5, -1, 100, None, (BatchMetadata(16, 16, 0, 100),))
MARKED = ProducerStateEntry(1, 2, 0, 100)


def data(
    sequence: int, epoch: int = 5, offset: int = 17, count: int = 1, *, transactional: bool = False
) -> ProducerBatch:
    """Make a data batch of producer 1."""
    return ProducerBatch(1, epoch, sequence, offset, offset + count - 1, 200, transactional)


def marker(
    epoch: int = 5, offset: int = 20, *, commit: bool = True, coordinator: int = 0
) -> ProducerBatch:
    """Make a marker of producer 1."""
    end = EndTxnMarker(commit, coordinator)
    return ProducerBatch(1, epoch, -1, offset, offset, 300, True, True, end, 300)


def test_sequences_wrap_to_zero() -> None:
    """After 2**31 - 1 comes 0, in both directions.

    Scenario: ProducerStateManagerTest.testProducerSequenceWrapAround
    """
    assert data(INT32_MAX, count=2).last_sequence == 0
    assert data(INT32_MAX - 1, count=4).last_sequence == 1
    assert rewind_sequence(1, 3) == INT32_MAX - 1


def test_an_unknown_producer_may_begin_with_any_sequence() -> None:
    """A producer whose state expired continues where it was.

    Scenario: ProducerStateManagerTest.testNoValidationOnFirstEntryWhenLoadingLog,
    UnifiedLogTest.testAllowNonZeroSequenceOnFirstAppendNonZeroEpoch
    """
    info = ProducerAppendInfo(UNKNOWN, CLIENT)

    info.append(data(17))

    assert info.updated.last_sequence == 17


@pytest.mark.parametrize("sequence", [16, 18, 0])
def test_a_gap_or_a_repeat_is_out_of_order(sequence: int) -> None:
    """Only the next sequence follows.

    Scenario: ProducerStateManagerTest.testBasicIdMapping, UnifiedLogTest.testNonSequentialAppend
    """
    with pytest.raises(OutOfOrderSequenceNumber):
        ProducerAppendInfo(KNOWN, CLIENT).append(data(sequence))


def test_the_next_sequence_follows_also_across_the_wrap() -> None:
    """2**31 - 1 is followed by 0 and nothing else.

    Scenario: ProducerStateManagerTest.testProducerSequenceInvalidWrapAround,
    ProducerStateManagerTest.testProducerSequenceWithWrapAroundBatchRecord
    """
    at_end = KNOWN._replace(batches=(BatchMetadata(INT32_MAX, 16, 0, 100),))

    ProducerAppendInfo(KNOWN, CLIENT).append(data(17))
    ProducerAppendInfo(at_end, CLIENT).append(data(0))
    with pytest.raises(OutOfOrderSequenceNumber):
        ProducerAppendInfo(at_end, CLIENT).append(data(1))


def test_a_new_epoch_begins_at_sequence_zero() -> None:
    """A producer that raised its epoch starts counting again, and its old batches are forgotten."""
    info = ProducerAppendInfo(KNOWN, CLIENT)
    info.append(data(0, epoch=6))

    assert KNOWN.updated_by(info.updated).batches == (BatchMetadata(0, 17, 0, 200),)
    with pytest.raises(OutOfOrderSequenceNumber):
        ProducerAppendInfo(KNOWN, CLIENT).append(data(17, epoch=6))


def test_of_a_new_producer_only_the_first_sequence_is_free() -> None:
    """The next batch of one append follows, as it does where each is appended by itself."""
    info = ProducerAppendInfo(UNKNOWN, CLIENT)
    info.append(data(7))

    with pytest.raises(OutOfOrderSequenceNumber):
        info.append(data(9, offset=18))
    info.append(data(8, offset=18))


def test_after_only_a_marker_sequence_zero_is_required() -> None:
    """A marker fixes the epoch, so the first data batch has sequence 0.

    Scenario: ProducerStateManagerTest.testControlRecordBumpsProducerEpoch,
    ProducerStateManagerTest.testOutOfSequenceAfterControlRecordEpochBump
    """
    ProducerAppendInfo(MARKED, CLIENT).append(data(0, epoch=2))
    with pytest.raises(OutOfOrderSequenceNumber):
        ProducerAppendInfo(MARKED, CLIENT).append(data(17, epoch=2))
    with pytest.raises(InvalidProducerEpoch):
        ProducerAppendInfo(MARKED, CLIENT).append(data(0, epoch=0))


def test_replication_takes_what_the_leader_took() -> None:
    """A follower adopts even a stale epoch and checks no sequence.

    Scenario: ProducerStateManagerTest.testAcceptAppendWithoutProducerStateOnReplica
    """
    info = ProducerAppendInfo(KNOWN, REPLICATION)

    info.append(data(99, epoch=4))

    assert (info.updated.producer_epoch, info.updated.last_sequence) == (4, 99)


def test_a_coordinator_is_held_to_the_epoch_only() -> None:
    """The group coordinator's batches have no sequence to check.

    Scenario: ProducerStateManagerTest.testSequenceNotValidatedForGroupMetadataTopic
    """
    ProducerAppendInfo(KNOWN, AppendOrigin.COORDINATOR).append(data(99))
    with pytest.raises(InvalidProducerEpoch):
        ProducerAppendInfo(KNOWN, AppendOrigin.COORDINATOR).append(data(17, epoch=4))


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    """Only transactional batches come while a transaction is open.

    Scenario: ProducerStateManagerTest.testNonTransactionalAppendWithOngoingTransaction
    """
    info = ProducerAppendInfo(KNOWN, CLIENT)
    info.append(data(17, transactional=True))

    with pytest.raises(InvalidTxnState):
        info.append(data(18, offset=18))


def test_a_marker_completes_the_transaction() -> None:
    """The completed transaction spans from its first batch to its marker.

    Scenario: ProducerStateManagerTest.testTxnFirstOffsetMetadataCached,
    ProducerStateManagerTest.updateProducerTransactionState
    """
    info = ProducerAppendInfo(KNOWN, CLIENT)
    info.append(data(17, transactional=True))

    completed = info.append(marker(commit=False), transaction_version=0)

    assert completed == CompletedTxn(1, 17, 20, is_aborted=True)
    assert info.updated.txn_first_offset is None
    assert info.updated.last_timestamp == 300


def test_a_marker_without_data_completes_nothing() -> None:
    """An empty transaction leaves only epoch and timestamp behind.

    Scenario: ProducerStateManagerTest.testAppendTxnMarkerWithNoProducerState,
    ProducerStateManagerTest.testSkipEmptyTransactions
    """
    info = ProducerAppendInfo(UNKNOWN, CLIENT)

    assert info.append(marker(), transaction_version=0) is None
    assert (info.updated.producer_epoch, info.updated.coordinator_epoch) == (5, 0)


def test_a_replaced_coordinator_is_fenced() -> None:
    """A marker with a lower coordinator epoch is refused, but replicated.

    Scenario: ProducerStateManagerTest.testCoordinatorFencing
    """
    known = KNOWN._replace(coordinator_epoch=3)

    with pytest.raises(TransactionCoordinatorFenced):
        ProducerAppendInfo(known, CLIENT).append(marker(coordinator=2), transaction_version=0)
    ProducerAppendInfo(known, CLIENT).append(marker(coordinator=3), transaction_version=0)
    ProducerAppendInfo(known, REPLICATION).append(marker(coordinator=2))


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "is_accepted"),
    [
        (2, 5, True, False),
        (2, 6, True, True),
        (2, 5, False, True),
        (2, 4, False, False),
        (0, 5, True, True),
        (1, 5, True, True),
        (1, 4, True, False),
    ],
)
def test_a_markers_epoch_is_judged_by_the_transaction_version(
    version: int, epoch: int, is_open: bool, is_accepted: bool
) -> None:
    """From version 2 on the coordinator raises the epoch before it writes the marker.

    Scenario: ProducerStateManagerTest.testOldEpochForControlRecord,
    ProducerStateManagerTest.testProducerStateAfterFencingAbortMarker,
    UnifiedLogTest.testEndTxnWithFencedProducerEpoch
    """
    known = KNOWN._replace(txn_first_offset=17 if is_open else None)
    info = ProducerAppendInfo(known, AppendOrigin.COORDINATOR)

    if is_accepted:
        info.append(marker(epoch), transaction_version=version)
    else:
        with pytest.raises(InvalidProducerEpoch):
            info.append(marker(epoch), transaction_version=version)


def test_the_highest_epoch_may_end_its_transaction() -> None:
    """32767 cannot be raised, so version 2 lets an equal epoch through."""
    known = KNOWN._replace(producer_epoch=32767, txn_first_offset=17)

    completed = ProducerAppendInfo(known, CLIENT).append(marker(32767), transaction_version=2)

    assert completed == CompletedTxn(1, 17, 20, is_aborted=False)


def test_a_marker_of_unknown_version_is_only_replicated() -> None:
    """The writer of a marker knows the transaction version; a follower that copies it may not."""
    ProducerAppendInfo(KNOWN, REPLICATION).append(marker())
    with pytest.raises(InvalidArgument):
        ProducerAppendInfo(KNOWN, CLIENT).append(marker())


@pytest.mark.parametrize(("epoch", "is_stale"), [(4, True), (5, False), (6, False)])
def test_a_replicated_marker_is_stale_below_the_known_epoch(
    caplog: pytest.LogCaptureFixture, epoch: int, is_stale: bool
) -> None:
    """A follower knows no transaction version, so an equal epoch is not stale; it only warns."""
    ProducerAppendInfo(KNOWN, REPLICATION).append(marker(epoch))

    assert ("stale-producer-epoch-replicated" in caplog.text) is is_stale


def test_a_transaction_begins_at_the_place_of_its_first_batch() -> None:
    """Segment and position are kept if they are known, the offset in any case."""
    place = LogOffsetMetadata(17, 10, 400)
    for given, expected in ((place, place), (None, LogOffsetMetadata(17))):
        info = ProducerAppendInfo(KNOWN, CLIENT)
        info.append(data(17, transactional=True), given)
        info.append(data(18, offset=18, transactional=True), LogOffsetMetadata(18, 10, 500))

        assert info.started_txns == [TxnMetadata(1, expected)]


def test_a_batch_is_plain_data_without_a_marker_by_default() -> None:
    """No transaction, no marker, and -1 for a timestamp that there is not."""
    plain = ProducerBatch(1, 5, 0, 17, 17, 200)

    assert not plain.is_transactional
    assert not plain.is_control
    assert (plain.marker, plain.marker_timestamp) == (None, -1)
    assert UNKNOWN_TRANSACTION_VERSION == -1


def test_an_emptied_control_batch_changes_nothing() -> None:
    """Compaction may leave a marker's batch without its record.

    Scenario: ProducerStateManagerTest.testAppendEmptyControlBatch
    """
    info = ProducerAppendInfo(UNKNOWN, REPLICATION)

    assert info.append(marker()._replace(marker=None)) is None
    assert info.updated == UNKNOWN


@pytest.mark.parametrize(
    ("sequence", "bump", "fits"),
    [(3, False, True), (4, False, False), (3, True, False), (0, True, True)],
)
def test_a_verified_transaction_begins_at_its_lowest_sequence(
    sequence: int, bump: bool, fits: bool
) -> None:
    """While the coordinator is asked, a later batch must not overtake the first one.

    Scenario: ProducerStateManagerTest.testThrowOutOfOrderSequenceWithVerificationSequenceCheck
    """
    verification = VerificationStateEntry(0, 1, 3, 5, supports_epoch_bump=bump)
    info = ProducerAppendInfo(UNKNOWN, CLIENT, verification)

    if fits:
        info.append(data(sequence))
    else:
        with pytest.raises(OutOfOrderSequenceNumber):
            info.append(data(sequence))


def test_only_the_last_five_batches_are_remembered() -> None:
    """A sixth batch pushes out the first."""
    entry = UNKNOWN
    for number in range(7):
        info = ProducerAppendInfo(entry, CLIENT)
        info.append(data(number, offset=number))
        entry = entry.updated_by(info.updated)

    assert [batch.last_sequence for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert entry.find_duplicate(5, 2, 2) == BatchMetadata(2, 2, 0, 200)
    assert entry.find_duplicate(5, 1, 1) is None
    assert entry.find_duplicate(4, 2, 2) is None
