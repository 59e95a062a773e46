"""A log loses records while a move copies it: the copy loses them, too."""

from __future__ import annotations

from errno import EIO, EMFILE, ENOSPC
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.held_lock import HeldLock
from tests.machinery.manager_home import ManagerHome

from tidelog.errors import KafkaStorageError
from tidelog.records.builder import build_batch
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition
from tidelog.service import copied_log, mover
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step copy some ten records."""
    monkeypatch.setattr(copied_log, "PIECE_BYTES", 1000)
    monkeypatch.setattr(mover, "NEAR_BYTES", 1000)


def two_directories() -> ManagerHome:
    """Return a home of two data directories."""
    return ManagerHome("/a", "/b")


def begun(home: ManagerHome, *, steps: int = 3) -> LogService:
    """Return a manager that has copied the first of 60 records."""
    manager = home.open()
    manager.create_topic("t", path="/a")
    put(manager, b"old", 60)
    manager.move_partition(*KEY, "/b")
    for _ in range(steps):
        manager._mover.step(KEY)
    return manager


def put(manager: LogService, text: bytes, count: int) -> None:
    """Append records that name what they belong to."""
    for number in range(count):
        record = (manager.machine.clock.now_ms(), b"k", b"%s %03d" % (text, number), ())
        manager.partition(*KEY).append_records([record])


def all_values(manager: LogService) -> list[bytes | None]:
    """Return the values of all records of the log."""
    return [one.value for one in manager.partition(*KEY).log.records()]


def copy_of(manager: LogService) -> Log:
    """Return the copy that the move makes."""
    copy = manager.get_log(*KEY, is_future=True)
    assert copy is not None
    return copy


def cut(manager: LogService, offset: int, *, starts_anew: bool = False) -> None:
    """Truncate the log by one of the two calls."""
    if starts_anew:
        manager.truncation.truncate_fully_and_start_at(TopicPartition(*KEY), offset)
    else:
        manager.truncation.truncate_to({KEY: offset})


@pytest.mark.parametrize("starts_anew", [False, True])
def test_a_log_that_is_truncated_and_grows_past_its_copy_moves_as_it_is(starts_anew: bool) -> None:
    """The copy keeps no record that the log has dropped, and lacks none that it took since."""
    home = two_directories()
    with begun(home) as manager:
        copied = copy_of(manager).log_end_offset
        cut(manager, 5, starts_anew=starts_anew)
        put(manager, b"new", 60)
        expected = all_values(manager)
        home.clock.advance(10_000)

        assert 5 < copied < 60
        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert all_values(manager) == expected


@pytest.mark.parametrize("starts_anew", [False, True])
def test_a_truncation_does_not_fall_between_the_read_of_a_piece_and_its_append(
    starts_anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until the copy has the piece, and takes that away again."""
    home = two_directories()
    with begun(home) as manager:
        copying = []
        truncate = type(copy_of(manager)).truncate_to

        def truncating(log: Log, offset: int) -> bool:
            copying.append(manager._registry.copying.locked())
            return truncate(log, offset)

        piece = copied_log.copy_piece

        def piecewise(current: Log, copy: Log) -> int:
            copying.append(manager._registry.copying.locked())
            return piece(current, copy)

        monkeypatch.setattr(copied_log, "copy_piece", piecewise)
        monkeypatch.setattr(type(copy_of(manager)), "truncate_to", truncating)
        manager._mover.step(KEY)
        cut(manager, 5, starts_anew=starts_anew)

        assert copying
        assert all(copying)


@pytest.mark.parametrize("power_cut", [False, True])
def test_the_copy_of_a_truncated_log_is_cut_at_once_durably(power_cut: bool) -> None:
    """A restart before the next step continues with what the copy shares with the log."""
    home = two_directories()
    manager = begun(home)
    manager.flush()
    cut(manager, 5)
    put(manager, b"new", 60)
    manager.partition(*KEY).log.flush()
    expected = all_values(manager)
    if power_cut:
        home.power_cut()
    else:
        manager.shutdown()
        home.restart()
    with home.open() as manager:
        home.clock.advance(10_000)

        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert all_values(manager) == expected


