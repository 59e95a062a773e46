"""Which partition is cleaned next, which is paused, and how far each has been cleaned."""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.cleaning import CleanerHome

from tidelog.cleaner.cleaner_manager import LogCleanerManager
from tidelog.cleaner.states import IDLE, CleaningState, Phase
from tidelog.codec.checkpoint_file import read_checkpoint, write_checkpoint
from tidelog.errors import CleaningAborted, InvalidArgument, KafkaStorageError
from tidelog.log.segments import SegmentTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.env.files import OpenFile, OpenMode
    from tidelog.log.log import Log
    from tidelog.testing import CrashFileSystem

ONE, TWO = ("flights", 0), ("flights", 1)
PATH = "/data/cleaner-offset-checkpoint"


class Place:
    """Logs of one data directory and their manager; ``dirty`` is how many of 4 segments are."""

    def __init__(self, *dirty: int, **settings: Any) -> None:
        self.home = CleanerHome(**{"min_cleanable_dirty_ratio": 0.1, **settings})
        self.logs: dict[tuple[str, int], Log] = {}
        self.sleeps: list[int] = []
        self.on_sleep: Callable[[], object] = lambda: None
        self.manager = LogCleanerManager(
            lambda: self.logs, fs=self.home.fs, clock=self.home.clock, sleep_ms=self._sleep
        )
        for number, _ in enumerate(dirty):
            self.home.directory = f"/data/flights-{number}"
            self.home.fs.make_directory(self.home.directory)
            log = self.logs["flights", number] = self.home.open()
            for _ in range(4):
                self.home.append(log, ("a", "v"))
                log.roll()
        self.checkpoint({("flights", n): 4 - count for n, count in enumerate(dirty)})

    def _sleep(self, ms: int) -> None:
        self.sleeps.append(ms)
        self.home.clock.advance(ms)
        self.on_sleep()

    def checkpoint(self, lines: dict[tuple[str, int], int]) -> None:
        write_checkpoint(self.home.fs, PATH, lines)

    def lines(self) -> dict[tuple[str, int], int]:
        return read_checkpoint(self.home.fs, PATH)

    def grab(self) -> tuple[str, int] | None:
        grabbed = self.manager.grab_filthiest(self.home.clock.now_ms())
        return None if grabbed is None else grabbed.key

    def close(self) -> None:
        for log in self.logs.values():
            log.close()


@pytest.fixture
def place() -> Iterator[Place]:
    """Give two logs, the second dirtier."""
    made = Place(1, 3)
    yield made
    made.close()


def test_the_dirtiest_log_is_chosen(place: Place) -> None:
    """Of all eligible logs the one with the greatest dirty ratio is chosen, then the next.

    Scenario: LogCleanerManagerTest.testGrabFilthiestCompactedLogReturnsLogWithDirtiestRatio,
    LogCleanerManagerTest.testGrabFilthiestCompactedLogIgnoresInProgressPartitions
    """
    assert [place.grab(), place.grab(), place.grab()] == [TWO, ONE, None]
    assert place.manager.state(TWO).phase is Phase.IN_PROGRESS
    assert place.manager.max_dirty_ratio == 0.0


def change_before_begin(
    place: Place, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]
) -> None:
    """Let ``change`` happen once all logs are examined and none is in progress yet."""
    begin = place.manager.maybe_begin

    def changed_first(key: tuple[str, int]) -> bool:
        monkeypatch.setattr(place.manager, "maybe_begin", begin)
        change()
        return begin(key)

    monkeypatch.setattr(place.manager, "maybe_begin", changed_first)


