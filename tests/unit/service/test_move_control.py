"""Moves in flight are listed, limited in their rate, and cancelled."""

from __future__ import annotations

from errno import EIO, EMFILE, ENOSPC
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome, fill, values

from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.manager.lifecycle.move_status import MoveState
from tidelog.manager.log_manager import LogManager
from tidelog.segment.filenames import TopicPartition, log_future_directory_name
from tidelog.service import copied_log, mover

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.log.log import Log
    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)
RATE = 1_000
RECORDS = 100
EXPECTED = [b"value %d" % number for number in range(RECORDS)]
PIECE_BYTES = 500


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a move take many steps."""
    monkeypatch.setattr(copied_log, "PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(mover, "NEAR_BYTES", PIECE_BYTES)


@pytest.fixture
def home() -> ManagerHome:
    """A machine with two data directories, where nothing expires."""
    return ManagerHome("/a", "/b", retention_ms=-1)


@pytest.fixture
def moving(home: ManagerHome) -> Iterator[LogManager]:
    """A service that moves t-0 from /a to /b, at 1,000 bytes a second, and has copied some."""
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, RECORDS)
        manager.flush()
        manager.throttle_moves(RATE)
        manager.move_partition(*KEY, "/b")
        home.clock.advance(2_000)
        yield manager


def copies(home: ManagerHome, path: str = "/b") -> list[str]:
    """Return the directories of a data directory that are not those of partitions in service."""
    return [name for name in home.files(path) if name.endswith(("-future", "-delete"))]


# Listing


def test_a_move_in_flight_is_listed(moving: LogService) -> None:
    """From where to where, how much of it, how fast, below which limit."""
    (move,) = moving.moves()

    assert (move.topic, move.partition, move.source, move.target) == ("t", 0, "/a", "/b")
    assert move.total_bytes == moving.partition(*KEY).log.size_bytes
    assert 0 < move.done_bytes < move.total_bytes
    assert 0.5 * RATE <= move.bytes_per_second <= 1.5 * RATE
    assert (move.limit, move.state, move.reason) == (RATE, MoveState.THROTTLED, "")


def test_a_move_that_has_ended_is_not_listed(home: ManagerHome, moving: LogService) -> None:
    """Only what is in flight is."""
    moving.throttle_moves(None)
    home.clock.advance(2_000)

    assert (moving.moves(), values(moving, *KEY)) == ([], EXPECTED)
    assert moving.partition(*KEY).log.directory == "/b/t-0"


def test_a_move_without_a_service_is_found_in_the_files(
    home: ManagerHome, moving: LogService
) -> None:
    """It waits for the next start."""
    moving.shutdown()
    home.scheduler.forget()
    with brief(home) as manager:
        (move,) = manager.moves()

    assert (move.source, move.target, move.state) == ("/a", "/b", MoveState.STOPPED)
    assert move.total_bytes is not None
    assert 0 < move.done_bytes < move.total_bytes


# The rate


def test_all_moves_together_keep_to_the_limit(home: ManagerHome) -> None:
    """As Kafka's quota, which is that of the broker."""
    with home.open(replica_alter_log_dirs_io_max_bytes_per_second=RATE) as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            fill(manager, "t", number, RECORDS)
            manager.move_partition("t", number, "/b")
        for seconds in range(1, 6):
            home.clock.advance(1_000)
            moves = manager.moves()
            done = sum(move.done_bytes for move in moves)

            assert len(moves) == 2
            assert RATE * seconds - PIECE_BYTES <= done <= RATE * seconds + 2 * PIECE_BYTES


def test_a_new_limit_takes_effect_within_a_second(home: ManagerHome, moving: LogService) -> None:
    """Also where the old one would have let a move wait for years."""
    moving.throttle_moves(1)
    home.clock.advance(5_000)
    before = moving.moves()[0].done_bytes
    home.clock.advance(60_000)
    still = moving.moves()[0].done_bytes
    moving.throttle_moves(10**9)
    home.clock.advance(1_001)

    assert still - before <= PIECE_BYTES
    assert moving.moves() == []