@pytest.mark.parametrize("number", [EIO, EMFILE])
def test_a_log_whose_copy_cannot_be_truncated_stays_as_it_is(number: int) -> None:
    """The truncation can be repeated."""
    home = two_directories()
    with begun(home) as manager:
        home.fs.fail("sync_directory", copy_of(manager).directory, OSError(number, "fault"))
        before = all_values(manager)
        with pytest.raises(KafkaStorageError):
            cut(manager, 5)
        after = all_values(manager)
        manager.handle_failures()
        cut(manager, 5)
        put(manager, b"new", 60)

        assert before == after
        assert manager.live_dirs == (["/a"] if number == EIO else ["/a", "/b"])
        assert len(all_values(manager)) == 65


def test_a_log_that_moves_while_its_cleaning_is_paused_is_truncated_where_it_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not the one that it was before, which will be deleted."""
    home = two_directories()
    with begun(home) as manager:
        pause = manager.cleaning.manager.abort_and_pause

        def moving(key: TopicPartition) -> None:
            monkeypatch.undo()
            home.clock.advance(10_000)
            pause(key)

        monkeypatch.setattr(manager.cleaning.manager, "abort_and_pause", moving)
        cut(manager, 5)

        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert len(all_values(manager)) == 5


def test_an_abort_that_is_undone_while_an_exchange_waits_stays_undone() -> None:
    """The copy had its marker, at the offset of the next record."""
    home = two_directories()
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        append_of_transaction(manager, 0)
        of_requests = Home(manager, home.machine(), "/a")
        arguments = {"partitions": {"t": [0]}, "producer_id": 7, "first_offset": 0}
        carry_out(of_requests, "abort-transaction", arguments)
        manager.move_partition(*KEY, "/b")
        home.fs.fail("rename", "/a/tidelog.topics.json.tmp", OSError(ENOSPC, "full"), count=1)
        home.clock.advance(0)
        copied = copy_of(manager).log_end_offset
        carry_out(of_requests, "undo-abort", {"partitions": {"t": [0]}})
        append_of_transaction(manager, 1)
        home.clock.advance(60_000)

        log = manager.partition(*KEY).log
        records = log.records(isolation=Isolation.LOG_END)
        assert (copied, log.directory) == (2, "/b/t-0")
        assert [one.value for one in records] == [b"record 0", b"record 1"]
        assert log.last_stable_offset == 0


def append_of_transaction(manager: LogService, sequence: int) -> None:
    """Append a record of producer 7's transaction."""
    partition = manager.partition(*KEY)
    guard = partition.log.start_verification(7, 0, 0, supports_epoch_bump=False)
    batch = build_batch(
        [(manager.machine.clock.now_ms(), b"k", b"record %d" % sequence, ())],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    partition.append(batch, verification_guard=guard)


def test_a_log_opened_anew_with_less_cuts_its_copy_before_it_takes_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of a log that a lack of descriptors stopped may be gone."""
    home = two_directories()
    with begun(home) as manager:
        partition = manager.partition(*KEY)
        lose_end(manager, 5, monkeypatch)
        manager._reopener.reopen_all()
        put(manager, b"new", 60)
        expected = all_values(manager)
        home.clock.advance(10_000)

        assert partition.log.directory == "/b/t-0"
        assert (len(expected), all_values(manager)) == (65, expected)


def test_a_log_stays_offline_while_its_copy_cannot_be_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next pass opens it."""
    home = two_directories()
    with begun(home) as manager:
        lose_end(manager, 5, monkeypatch)
        error = OSError(EMFILE, "too many open files")
        home.fs.fail("sync_directory", copy_of(manager).directory, error)
        counts = [manager._reopener.reopen_all() for _ in range(2)]
        put(manager, b"new", 60)
        expected = all_values(manager)
        home.clock.advance(100_000)

        assert counts == [0, 1]
        assert all_values(manager) == expected


def flush_copy(manager: LogService) -> int:
    """Make the copy durable, and note so in its directory's checkpoint; return where it ends."""
    end = flush_copy_only(manager)
    manager._checkpointing.write(manager._log_dirs.of(copy_of(manager)))
    return end


def flush_copy_only(manager: LogService) -> int:
    """Make the copy durable; return where it ends."""
    copy = copy_of(manager)
    copy.flush(force=True)
    return copy.log_end_offset


def flushed_copy(home: ManagerHome) -> int:
    """Return up to where the checkpoint says that the copy is flushed."""
    [line] = home.lines("recovery-point-offset-checkpoint", "/b")
    return int(line.rpartition(" ")[2])


@pytest.mark.parametrize("refusals", [0, 1])
def test_a_copy_cut_for_a_log_opened_anew_is_not_called_flushed_beyond_the_cut(
    refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it takes next is not flushed; the log stays offline until that is written."""
    home = two_directories()
    with begun(home) as manager:
        before = flush_copy(manager)
        lose_end(manager, 5, monkeypatch)
        if refusals:
            file = "/b/recovery-point-offset-checkpoint.tmp"
            home.fs.fail("rename", file, OSError(EMFILE, "too many open files"), count=refusals)
        counts = [manager._reopener.reopen_all() for _ in range(refusals + 1)]

        assert counts == [*([0] * refusals), 1]
        assert before > 5
        assert flushed_copy(home) == 5


@pytest.mark.parametrize(
    ("failing", "passes"), [("checkpoint", 1), ("copy", 1), ("deletion of the copy", 3)]
)
def test_a_log_does_not_wait_for_space_on_the_disk_of_its_copy(
    failing: str, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move is given up: no start continues it, as the copy holds what the log has lost."""
    home = two_directories()
    full = OSError(ENOSPC, "full")
    with begun(home) as manager:
        flush_copy(manager)
        lose_end(manager, 5, monkeypatch)
        directory = copy_of(manager).directory
        home.fs.fail("rename", "/b/recovery-point-offset-checkpoint.tmp", full, count=99)
        if failing == "deletion of the copy":
            home.fs.fail("rename", directory, full, count=2)
        elif failing == "copy":
            active = max(name for name in home.files(directory) if name.endswith(".log"))
            home.fs.fail("rename", f"{directory}/{active}", full, count=99)
        counts = [manager._reopener.reopen_all() for _ in range(passes)]
        reason = manager.why_not_moved(*KEY)
        put(manager, b"new", 60)
        expected = all_values(manager)
        home.restart()
    with home.open() as manager:
        home.clock.advance(10_000)

        assert counts == [*([0] * (passes - 1)), 1]
        assert "full" in reason
        assert (manager.moves(), manager.partition(*KEY).log.directory) == ([], "/a/t-0")
        assert all_values(manager) == expected


def test_a_copy_that_is_cut_while_a_checkpoint_is_written_is_not_called_flushed_beyond_the_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pass that writes it has computed its lines before, and ends after the cut."""
    home = two_directories()
    with begun(home) as manager:
        copy = copy_of(manager)
        checkpoints = manager._log_dirs.of(copy).checkpoints
        before, file = flush_copy_only(manager), "recovery-point-offset-checkpoint"
        lock = HeldLock.until(lambda: checkpoints._merge(file, [KEY], {KEY: before}))
        monkeypatch.setattr(checkpoints, "_lock", lock)
        cut(manager, 5)
        with lock:
            pass

        assert before > 5
        assert flushed_copy(home) == 5


def test_a_copy_that_a_step_cuts_is_not_called_flushed_beyond_the_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The checkpoint is written before the copy takes other records."""
    home = two_directories()
    with begun(home) as manager:
        before = flush_copy(manager)
        manager.partition(*KEY).log.truncate_to(5)
        left_bytes, flushed = copied_log.left_bytes, []

        def looking(current: Log, copy: Log) -> int:
            flushed.append((copy.log_end_offset, flushed_copy(home)))
            return left_bytes(current, copy)

        monkeypatch.setattr(copied_log, "left_bytes", looking)
        manager._mover.step(KEY)

        assert before > 5
        assert flushed == [(5, 5)]


def test_a_truncation_is_repeated_until_the_checkpoint_of_the_copy_is_written() -> None:
    """A full disk leaves the log as it is; the copy is cut already."""
    home = two_directories()
    with begun(home) as manager:
        before = flush_copy(manager)
        file = "/b/recovery-point-offset-checkpoint.tmp"
        home.fs.fail("rename", file, OSError(ENOSPC, "full"), count=2)
        for _ in range(2):
            with pytest.raises(KafkaStorageError):
                cut(manager, 5)
        length = len(all_values(manager))
        cut(manager, 5)

        assert before > 5
        assert (length, len(all_values(manager))) == (60, 5)
        assert flushed_copy(home) == 5


def lose_end(manager: LogService, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the log offline, and let opening it again find nothing from ``offset`` on."""
    log = manager.partition(*KEY).log
    reopen = manager._opener.reopen

    def with_less(key: TopicPartition, old: Log, *rules: Any) -> Log:
        found = reopen(key, old, *rules)
        found.truncate_to(offset)
        return found

    monkeypatch.setattr(manager._opener, "reopen", with_less)
    monkeypatch.setattr(type(log), "needs_reopening", property(lambda one: one is log))


def test_a_log_that_lost_its_end_cuts_its_copy_at_the_start() -> None:
    """Before the first append: the copy had been flushed further than the log."""
    home = two_directories()
    manager = begun(home)
    copy = copy_of(manager)
    copy.flush(force=True)
    manager._checkpointing.write(manager._log_dirs.of(copy))
    home.restart()
    for name in home.files("/a/t-0"):
        if name[0] == "0" and not name.startswith("0" * 20):
            home.fs.delete(f"/a/t-0/{name}")
    with home.open() as manager:
        left = manager.partition(*KEY).log.log_end_offset
        put(manager, b"new", 60)
        expected = all_values(manager)
        home.clock.advance(10_000)

        assert 0 < left < copy.log_end_offset
        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert all_values(manager) == expected


def test_records_deleted_before_the_exchange_do_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The copy starts where the log does, though it was deleted from after the last piece."""
    home = two_directories()
    with begun(home) as manager:
        left_bytes = copied_log.left_bytes

        def deleting(current: Log, copy: Log) -> int:
            left = left_bytes(current, copy)
            if left <= mover.NEAR_BYTES:
                current.delete_records(57)
            return left

        monkeypatch.setattr(copied_log, "left_bytes", deleting)
        home.clock.advance(10_000)

        log = manager.partition(*KEY).log
        assert (log.directory, log.log_start_offset, log.log_end_offset) == ("/b/t-0", 57, 60)


@pytest.mark.parametrize("end", [5, 60])
@pytest.mark.parametrize("count", [0, 3, 100])
def test_a_copy_that_missed_a_truncation_begins_anew(
    end: int, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its directory was offline meanwhile; the log has grown past it since, or not."""
    home = two_directories()
    manager = begun(home)
    flush_copy(manager)
    manager.take_dir_offline("/b", OSError(EIO, "the disk failed"))
    manager.handle_failures()
    if end < 60:
        cut(manager, end)
    put(manager, b"new", count)
    expected = all_values(manager)
    manager.shutdown()
    home.scheduler.forget()
    with home.open() as manager:
        home.clock.advance(100_000)

        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert all_values(manager) == expected
    assert ("move-begun-anew" in caplog.text) == (end < 60 and count > 0)
