"""All producers of a log, their snapshots and their transactions."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.machinery.counted_lines import Lines
from tests.machinery.log_home import LogHome

from tidelog.errors import InvalidProducerEpoch
from tidelog.log.producers.producer_append import ProducerBatch
from tidelog.log.producers.producer_entry import CompletedTxn
from tidelog.log.producers.producer_state import (
    GUARD_SENTINEL,
    ProducerStateConfig,
    ProducerStateManager,
)
from tidelog.records.control import EndTxnMarker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from collections.abc import Callable

NOW_MS = 1_700_000_000_000
CONFIG = ProducerStateConfig(producer_id_expiration_ms=1000, transaction_max_timeout_ms=500)


class Place:
    """Producer state in a directory of its own."""

    def __init__(self) -> None:
        self.home = LogHome()
        self.producers = self.load()

    def load(self) -> ProducerStateManager:
        """Make producer state that knows the snapshots of the directory, and nothing else."""
        return ProducerStateManager(
            self.home.directory, fs=self.home.fs, clock=self.home.clock, config=CONFIG
        )

    def data(
        self, producer_id: int, offset: int, *, transactional: bool = False, time_ms: int = NOW_MS
    ) -> None:
        """Take in a batch of one record."""
        known = self.producers.last_entry(producer_id)
        sequence = 0 if known is None else known.last_sequence + 1
        self._append(
            ProducerBatch(producer_id, 0, sequence, offset, offset, time_ms, transactional)
        )

    def marker(self, producer_id: int, offset: int, *, commit: bool = True) -> None:
        """Take in a marker."""
        end = EndTxnMarker(commit, 0)
        self._append(
            ProducerBatch(producer_id, 0, -1, offset, offset, NOW_MS, True, True, end, NOW_MS)
        )

    def _append(self, batch: ProducerBatch) -> None:
        info = self.producers.prepare_update(batch.producer_id, AppendOrigin.CLIENT)
        completed = info.append(batch, transaction_version=0)
        self.producers.update(info)
        if completed is not None:
            self.producers.complete_txn(completed)
        self.producers.map_end_offset = batch.base_offset + 1


def test_settings_that_nobody_gives_are_kafkas() -> None:
    """As of ``producer.id.expiration.ms`` and the other settings of a broker."""
    assert ProducerStateConfig() == ProducerStateConfig(
        producer_id_expiration_ms=86_400_000,
        expiration_check_interval_ms=600_000,
        transaction_max_timeout_ms=900_000,
        transaction_verification=True,
    )


def test_of_a_new_log_nothing_is_known() -> None:
    """No producer, no late transaction, and no snapshot that would be worth a file."""
    producers = Place().producers

    assert producers.is_empty
    assert producers.map_end_offset == 0
    assert producers.take_snapshot() is None
    assert not producers.has_late_transaction(NOW_MS)


def test_nothing_is_visible_before_the_update() -> None:
    """An append that fails half-way leaves producers as they were.

    Scenario: ProducerStateManagerTest.testPrepareUpdateDoesNotMutate
    """
    place = Place()
    info = place.producers.prepare_update(1, AppendOrigin.CLIENT)

    info.append(ProducerBatch(1, 0, 0, 0, 0, NOW_MS))

    assert place.producers.last_entry(1) is None


def test_a_snapshot_keeps_producers_and_open_transactions() -> None:
    """What was written at an offset is there again after a reload to it.

    Scenario: ProducerStateManagerTest.testRecoverFromSnapshotUnfinishedTransaction,
    ProducerStateManagerTest.testTakeSnapshot
    """
    place = Place()
    place.data(1, 0)
    place.data(2, 1, transactional=True)
    place.producers.take_snapshot()

    again = place.load()
    again.truncate_and_reload(0, 2, NOW_MS)

    assert again.producers == place.producers.producers
    assert min(again.ongoing.values()) == 1
    assert again.map_end_offset == 2


def test_a_snapshot_is_written_once_per_offset() -> None:
    """Without new batches there is nothing new to keep.

    Scenario: ProducerStateManagerTest.testSkipSnapshotIfOffsetUnchanged
    """
    place = Place()
    place.data(1, 0)

    assert place.producers.take_snapshot() == 1
    assert place.producers.take_snapshot() is None


@pytest.mark.parametrize(
    "take", [ProducerStateManager.take_snapshot, ProducerStateManager.take_snapshot_if_room]
)
def test_a_snapshot_is_durable_unless_it_need_not_be(take: Callable[..., int | None]) -> None:
    """A power cut takes the one that was not synced."""
    place = Place()
    place.data(1, 0)
    take(place.producers, sync=False)
    place.data(1, 1)
    take(place.producers)

    assert place.producers.snapshots.unsynced == {1}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_only_a_full_disk_goes_without_a_snapshot(code: int) -> None:
    """And only where it can be made again from the records."""
    place = Place()
    place.data(1, 0)
    place.home.fs.fail("write", ".snapshot", OSError(code, "it failed"), count=2)

    with pytest.raises(OSError, match="it failed"):
        place.producers.take_snapshot()
    if code == errno.ENOSPC:
        assert place.producers.take_snapshot_if_room() is None
    else:
        with pytest.raises(OSError, match="it failed"):
            place.producers.take_snapshot_if_room()
    assert place.home.files(".snapshot") == []
    assert place.producers.take_snapshot_if_room() == 1


def test_a_corrupt_snapshot_is_dropped_and_an_older_one_taken() -> None:
    """The batches after the older one are replayed by the caller.

    Scenario: ProducerStateManagerTest.testLoadFromEmptySnapshotFile
    """
    place = Place()
    place.data(1, 0)
    place.producers.take_snapshot()
    place.data(1, 1)
    place.producers.take_snapshot()
    place.home.write("00000000000000000002.snapshot", b"rubbish")

    again = place.load()
    again.truncate_and_reload(0, 2, NOW_MS)

    assert again.map_end_offset == 1
    assert place.home.files(".snapshot") == ["00000000000000000001.snapshot"]


def test_a_reload_deletes_snapshots_outside_the_log() -> None:
    """Snapshots above the end, or at or below the start, are no longer valid.

    Scenario: ProducerStateManagerTest.testDeleteSnapshotsBefore,
    ProducerStateManagerTest.testReloadSnapshots
    """
    place = Place()
    for offset in range(5):
        place.data(1, offset)
        place.producers.take_snapshot()

    place.producers.truncate_and_reload(2, 4, NOW_MS)

    assert place.producers.snapshots.offsets == [3, 4]


def test_a_snapshot_at_the_start_may_count() -> None:
    """That of a log whose first records are in an archive only."""
    place = Place()
    for offset in range(5):
        place.data(1, offset)
        place.producers.take_snapshot()

    place.producers.truncate_and_reload(2, 2, NOW_MS, keeps_first=True)

    assert place.producers.snapshots.offsets == [2]
    assert place.producers.last_entry(1) is not None


@pytest.mark.parametrize(("offset", "last"), [(5, 4), (4, 4), (3, 2), (1, 0)])
def test_a_log_that_returns_takes_no_snapshot_up_to_the_last_one_there(
    offset: int, last: int
) -> None:
    """A snapshot above where it has returned to does not count."""
    place = Place()
    for at in (2, 4, 6):
        place.producers.snapshots.write(at, [], sync=True)

    place.producers.return_to(offset)

    assert place.producers.map_end_offset == offset
    assert place.producers.last_snapshot_offset == last


def test_expired_producers_are_not_loaded() -> None:
    """A producer silent for too long is gone after a restart, unless a transaction is open.

    Scenario: ProducerStateManagerTest.testLoadFromSnapshotRetainsNonExpiredProducers,
    ProducerStateManagerTest.testPidExpirationTimeout,
    ProducerStateManagerTest.testRemoveExpiredPidsOnReload
    """
    place = Place()
    place.data(1, 0)
    place.data(2, 1, transactional=True)
    place.producers.take_snapshot()

    again = place.load()
    again.truncate_and_reload(0, 2, NOW_MS + 1000)

    assert set(again.producers) == {2}


@pytest.mark.parametrize(
    ("snapshots", "bases", "kept"),
    [
        ([1, 2, 3, 4], [0, 1, 2], [1, 2, 4]),
        ([1, 3], [0, 1, 5], [1]),
        ([5, 7], [], [7]),
        ([2], [0, 2], [2]),
    ],
)
def test_stray_snapshots_are_removed(
    snapshots: list[int], bases: list[int], kept: list[int]
) -> None:
    """A snapshot that belongs to no segment stays only as the last one, beyond all bases.

    Scenario: ProducerStateManagerTest.testRemoveAllStraySnapshots,
    ProducerStateManagerTest.testRemoveStraySnapshotsKeepCleanShutdownSnapshot
    """
    place = Place()
    for offset in snapshots:
        place.producers.snapshots.write(offset, [], sync=False)

    place.producers.snapshots.delete_strays(bases)

    assert place.producers.snapshots.offsets == kept


def test_a_completed_transaction_is_unstable_until_it_is_replicated() -> None:
    """Its first offset counts until the high watermark has passed its marker.

    Scenario: ProducerStateManagerTest.testFirstUnstableOffset
    """
    place = Place()
    place.data(1, 0, transactional=True)
    place.marker(1, 1)
    first = place.producers.first_unstable_offset
    place.producers.on_high_watermark_updated(1)
    still = place.producers.first_unstable_offset

    place.producers.on_high_watermark_updated(2)

    assert (first, still) == (still, first)
    assert place.producers.first_unstable_offset is None
    assert first is not None


def test_a_higher_log_start_keeps_producers_and_open_transactions() -> None:
    """Only transactions that ended below it are forgotten."""
    place = Place()
    place.data(1, 0, transactional=True)
    place.marker(1, 1)
    place.data(2, 2, transactional=True)

    place.producers.on_log_start_offset_incremented(5)

    assert set(place.producers.producers) == {1, 2}
    assert place.producers.first_unstable_offset is not None
    assert place.producers.first_unstable_offset.offset == 2
    assert place.producers.map_end_offset == 5


def test_full_truncation_forgets_everything() -> None:
    """Snapshots go too.

    Scenario: ProducerStateManagerTest.testFetchSnapshotEmptySnapShot,
    ProducerStateManagerTest.testTruncateFullyAndStartAt,
    UnifiedLogTest.testProducerIdMapTruncateFullyAndStartAt
    """
    place = Place()
    place.data(1, 0, transactional=True)
    place.producers.take_snapshot()

    place.producers.truncate_fully_and_start_at(9)

    assert place.producers.is_empty
    assert place.home.files(".snapshot") == []
    assert place.producers.map_end_offset == 9


@pytest.mark.parametrize(("start", "taken"), [(0, None), (1, 1)])
def test_a_log_that_starts_again_has_no_snapshot(start: int, taken: int | None) -> None:
    """The next one is taken wherever it starts, except where there is nothing to keep."""
    place = Place()
    place.data(1, 7)
    place.producers.take_snapshot()

    place.producers.truncate_fully_and_start_at(start)

    assert place.producers.take_snapshot() == taken


def test_a_log_that_starts_with_producers_keeps_them_over_a_power_cut() -> None:
    """They belong to records before its start, which lie elsewhere."""
    place = Place()
    place.data(1, 0)
    entries = [entry.to_snapshot() for entry in place.producers.producers.values()]

    place.producers.truncate_fully_and_start_at(9, entries)

    assert set(place.producers.producers) == {1}
    assert place.producers.snapshots.offsets == [9]
    assert not place.producers.snapshots.unsynced


def test_producer_state_is_empty_without_producers_and_unreplicated_transactions() -> None:
    """A producer may be forgotten before the end of its transaction is replicated."""
    place = Place()
    place.data(1, 0)
    with_producer = place.producers.is_empty
    place.data(1, 1, transactional=True)
    place.marker(1, 2)
    place.producers.remove_expired(NOW_MS + 1000)
    with_transaction = place.producers.is_empty
    place.producers.on_high_watermark_updated(3)

    assert not place.producers.producers
    assert (with_producer, with_transaction, place.producers.is_empty) == (False, False, True)


def test_a_transaction_is_open_at_the_epoch_of_its_producer() -> None:
    """A producer without a transaction has none open at any."""
    place = Place()
    place.data(1, 0)
    place.data(2, 1, transactional=True)

    is_open = place.producers.is_txn_open
    assert [is_open(1, 0), is_open(2, 0), is_open(2, 1), is_open(3, 0)] == [
        *(False, True, False, False)
    ]


def test_the_last_stable_offset_after_a_transaction_is_that_of_the_next_one_open() -> None:
    """Or follows its marker. The transaction itself, which is open until then, does not count."""
    place = Place()
    place.data(1, 0, transactional=True)
    ended = CompletedTxn(1, 0, 5, is_aborted=True)
    alone = place.producers.last_stable_offset(ended)
    place.data(2, 3, transactional=True)

    assert (alone, place.producers.last_stable_offset(ended)) == (6, 3)
    aborted = place.producers.aborted_by([], [CompletedTxn(2, 3, 6, is_aborted=False), ended])
    assert aborted == [AbortedTxn(0, 1, 0, 5, 6)]


def test_a_transaction_open_for_too_long_is_late() -> None:
    """Five minutes beyond the longest time that a transaction may last.

    Scenario: ProducerStateManagerTest.testHasLateTransaction
    """
    place = Place()
    place.data(1, 0, transactional=True)
    limit_ms = 500 + 5 * 60 * 1000

    assert not place.producers.has_late_transaction(NOW_MS + limit_ms)
    assert place.producers.has_late_transaction(NOW_MS + limit_ms + 1)


@pytest.mark.parametrize(("time_ms", "is_late"), [(-1, False), (0, False), (1, True)])
def test_a_transaction_without_a_time_is_never_late(time_ms: int, *, is_late: bool) -> None:
    """Nobody knows how long it has been open. Source: Kafka hasLateTransaction."""
    place = Place()
    place.data(1, 0, transactional=True, time_ms=time_ms)

    assert place.producers.has_late_transaction(NOW_MS) == is_late


def test_a_verification_keeps_its_guard_and_lowers_its_sequence() -> None:
    """Repeated requests of one producer are one verification.

    Scenario: ProducerStateManagerTest.testEntryForVerification,
    ProducerStateManagerTest.testSequenceAndEpochInVerificationEntry
    """
    producers = Place().producers
    guard = producers.maybe_start_verification(1, 5, 0, supports_epoch_bump=False)

    assert producers.maybe_start_verification(1, 3, 0, supports_epoch_bump=True) == guard
    entry = producers.verification(1)
    assert entry is not None
    assert (entry.lowest_sequence, entry.supports_epoch_bump) == (3, False)
    assert producers.is_verified(1, guard)
    assert not producers.is_verified(1, GUARD_SENTINEL)
    assert not producers.is_verified(1, guard + 1)
    assert not producers.is_verified(2, guard)


@pytest.mark.parametrize("is_marker", [False, True])
@pytest.mark.parametrize("supports_epoch_bump", [False, True])
@pytest.mark.parametrize("epoch", [3, 4])
def test_a_verification_ends_with_a_batch_but_not_with_the_marker_before_it(
    epoch: int, *, supports_epoch_bump: bool, is_marker: bool
) -> None:
    """A client that raises its epoch may begin the next transaction before that marker is there."""
    producers = Place().producers
    producers.maybe_start_verification(1, 0, 3, supports_epoch_bump=supports_epoch_bump)

    producers.end_verification(2, epoch, is_marker=is_marker)
    assert producers.verification(1) is not None
    producers.end_verification(1, epoch, is_marker=is_marker)

    is_kept = is_marker and supports_epoch_bump and epoch == 3
    assert (producers.verification(1) is not None) == is_kept


def test_an_open_transaction_needs_no_verification() -> None:
    """The sentinel is returned; a stale epoch is refused at once."""
    place = Place()
    place.data(1, 0, transactional=True)

    begin = place.producers.maybe_start_verification
    assert begin(1, 1, 0, supports_epoch_bump=False) == GUARD_SENTINEL
    with pytest.raises(InvalidProducerEpoch):
        begin(1, 1, -1, supports_epoch_bump=False)


def test_old_verifications_expire() -> None:
    """A coordinator that never answered is not waited for.

    Scenario: ProducerStateManagerTest.testVerificationStateEntryExpiration
    """
    place = Place()
    place.producers.maybe_start_verification(1, 0, 0, supports_epoch_bump=False)

    place.producers.remove_expired(place.home.clock.now_ms() + 999)
    assert place.producers.verification(1) is not None

    place.producers.remove_expired(place.home.clock.now_ms() + 1000)
    assert place.producers.verification(1) is None


def test_a_late_transaction_is_known_after_reloads_and_cuts() -> None:
    """A reload keeps it; a truncation below its beginning, or of everything, forgets it.

    Scenario: ProducerStateManagerTest.testHasLateTransactionInitializedAfterReload,
    ProducerStateManagerTest.testHasLateTransactionUpdatedAfterFullTruncation,
    ProducerStateManagerTest.testHasLateTransactionUpdatedAfterPartialTruncation
    """
    late_ms = NOW_MS + 500 + 5 * 60 * 1000 + 1
    place = Place()
    place.data(1, 0)
    place.producers.take_snapshot()
    place.data(2, 1, transactional=True)
    place.producers.take_snapshot()
    again = place.load()

    again.truncate_and_reload(0, 2, NOW_MS)
    after_reload = again.has_late_transaction(late_ms)
    again.truncate_and_reload(0, 1, NOW_MS)
    after_cut = again.has_late_transaction(late_ms)
    place.producers.truncate_fully_and_start_at(0)

    assert (after_reload, after_cut) == (True, False)
    assert not place.producers.has_late_transaction(late_ms)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_snapshot_without_a_transaction_opens_none(*, is_empty: bool) -> None:
    """One that had ended by then, or that had no records, is no matter after a reload.

    Scenario: ProducerStateManagerTest.testRecoverFromSnapshotEmptyTransaction,
    ProducerStateManagerTest.testRecoverFromSnapshotFinishedTransaction
    """
    place = Place()
    if not is_empty:
        place.data(1, 0, transactional=True)
    place.marker(1, 1)
    place.producers.take_snapshot()

    again = place.load()
    again.truncate_and_reload(0, 2, NOW_MS)

    assert again.first_unstable_offset is None
    assert again.producers[1].txn_first_offset is None


def test_producers_in_a_transaction_do_not_expire() -> None:
    """However long it takes; others of the same age do.

    Scenario: ProducerStateManagerTest.testProducersWithOngoingTransactionsDontExpire
    """
    place = Place()
    place.data(1, 0)
    place.data(2, 1, transactional=True)

    place.producers.remove_expired(NOW_MS + 1000)

    assert list(place.producers.producers) == [2]


def test_an_abort_among_many_open_transactions_looks_at_few() -> None:
    """Its last stable offset is the first offset of the oldest other transaction."""
    place, lines = Place(), Lines()
    for producer_id in range(10_000):
        place.data(producer_id, producer_id, transactional=True)
    ended = [CompletedTxn(at, at, 20_000 + at, is_aborted=True) for at in (*range(100), 9_999)]

    with lines.counted():
        aborted = place.producers.aborted_by([], ended)

    assert [txn.last_stable_offset for txn in aborted] == [*range(1, 101), 100]
    assert lines.count < 5_000


def test_transactions_are_forgotten_together() -> None:
    """Those whose markers the high watermark has passed; the ones after them stay."""
    place = Place()
    for producer_id in range(50):
        place.data(producer_id, producer_id, transactional=True)
    for producer_id in range(50):
        place.marker(producer_id, 50 + producer_id)

    place.producers.on_high_watermark_updated(99)

    assert place.producers.first_unstable_offset == LogOffsetMetadata(49)
    place.producers.on_high_watermark_updated(100)
    assert place.producers.first_unstable_offset is None
