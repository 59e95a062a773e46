"""A partition moves to another directory."""

from __future__ import annotations

import os
from contextlib import suppress
from errno import EIO, EISDIR, EMFILE, ENOSPC
from typing import TYPE_CHECKING, NoReturn

import pytest
from tests.machinery.manager_home import (
    MAX_AGE_MS,
    ManagerHome,
    fill,
    home_with_two_logs_of_a_partition,
    values,
)

from tidelog.cleaner.states import IDLE, Phase
from tidelog.errors import (
    InvalidReplicaAssignment,
    InvalidTopic,
    KafkaStorageError,
    LogDirNotFound,
    UnknownTopicOrPartition,
)
from tidelog.segment.filenames import TopicPartition
from tidelog.service import copied_log, mover
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)
EXPECTED = [b"value %d" % number for number in range(30)]


def two_directories(seed: int = 0) -> ManagerHome:
    return ManagerHome("/a", "/b", seed=seed)


def test_a_partition_moves_with_all_its_records() -> None:
    """Its readers and writers continue with the same partition."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        partition = manager.partition("t", 0)
        before = partition.log.directory
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)
        fill(manager, "t", 0, 1)

        assert (before, partition.log.directory) == ("/a/t-0", "/b/t-0")
        assert values(manager, "t", 0) == [*EXPECTED, b"value 0"]


def test_the_old_log_goes_later_and_its_lines_at_once() -> None:
    """Each directory's checkpoints hold what lies there."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)
        lines = [home.lines("recovery-point-offset-checkpoint", path) for path in home.paths]
        waiting = [name.endswith("-delete") for name in home.files("/a") if name[0] == "t"][:1]
        home.clock.advance(90_000)

        assert (lines, waiting) == ([[], ["t 0 3"]], [True])
        assert [name for name in home.files("/a") if name.startswith("t-")] == []


def test_a_moved_partition_is_found_there_after_a_restart() -> None:
    """The catalogue of every directory names its new place."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)
    with home.open() as manager:
        log = manager.partition("t", 0).log

        assert (log.directory, values(manager, "t", 0)) == ("/b/t-0", EXPECTED)


def test_a_leader_epoch_without_a_record_moves_along() -> None:
    """It began when the log was restored, and no batch of the copy has it."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.partition(*KEY).log.begin_epoch_after_loss()
        epochs = manager.partition(*KEY).log.epochs.entries
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)
        log = manager.partition(*KEY).log

        assert (log.directory, log.epochs.entries) == ("/b/t-0", epochs)
        assert epochs[-1].start_offset == 30


def test_the_log_start_moves_along() -> None:
    """Also when it lies within a segment."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.partition("t", 0).log.delete_records(7)
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)

        assert manager.partition("t", 0).log.log_start_offset == 7
        assert values(manager, "t", 0) == EXPECTED[7:]


def test_the_log_start_moves_along_inside_a_batch() -> None:
    """The copy begins with the whole batch, and shows as much of it as the log does."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        now_ms = home.clock.now_ms()
        partition = manager.partition("t", 0)
        partition.append_records([(now_ms, None, b"value %d" % n, ()) for n in range(10)])
        partition.log.delete_records(7)
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)

        log = manager.partition("t", 0).log
        assert (log.directory, log.log_start_offset) == ("/b/t-0", 7)
        assert values(manager, "t", 0) == EXPECTED[7:10]


def test_a_future_log_has_metrics_of_its_own_until_it_is_the_log() -> None:
    """Then one set remains.

    Scenario: LogManagerTest.testMetricsAreRemovedWhenMovingCurrentToFutureLog
    """
    home = two_directories()
    with home.open() as manager:

        def names() -> list[str]:
            return [m.kafka_name for m in manager.metrics() if m.type == "Log"]

        manager.create_topic("t")
        manager.move_partition(*KEY, "/b")
        during = names()
        home.clock.advance(0)
        after = names()

        assert (len(during), len(after)) == (10, 5)
        assert sum("is-future=true" in name for name in during) == 5
        assert not any("is-future" in name for name in after)