def test_the_setting_is_the_limit_until_another_is_given(home: ManagerHome) -> None:
    """It can be changed while the service runs, and is in force again without the other."""
    with home.open(replica_alter_log_dirs_io_max_bytes_per_second=RATE) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, RECORDS)
        manager.move_partition(*KEY, "/b")
        limits = [manager.moves()[0].limit]
        manager.throttle_moves(7)
        limits.append(manager.moves()[0].limit)
        manager.throttle_moves(None)
        config = home.config(replica_alter_log_dirs_io_max_bytes_per_second=2 * RATE)
        manager.update_config(config)
        limits.append(manager.moves()[0].limit)

    assert limits == [RATE, 7, 2 * RATE]


@pytest.mark.parametrize("rate", [0, -1])
def test_a_limit_below_one_is_refused(moving: LogService, rate: int) -> None:
    """A move that cannot be resumed is to be cancelled instead."""
    with pytest.raises(InvalidArgument, match="rate above 0"):
        moving.throttle_moves(rate)


# Cancelling


def test_a_cancelled_move_leaves_the_source_as_it_was(
    home: ManagerHome, moving: LogService
) -> None:
    """With all records, taking appends, free to be cleaned; the copy is deleted."""
    moving.cancel_move(*KEY)
    fill(moving, "t", 0, 1)
    home.clock.advance(120_000)

    assert moving.moves() == []
    assert moving.partition(*KEY).log.directory == "/a/t-0"
    assert values(moving, *KEY) == [*EXPECTED, b"value 0"]
    assert copies(home) == []
    assert moving.why_not_moved(*KEY) == "the move was cancelled"


def test_a_cancelled_move_is_not_continued_after_a_power_cut(
    home: ManagerHome, moving: LogService
) -> None:
    """Once the call has returned the copy is renamed for good."""
    moving.cancel_move(*KEY)
    home.power_cut()
    with home.open() as manager:
        home.clock.advance(120_000)

        assert manager.moves() == []
        assert manager.partition(*KEY).log.directory == "/a/t-0"
        assert values(manager, *KEY) == EXPECTED
        assert copies(home) == []


def test_a_cancelled_move_can_be_begun_again(home: ManagerHome, moving: LogService) -> None:
    """From the beginning."""
    moving.cancel_move(*KEY)
    moving.throttle_moves(None)
    moving.move_partition(*KEY, "/b")
    home.clock.advance(0)

    assert moving.partition(*KEY).log.directory == "/b/t-0"
    assert values(moving, *KEY) == EXPECTED
    assert moving.why_not_moved(*KEY) == ""


def test_a_move_back_to_where_the_partition_is_cancels_the_other(
    home: ManagerHome, moving: LogService
) -> None:
    """As in Kafka, whose tools cancel a move that way."""
    assert not moving.move_partition(*KEY, "/a")

    assert moving.moves() == []
    assert [name for name in copies(home) if name.endswith("-future")] == []


