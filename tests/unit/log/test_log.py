"""A log as its users see it: watermark, start, retention, truncation, flush, close."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.config.log_config import LogConfig
from tidelog.errors import (
    InconsistentTopicId,
    InvalidArgument,
    KafkaStorageError,
    OffsetOutOfRange,
    PolicyViolation,
)
from tidelog.log.reading.offset_lookup import OffsetTarget, TimestampedOffset
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields


NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID("01234567-89ab-cdef-0123-456789abcdef")
DAY_MS = 24 * 60 * 60 * 1000


def batch(*values: bytes, time_ms: int = NOW_MS, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch with a record per value."""
    return build_batch([(time_ms, b"key", value, ()) for value in values], **fields)


def filled(batches: int = 3, records: int = 5, **settings: Any) -> tuple[LogHome, Log]:
    """Make a log of one batch in each segment."""
    size = len(batch(*[b"v"] * records))
    home = LogHome(internal_segment_bytes=size, **settings)
    log = home.open()
    for _ in range(batches):
        log.append_as_leader(batch(*[b"v"] * records))
    return home, log


def test_the_watermark_begins_at_the_log_start() -> None:
    """An opened log shows nothing until its owner raises the high watermark."""
    home, log = filled()
    log.update_high_watermark(8)
    log.close()

    assert home.open(log_start_offset=3).high_watermark == 3


def test_the_watermark_is_clamped_and_may_go_back() -> None:
    """It is set as its owner says, within the log.

    Scenario: UnifiedLogTest.testHighWatermarkMaintenance
    """
    _, log = filled(1, 3)

    assert [log.update_high_watermark(offset) for offset in (5, 2, 0, 3)] == [3, 2, 0, 3]
    with pytest.raises(InvalidArgument):
        log.update_high_watermark(-1)


def test_a_leader_only_raises_the_watermark() -> None:
    """A lower candidate changes nothing; one beyond the end is a mistake."""
    _, log = filled(1, 3)

    assert log.maybe_increment_high_watermark(LogOffsetMetadata(2)) == 0
    assert log.maybe_increment_high_watermark(LogOffsetMetadata(1)) is None
    assert log.high_watermark == 2
    with pytest.raises(InvalidArgument):
        log.maybe_increment_high_watermark(LogOffsetMetadata(4))


def test_the_same_watermark_on_a_newer_segment_is_news() -> None:
    """After a roll the end lies in a new segment, and the watermark follows there."""
    _, log = filled(1, 3)
    log.maybe_increment_high_watermark(LogOffsetMetadata(3, -1, 0))
    log.maybe_increment_high_watermark(log.log_end)
    log.roll()

    assert log.offset_snapshot().high_watermark == LogOffsetMetadata(3, 3, 0)


def test_a_follower_learns_whether_the_watermark_changed() -> None:
    """The new value is returned only if it is another.

    Scenario: UnifiedLogTest.testMaybeUpdateHighWatermarkAsFollower
    """
    _, log = filled(1, 3)

    assert [log.maybe_update_high_watermark(offset) for offset in (2, 2, 9)] == [2, None, 3]


@pytest.mark.parametrize(("start", "segments"), [(1, 3), (6, 2), (15, 1)])
def test_deleted_records_go_with_their_segments(start: int, segments: int) -> None:
    """Records below the new start are hidden at once; whole segments go with retention.

    Scenario: UnifiedLogTest.testLogDeletionAfterDeleteRecords
    """
    _, log = filled(retention_ms=-1)
    log.update_high_watermark(15)

    assert log.delete_records(start) == start
    log.delete_old_segments()

    assert len(log.segments) == segments
    assert [offset for offset, _ in all_values(log)] == list(range(start, 15))


def test_records_above_the_watermark_cannot_be_deleted() -> None:
    """The log start stays within what readers see; -1 stands for the watermark.

    Scenario: UnifiedLogTest.testCannotIncrementLogStartOffsetPastHighWatermark
    """
    _, log = filled()
    log.update_high_watermark(7)

    with pytest.raises(OffsetOutOfRange):
        log.delete_records(8)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(-2)
    assert log.delete_records(-1) == 7