def test_a_move_that_was_interrupted_goes_on() -> None:
    """The copy so far is used."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        home.restart()
    with home.open() as manager:
        between = manager.get_log("t", 0, is_future=True)
        home.clock.advance(0)

        assert between is not None
        assert (manager.partition("t", 0).log.directory, values(manager, "t", 0)) == (
            "/b/t-0",
            EXPECTED,
        )


def test_a_copy_that_is_longer_than_the_log_is_cut() -> None:
    """As when the log lost its unflushed end."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        future, log = manager.get_log("t", 0, is_future=True), manager.partition("t", 0).log
        assert future is not None
        copied_log.copy_piece(log, future)
        log.truncate_to(10)
        home.clock.advance(0)

        assert values(manager, "t", 0) == EXPECTED[:10]


def test_a_deleted_topic_takes_its_copy_along() -> None:
    """The move ends with it."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        manager.move_partition(*KEY, "/b")
        manager.delete_topic("t")
        home.clock.advance(90_000)

        assert [n for p in home.paths for n in home.files(p) if n.startswith("t-")] == []


def test_a_partition_stays_where_it_is_told_to_go() -> None:
    """No copy is made."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")

        assert manager.move_partition(*KEY, "/a") is False
        assert manager.get_log("t", 0, is_future=True) is None


def test_directories_that_cannot_take_it_are_refused() -> None:
    """Cordoned, unknown and offline ones."""
    home = ManagerHome("/a", "/b", "/c")
    with home.open(cordoned_log_dirs=("/b",)) as manager:
        manager.create_topic("t")
        with pytest.raises(InvalidReplicaAssignment):
            manager.move_partition(*KEY, "/b")
        with pytest.raises(LogDirNotFound):
            manager.move_partition(*KEY, "/elsewhere")
        manager.take_dir_offline("/c", OSError(EIO, "the disk failed"))
        with pytest.raises(KafkaStorageError):
            manager.move_partition(*KEY, "/c")


def test_a_name_too_long_for_a_copy_is_refused() -> None:
    """A live partition may have it, a future one may not."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t" * 240)

        with pytest.raises(InvalidTopic):
            manager.move_partition("t" * 240, 0, "/b")


def test_a_partition_that_is_not_there_is_not_moved() -> None:
    """It may have been deleted after it was looked for."""
    with two_directories().open() as manager:
        with pytest.raises(UnknownTopicOrPartition, match="t-0 was deleted"):
            manager._mover.move(KEY, "/b")

        assert manager.moves() == []


def test_two_logs_of_a_partition_stop_the_start() -> None:
    """Where no catalogue says which one is meant."""
    home = home_with_two_logs_of_a_partition()

    with pytest.raises(KafkaStorageError, match="both in /a and in /b"):
        home.open()


@pytest.mark.parametrize("operations", range(0, 120, 3))
def test_a_move_survives_a_power_cut_at_any_moment(operations: int) -> None:
    """The partition is in one directory or in the other, with every flushed record."""
    home = two_directories(seed=operations)
    manager = home.open()
    manager.create_topic("t")
    fill(manager, "t", 0, 30)
    manager.flush()
    home.fs.crash_after(operations)
    with suppress(PowerCut, KafkaStorageError):
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)
    home.power_cut()
    with home.open() as manager:
        home.clock.advance(0)

        assert values(manager, "t", 0) == EXPECTED


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_a_copy_that_was_committed_is_kept_when_the_old_log_cannot_be_deleted(
    operation: str,
) -> None:
    """The records are those of the copy; a failing disk is what people move logs away from."""
    home = two_directories()
    manager = home.open()
    manager.create_topic("t")
    fill(manager, "t", 0, 30)
    suffix = "-delete" if operation == "rename" else "/a"
    manager.move_partition(*KEY, "/b")
    home.fs.fail(operation, suffix, OSError(EIO, "the disk failed"), count=1)
    home.clock.advance(200_000)
    manager.close()
    home.restart()

    with home.open() as again:
        assert values(again, "t", 0) == EXPECTED


def test_a_move_that_fails_half_way_stays_at_the_source() -> None:
    """What is appended after it failed is there after a restart with both disks."""
    home = two_directories()
    manager = home.open()
    manager.create_topic("t")
    fill(manager, "t", 0, 30)
    manager.move_partition(*KEY, "/b")
    home.fs.fail("rename", "-future", OSError(EIO, "the disk failed"), count=1)
    for _ in range(5):
        with suppress(KafkaStorageError):  # of a flush of the copy, in background
            home.clock.advance(0)
    fill(manager, "t", 0, 1)
    manager.flush()
    manager.close()
    home.restart()

    with home.open() as again:
        assert values(again, "t", 0) == [*EXPECTED, b"value 0"]


@pytest.mark.parametrize(("source", "target"), [("/a", "/b"), ("/b", "/a")])
def test_the_directory_that_gets_a_partition_is_written_last(source: str, target: str) -> None:
    """A crash in between leaves no catalogue of a directory that a command would append to."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t", path=source)
        fill(manager, "t", 0, 3)
        before = len(home.fs.operations)
        manager.move_partition(*KEY, target)
        home.clock.advance(0)

        done = home.fs.operations[before:]
        written = [one.path for one in done if one.path.endswith("tidelog.topics.json.tmp")]
        files = list(dict.fromkeys(os.path.dirname(path) for path in written))
        assert files == [source, target]