def test_a_log_truncated_while_it_is_chosen_is_examined_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its active segment could be cleaned, and replaced while it is appended to."""
    log = place.logs[TWO]

    def truncate() -> None:
        place.manager.abort_and_pause(TWO)
        place.manager.maybe_truncate_checkpoint(TWO, log, 2)
        log.truncate_to(3)
        place.manager.resume([TWO])

    change_before_begin(place, monkeypatch, truncate)
    grabbed = place.manager.grab_filthiest(place.home.clock.now_ms())

    assert grabbed is not None
    assert grabbed.key == TWO
    assert grabbed.to_clean.offsets == (1, log.segments.active.base_offset)
    assert log.log_end_offset == 3


def test_an_interrupt_while_a_cleaning_is_awaited_undoes_all_pauses(place: Place) -> None:
    """Else the partitions would never be cleaned again; the cleaning that runs is aborted."""
    manager = place.manager
    assert manager.maybe_begin(TWO)

    def interrupt() -> None:
        raise KeyboardInterrupt

    place.on_sleep = interrupt
    with pytest.raises(KeyboardInterrupt):
        manager.abort_and_pause(ONE, TWO)

    assert manager.state(ONE) == IDLE
    with pytest.raises(CleaningAborted):
        manager.check(TWO)
    manager.done(TWO)
    assert manager.state(TWO) == IDLE


@pytest.mark.parametrize("change", ["policy", "deleted", "clean"])
def test_a_log_that_is_no_longer_to_be_cleaned_is_passed_over(
    place: Place, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """It is free afterwards, and the next one is chosen."""

    def make() -> None:
        if change == "policy":
            log = place.logs[TWO]
            log.update_config(replace(log.config, cleanup_policy=("delete",)))
        elif change == "deleted":
            place.logs.pop(TWO).close()
        else:
            place.checkpoint({ONE: 3, TWO: 4})

    change_before_begin(place, monkeypatch, make)

    assert place.grab() == ONE
    assert place.manager.state(TWO) == IDLE


def test_a_log_that_cannot_be_examined_anew_has_failed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in progress, and its retry is due later."""

    def fail(*_: object) -> None:
        raise ValueError("bad")

    monkeypatch.setattr(place.manager, "checkpoint", fail)

    assert place.grab() is None
    assert place.manager.state(TWO) == IDLE
    assert place.manager.failures()[TWO].error == "ValueError: bad"


def test_failed_partitions_are_left_alone_until_they_are_due(place: Place) -> None:
    """A partition whose cleaning failed is not chosen before its retry is due.

    Scenario: LogCleanerManagerTest.testGrabFilthiestCompactedLogIgnoresUncleanablePartitions,
    LogCleanerManagerTest.
    testGrabFilthiestCompactedLogIgnoresBothInProgressPartitionsAndUncleanablePartitions,
    LogCleanerManagerTest.testLogsWithSegmentsToDeleteShouldNotConsiderUncleanablePartitions
    """
    now_ms = place.home.clock.now_ms()
    place.manager.mark_uncleanable(TWO, ValueError("bad"), now_ms)
    chosen = [place.grab(), place.grab()]
    place.manager.done(ONE)
    deletable = [key for key, _ in place.manager.grab_deletable()]

    place.home.clock.advance(60_000)

    assert chosen == [ONE, None]
    assert deletable == [ONE]
    assert place.grab() == TWO
    assert place.manager.failures()[TWO].error == "ValueError: bad"


def test_a_change_of_settings_retries_at_once(place: Place) -> None:
    """After a change of its settings a failed partition is cleaned without waiting.

    The failure is reported until it has been cleaned.
    """
    place.manager.mark_uncleanable(TWO, ValueError("bad"), place.home.clock.now_ms())

    place.manager.retry(TWO)

    assert place.grab() == TWO
    assert list(place.manager.failures()) == [TWO]


def test_failures_of_an_earlier_process_are_loaded_and_retried_at_once(place: Place) -> None:
    """They are read from the directory's file, except those of deleted partitions."""
    now_ms = place.home.clock.now_ms()
    place.manager.mark_uncleanable(TWO, ValueError("bad"), now_ms)
    again = LogCleanerManager(
        lambda: place.logs,
        fs=place.home.fs,
        clock=place.home.clock,
        sleep_ms=place.home.clock.advance,
    )

    again.load_failures()

    assert {key: failed.error for key, failed in again.failures().items()} == {
        TWO: "ValueError: bad"
    }
    assert again.failures()[TWO].is_due(now_ms)