def test_a_compacted_log_keeps_its_records() -> None:
    """Deleting records needs the delete policy, or none at all."""
    _, log = filled(cleanup_policy=("compact",))
    with pytest.raises(PolicyViolation):
        log.delete_records(0)
    log.update_config(LogConfig(cleanup_policy=()))
    assert log.delete_records(0) == 0


def test_expired_segments_go_and_the_start_moves() -> None:
    """When even the active segment is too old, a new one is begun in its place.

    Scenario: UnifiedLogTest.testDeleteOldSegments
    """
    home, log = filled(retention_ms=DAY_MS)
    log.update_high_watermark(15)
    home.clock.advance(DAY_MS + 1)

    assert log.delete_old_segments() == 3
    assert (log.log_start_offset, log.segments.base_offsets) == (15, [15])


def test_deleted_files_keep_their_names_for_a_while() -> None:
    """Files are renamed at once and deleted after ``file.delete.delay.ms``.

    Scenario: UnifiedLogTest.testAsyncDelete
    """
    home, log = filled(file_delete_delay_ms=1000)
    log.update_high_watermark(15)
    log.delete_records(10)
    log.delete_old_segments()
    home.clock.advance(999)
    before = home.files(".log.deleted")

    home.clock.advance(1)

    assert len(before) == 2
    assert home.files(".deleted") == []


def test_retention_by_size_keeps_at_least_the_limit() -> None:
    """Oldest segments go while more than the limit would stay.

    Scenario: UnifiedLogTest.shouldDeleteSizeBasedSegments
    """
    size = len(batch(*[b"v"] * 5))
    _, log = filled(5, retention_bytes=2 * size + 1, retention_ms=-1)
    log.update_high_watermark(25)

    assert log.delete_old_segments() == 2


def test_truncation_cuts_segments_epochs_and_watermark() -> None:
    """All that is known of the offsets cut is forgotten.

    Scenario: UnifiedLogTest.shouldTruncateLeaderEpochCheckpointFileWhenTruncatingLog,
    UnifiedLogTest.testTruncateTo
    """
    _, log = filled()
    log.append_as_leader(batch(b"last"), leader_epoch=5)
    log.update_high_watermark(16)

    assert log.truncate_to(10)
    assert (log.log_end_offset, log.high_watermark, log.latest_epoch) == (10, 10, 0)
    assert len(all_values(log)) == 10
    assert not log.truncate_to(10)


def test_truncation_below_everything_starts_over() -> None:
    """Below the first segment there is nothing to keep."""
    _, log = filled()
    log.truncate_fully_and_start_at(40)
    log.append_as_leader(batch(b"a"))

    assert log.truncate_to(30)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (30, 30, 30)


def test_truncation_below_the_start_of_the_log_leaves_it_empty() -> None:
    """The start lies inside of a segment: no batch from there on is left to be replayed."""
    log = LogHome().open()
    for _ in range(3):
        log.append_as_leader(batch(*[b"v"] * 5))
    log.update_high_watermark(15)
    log.delete_records(7)

    assert log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 2, 2)
    assert all_values(log) == []


def test_full_truncation_moves_every_offset() -> None:
    """Start, watermark and end are the offset given, or the start another one.

    Scenario: LeaderEpochFileCacheTest.shouldClearAllEntries,
    UnifiedLogTest.testTruncateFullyAndStart
    """
    _, log = filled(1, 3)
    log.update_high_watermark(3)

    log.truncate_fully_and_start_at(4)

    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 4, 4)
    assert log.epochs.entries == ()


def test_a_roll_flushes_what_came_before_in_background() -> None:
    """The recovery point reaches the new segment's base when the task has run."""
    home, log = filled(1, 3)
    log.roll()
    before = log.recovery_point

    home.clock.advance(0)

    assert (before, log.recovery_point) == (0, 3)


