"""The periodic work: retention, flushing, checkpoints."""

from __future__ import annotations

import os
from errno import EIO, ENOSPC

import pytest
from tests.machinery.manager_home import MAX_AGE_MS, ManagerHome, fill

from tidelog.errors import OffsetOutOfRange

DELAY_MS = 30_000
RETENTION_MS = 300_000
WATERMARKS = "replication-offset-checkpoint"


def nothing() -> None:
    """Do nothing when it is called back."""


def test_tasks_have_kafkas_names() -> None:
    """Those for the high watermarks and for requests run at once, the others later."""
    home = ManagerHome()
    with home.open():
        assert home.scheduler.pending() == [
            "tidelog-disk-reserve",
            "tidelog-reopen-logs",
            "tidelog-load-logs-late",
            "tidelog-staged-commits",
            "tidelog-ready-commits",
            "tidelog-requests",
            "highwatermark-checkpoint",
            "kafka-log-retention",
            "kafka-log-flusher",
            "kafka-recovery-point-checkpoint",
            "kafka-log-start-offset-checkpoint",
            "kafka-delete-logs",
        ]


def test_expired_segments_go() -> None:
    """All but a new active one; the log continues, and its old records are out of range.

    Scenario: LogManagerTest.testCleanupExpiredSegments
    """
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 200)
        log = manager.partition("t", 0).log
        before = len(log.segments)
        home.clock.advance(MAX_AGE_MS + RETENTION_MS)
        home.clock.advance(log.config.file_delete_delay_ms)
        fill(manager, "t", 0, 1)

        assert (before > 1, len(log.segments), log.log_start_offset) == (True, 1, 200)
        assert [name for name in home.files("/data/t-0") if name.endswith(".deleted")] == []
        with pytest.raises(OffsetOutOfRange):
            log.read(0)


def test_segments_beyond_the_size_go() -> None:
    """As many as fit whole into the excess.

    Scenario: LogManagerTest.testCleanupSegmentsToMaintainSize
    """
    home = ManagerHome(retention_bytes=5 * 1024)
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 200)
        log = manager.partition("t", 0).log
        home.clock.advance(DELAY_MS)

        assert 5 * 1024 <= log.size_bytes < 6 * 1024


@pytest.mark.parametrize("policy", [("compact",), ("compact", "delete")])
def test_compacted_logs_are_the_cleaners_business(policy: tuple[str, ...]) -> None:
    """Retention leaves them alone.

    Scenario: LogManagerTest.testDoesntCleanLogsWithCompactPolicy,
    LogManagerTest.testDoesntCleanLogsWithCompactDeletePolicy
    """
    home = ManagerHome(cleanup_policy=policy)
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 100)
        log = manager.partition("t", 0).log
        before = len(log.segments)
        home.clock.advance(MAX_AGE_MS + RETENTION_MS)

        assert len(log.segments) == before > 1


def test_the_cleaner_takes_compacted_logs_when_it_is_on() -> None:
    """Retention and cleaner share the logs out."""
    home = ManagerHome(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    with home.open(log_cleaner_enable=True) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 100)
        log = manager.partition("t", 0).log
        home.clock.advance(DELAY_MS)
        keys = [record.key for record in log.records()]

        assert (len(keys) < 100, home.lines("cleaner-offset-checkpoint") != []) == (True, True)


def test_a_log_is_flushed_when_its_time_has_come() -> None:
    """By ``flush.ms`` since its last flush.

    Scenario: LogManagerTest.testTimeBasedFlush
    """
    home = ManagerHome(flush_ms=1000)
    with home.open(log_flush_scheduler_interval_ms=1000) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 5)
        log = manager.partition("t", 0).log
        before = log.recovery_point
        home.clock.advance(DELAY_MS)

        assert (before, log.recovery_point) == (0, 5)


def test_a_clock_that_is_set_back_does_not_put_off_flushes() -> None:
    """What ``flush.ms`` promises would not hold until the clock gets there again."""
    home = ManagerHome(flush_ms=1000)
    with home.open(log_flush_scheduler_interval_ms=1000) as manager:
        manager.create_topic("t")
        home.clock.set_time_of_day(home.clock.now_ms() - 10**9)
        fill(manager, "t", 0, 5)
        home.clock.advance(DELAY_MS)

        assert manager.partition("t", 0).log.recovery_point == 5