def test_a_move_that_ends_with_an_error_without_text_has_a_reason(
    moving: LogService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one means that the move did not fail."""

    def exhaust(*_logs: Log) -> int:
        raise MemoryError

    monkeypatch.setattr(copied_log, "copy_piece", exhaust)
    moving.throttle_moves(None)
    moving._mover.step(KEY)

    assert moving.why_not_moved(*KEY) == "MemoryError"


def test_a_move_that_is_cancelled_leaves_the_reason_why_it_ended(
    home: ManagerHome, moving: LogService
) -> None:
    """Callers that wait for the move raise it; the log stays as it is."""
    moving.cancel_move(*KEY)

    assert moving.why_not_moved(*KEY) == "the move was cancelled"
    assert values(moving, *KEY) == EXPECTED
    assert [name.endswith("-delete") for name in home.files("/b") if name[:2] == "t-"] == [True]


def test_what_does_not_move_cannot_be_cancelled(home: ManagerHome, moving: LogService) -> None:
    """It may have arrived meanwhile."""
    moving.throttle_moves(None)
    home.clock.advance(2_000)
    with pytest.raises(InvalidArgument, match="t-0 is not being moved"):
        moving.cancel_move(*KEY)


def test_a_copy_that_a_cancelled_move_has_left_is_deleted_by_the_next_move() -> None:
    """It could not be renamed for lack of space; a later start would continue the wrong move."""
    home = ManagerHome("/a", "/b", "/c", retention_ms=-1)
    manager = home.open()
    manager.create_topic("t", path="/a")
    fill(manager, "t", 0, RECORDS)
    manager.flush()
    manager.throttle_moves(RATE)
    manager.move_partition(*KEY, "/b")
    home.fs.fail("rename", "-future", OSError(ENOSPC, "full"))
    with pytest.raises(KafkaStorageError):
        manager.cancel_move(*KEY)
    manager.move_partition(*KEY, "/c")
    home.restart()

    with home.open() as manager:
        assert [move.target for move in manager.moves()] == ["/c"]
        home.clock.advance(120_000)

        assert manager.partition(*KEY).log.directory == "/c/t-0"
        assert [values(manager, *KEY), copies(home, "/b")] == [EXPECTED, []]


def two_copies() -> ManagerHome:
    """Return directories with a copy in /b, of all records, and a new, empty one in /c.

    That of /b was not configured when the second move began.
    """
    home = ManagerHome("/a", "/b", "/c", retention_ms=-1)
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        fill(manager, "t", 0, RECORDS)
        manager.create_topic("other", path="/c")
        fill(manager, "other", 0, 1)
        manager.throttle_moves(RATE)
        manager.move_partition(*KEY, "/b")
        home.clock.advance(2_000)
    home.scheduler.forget()
    home.paths = ("/a", "/c")
    with home.open() as manager:
        manager.throttle_moves(1)
        manager.move_partition(*KEY, "/c")
    home.scheduler.forget()
    home.paths = ("/a", "/b", "/c")
    return home


def test_of_two_copies_a_start_continues_the_longer_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither is the only log: the other is deleted, and everything else is served."""
    home = two_copies()
    with home.open() as manager:
        targets = [move.target for move in manager.moves()]
        home.clock.advance(120_000)

        assert (targets, manager.partition(*KEY).log.directory) == (["/b"], "/b/t-0")
        assert [values(manager, *KEY), copies(home, "/c")] == [EXPECTED, []]
        assert values(manager, "other", 0) == [b"value 0"]
        assert "future-log-superseded directory=/c/t-0." in caplog.text


def test_two_copies_of_a_log_that_is_offline_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    """One of them may be all that is left. Both are closed in order, and nothing is an error."""
    home = two_copies()
    caplog.clear()
    home.fs.fail("lock", "/a/.lock", OSError(EIO, "the disk failed"))
    with home.open() as manager:
        home.clock.advance(120_000)

        assert values(manager, "other", 0) == [b"value 0"]
        assert [len(copies(home, path)) for path in ("/b", "/c")] == [1, 1]
    assert [home.is_marked(path) for path in ("/b", "/c")] == [True, True]
    assert "log-not-loaded" not in caplog.text


@pytest.mark.parametrize("error", [EIO, EMFILE])
def test_a_copy_that_is_kept_and_cannot_be_closed_leaves_its_directory_in_doubt(
    error: int,
) -> None:
    """The next start recovers what lies there."""
    home = two_copies()
    name = copies(home, "/c")[0]
    home.fs.fail("sync_directory", f"/c/{name}", OSError(error, "bad"))
    home.fs.fail("lock", "/a/.lock", OSError(EIO, "the disk failed"))
    with home.open() as manager:
        assert manager.live_dirs == (["/b"] if error == EIO else ["/b", "/c"])
    assert [home.is_marked(path) for path in ("/b", "/c")] == [True, False]


@pytest.mark.parametrize("refusals", [0, 1])
def test_of_two_copies_that_were_kept_one_stays_when_the_log_is_loaded_late(
    refusals: int, caplog: pytest.LogCaptureFixture
) -> None:
    """As at a start; or else a later start would continue a move that is over."""
    home = two_copies()
    active = max(name for name in home.files("/a/t-0") if name.endswith(".log"))
    home.fs.fail("open", f"/a/t-0/{active}", OSError(ENOSPC, "full"))
    home.fs.fail("rename", f"/c/{copies(home, '/c')[0]}", OSError(ENOSPC, "full"), count=refusals)
    with home.open() as manager:
        before = [len(copies(home, path)) for path in ("/b", "/c")]
        home.clock.advance(120_000)

        assert (before, manager.partition(*KEY).log.directory) == ([1, 1], "/b/t-0")
        assert [values(manager, *KEY), len(copies(home, "/c"))] == [EXPECTED, refusals]
    assert caplog.text.count("move-copy-not-deleted topic=t partition=0") == refusals


def test_a_copy_that_is_kept_after_an_unclean_end_leaves_its_directory_in_doubt() -> None:
    """What was not flushed then may be missing in the middle: flushing it now mends nothing."""
    home = two_copies()
    home.fs.delete("/c/.kafka_cleanshutdown")
    home.fs.fail("lock", "/a/.lock", OSError(EIO, "the disk failed"))
    with home.open() as manager:
        assert values(manager, "other", 0) == [b"value 0"]
    assert [home.is_marked(path) for path in ("/b", "/c")] == [True, False]


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_was_not_flushed_of_a_copy_is_not_trusted_by_a_later_start(is_killed: bool) -> None:
    """Nor are the flushes of a process that did not serve its partition."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    manager = home.open()
    manager.create_topic("t", path="/a")
    fill(manager, "t", 0, RECORDS)
    manager.throttle_moves(RATE)
    manager.move_partition(*KEY, "/b")
    home.clock.advance(2_000)
    copy = manager.get_log(*KEY, is_future=True)
    assert copy is not None
    flushed, end = copy.recovery_point, copy.log_end_offset
    home.restart()
    home.fs.fail("lock", "/a/.lock", OSError(EIO, "the disk failed"))
    manager = home.open()
    home.clock.advance(120_000)
    manager.flush()
    if is_killed:
        home.restart()
    else:
        manager.shutdown()
        home.scheduler.forget()

    with home.open() as manager:
        copy = manager.get_log(*KEY, is_future=True)
        assert copy is not None
        assert copy.log_end_offset <= flushed < end
        manager.throttle_moves(None)
        home.clock.advance(2_000)
        assert manager.partition(*KEY).log.directory == "/b/t-0"
        assert values(manager, *KEY) == EXPECTED


# Cancelling without a service


def brief(home: ManagerHome) -> LogManager:
    """Open the directories as a command does."""
    return LogManager(home.config(), home.machine())


def test_a_move_is_cancelled_without_a_service(home: ManagerHome, moving: LogService) -> None:
    """The next start finds only the source."""
    moving.shutdown()
    home.scheduler.forget()
    with brief(home) as manager:
        manager.cancel_move(*KEY)
        left = manager.moves()
    with home.open() as manager:
        home.clock.advance(120_000)

        assert left == []
        assert manager.moves() == []
        assert manager.partition(*KEY).log.directory == "/a/t-0"
        assert values(manager, *KEY) == EXPECTED
        assert copies(home) == []


def test_a_decided_move_is_not_cancelled(home: ManagerHome) -> None:
    """The catalogue names the copy's directory: the copy is the log, and there is no other."""
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, RECORDS)
    home.fs.rename("/a/t-0", "/a/" + log_future_directory_name(*KEY, "0" * 32))
    with brief(home) as manager, pytest.raises(InvalidArgument, match="decided"):
        manager.cancel_move(*KEY)
    with home.open() as manager:
        assert values(manager, *KEY) == EXPECTED