def test_after_a_failed_fsync_nothing_counts_as_flushed() -> None:
    """The recovery point stays, and the directory goes offline: also when the disk is just full."""
    home, log = filled(1, 3)
    home.fs.fail("sync", ".log", OSError(errno.ENOSPC, "full"))

    with pytest.raises(KafkaStorageError):
        log.flush()
    with pytest.raises(KafkaStorageError):
        log.flush()
    assert log.recovery_point == 0
    assert len(home.failures) == 1


def test_a_snapshot_that_cannot_be_synced_stops_the_recovery_point() -> None:
    """Recovery would begin at a segment whose producer state is lost.

    Scenario: UnifiedLogTest.testRecoveryPointNotIncrementedOnProducerStateSnapshotFlushFailure
    """
    home, log = filled(1, 3)
    log.roll()
    home.fs.fail("sync", ".snapshot", OSError(errno.EIO, "broken"))

    with pytest.raises(KafkaStorageError):
        home.clock.advance(0)

    assert log.recovery_point == 0


def test_the_topic_id_is_on_disk_before_the_first_record() -> None:
    """An append writes the id if the background task has not yet.

    Scenario: UnifiedLogTest.testLogFlushesPartitionMetadataOnAppend
    """
    home = LogHome()
    log = home.open(topic_id=TOPIC_ID)
    before = home.files("metadata")

    log.append_as_leader(batch(b"a"))

    assert (before, home.files("metadata")) == ([], ["partition.metadata"])
    assert home.open().topic_id == TOPIC_ID


def test_another_topic_id_is_refused() -> None:
    """A directory belongs to one topic for good.

    Scenario: UnifiedLogTest.testLogFailsWhenInconsistentTopicIdSet
    """
    home = LogHome()
    home.open(topic_id=TOPIC_ID).close()
    home.clock.advance(0)

    with pytest.raises(InconsistentTopicId):
        home.open(topic_id=UUID(int=77))


