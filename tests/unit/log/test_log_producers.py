"""Producers, snapshots and transactions of a log through rolls, cuts, deletions and restarts."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Unpack

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.errors import KafkaStorageError, TransactionCoordinatorFenced
from tidelog.log.producers.producer_state import ProducerStateConfig
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import pack_batch
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tests.machinery.fields import SequenceFields

    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields


NOW_MS = 1_700_000_000_000
SMALL = {"internal_segment_bytes": 400, "retention_ms": -1, "retention_bytes": 0}


def batch(sequence: int, producer: int = 1, count: int = 1, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch of an idempotent producer."""
    stated: BatchFields = {
        "producer_id": producer,
        "producer_epoch": 0,
        "base_sequence": sequence,
        **fields,
    }
    return build_batch([(NOW_MS, b"k", b"v", ())] * count, **stated)


def marker(
    producer_id: int = 1,
    *,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    is_commit: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Make an abort marker."""
    return build_marker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        is_commit=is_commit,
        timestamp=NOW_MS,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def begin(log: Log, sequence: int, producer_id: int = 1) -> None:
    """Append a batch of a transaction."""
    guard = log.start_verification(producer_id, sequence, 0, supports_epoch_bump=False)
    data = batch(sequence, producer_id, transactional=True)
    log.append_as_leader(data, verification_guard=guard)


def end(
    log: Log,
    producer_id: int = 1,
    *,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    is_commit: bool = False,
) -> None:
    """Append the marker that aborts it."""
    data = marker(
        producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        is_commit=is_commit,
    )
    log.append_as_leader(data, origin=AppendOrigin.COORDINATOR, transaction_version=0)


def rolled(home: LogHome, count: int = 3) -> Log:
    """Make a log of one batch in each segment, the last one empty; all may be deleted."""
    log = home.open()
    for sequence in range(count):
        log.append_as_leader(batch(sequence))
        log.roll()
        home.clock.advance(0)
    log.update_high_watermark(count)
    return log


def snapshots(home: LogHome) -> list[int]:
    return [int(name[:20]) for name in home.files(".snapshot")]


def test_a_roll_takes_a_snapshot() -> None:
    """At the new base, also when an append rolls; flushing removes none.

    Scenario: UnifiedLogTest.testTakeSnapshotOnRollAndDeleteSnapshotOnRecoveryPointCheckpoint,
    UnifiedLogTest.testProducerSnapshotAfterSegmentRollOnAppend
    """
    home = LogHome(internal_segment_bytes=2 * len(batch(0)))
    log = home.open()
    for sequence in range(5):
        log.append_as_leader(batch(sequence))

    log.flush()

    assert snapshots(home) == log.segments.base_offsets[1:] == [2, 4]


def test_without_snapshots_a_clean_log_gets_them_at_its_end() -> None:
    """At the last two bases and the log's end, with nothing in them and nothing read.

    Scenario: UnifiedLogTest.testInitializationOfProducerSnapshotsUpgradePath,
    LogLoaderTest.testSkipTruncateAndReloadIfNewMessageFormatAndCleanShutdown
    """
    home = LogHome(**SMALL)
    log = rolled(home)
    log.flush(force=True)
    log.close()
    for name in home.files(".snapshot"):
        home.fs.delete(f"{home.directory}/{name}")

    log = home.open()

    assert snapshots(home) == [2, 3]
    assert log.producers.producers == {}


def test_an_unclean_log_gets_snapshots_at_every_base_it_recovers() -> None:
    """Of each recovered segment but the first, and of the end; from the recovery point on only.

    Scenario: LogLoaderTest.testProducerSnapshotsRecoveryAfterUncleanShutdownCurrentMessageFormat,
    LogLoaderTest.testRecoverLastSegmentWithNoSnapshots
    """
    home = LogHome(**SMALL)
    rolled(home, 4)
    for name in home.files(".snapshot"):
        home.fs.delete(f"{home.directory}/{name}")
    home.restart()

    log = home.open(clean=False, recovery_point=4)
    last_only = snapshots(home)
    log.close_handlers()
    home.restart()
    log = home.open(clean=False)

    assert last_only == [3, 4]
    assert snapshots(home) == [1, 2, 3, 4]
    assert log.producers.producers[1].last_sequence == 3


def test_recovery_starts_with_the_newest_snapshot() -> None:
    """The last segment is replayed on top of it, and no other is read.

    Scenario: LogLoaderTest.testRecoverOnlyLastSegment, UnifiedLogTest.testRebuildTransactionalState
    """
    home = LogHome(**SMALL)
    log = rolled(home)
    begin(log, 3)
    home.restart()
    home.fs.fail("pread", "00000000000000000000.log", OSError(errno.EIO, "not to be read"), 9)

    log = home.open(clean=False, recovery_point=3)

    assert log.producers.producers[1].last_sequence == 3
    assert min(log.producers.ongoing.values()) == 3


def test_what_recovery_cuts_takes_no_earlier_snapshot() -> None:
    """Snapshots up to the cut stay; those of deleted segments are deleted.

    Scenario: LogLoaderTest.testCorruptedLogRecoveryDoesNotDeleteProducerStateSnapshotsPostRecovery
    """
    home = LogHome(**SMALL)
    rolled(home, 4)
    home.restart()
    home.write("00000000000000000002.log", b"rubbish that is no batch at all")

    log = home.open(clean=False)

    assert log.log_end_offset == 2
    assert snapshots(home) == [1, 2]


def test_an_empty_active_segment_is_recovered() -> None:
    """It has no index files yet after a roll.

    Scenario: LogLoaderTest.testRecoverWithEmptyActiveSegment
    """
    home = LogHome(**SMALL)
    rolled(home)
    home.restart()

    log = home.open(clean=False)

    assert log.segments.base_offsets == [0, 1, 2, 3]
    assert log.append_as_leader(batch(3)).first_offset == 3


@pytest.mark.parametrize(("rolls", "left"), [(False, [1, 2, 3]), (True, [3])])
def test_deleted_records_leave_their_producers(*, rolls: bool, left: list[int]) -> None:
    """A restart that reads the log again knows those of the segments that are left.

    Scenario: LogLoaderTest.testLoadProducersAfterDeleteRecordsMidSegment,
    LogLoaderTest.testLoadProducersAfterDeleteRecordsOnSegment
    """
    home = LogHome()
    log = home.open()
    for producer_id in (1, 2):
        log.append_as_leader(batch(0, producer_id))
    if rolls:
        log.roll()
    log.append_as_leader(batch(0, 3))
    log.update_high_watermark(3)
    log.delete_records(2)
    log.delete_old_segments()

    assert sorted(log.producers.producers) == [1, 2, 3]

    home.restart()
    for name in home.files(".snapshot"):
        home.fs.delete(f"{home.directory}/{name}")
    log = home.open(clean=False, log_start_offset=2)

    assert sorted(log.producers.producers) == left


def test_deleting_segments_takes_their_snapshots_but_no_producer() -> None:
    """A second pass finds nothing more.

    Scenario: UnifiedLogTest.testRetentionDeletesProducerStateSnapshots,
    UnifiedLogTest.testRetentionIdempotency,
    UnifiedLogTest.testProducerIdExpirationOnSegmentDeletion
    """
    home = LogHome(**SMALL)
    log = rolled(home)

    first, second = log.delete_old_segments(), log.delete_old_segments()
    home.clock.advance(60_000)

    assert (first, second) == (3, 0)
    assert snapshots(home) == [3]
    assert list(log.producers.producers) == [1]


def test_a_higher_log_start_takes_the_snapshots_below() -> None:
    """With the segments that it empties.

    Scenario: UnifiedLogTest.testLogStartOffsetMovementDeletesSnapshots,
    UnifiedLogTest.testDeleteSnapshotsOnIncrementLogStartOffset
    """
    home = LogHome(**{**SMALL, "retention_bytes": -1})
    log = rolled(home)

    log.delete_records(2)
    log.delete_old_segments()
    home.clock.advance(60_000)

    assert log.segments.base_offsets == snapshots(home) == [2, 3]


def test_snapshots_above_the_end_go_when_the_log_is_loaded() -> None:
    """They describe records that are not there.

    Scenario: UnifiedLogTest.testLoadingLogDeletesProducerStateSnapshotsPastLogEndOffset,
    ProducerStateManagerTest.testTruncateAndReloadRemovesOutOfRangeSnapshots
    """
    home = LogHome(**SMALL)
    rolled(home).close()
    home.write(f"{9:020d}.snapshot", home.read(f"{2:020d}.snapshot"))

    home.open()

    assert snapshots(home) == [1, 2, 3]


def test_a_truncation_forgets_what_came_later() -> None:
    """With snapshots and without; the next sequence is the one after what is left.

    Scenario: UnifiedLogTest.testProducerIdMapTruncateTo,
    UnifiedLogTest.testProducerIdMapTruncateToWithNoSnapshots,
    LogLoaderTest.testReopenThenTruncate
    """
    for has_snapshots in (True, False):
        home = LogHome(**SMALL)
        rolled(home, 4).close()
        log = home.open()
        for name in [] if has_snapshots else home.files(".snapshot"):
            home.fs.delete(f"{home.directory}/{name}")

        log.truncate_to(2)

        assert log.producers.producers[1].last_sequence == 1
        assert log.append_as_leader(batch(2)).first_offset == 2


@pytest.mark.parametrize("is_full", [False, True])
def test_a_truncation_below_an_open_transaction_forgets_it(*, is_full: bool) -> None:
    """Nothing holds committed readers back any more.

    Scenario: UnifiedLogTest.testTruncateBelowFirstUnstableOffset,
    UnifiedLogTest.testTruncateFullyAndStartBelowFirstUnstableOffset,
    ProducerStateManagerTest.testFirstUnstableOffsetAfterTruncation
    """
    log = LogHome().open()
    log.append_as_leader(batch(0, 9, count=3))
    begin(log, 0)
    assert log.first_unstable_offset == 3

    if is_full:
        log.truncate_fully_and_start_at(2)
    else:
        log.truncate_to(3)

    assert log.first_unstable_offset is None
    assert not log.producers.ongoing


def test_a_truncation_keeps_replicated_ends_of_transactions() -> None:
    """The replay finds them again; the last stable offset stays, if the high watermark does."""
    log = LogHome().open()
    begin(log, 0)
    log.append_as_leader(marker(), origin=AppendOrigin.COORDINATOR, transaction_version=0)
    log.append_as_leader(batch(0, 9, count=2))
    for high_watermark, offset in ((2, 3), (2, 2)):
        log.update_high_watermark(high_watermark)

        log.truncate_to(offset)

        assert (log.high_watermark, log.last_stable_offset) == (2, 2)
        assert log.first_unstable_offset is None


def expired(home: LogHome, *, rolls: bool) -> Log:
    """Make a log of a transaction, 0 and 1, and three batches; its producer is forgotten."""
    log = home.open()
    begin(log, 0)
    if rolls:
        log.roll()
    end(log, is_commit=True)
    for _ in range(3):
        log.append_as_leader(build_batch([(home.clock.now_ms(), b"k", b"v", ())]))
    log.update_high_watermark(5)
    home.clock.advance(ProducerStateConfig().producer_id_expiration_ms)
    log.remove_expired_producers()
    assert log.producers.is_empty
    return log


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize(("cut", "stable"), [(4, 4), (2, 2), (1, 0)])
def test_a_truncation_knows_the_transactions_of_producers_that_expired(
    *, rolls: bool, cut: int, stable: int
) -> None:
    """An ended one stays so, whatever a snapshot before its marker says; without marker it opens.

    Kafka replays nothing if no producer was active.
    """
    home = LogHome(retention_ms=-1)
    log = expired(home, rolls=rolls)

    log.truncate_to(cut)

    assert log.last_stable_offset == stable
    assert [*log.producers.ongoing.values()] == ([0] if stable < cut else [])
    log.close()
    log = home.open()
    log.update_high_watermark(cut)
    assert log.last_stable_offset == stable


def test_plain_batches_move_producer_state_along() -> None:
    """So a snapshot at the end is not taken for older than the log.

    Scenario: UnifiedLogTest.testProducerIdMapOffsetUpdatedForNonIdempotentData,
    UnifiedLogTest.testFirstUnstableOffsetNoTransactionalData
    """
    log = LogHome().open()

    log.append_records([(NOW_MS, None, b"v", ())])

    assert log.producers.map_end_offset == 1
    assert log.first_unstable_offset is None


def test_compacted_batches_tell_of_all_they_once_held() -> None:
    """The last sequence is the header's, also of a batch without records, live and replayed.

    Scenario: UnifiedLogTest.testRebuildProducerIdMapWithCompactedData,
    UnifiedLogTest.testRebuildProducerStateWithEmptyCompactedBatch,
    UnifiedLogTest.testUpdateProducerIdMapWithCompactedData
    """
    records = [(NOW_MS, b"k", b"v", ())]
    one: SequenceFields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    two: SequenceFields = {**one, "producer_id": 2}
    sparse = build_batch(records, offsets=[2], last_offset=4, leader_epoch=0, **one)
    full = build_batch(records * 3, base_offset=5, leader_epoch=0, **two)
    header = BATCH_HEADER.unpack(full)._replace(records_count=0)
    empty = pack_batch(header, b"")
    home = LogHome()
    log = home.open()
    for data in (sparse, empty):
        log.append_as_follower(data, 0)
    live = {key: entry.last_sequence for key, entry in log.producers.producers.items()}
    home.restart()

    log = home.open(clean=False)

    replayed = {key: entry.last_sequence for key, entry in log.producers.producers.items()}
    assert live == replayed == {1: 4, 2: 2}


def test_a_follower_takes_many_producers_at_once_and_duplicates_too() -> None:
    """What its leader has written is not judged again.

    Scenario: UnifiedLogTest.testMultipleProducerIdsPerMemoryRecord,
    UnifiedLogTest.testMultipleProducersWithDuplicatesInSingleAppend,
    UnifiedLogTest.testDuplicateAppendToFollower,
    ProducerStateManagerTest.testAcceptAppendWithSequenceGapsOnReplica
    """
    log = LogHome().open()
    parts = [batch(0, 1), batch(0, 2), batch(0, 1), batch(7, 2), batch(0, 3)]
    moved = [
        build_batch(
            [(NOW_MS, b"k", b"v", ())],
            base_offset=offset,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        for offset, (producer_id, sequence) in enumerate([(1, 0), (2, 0), (1, 0), (2, 7), (3, 0)])
    ]

    log.append_as_follower(b"".join(moved), 0)

    assert len(all_values(log)) == len(parts)
    last = {key: entry.last_sequence for key, entry in log.producers.producers.items()}
    assert last == {1: 0, 2: 7, 3: 0}


def test_all_aborted_transactions_come_back_from_the_log_alone() -> None:
    """Without its transaction indexes a log shows committed readers the same.

    Scenario: LogLoaderTest.testFullTransactionIndexRecovery,
    UnifiedLogTest.testTransactionIndexUpdatedThroughReplication
    """
    home = LogHome(internal_segment_bytes=400)
    log = home.open()
    for sequence in range(6):
        begin(log, sequence)
        begin(log, sequence, producer_id=2)
        end(log)
        end(log, 2, is_commit=True)
    log.update_high_watermark(log.log_end_offset)
    before = all_values(log, Isolation.READ_COMMITTED)
    indexes = {name: home.read(name) for name in home.files(".txnindex")}
    follower = LogHome(internal_segment_bytes=400).open()
    for name in home.files(".log"):
        follower.append_as_follower(home.read(name), 0)
    follower.update_high_watermark(follower.log_end_offset)
    home.restart()
    for name in indexes:
        home.fs.delete(f"{home.directory}/{name}")

    log = home.open(clean=False)
    log.update_high_watermark(log.log_end_offset)

    assert {name: home.read(name) for name in indexes} == indexes
    assert len(indexes) > 2
    assert all_values(log, Isolation.READ_COMMITTED) == before
    assert all_values(follower, Isolation.READ_COMMITTED) == before


def test_a_coordinator_is_fenced_even_without_a_transaction() -> None:
    """A marker of an older coordinator epoch is refused; a log that has one is recovered.

    Scenario: UnifiedLogTest.testZombieCoordinatorFenced,
    UnifiedLogTest.testZombieCoordinatorFencedEmptyTransaction,
    ProducerStateManagerTest.testCoordinatorFencedAfterReload,
    LogLoaderTest.testRecoverAfterNonMonotonicCoordinatorEpochWrite
    """
    home = LogHome()
    log = home.open()
    begin(log, 0)
    end(log, coordinator_epoch=5)
    log.close()
    log = home.open()

    with pytest.raises(TransactionCoordinatorFenced):
        end(log, coordinator_epoch=4)

    log.append_as_follower(marker(coordinator_epoch=4, base_offset=2, leader_epoch=0), 0)
    home.restart()
    assert home.open(clean=False).log_end_offset == 3


def test_a_transaction_index_that_cannot_be_written_leaves_the_transaction_open() -> None:
    """The marker is not written either; the directory goes offline.

    In Kafka the marker stays, so that a coordinator which repeats it writes it twice.

    Scenario: UnifiedLogTest.testAppendToTransactionIndexFailure
    """
    home = LogHome()
    log = home.open()
    begin(log, 0)
    home.fs.fail("pwrite", ".txnindex", OSError(errno.EIO, "broken"))

    with pytest.raises(KafkaStorageError):
        end(log)

    assert (log.log_end_offset, log.first_unstable_offset) == (1, 0)
    home.restart()
    log = home.open(clean=False)
    end(log)
    log.update_high_watermark(2)
    assert all_values(log, Isolation.READ_COMMITTED) == []
    assert (log.log_end_offset, log.last_stable_offset) == (2, 2)


def test_an_empty_transaction_ends_its_verification() -> None:
    """A marker without data does so too; the guard is of no use after it.

    Scenario: UnifiedLogTest.testEmptyTransactionStillClearsVerificationGuard
    """
    log = LogHome().open()
    log.start_verification(1, 0, 0, supports_epoch_bump=False)

    end(log)

    assert log.producers.verification(1) is None


def test_a_transaction_ends_its_verification_where_none_is_asked_for() -> None:
    """Whether or not the log checks it.

    Scenario: UnifiedLogTest.testDisabledVerificationClearsVerificationGuard
    """
    log = LogHome().open(producer_config=ProducerStateConfig(transaction_verification=False))
    log.start_verification(1, 0, 0, supports_epoch_bump=False)

    log.append_as_leader(batch(0, transactional=True))

    assert log.producers.verification(1) is None


def test_an_invalid_marker_keeps_what_came_before_it_in_its_piece() -> None:
    """Entries of aborted transactions and producer state are those of the batches before it."""
    home = LogHome()
    log = home.open()
    begin(log, 0)
    end(log)
    begin(log, 1)
    log.close_handlers()
    name = f"{0:020d}.log"
    bad = build_batch(
        [(NOW_MS, b"\0", b"", ())],
        base_offset=3,
        leader_epoch=0,
        producer_id=1,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    home.restart()
    later = build_batch([(NOW_MS, b"k", b"v", ())], base_offset=4, leader_epoch=0)
    home.write(name, home.read(name) + bad + later)
    index = home.read(f"{0:020d}.txnindex")
    home.fs.delete(f"{home.directory}/{0:020d}.txnindex")

    with pytest.raises(Exception, match="control"):
        home.open(clean=False)

    assert home.read(f"{0:020d}.txnindex") == index


def test_active_producers_are_known_with_their_last_records() -> None:
    """Epoch, sequence, times and open transaction of each; a marker is not a record."""
    log = LogHome().open()
    log.append_as_leader(batch(0))
    log.append_as_leader(batch(1))
    begin(log, 0, producer_id=3)
    end(log, producer_id=9, producer_epoch=4, coordinator_epoch=2)

    active = log.active_producers()

    assert {number: known.last_sequence for number, known in active.items()} == {1: 1, 3: 0, 9: -1}
    assert (active[3].txn_first_offset, active[9].coordinator_epoch) == (2, 2)
    last = [(known.last_data_offset, known.producer_epoch) for known in active.values()]
    assert last == [(1, 0), (2, 0), (-1, 4)]
    assert log.producer_id_count == 3


def test_late_transactions_are_seen_until_they_end() -> None:
    """The question takes no lock: the oldest time is computed with each change."""
    config = ProducerStateConfig(transaction_max_timeout_ms=1000)
    log = LogHome().open(producer_config=config)
    begin(log, 0)
    late_ms = NOW_MS + 1000 + 5 * 60 * 1000 + 1
    before = log.has_late_transaction(late_ms - 1), log.has_late_transaction(late_ms)
    end(log)

    assert (before, log.has_late_transaction(late_ms)) == ((False, True), False)


def test_aborted_transactions_of_a_range_are_collected() -> None:
    """By their markers, from the log start on; what began at the bound or above is left out."""
    log = LogHome().open()
    begin(log, 0, producer_id=3)
    begin(log, 0, producer_id=4)
    end(log, producer_id=4)
    end(log, producer_id=3)

    def found(start: int, bound: int) -> list[tuple[int, int, int]]:
        aborted = log.collect_aborted_transactions(start, bound)
        return [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted]

    assert found(0, 4) == [(4, 1, 2), (3, 0, 3)]
    assert found(0, 1) == [(3, 0, 3)]
