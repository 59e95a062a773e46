"""Files of a log through its life: rolls, deletions, epochs, topic id, renames, old batches."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

import pytest
from tests.machinery.log_home import LogHome, all_records, all_values
from tests.machinery.old_batches import build_old

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvariantError, KafkaStorageError
from tidelog.log.leader_epoch import EpochEntry
from tidelog.log.reading.offset_lookup import OffsetTarget
from tidelog.log.topic_id import read_partition_metadata
from tidelog.records.isolation import Isolation
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields
    from tidelog.segment.segment import LogSegment
    from tidelog.testing.crash_files import CrashFileSystem

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID("01234567-89ab-cdef-0123-456789abcdef")
EPOCHS = "leader-epoch-checkpoint"


def batch(*values: bytes | None, time_ms: int = NOW_MS, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch with a record per value."""
    return build_batch([(time_ms, b"key", value, ()) for value in values], **fields)


SIZE = len(batch(b"v"))


def filled(count: int = 4, **settings: Any) -> tuple[LogHome, Log]:
    """Make a log of one record in each segment, each of an epoch of its own."""
    home = LogHome(internal_segment_bytes=SIZE, **settings)
    log = home.open()
    for number in range(count):
        log.append_as_leader(batch(b"v"), leader_epoch=number)
    log.update_high_watermark(count)
    return home, log


def test_a_segment_that_exists_is_rolled_over_only_while_empty() -> None:
    """Else offsets would be in two files.

    Scenario: UnifiedLogTest.testRollSegmentThatAlreadyExists
    """
    home = LogHome()
    log = home.open()

    log.roll()
    log.append_as_leader(batch(b"v"))

    assert log.segments.base_offsets == [0]
    log.roll()
    with pytest.raises(InvariantError):
        log._state.local.roll(0, recovery_point=0)
    assert all_values(log) == [(0, b"v")]
    assert home.failures == []