def test_a_lookup_by_time_passes_over_what_waits_for_its_deletion() -> None:
    """A deletion of records raises the recovery point: what lies below may never be flushed."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(batch(b"deleted"))
    log.roll()
    log.append_as_leader(batch(b"kept"))
    log.update_high_watermark(2)
    point = log.delete_records(1)
    home.restart()
    home.write(f"{0:020d}.log", home.read(f"{0:020d}.log")[:-1])

    log = home.open(clean=False, log_start_offset=1, recovery_point=point)
    found = log.fetch_offset_by_timestamp(NOW_MS)

    assert found is not None
    assert found.offset == 1


def test_offsets_are_found_by_time() -> None:
    """The first record at or after a time, and the special targets.

    Scenario: UnifiedLogTest.testFetchOffsetByTimestampIncludesLeaderEpoch,
    UnifiedLogTest.testFetchOffsetByTimestampWithMaxTimestampIncludesTimestamp
    """
    log = LogHome().open()
    for number in range(3):
        log.append_as_leader(batch(b"a", b"b", time_ms=NOW_MS + 10 * number))

    found = [log.fetch_offset_by_timestamp(NOW_MS + ms) for ms in (-5, 0, 1, 20)]
    assert [entry and entry.offset for entry in found] == [0, 0, 2, 4]
    assert log.fetch_offset_by_timestamp(NOW_MS + 21) is None
    assert log.fetch_offset_by_timestamp(OffsetTarget.EARLIEST) == TimestampedOffset(-1, 0, 0)
    assert log.fetch_offset_by_timestamp(OffsetTarget.LATEST) == TimestampedOffset(-1, 6, 0)
    greatest = log.fetch_offset_by_timestamp(OffsetTarget.MAX_TIMESTAMP)
    assert greatest == TimestampedOffset(NOW_MS + 20, 4, 0)


def test_a_renamed_log_goes_on_under_its_new_name() -> None:
    """Segments, snapshots and epochs follow the directory."""
    home, log = filled()
    log.rename_directory("flights-0.0123456789abcdef0123456789abcdef-future")
    home.directory = log.directory

    log.append_as_leader(batch(b"after"), leader_epoch=3)
    log.close()

    assert all_values(home.open())[-1] == (15, b"after")
    assert home.fs.list("/data") == ["flights-0.0123456789abcdef0123456789abcdef-future"]


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_log_that_could_not_be_renamed_durably_goes_on_under_its_name(*, goes_on: bool) -> None:
    """No descriptor was left for the sync, which says nothing about the disk."""
    home, log = filled()
    home.fs.fail("sync_directory", "/data", OSError(errno.EMFILE, "too many open files"))
    with pytest.raises(KafkaStorageError, match="renaming the log"):
        log.rename_directory("flights-0.0123456789abcdef0123456789abcdef-future", goes_on=goes_on)

    assert (log.directory, log.is_offline, home.failures) == (home.directory, False, [])
    assert home.fs.list("/data") == ["flights-0"]
    log.append_as_leader(batch(b"after"), leader_epoch=3)
    log.close()
    assert all_values(home.open())[-1] == (15, b"after")


def test_a_deleted_log_leaves_nothing() -> None:
    """All files are deleted at once, and the directory with them."""
    home, log = filled()

    log.delete()
    home.clock.advance(0)

    assert home.fs.list("/data") == []


def test_producers_are_forgotten_when_they_are_silent() -> None:
    """A task looks now and then; age counts from the last record's own time.

    Scenario: UnifiedLogTest.testPeriodicProducerIdExpiration
    """
    home = LogHome()
    log = home.open()
    log.append_as_leader(batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0))
    home.clock.advance(DAY_MS - 1)
    before = set(log.producers.producers)

    home.clock.advance(600_000)

    assert (before, log.producers.producers) == ({1}, {})


def test_closing_on_a_failed_disk_lets_go_and_says_so() -> None:
    """Nothing more is written, and the owner must not take the directory for clean."""
    home, log = filled(1, 3)
    home.fs.fail("sync", ".log", OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaStorageError):
        log.flush()
    before = len(home.fs.operations)

    with pytest.raises(KafkaStorageError):
        log.close()
    log.close()

    assert len(home.fs.operations) == before


def test_segments_that_cannot_be_renamed_stay_and_are_deleted_by_the_next_pass() -> None:
    """On a full disk retention deletes what it can, and forgets nothing of the rest."""
    home, log = filled(batches=4)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(15)
    home.fs.fail("rename", "05.timeindex", OSError(errno.ENOSPC, "full"))
    with pytest.raises(KafkaStorageError):
        log.delete_old_segments()
    left = log.segments.base_offsets

    deleted = log.delete_old_segments()

    assert (left, deleted, log.segments.base_offsets) == ([5, 10, 15], 2, [15])
    home.clock.advance(60_000)
    assert home.files(".deleted") == []
    assert home.files(".log") == [f"{15:020}.log"]


def test_retention_does_not_need_room_for_a_new_segment() -> None:
    """Where the disk is full the active segment stays, and the others are deleted."""
    home, log = filled(batches=3, retention_ms=1000)
    log.update_high_watermark(log.log_end_offset)
    home.clock.advance(100_000)
    home.fs.set_free_bytes(0)
    home.fs.fail("open", "15.log", OSError(errno.ENOSPC, "full"))

    deleted = log.delete_old_segments(NOW_MS + 100_000)

    assert (deleted, log.segments.base_offsets) == (2, [10])
    assert log.delete_old_segments(NOW_MS + 100_000) == 1


def test_a_deletion_above_the_high_watermark_says_what_the_log_holds() -> None:
    """The log holds the offset; that readers may not see it yet is the reason."""
    _, log = filled()
    log.update_high_watermark(4)

    for delete in (log.delete_records, log.maybe_increment_log_start_offset):
        with pytest.raises(OffsetOutOfRange, match=r"up to 4, the high .* holds \[0, 15\]"):
            delete(6)
    log.update_high_watermark(15)
    with pytest.raises(OffsetOutOfRange, match=r"out of range: the log holds \[0, 15\]"):
        log.delete_records(16)