def test_a_log_that_cannot_be_examined_counts_as_failed(place: Place) -> None:
    """An error while a log is examined ends this pass; the next one takes another log.

    Scenario: LogCleanerManagerTest.testGrabFilthiestCompactedLogThrowsException
    """
    segments = place.logs[TWO].segments
    whole, segments.all = segments.all, SegmentTuple()

    assert [place.grab(), place.grab()] == [None, ONE]
    assert list(place.manager.failures()) == [TWO]
    segments.all = whole


def test_logs_below_the_ratio_are_not_chosen() -> None:
    """A log is chosen only above min.cleanable.dirty.ratio."""
    place = Place(2, min_cleanable_dirty_ratio=0.5)

    assert place.grab() is None
    place.close()


def test_a_checkpoint_outside_of_its_log_is_set_right() -> None:
    """Its line is replaced by the log start offset, also if the log is not chosen.

    Scenario: LogCleanerManagerTest.testCheckpointUpdatedForInvalidOffsetNoCleaning,
    LogCleanerManagerTest.testCheckpointUpdatedForInvalidOffsetNotSelected
    """
    place = Place(0, 3, cleanup_policy=("compact", "delete"))
    place.logs[ONE].maybe_increment_log_start_offset(3)
    place.checkpoint({ONE: 2, TWO: 1})

    assert place.grab() == TWO
    assert place.lines()[ONE] == 3
    place.close()


def test_only_compacted_logs_are_deletable_here(place: Place) -> None:
    """The cleaner deletes old segments of compacted logs only.

    Scenario: LogCleanerManagerTest.
    testLogsWithSegmentsToDeleteShouldNotConsiderCleanupPolicyDeleteLogs, LogCleanerManagerTest.
    testLogsWithSegmentsToDeleteShouldConsiderCleanupPolicyCompactDeleteLogs, LogCleanerManagerTest.
    testLogsWithSegmentsToDeleteShouldConsiderCleanupPolicyCompactLogs
    """
    from dataclasses import replace

    log = place.logs[ONE]
    log.update_config(replace(log.config, cleanup_policy=("delete",)))

    assert [key for key, _ in place.manager.grab_deletable()] == [TWO]
    assert [key for key, _ in place.manager.pause_not_compacted(place.logs.items())] == [ONE]


def test_a_log_under_retention_is_not_cleaned(place: Place) -> None:
    """A change of cleanup.policy during a log's retention pass does not start a cleaning.

    Scenario: LogCleanerManagerTest.testLogsUnderCleanupIneligibleForCompaction
    """
    from dataclasses import replace

    log = place.logs[TWO]
    log.update_config(replace(log.config, cleanup_policy=("delete",)))
    paused = [key for key, _ in place.manager.pause_not_compacted(place.logs.items())]
    log.update_config(replace(log.config, cleanup_policy=("compact",)))
    while_paused = [place.grab(), place.grab()]

    place.manager.resume(paused)

    assert while_paused == [ONE, None]
    assert place.grab() == TWO


def test_done_writes_the_checkpoint(place: Place) -> None:
    """The end of a cleaning is written to the checkpoint, and the partition is free again.

    Scenario: LogCleanerManagerTest.testDoneCleaning,
    LogCleanerManagerTest.testUpdateCheckpointsShouldAddOffsetToPartition
    """
    place.grab()

    place.manager.done_cleaning(TWO, place.logs[TWO], 4)

    assert place.lines() == {ONE: 3, TWO: 4}
    assert place.manager.state(TWO).phase is Phase.NONE
    with pytest.raises(InvalidArgument):
        place.manager.done_cleaning(TWO, place.logs[TWO], 4)