def test_a_move_that_may_be_decided_is_not_cancelled(home: ManagerHome, moving: LogService) -> None:
    """Whether the copy has become the log is unknown while the disk gives errors."""
    moving.shutdown()
    home.scheduler.forget()
    with brief(home) as manager:
        home.fs.fail("exists", "/b/t-0", OSError(EIO, "the disk failed"))
        with pytest.raises(KafkaStorageError, match="the disk failed"):
            manager.cancel_move(*KEY)
    assert copies(home) != []


def test_a_rate_needs_a_service(home: ManagerHome) -> None:
    """Without one nothing is being moved."""
    with brief(home) as manager, pytest.raises(InvalidArgument, match="no service"):
        manager.throttle_moves(RATE)


# Many moves


def listings(home: ManagerHome, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each listing of a data directory is added from now on."""
    found: list[str] = []
    names_in = home.fs.list

    def listing(path: str) -> list[str]:
        if path in home.paths:
            found.append(path)
        return names_in(path)

    monkeypatch.setattr(home.fs, "list", listing)
    return found


@pytest.mark.parametrize("count", [1, 5])
def test_many_moves_list_the_directories_once(
    home: ManagerHome, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory may have many thousand partitions."""
    with home.open() as manager:
        manager.create_topic("t", count, path="/a")
        found = listings(home, monkeypatch)
        during = []
        for target in ("/b", "/a", "/b"):
            found.clear()
            for number in range(count):
                manager.move_partition("t", number, target)
            during += found
            home.clock.advance(0)
        places = {manager.partition("t", number).log.directory[:2] for number in range(count)}

    assert places == {"/b"}
    assert during == ["/a", "/b"]


@pytest.mark.parametrize("count", [1, 5])
def test_many_moves_are_cancelled_without_a_service_with_one_listing(
    home: ManagerHome, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is found, and no start continues it."""
    with home.open() as manager:
        manager.create_topic("t", count, path="/a")
        manager.throttle_moves(1)
        for number in range(count):
            manager.move_partition("t", number, "/b")
    home.scheduler.forget()
    with brief(home) as manager:
        found = listings(home, monkeypatch)
        for number in range(count):
            manager.cancel_move("t", number)
        with pytest.raises(InvalidArgument, match="not being moved"):
            manager.cancel_move("t", 0)
        listed = list(found)
    monkeypatch.undo()

    assert listed == ["/a", "/b"]
    assert [name for name in copies(home) if name.endswith("-future")] == []


def test_a_copy_that_a_refused_move_could_not_delete_is_deleted_by_the_next_move() -> None:
    """As one that a cancelled move has left."""
    home = ManagerHome("/a", "/b", "/c", retention_ms=-1)
    with home.open() as manager:
        manager.create_topic("t", 2, path="/a")
        manager.move_partition("t", 1, "/b")
        home.fs.fail("open", f"-future/{0:020}.log", OSError(ENOSPC, "full"))
        home.fs.fail("delete_directory", "-future", OSError(ENOSPC, "full"))
        with pytest.raises(KafkaStorageError):
            manager.move_partition(*KEY, "/b")
        before = [name for name in copies(home) if name.startswith("t-0")]
        manager.move_partition(*KEY, "/c")
        after = [name for name in copies(home) if name.startswith("t-0")]

        assert [name.endswith("-future") for name in before] == [True]
        assert [name.endswith("-delete") for name in after] == [True]


# Waiting


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_wait_for_a_move_ends_when_its_source_fails(
    home: ManagerHome, moving: LogService, is_noticed: bool
) -> None:
    """Before and after the next step of the move; the copy stays."""
    moving.take_dir_offline("/a", OSError(EIO, "the disk failed"))
    moving.handle_failures()
    if is_noticed:
        home.clock.advance(10_000)
    looks: list[None] = []
    moving.wait_for_move(
        *KEY, 0, lambda: looks.append(None) if not looks else pytest.fail("it waits on")
    )

    assert moving.get_log(*KEY, is_future=True) is not None
    assert len(looks) <= 1
    assert bool(moving.why_not_moved(*KEY)) == is_noticed