def moved_with_line(home: ManagerHome, failing: str, number: int) -> LogService:
    """Move a log that was cleaned up to offset 2, while a directory's checkpoint is refused."""
    manager = home.open(log_cleaner_enable=True, log_cleaner_backoff_ms=10**9)
    manager.create_topic("t", path="/a")
    fill(manager, "t", 0, 30)
    log = manager.partition("t", 0).log
    with manager.cleaning.exclusive(KEY):
        manager.cleaning.manager.note_cleaned(KEY, log, 2)
    manager.move_partition(*KEY, "/b")
    file = f"{failing}/cleaner-offset-checkpoint.tmp"
    home.fs.fail("rename", file, OSError(number, "fault"), count=1)
    home.clock.advance(0)
    return manager


@pytest.mark.parametrize("number", [EIO, ENOSPC])
def test_a_move_is_done_though_the_cleaners_line_stays_at_the_source(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody reads it there any more; a disk that failed takes its directory offline."""
    home = two_directories()
    with moved_with_line(home, "/a", number) as manager:
        assert "moving the cleaner's line of t-0 in /a failed: " in caplog.text
        assert manager._mover.ended == {}
        assert manager.cleaning.manager.state(KEY) == IDLE
        assert ("/a" in manager.live_dirs) == (number == ENOSPC)
        assert home.lines("cleaner-offset-checkpoint", "/b") == ["t 0 2"]
        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert values(manager, "t", 0) == EXPECTED
        fill(manager, "t", 0, 1)


@pytest.mark.parametrize("number", [EIO, ENOSPC])
def test_a_log_stays_as_long_as_the_cleaners_line_cannot_follow(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It would count as never cleaned; a disk that is full only delays the move."""
    home = two_directories()
    with moved_with_line(home, "/b", number) as manager:
        assert "moving the cleaner's line of t-0 in /b failed: " in caplog.text
        assert manager.partition("t", 0).log.directory == "/a/t-0"
        home.clock.advance(1_000)
        place = "/b" if number == ENOSPC else "/a"
        assert home.lines("cleaner-offset-checkpoint", place) == ["t 0 2"]
        assert manager.partition("t", 0).log.directory == f"{place}/t-0"
        assert manager.cleaning.manager.state(KEY) == IDLE
        assert values(manager, "t", 0) == EXPECTED
        fill(manager, "t", 0, 1)


# A move ends, whatever happens meanwhile


def large_home() -> ManagerHome:
    """Return a home whose segments hold batches of a megabyte."""
    return ManagerHome("/a", "/b", internal_segment_bytes=3 << 20, max_message_bytes=2 << 20)


def fill_large(manager: LogService, count: int) -> None:
    """Append batches of a megabyte each to t-0."""
    for number in range(count):
        record = (manager.machine.clock.now_ms(), b"k", bytes([number]) * (1 << 20), ())
        manager.partition("t", 0).append_records([record])


def first_file_of_copy(manager: LogService) -> str:
    """Return the path of the copy's first segment."""
    copy = manager.get_log("t", 0, is_future=True)
    assert copy is not None
    return f"{copy.directory}/{0:020}.log"


def test_a_move_ends_while_every_step_is_followed_by_an_append() -> None:
    """The last bytes are copied under the lock of appends, so nothing gets in between."""
    home = large_home()
    with home.open() as manager:
        manager.create_topic("t")
        fill_large(manager, 8)
        manager.move_partition(*KEY, "/b")
        steps = 0
        while manager.get_log("t", 0, is_future=True) is not None:
            manager._mover.step(KEY)
            fill(manager, "t", 0, 1)
            steps += 1

        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert len(values(manager, "t", 0)) == 8 + steps
        assert 3 < steps < 10


def test_a_move_ends_beside_appends_to_a_segment_larger_than_what_may_be_left() -> None:
    """Of the segment in which the copy ends only the bytes after that end count."""
    home = ManagerHome("/a", "/b", internal_segment_bytes=64 << 20, max_message_bytes=2 << 20)
    with home.open() as manager:
        manager.create_topic("t")
        fill_large(manager, 8)
        manager.move_partition(*KEY, "/b")
        steps = 0
        while steps < 20 and manager.get_log("t", 0, is_future=True) is not None:
            manager._mover.step(KEY)
            fill(manager, "t", 0, 1)
            steps += 1

        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert len(values(manager, "t", 0)) == 8 + steps
        assert steps < 10


def test_a_stop_keeps_the_copy_and_the_next_start_continues_it() -> None:
    """No directory is called offline, both are marked as clean, no byte is copied again."""
    home = large_home()
    with home.open() as manager:
        manager.create_topic("t")
        fill_large(manager, 8)
        manager.move_partition(*KEY, "/b")
        manager._mover.step(KEY)
        manager._mover.step(KEY)
        copy = manager.get_log("t", 0, is_future=True)
        assert copy is not None
        copied = copy.log_end_offset
    marks = [home.is_marked(path) for path in home.paths]
    home.clock.advance(0)
    with home.open() as manager:
        resumed = manager.get_log("t", 0, is_future=True)
        assert resumed is not None
        begun = resumed.log_end_offset
        home.clock.advance(0)

        assert (marks, copied > 0, begun) == ([True, True], True, copied)
        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert len(values(manager, "t", 0)) == 8


def test_a_topic_made_again_after_it_was_deleted_while_it_moved_is_not_paused() -> None:
    """Retention and compaction pass over no partition that an earlier one of its name paused."""
    home = two_directories()
    with home.open(log_cleaner_enable=True) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        manager.move_partition(*KEY, "/b")
        cleaner = manager.cleaning.cleaner
        assert cleaner is not None
        paused = cleaner.manager.state(KEY)
        manager.delete_topic("t")
        after = cleaner.manager.state(KEY)
        manager.create_topic("t")
        home.clock.advance(0)
        fill(manager, "t", 0, 30)
        home.clock.advance(MAX_AGE_MS + 1)

        assert (paused.phase, after) == (Phase.PAUSED, IDLE)
        assert manager.tasks.cleanup_logs() + manager.partition("t", 0).log.log_start_offset > 0


@pytest.mark.parametrize("errno", [EMFILE, ENOSPC])
def test_a_move_that_met_a_passing_error_is_tried_again(errno: int) -> None:
    """A lack of descriptors, or of space for a while, costs no copy."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        home.fs.fail("pwrite", first_file_of_copy(manager), OSError(errno, "not now"), count=2)
        home.clock.advance(0)
        during = manager.get_log("t", 0, is_future=True)
        home.clock.advance(10_000)

        assert during is not None
        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert values(manager, "t", 0) == EXPECTED
        assert manager.live_dirs == ["/a", "/b"]


def test_a_move_whose_disk_stays_full_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """The log says why, the copy is deleted, and cleaning is allowed again."""
    home = two_directories()
    with home.open(log_cleaner_enable=True) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        full = OSError(ENOSPC, "No space left on device")
        home.fs.fail("pwrite", first_file_of_copy(manager), full, count=100)
        home.clock.advance(600_000)
        cleaner = manager.cleaning.cleaner

        assert manager.get_log("t", 0, is_future=True) is None
        assert manager.partition("t", 0).log.directory == "/a/t-0"
        assert cleaner is not None
        assert cleaner.manager.state(KEY) == IDLE
        assert "move-failed topic=t partition=0" in caplog.text
        assert "No space left" in caplog.text


def test_a_move_that_meets_something_else_in_place_of_a_file_is_given_up_at_once() -> None:
    """A directory or a link there does not pass by waiting."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        home.fs.fail("pwrite", first_file_of_copy(manager), OSError(EISDIR, "Is a directory"))
        home.clock.advance(0)

        assert manager.get_log("t", 0, is_future=True) is None
        assert values(manager, "t", 0) == EXPECTED


def test_a_move_that_meets_a_bug_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """No error may leave a partition paused and a copy that nobody continues."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        copy = manager.get_log("t", 0, is_future=True)
        assert copy is not None
        copy.append_as_follower = _raise_a_bug  # type: ignore[method-assign]  # a bug is simulated
        home.clock.advance(0)

        assert manager.get_log("t", 0, is_future=True) is None
        assert values(manager, "t", 0) == EXPECTED
        assert "move-failed" in caplog.text


def _raise_a_bug(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("a bug")


def test_a_copy_whose_source_disk_failed_is_kept() -> None:
    """It may hold all that is left of the partition."""
    home = two_directories()
    with home.open(log_cleaner_enable=True) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        copy = manager.get_log("t", 0, is_future=True)
        manager.take_dir_offline("/a", OSError(EIO, "the disk failed"))
        home.clock.advance(0)
        cleaner = manager.cleaning.cleaner

        assert manager.get_log("t", 0, is_future=True) is copy is not None
        assert cleaner is not None
        assert cleaner.manager.state(KEY) == IDLE


def test_a_copy_whose_source_disk_fails_while_moves_are_resumed_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same as for one whose move has been resumed."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")

        def failing(current: Log, copy: Log) -> None:
            manager.take_dir_offline("/a", OSError(EIO, "the disk failed"))
            raise KafkaStorageError(f"{current.directory} is offline, {copy.directory} is not")

        with monkeypatch.context() as patch:
            patch.setattr(copied_log, "align", failing)
            manager._mover.resume_all()

        assert [name for name in home.files("/b") if name.endswith("-future")]


@pytest.mark.parametrize("base_offset", [0, 2])
def test_a_refused_move_leaves_no_copy_and_can_be_repeated(base_offset: int) -> None:
    """Whether its copy could not be created, or not be given the log's start."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        manager.on_demand.delete_records(KEY, 2)
        home.fs.fail("open", f"-future/{base_offset:020}.log", OSError(ENOSPC, "full"))
        with pytest.raises(KafkaStorageError):
            manager.move_partition(*KEY, "/b")
        home.clock.advance(90_000)
        left = [name for name in home.files("/b") if name.startswith("t-")]
        is_moving = manager.move_partition(*KEY, "/b")
        home.clock.advance(0)

        assert (left, is_moving) == ([], True)
        assert manager.partition("t", 0).log.directory == "/b/t-0"


def test_a_copy_without_topic_id_gets_it_before_it_becomes_the_log() -> None:
    """A disk that fails as the copy is created loses the file with the id."""
    home = two_directories()
    manager = home.open()
    topic = manager.create_topic("t")
    fill(manager, "t", 0, 30)
    manager.move_partition(*KEY, "/b")
    copy = manager.get_log("t", 0, is_future=True)
    assert copy is not None
    home.fs.delete(f"{copy.directory}/partition.metadata")
    home.restart()
    with home.open() as manager:
        home.clock.advance(0)

        log = manager.partition("t", 0).log
        assert (log.directory, log.topic_id) == ("/b/t-0", topic.topic_id)
        assert "partition.metadata" in home.files("/b/t-0")


def test_snapshots_of_a_truncated_copy_are_deleted_once_it_is_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They wait for their deletion while the directory is renamed."""
    monkeypatch.setattr(copied_log, "PIECE_BYTES", 500)
    monkeypatch.setattr(mover, "NEAR_BYTES", 600)
    home = ManagerHome("/a", "/b", file_delete_delay_ms=1_000)
    manager = home.open()
    manager.create_topic("t")
    fill(manager, "t", 0, 60)
    manager.move_partition(*KEY, "/b")
    for _ in range(4):
        manager._mover.step(KEY)
    home.restart()
    with home.open():
        home.clock.advance(0)
        waiting = [name for name in home.files("/b/t-0") if name.endswith(".snapshot.deleted")]
        home.clock.advance(1_000)

        assert waiting
        assert not set(waiting) & set(home.files("/b/t-0"))


def test_a_log_that_has_moved_is_deleted_though_it_could_not_be_renamed_at_once() -> None:
    """A full disk has no room for the new name; its space is not lost until the next start."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        home.fs.fail("rename", "/a/t-0", OSError(ENOSPC, "full"), count=2)
        home.clock.advance(0)
        at_first = home.files("/a")
        home.clock.advance(90_000)

        assert "t-0" in at_first
        assert [name for name in home.files("/a") if name.startswith("t-")] == []
        assert values(manager, "t", 0) == EXPECTED


def test_a_target_too_full_for_a_catalogue_costs_no_more_than_the_move() -> None:
    """Every catalogue is as it was: the partition stays where it is, and is tried again."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        full = OSError(ENOSPC, "No space left on device")
        home.fs.fail("rename", "/b/tidelog.topics.json.tmp", full, count=2)
        home.clock.advance(0)
        fill(manager, "t", 0, 1)
        before = manager.partition("t", 0).log.directory
        home.clock.advance(10_000)

        assert before == "/a/t-0"
        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert values(manager, "t", 0) == [*EXPECTED, b"value 0"]


def test_a_partition_that_has_ended_stops_nothing_of_the_others() -> None:
    """One of which the catalogues may name either place, and no disk has room to say which."""
    home = two_directories()
    with home.open(log_cleaner_enable=True) as manager:
        for name in ("t", "other"):
            manager.create_topic(name, path="/a")
            fill(manager, name, 0, 30)
        manager.move_partition(*KEY, "/b")
        full = OSError(ENOSPC, "No space left on device")
        home.fs.fail("rename", "-future", full, count=1)
        home.fs.fail("rename", "/b/tidelog.topics.json.tmp", full, count=1, skipped=1)
        home.clock.advance(0)
        with pytest.raises(KafkaStorageError):
            manager.partition("t", 0).append_records([(0, None, b"lost", ())])
        home.clock.advance(MAX_AGE_MS + 1)
        manager.tasks.cleanup_logs()
        manager.alter_topic("other", {"retention.ms": "1000"})
        manager.alter_topic("t", {"retention.ms": "1000"})
        manager.update_config(home.config(log_cleaner_enable=True))

        other = manager.partition("other", 0).log
        assert other.log_start_offset == 30
        assert other.config.retention_ms == 1000
        assert [one.topic for one in manager.describe_log_dirs()["/b"].replicas] == ["t"]
        assert {dict(one.tags).get("topic") for one in manager.metrics()} >= {"other"}
        assert list(manager._current_logs()) == [("other", 0)]
        assert manager.get_log("t", 0, is_future=True) in manager.all_logs()


@pytest.mark.parametrize("renamed", ["/b/t-0", "-delete"])
def test_an_exchange_that_lacks_a_descriptor_for_a_sync_is_completed_later(
    renamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the copy's new name, or of the old log's; both directories stay online."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        rename = home.fs.rename

        def rename_once(source: str, target: str) -> None:
            rename(source, target)
            if target.endswith(renamed):
                monkeypatch.undo()
                parent = os.path.dirname(target)
                home.fs.fail("sync_directory", parent, OSError(EMFILE, "too many open files"))

        monkeypatch.setattr(home.fs, "rename", rename_once)
        home.clock.advance(0)
        home.clock.advance(90_000)

        assert manager.live_dirs == ["/a", "/b"]
        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert values(manager, "t", 0) == EXPECTED
        names = [name for path in home.paths for name in home.files(path)]
        assert [name for name in names if name.startswith("t-")] == ["t-0"]


def test_a_disk_that_cannot_be_read_takes_its_directory_offline_and_keeps_the_copy() -> None:
    """The bytes are copied outside of the log's own reads."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 30)
        manager.move_partition(*KEY, "/b")
        home.fs.fail("pread", "/a/t-0/00000000000000000000.log", OSError(EIO, "bad"), count=9)
        home.clock.advance(0)

        assert manager.live_dirs == ["/b"]
        assert [name for name in home.files("/b") if name.endswith("-future")]