def test_an_aborted_cleaning_writes_no_checkpoint(place: Place) -> None:
    """An abort waits until the cleaner has stopped; then the partition is paused.

    Scenario: LogCleanerManagerTest.testConcurrentLogCleanupAndLogTruncation,
    LogCleanerManagerTest.testConcurrentLogCleanupAndTopicDeletion
    """
    place.grab()
    stopped: list[int] = []

    def stop() -> None:
        if place.manager.state(TWO).phase is Phase.ABORTED and not stopped:
            stopped.append(1)
            with pytest.raises(CleaningAborted):
                place.manager.check(TWO)
            place.manager.done_cleaning(TWO, place.logs[TWO], 4)

    place.on_sleep = stop

    place.manager.abort_and_pause(TWO)

    assert place.lines()[TWO] == 1
    assert place.manager.state(TWO) == (Phase.PAUSED, 1)
    place.manager.resume([TWO])
    assert place.grab() == TWO


def test_two_callers_abort_one_cleaning(place: Place) -> None:
    """Both wait until the cleaner has stopped; the partition is free when both have resumed it."""
    place.grab()
    second: list[CleaningState] = []

    def abort_too() -> None:
        place.on_sleep = stop
        place.manager.abort_and_pause(TWO)
        second.append(place.manager.state(TWO))

    def stop() -> None:
        if place.manager.state(TWO).phase is Phase.ABORTED:
            place.manager.done_cleaning(TWO, place.logs[TWO], 4)

    place.on_sleep = abort_too

    place.manager.abort_and_pause(TWO)

    assert second == [CleaningState(Phase.PAUSED, 2)]
    place.manager.resume([TWO])
    assert place.manager.state(TWO) == CleaningState(Phase.PAUSED, 1)
    place.manager.resume([TWO])
    assert place.grab() == TWO


def test_done_frees_a_log_whose_segments_were_deleted(place: Place) -> None:
    """After its retention pass a log is free again; ``done`` is refused for a free log.

    Scenario: LogCleanerManagerTest.testDoneDeleting
    """
    for key, _ in place.manager.grab_deletable():
        place.manager.done(key)

    assert place.grab() == TWO
    with pytest.raises(InvalidArgument):
        place.manager.done(ONE)


def test_lines_of_logs_that_are_gone_are_dropped(place: Place) -> None:
    """Each rewrite of the file keeps the lines of current logs only.

    Scenario: LogCleanerManagerTest.testUpdateCheckpointsShouldRemovePartitionData
    """
    place.checkpoint({ONE: 1, TWO: 1, ("gone", 0): 7})

    place.manager.checkpoints.drop("/data", [ONE])

    assert place.lines() == {TWO: 1}


def test_a_line_follows_its_log_to_another_directory(place: Place) -> None:
    """A moved log keeps its checkpoint.

    Scenario: LogCleanerManagerTest.testAlterCheckpointDirShouldRemoveDataInSrcDirAndAddInNewDir
    """
    place.home.fs.make_directory("/other")

    place.manager.checkpoints.carry(ONE, "/data", "/other")
    place.manager.checkpoints.drop("/data", [ONE])

    assert place.lines() == {TWO: 1}
    assert read_checkpoint(place.home.fs, "/other/cleaner-offset-checkpoint") == {ONE: 3}


def test_a_log_without_a_line_gets_none_where_it_moves(place: Place) -> None:
    """One that it left there before may be above what was truncated and written again since."""
    place.home.fs.make_directory("/other")
    place.manager.checkpoints.carry(ONE, "/data", "/other")
    place.checkpoint({TWO: 1})

    place.manager.checkpoints.carry(ONE, "/data", "/other")

    assert read_checkpoint(place.home.fs, "/other/cleaner-offset-checkpoint") == {}


def test_truncation_lowers_the_line(place: Place) -> None:
    """A log truncated below its checkpoint is dirty from there on; higher has no effect.

    Scenario: LogCleanerManagerTest.testMaybeTruncateCheckpointShouldTruncateData
    """
    place.manager.maybe_truncate_checkpoint(ONE, place.logs[ONE], 5)
    kept = place.lines()[ONE]
    place.manager.maybe_truncate_checkpoint(ONE, place.logs[ONE], 2)

    assert (kept, place.lines()[ONE]) == (3, 2)