class InterruptingFiles:
    """A disk that does something else before it syncs a file for the first time."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self.before_sync: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, mode: str = "r") -> Any:
        """Open a file whose ``sync`` may be interrupted."""
        return _InterruptedFile(self._fs.open(path, mode), self)


class _InterruptedFile:
    def __init__(self, file: Any, owner: InterruptingFiles) -> None:
        self._file = file
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def hold(self) -> Any:
        self._file.hold()
        return self

    def sync(self) -> None:
        before, self._owner.before_sync = self._owner.before_sync, None
        if before is not None:
            before()
        self._file.sync()


def test_a_flush_in_background_ends_quietly_when_the_log_is_closed_meanwhile() -> None:
    """Closing makes all durable; nothing has failed."""
    home = LogHome()
    files = InterruptingFiles(home.fs)
    log = home.open(fs=files)
    log.append_as_leader(batch(b"v"))
    log.roll()
    files.before_sync = log.close

    home.clock.advance(0)

    assert files.before_sync is None
    assert home.failures == []
    assert all_values(home.open()) == [(0, b"v")]


def test_a_log_whose_handlers_are_closed_cannot_roll() -> None:
    """Nor be changed in any other way.

    Scenario: UnifiedLogTest.testLogRollAfterLogHandlerClosed
    """
    log = LogHome().open()
    log.close_handlers()

    with pytest.raises(KafkaStorageError):
        log.roll()


def test_a_forced_flush_reaches_an_empty_active_segment() -> None:
    """Its index files are made; without force they are not.

    Scenario: UnifiedLogTest.testFlushingEmptyActiveSegments
    """
    home = LogHome()
    log = home.open()
    log.append_as_leader(batch(b"v"))
    log.roll()

    log.flush()
    before = f"{1:020d}.index" in home.files()
    log.flush(force=True)

    assert (before, f"{1:020d}.index" in home.files()) == (False, True)
    assert log.recovery_point == 1


def test_segments_are_found_by_offsets() -> None:
    """Those that overlap a range, end exclusive, and those from an offset on.

    Scenario: UnifiedLogTest.testLogSegmentsCallCorrect
    """
    segments = filled()[1].segments

    def bases(found: tuple[LogSegment, ...]) -> list[int]:
        return [segment.base_offset for segment in found]

    assert bases(segments.overlapping(1, 3)) == [1, 2]
    assert bases(segments.overlapping(2, 2)) == []
    assert bases(segments.overlapping(0, 99)) == [0, 1, 2, 3]
    assert bases(segments.from_floor(2)) == [2, 3]


def test_deleting_segments_changes_no_offset_at_the_end() -> None:
    """Appends continue where they were, also after a restart.

    Scenario: UnifiedLogTest.testThatGarbageCollectingSegmentsDoesntChangeOffset
    """
    home, log = filled(retention_bytes=0)

    log.delete_old_segments()
    ends = [log.log_end_offset]
    log.close()
    log = home.open(log_start_offset=log.log_start_offset)

    assert [*ends, log.log_end_offset] == [4, 4]
    assert log.append_as_leader(batch(b"v")).first_offset == 4


def test_a_followers_batch_may_be_larger_than_its_own_limit() -> None:
    """The leader has accepted it.

    Scenario: UnifiedLogTest.testMessageSizeCheckInAppendAsFollower
    """
    log = LogHome(max_message_bytes=SIZE - 1).open()

    log.append_as_follower(batch(b"v", leader_epoch=0), 0)

    assert log.log_end_offset == 1


def test_a_topic_id_is_kept_and_found_again() -> None:
    """Closing writes it, if nothing did before.

    Scenario: UnifiedLogTest.testLogFlushesPartitionMetadataOnClose,
    UnifiedLogTest.testLogRecoversTopicId
    """
    home = LogHome()
    home.open(topic_id=TOPIC_ID).close()

    assert home.open().topic_id == TOPIC_ID


def test_a_renamed_log_takes_epochs_and_topic_id_along() -> None:
    """They are written to the new directory from then on.

    Scenario: UnifiedLogTest.testWriteLeaderEpochCheckpointAfterDirectoryRename,
    UnifiedLogTest.testTopicIdTransfersAfterDirectoryRename,
    UnifiedLogTest.testTopicIdFlushesBeforeDirectoryRename
    """
    home = LogHome()
    log = home.open(topic_id=TOPIC_ID)
    log.append_as_leader(batch(b"v"), leader_epoch=5)

    log.rename_directory("flights-0.renamed-future")
    log.append_as_leader(batch(b"v"), leader_epoch=6)
    home.directory = log.directory

    assert [tuple(entry) for entry in log.epochs.entries] == [(5, 0), (6, 1)]
    assert home.read(EPOCHS).endswith(b"5 0\n6 1\n")
    path = f"{home.directory}/partition.metadata"
    assert read_partition_metadata(home.fs, path) == TOPIC_ID


@pytest.mark.parametrize("end", ["close", "close_handlers", "delete"])
def test_a_log_lets_go_of_files_that_wait_for_deletion(tmp_path: Path, end: str) -> None:
    """A process that ends before their time leaves them on the disk, but holds none open."""
    home, fs = LogHome(internal_segment_bytes=SIZE), SYSTEM_FILES
    home.directory = str(tmp_path / "flights-0")
    log = home.open(fs=fs)
    for _ in range(3):
        log.append_as_leader(batch(b"v"))
    log.truncate_to(0)
    assert any(name.endswith(".log.deleted") for name in fs.list(home.directory))

    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always", ResourceWarning)
        getattr(log, end)()
        home.scheduler.forget()
        del log, home
        gc.collect()

    assert unclosed == []


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot"])
def test_a_copy_that_takes_its_place_leaves_no_file_that_waits(
    monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Its directory is renamed between the name of a file and its deletion, on another thread."""
    home = LogHome(internal_segment_bytes=SIZE)
    home.directory = f"/data/flights-0.{'0' * 32}-future"
    log = home.open()
    for _ in range(3):
        log.append_as_leader(batch(b"v"))
    log.truncate_to(0)
    delete = type(home.fs).delete

    def renamed_before(fs: CrashFileSystem, path: str) -> None:
        if path.endswith(f"{suffix}.deleted"):
            log.rename_directory("flights-0")
        delete(fs, path)

    with monkeypatch.context() as patched:
        patched.setattr(type(home.fs), "delete", renamed_before)
        home.clock.advance(60_000)
    home.directory = log.directory

    assert log.directory == "/data/flights-0"
    assert home.files(".deleted") == []


def test_a_log_renamed_to_be_deleted_forgets_its_epochs() -> None:
    """So that nothing writes them again.

    Scenario: UnifiedLogTest.testRenamingDirWithoutReinitialization
    """
    log = filled()[1]

    log.rename_directory("flights-0.0123456789abcdef0123456789abcdef-delete", goes_on=False)

    assert log.epochs.entries == ()


def test_a_closed_log_can_be_deleted() -> None:
    """Segments, epochs and directory go; the expiry of producers is not asked for again.

    Scenario: UnifiedLogTest.testLogDeletionAfterClose,
    UnifiedLogTest.testProducerExpireCheckAfterDelete
    """
    home, log = filled()
    log.close()

    log.delete()

    assert not home.fs.exists(home.directory)
    assert log.epochs.entries == ()
    assert "PeriodicProducerExpirationCheck" not in home.scheduler.pending()


def test_followers_index_times_too() -> None:
    """As leaders do.

    Scenario: UnifiedLogTest.testBuildTimeIndexWhenNotAssigningOffsets
    """
    log = LogHome(index_interval_bytes=0).open()
    for offset in range(10):
        data = batch(b"v", time_ms=NOW_MS + offset, base_offset=offset, leader_epoch=0)
        log.append_as_follower(data, 0)

    assert log.segments.active.time_index.entry_count == 9