def test_recovery_points_are_written_for_every_directory() -> None:
    """Each file holds the logs of its own directory.

    Scenario: LogManagerTest.testCheckpointRecoveryPoints,
    LogManagerTest.testRecoveryDirectoryMappingWithTrailingSlash,
    LogManagerTest.testRecoveryDirectoryMappingWithRelativeDirectory
    """
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        fill(manager, "t", 0, 3)
        for log in manager.all_logs():
            log.flush()
        home.clock.advance(DELAY_MS)
        name = "recovery-point-offset-checkpoint"

        assert (home.lines(name, "/a"), home.lines(name, "/b")) == (["t 0 3"], ["t 1 0"])


def test_a_log_start_is_written_while_it_lies_within_a_segment() -> None:
    """Once the segments below it are deleted, their names imply it.

    Scenario: LogManagerTest.testCheckpointLogStartOffsetForNormalTopic
    """
    home = ManagerHome()
    name = "log-start-offset-checkpoint"
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 40)
        log = manager.partition("t", 0).log
        bases = log.segments.base_offsets
        log.delete_records(bases[1])
        manager._checkpointing.checkpoint_log_start_offsets()
        before = home.lines(name)
        log.delete_old_segments()
        manager._checkpointing.checkpoint_log_start_offsets()

        assert (before, home.lines(name)) == ([f"t 0 {bases[1]}"], [])


def test_high_watermarks_are_written_every_five_seconds() -> None:
    """Readers of other processes go by this file."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        home.clock.advance(0)
        fill(manager, "t", 0, 2)
        before = home.lines(WATERMARKS)
        home.clock.advance(5000)

        assert (before, home.lines(WATERMARKS)) == (["t 0 0"], ["t 0 2"])


def test_who_asks_for_high_watermarks_need_not_advance_the_clock() -> None:
    """A reader beside a broker whose clock a test moves would wait for a second else."""
    home = ManagerHome()
    answered: list[str] = []
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 2)
        manager.tasks.answer_mail(nothing, lambda: answered.extend(home.lines(WATERMARKS)))
    assert answered == ["t 0 2"]


def test_high_watermarks_are_written_down_before_logs_are_closed() -> None:
    """From then on nobody can ask for them, and thousands of logs take seconds to close."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 2)
        manager.stop_background()
        assert home.lines(WATERMARKS) == ["t 0 2"]


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline() -> None:
    """The others are written all the same."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        fill(manager, "t", 1, 2)
        path = "/a/replication-offset-checkpoint.tmp"
        home.fs.fail("sync", path, OSError(EIO, "the disk failed"))
        home.clock.advance(5000)

        assert manager.live_dirs == ["/b"]
        assert home.lines(WATERMARKS, "/b") == ["t 1 2"]


def test_a_checkpoint_that_fails_again_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """It is tried for each reader that asks, and on a full disk a log must not grow by that."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")

        def is_reported() -> bool:
            caplog.clear()
            fill(manager, "t", 0, 1)
            manager.tasks.answer_mail(nothing, nothing)
            return "checkpoint-failed" in caplog.text

        home.fs.fail("open", f"/data/{WATERMARKS}.tmp", OSError(ENOSPC, "full"), count=2)
        assert [is_reported() for _ in range(3)] == [True, False, False]
        home.fs.fail("open", f"/data/{WATERMARKS}.tmp", OSError(ENOSPC, "full"))
        assert is_reported()


def test_one_bad_log_does_not_stop_retention() -> None:
    """Other directories lose their old segments."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        fill(manager, "t", 0, 100)
        fill(manager, "t", 1, 100)
        other = manager.partition("t", 1).log
        home.clock.set_time_of_day(home.clock.now_ms() + MAX_AGE_MS + 1)
        first = "/a/t-0/00000000000000000000.log"
        home.fs.fail("rename", first, OSError(EIO, "the disk failed"))
        manager.tasks.cleanup_logs()

        assert (manager.live_dirs, other.log_start_offset) == (["/b"], 100)


def test_the_look_for_requests_builds_no_path_for_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It runs every second, and a directory may hold thousands of partitions."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 50)
        home.clock.advance(0)
        joined: list[str] = []
        join = os.path.join

        def counting(path: str, *names: str) -> str:
            joined.append(path)
            return join(path, *names)

        monkeypatch.setattr(os.path, "join", counting)
        manager.tasks.answer_requests()
        monkeypatch.undo()

        assert len(joined) < 10