def test_a_line_that_cannot_be_read_for_now_is_not_taken_for_none(place: Place) -> None:
    """A log is not truncated, deleted or moved while its line stays: it would count as clean."""
    no_descriptor = OSError(errno.EMFILE, "no descriptor is left")
    manager, log = place.manager, place.logs[ONE]

    def truncate() -> None:
        manager.maybe_truncate_checkpoint(ONE, log, 2)

    def drop() -> None:
        manager.checkpoints.drop("/data", [ONE])

    def move() -> None:
        manager.checkpoints.carry(ONE, "/data", "/other")

    for act in (truncate, drop, move):
        place.home.fs.fail("open", PATH, no_descriptor)
        with pytest.raises((OSError, KafkaStorageError)):
            act()

    assert place.lines()[ONE] == 3
    truncate()
    assert place.lines()[ONE] == 2


def test_a_line_is_lowered_durably_at_the_second_try(place: Place) -> None:
    """The first one may have replaced the file, and not made that durable."""
    place.home.fs.sync_directory("/data")
    place.home.fs.fail("sync_directory", "/data", OSError(errno.EMFILE, "no descriptor is left"))
    with pytest.raises(KafkaStorageError):
        place.manager.maybe_truncate_checkpoint(ONE, place.logs[ONE], 2)
    place.manager.maybe_truncate_checkpoint(ONE, place.logs[ONE], 2)

    place.home.fs.power_cut("none")

    assert place.lines()[ONE] == 2
    place.logs.clear()


def test_an_unreadable_checkpoint_means_never_cleaned(place: Place) -> None:
    """A damaged file costs work but no records: everything counts as dirty.

    Scenario: LogCleanerManagerTest.testHandleLogDirFailureShouldRemoveDirAndData
    """
    place.home.fs.write(PATH, b"nonsense\n")

    assert place.manager.checkpoint(ONE, place.logs[ONE]) is None
    assert place.grab() in {ONE, TWO}


class CountingReads:
    """A file system that notes the path of each file opened to be read."""

    def __init__(self, fs: CrashFileSystem) -> None:
        self._fs = fs
        self.paths: list[str] = []

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        if mode == "r":
            self.paths.append(path)
        return self._fs.open(path, mode)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)


def test_a_pass_reads_each_checkpoint_file_once() -> None:
    """An idle cleaner with a thousand logs does not parse the file a thousand times."""
    place = Place(1, 3, min_cleanable_dirty_ratio=1.0)
    place.home.directory = "/other/flights-2"
    place.home.fs.make_directory("/other")
    place.home.fs.make_directory(place.home.directory)
    place.logs["flights", 2] = place.home.open()
    many = {
        (f"topic-{number}", partition): log
        for number in range(50)
        for (_, partition), log in place.logs.items()
    }
    files = CountingReads(place.home.fs)
    clock = place.home.clock
    manager = LogCleanerManager(lambda: many, fs=files, clock=clock, sleep_ms=clock.advance)

    assert manager.grab_filthiest(clock.now_ms()) is None

    assert sorted(files.paths) == [PATH, "/other/cleaner-offset-checkpoint"]
    place.close()


def test_only_the_resumption_of_an_aborted_cleaning_is_logged(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Pauses of idle partitions, one per log in each retention pass, are not worth a line."""
    caplog.set_level(logging.INFO, "tidelog.cleaner")
    place.manager.abort_and_pause(ONE)
    place.manager.resume([ONE])
    idle = list(caplog.messages)
    place.grab()

    def stop() -> None:
        if place.manager.state(TWO).phase is Phase.ABORTED:
            place.manager.done(TWO)

    place.on_sleep = stop

    place.manager.abort(TWO)
    place.manager.abort(TWO)

    assert idle == []
    assert caplog.messages == [
        "cleaning-aborted-and-paused topic=flights partition=1",
        "cleaning-resumed topic=flights partition=1",
    ]