def test_without_tiers_there_is_no_tiered_offset() -> None:
    """Nor one that waits to be uploaded.

    Scenario: UnifiedLogTest.testFetchLatestTieredTimestampNoRemoteStorage
    """
    log = filled()[1]

    for target in (OffsetTarget.LATEST_TIERED, OffsetTarget.EARLIEST_PENDING_UPLOAD):
        found = log.fetch_offset_by_timestamp(target)
        assert found is not None
        assert found[:2] == (-1, -1)


def test_values_may_be_null_and_times_missing() -> None:
    """Both are read as they were written.

    Scenario: UnifiedLogTest.testAppendMessageWithNullPayload,
    UnifiedLogTest.testAppendWithNoTimestamp
    """
    log = LogHome().open()

    log.append_as_leader(batch(None, time_ms=-1))

    (record,) = all_records(log)
    assert (record.value, record.timestamp) == (None, -1)


def test_an_empty_log_takes_nothing_below_its_start() -> None:
    """A follower that starts over truncates first.

    Scenario: UnifiedLogTest.testAppendEmptyLogBelowLogStartOffsetThrowsException
    """
    log = LogHome().open(log_start_offset=7)

    with pytest.raises(Exception, match="7"):
        log.append_as_follower(batch(b"v", base_offset=3, leader_epoch=0), 0)

    assert log.log_end_offset == 7


def test_a_batch_without_epochs_makes_them_unknown() -> None:
    """One of magic 1, from an old leader, clears the cache.

    Scenario: UnifiedLogTest.testLeaderEpochCacheClearedAfterDowngradeInAppendedMessages
    """
    home, log = filled(1)
    old = bytearray(build_old(1, [(NOW_MS, b"key", b"v")]))
    old[:8] = (1).to_bytes(8, "big")

    log.append_as_follower(bytes(old), 0)

    assert log.epochs.entries == ()
    assert home.read(EPOCHS) == b"0\n0\n"


@pytest.mark.parametrize(
    ("policy", "kept"), [(("compact",), [1, 2, 3]), (("compact", "delete"), [4]), ((), [1, 2, 3])]
)
def test_without_the_delete_policy_only_the_log_start_deletes(
    policy: tuple[str, ...], kept: list[int]
) -> None:
    """Size and age do not count then.

    Scenario: UnifiedLogTest.shouldNotDeleteSegmentsWhenPolicyDoesNotIncludeDelete,
    UnifiedLogTest.shouldDeleteSegmentsReadyToBeDeletedWhenCleanupPolicyIsCompactAndDelete,
    UnifiedLogTest.shouldDeleteStartOffsetBreachedSegmentsWhenPolicyDoesNotIncludeDelete
    """
    log = filled(retention_bytes=0, retention_ms=0, cleanup_policy=policy)[1]
    log.maybe_increment_log_start_offset(1)

    log.delete_old_segments()

    assert log.segments.base_offsets == kept


def test_deleting_segments_cuts_the_epochs_at_the_start() -> None:
    """Epochs that lie below go; the one that covers the new start begins there.

    Scenario: UnifiedLogTest.shouldTruncateLeaderEpochsWhenDeletingSegments,
    UnifiedLogTest.shouldUpdateOffsetForLeaderEpochsWhenDeletingSegments
    """
    size = 2 * SIZE
    home = LogHome(internal_segment_bytes=size, retention_bytes=size)
    log = home.open()
    for epoch in (0, 1, 1, 1, 2):
        log.append_as_leader(batch(b"v"), leader_epoch=epoch)
    log.update_high_watermark(5)

    log.delete_old_segments()

    assert log.log_start_offset == 2
    assert log.epochs.entries == (EpochEntry(1, 2), EpochEntry(2, 4))


def test_truncating_at_the_end_drops_epochs_that_begin_there() -> None:
    """An epoch without records does not outlive it.

    Scenario: UnifiedLogTest.testTruncateToEndOffsetClearsEpochCache
    """
    log = filled(2)[1]
    log.maybe_assign_epoch(9, 2)

    assert log.truncate_to(2) is False

    assert log.epochs.latest_epoch == 1


def test_offsets_are_one_value() -> None:
    """Start, watermark, stable offset and end, with places, belong together at any moment.

    Scenario: UnifiedLogTest.testOffsetSnapshot, UnifiedLogTest.testActiveProducers
    """
    log = filled()[1]
    log.append_as_leader(batch(b"v", producer_id=5, producer_epoch=1, base_sequence=0))

    offsets = log._state.offsets

    assert (offsets.log_start_offset, offsets.high_watermark, offsets.log_end_offset) == (0, 4, 5)
    assert offsets.last_stable == offsets.high_watermark_metadata
    assert log.producers.producers[5].last_timestamp == NOW_MS
    assert log.read(4, isolation=Isolation.READ_UNCOMMITTED).slice is None
