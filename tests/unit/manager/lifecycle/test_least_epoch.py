"""A directory whose process has not closed its logs: what is appended next is of another epoch."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

import pytest
from tests.crash.power_cuts import outcomes
from tests.machinery.manager_home import Loading, ManagerHome, fill, values

from tidelog.errors import FencedLeaderEpoch, KafkaStorageError

if TYPE_CHECKING:
    from tests.crash.power_cuts import Outcome

    from tidelog.log.log import Log
    from tidelog.manager.log_manager import LogManager

FILE = "/data/tidelog.least-epoch.json"
ALL, ONE = list(Loading)


def log_of(manager: LogManager, topic: str = "t") -> Log:
    return manager.partition(topic, 0).log


def unclean(seed: int = 0, *paths: str) -> ManagerHome:
    """Return a home with topics ``t``, of three records, and ``u``, whose process was killed."""
    home = ManagerHome(*paths, seed=seed, internal_segment_bytes=1 << 20)
    with home.open() as manager:
        for topic in ("t", "u"):
            manager.create_topic(topic, path=paths[0] if paths else None)
    manager = home.open()
    fill(manager, "t", 0, 3)
    home.restart()
    return home


@pytest.mark.parametrize("loading", Loading)
@pytest.mark.parametrize("runs", [0, 1, 2])
@pytest.mark.parametrize("outcome", outcomes(6), ids=str)
def test_a_position_in_lost_records_is_never_taken_for_one_in_those_that_follow(
    outcome: Outcome, runs: int, loading: Loading
) -> None:
    """Whatever a power cut left of what was read, and also if ``runs`` end in order before."""
    home = ManagerHome(seed=outcome.seed, internal_segment_bytes=1 << 20)
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
    running = home.open()
    fill(running, "t", 0, 4)
    (*_, last) = log_of(running).records()
    position, epoch = last.offset + 1, last.leader_epoch
    assert epoch is not None
    home.fs.power_cut(outcome.kept)
    home.scheduler.forget()
    for _ in range(runs):
        with home.open_as(loading) as manager:
            kept = values(manager, "t", 0)

    with home.open_as(loading) as manager:
        kept = values(manager, "t", 0)
        fill(manager, "t", 0, 7)
        found = log_of(manager).end_offset_for_epoch(epoch)

    assert len(kept) >= 3
    assert found is not None
    assert min(found.offset, position) == len(kept)


def test_what_is_appended_after_a_kill_is_of_one_more_epoch() -> None:
    """The kill has lost nothing, which nobody can know; one epoch for each kill."""
    home = unclean()
    for _ in range(3):
        manager = home.open()
        fill(manager, "t", 0, 3)
        home.restart()
    with home.open() as manager:
        entries = log_of(manager).epochs.entries
        fill(manager, "t", 0, 1)
        later = log_of(manager).epochs.entries

    assert [one.start_offset for one in later] == [0, 3, 6, 9, 12]
    assert later[:-1] == entries


@pytest.mark.parametrize("loading", Loading)
def test_runs_that_end_in_order_begin_no_more(loading: Loading) -> None:
    """Also while the directory is not clean, as a program that uses one log leaves it."""
    home = unclean()
    for _ in range(4):
        with home.open_as(loading) as manager:
            fill(manager, "t", 0, 1)
            entries = log_of(manager).epochs.entries

    assert [one.start_offset for one in entries] == [0, 3]
    assert home.is_marked() == (loading is Loading.ALL)


def test_a_log_that_was_not_used_since_begins_it_later() -> None:
    """The file keeps the epoch, through ends in order and a mark, until each log has begun it."""
    home = unclean()
    with home.open() as manager:
        fill(manager, "u", 0, 1)
    home.open().close()
    with home.open() as manager:
        fill(manager, "t", 0, 1)
        entries = log_of(manager).epochs.entries

    assert [one.start_offset for one in entries] == [0, 3]
    assert entries[-1].epoch == json.loads(home.fs.read(FILE))["leaderEpoch"]


def test_a_clean_directory_has_no_file_and_a_new_log_the_first_epoch() -> None:
    """As in Kafka; a log without records has lost none, also in a directory with the file."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 1)
    is_there = home.fs.exists(FILE)
    home = unclean()
    with home.open() as manager:
        manager.create_topic("new")
        fill(manager, "new", 0, 2)
        fill(manager, "u", 0, 2)

        assert not is_there
        for topic in ("new", "u"):
            assert [*log_of(manager, topic).epochs.entries] == [(0, 0)]


def test_who_leads_in_epochs_of_its_own_goes_on_with_them() -> None:
    """The drawn epoch fences only once it was begun."""
    home = unclean()
    with home.open() as manager:
        partition = manager.partition("t", 0)
        drawn = partition.leader_epoch
        partition.lead(1)
        fill(manager, "t", 0, 1)
        led = log_of(manager).latest_epoch
    with home.open() as manager:
        fill(manager, "t", 0, 1)
        with pytest.raises(FencedLeaderEpoch):
            manager.partition("t", 0).lead(2)

    assert (led, drawn > 2) == (1, True)


def test_a_move_does_not_begin_it_for_who_leads() -> None:
    """The next epoch of the leader is taken as before."""
    home = unclean(0, "/data", "/other")
    with home.open() as manager:
        partition = manager.partition("t", 0)
        partition.lead(1)
        manager.move_partition("t", 0, "/other")
        home.clock.advance(0)
        assert log_of(manager).directory == "/other/t-0"
        partition.lead(2)

        assert log_of(manager).epochs.entries[-1] == (2, 3)


def test_it_goes_with_a_log_that_moves() -> None:
    """Whose other directory is clean, and has no such file."""
    home = unclean(0, "/data", "/other")
    with home.open() as manager:
        drawn = manager.partition("t", 0).leader_epoch
        manager.move_partition("t", 0, "/other")
        home.clock.advance(0)
        assert log_of(manager).directory == "/other/t-0"
        moved = manager.partition("t", 0).leader_epoch
    with home.open() as manager:
        fill(manager, "t", 0, 1)
        entries = log_of(manager).epochs.entries

    assert not home.fs.exists("/other/tidelog.least-epoch.json")
    assert drawn == moved > 0
    assert [*entries] == [(0, 0), (drawn, 3)]


def test_it_stays_with_a_log_that_is_opened_again() -> None:
    """As after an append that was interrupted."""
    home = unclean()
    with home.open() as manager:
        drawn = manager.partition("t", 0).leader_epoch
        log = log_of(manager)
        log.require_reopening("an append was interrupted")
        log.close_handlers()
        home.clock.advance(60_000)

        assert log_of(manager) is not log
        assert manager.partition("t", 0).leader_epoch == drawn > 0


def test_a_log_that_does_not_load_lets_the_others_be() -> None:
    """Its directory is never clean; and yet what the others have was closed in order."""
    home = unclean()
    home.fs.write("/data/u-0/leader-epoch-checkpoint", b"5\n")
    drawn = []
    for _ in range(3):
        with home.open() as manager:
            drawn.append(manager.partition("t", 0).leader_epoch)

    assert not home.is_marked()
    assert drawn == drawn[:1] * 3


def test_a_mark_of_another_program_does_not_hide_that_a_later_one_was_killed() -> None:
    """Such as Kafka, which does not know the file."""
    home = unclean()
    with home.open_as(Loading.FIRST_USE) as manager:
        fill(manager, "t", 0, 1)
    is_closed = json.loads(home.fs.read(FILE))["isClosed"]
    home.fs.write("/data/.kafka_cleanshutdown", b"")
    fill(home.open(), "t", 0, 1)
    home.restart()
    with home.open() as manager:
        fill(manager, "t", 0, 1)
        entries = log_of(manager).epochs.entries

    assert is_closed is True
    assert [one.start_offset for one in entries] == [0, 3, 5]


@pytest.mark.parametrize("looks", [0, 1])
def test_another_program_that_was_killed_begins_another_epoch(looks: int) -> None:
    """It has left its lock behind, and what the file says of the logs is not of its time."""
    home = unclean()
    with home.open_as(Loading.FIRST_USE) as manager:
        fill(manager, "t", 0, 1)
        before = log_of(manager).leader_epoch
    home.fs.write("/data/.lock", b"")
    for _ in range(looks):
        home.open_as(Loading.FIRST_USE).close()
    with home.open_as(Loading.FIRST_USE) as manager:
        fill(manager, "t", 0, 1)
        after = log_of(manager).leader_epoch
    with home.open_as(Loading.FIRST_USE) as manager:
        fill(manager, "t", 0, 1)
        later = log_of(manager).leader_epoch

    assert 0 < before < after == later


def test_a_directory_that_may_not_be_read_holds_no_log() -> None:
    """Such as ``lost+found``, where the data directory is the root of a file system."""
    home = unclean()
    home.fs.make_directory("/data/lost+found")
    error = PermissionError(errno.EACCES, "Permission denied")
    home.fs.fail("open", "lost+found/leader-epoch-checkpoint", error)
    with home.open() as manager:
        fill(manager, "t", 0, 1)
        entries = log_of(manager).epochs.entries

    assert [one.start_offset for one in entries] == [0, 3]


def test_on_a_full_disk_no_epoch_is_taken_back_that_clients_know() -> None:
    """They take no metadata with a lower one, as of a log that has not begun it yet."""
    for seed in range(8):
        home = unclean(seed)
        known = home.open().partition("t", 0).leader_epoch
        home.restart()
        home.fs.set_free_bytes(0)
        home.open_as(Loading.FIRST_USE).delete_topic("u")
        home.restart()
        home.fs.set_free_bytes(None)
        with home.open() as manager:
            assert manager.partition("t", 0).leader_epoch > known > 0


def test_where_kafkas_controller_gives_epochs_none_is_left_out() -> None:
    """Clients that know one above the controller's wait for a leader without an end.

    So after a kill there is none, and where the end of a log is lost the next one.
    """
    home = unclean()
    home.fs.make_directory("/data/__cluster_metadata-0")
    with home.open() as manager:
        fill(manager, "t", 0, 1)
        entries = log_of(manager).epochs.entries
    log = "/data/t-0/00000000000000000000.log"
    home.fs.write(log, home.fs.read(log)[:100])
    with home.open() as manager:
        after_loss = log_of(manager).epochs.entries

    assert not home.fs.exists(FILE)
    assert ([*entries], [*after_loss]) == ([(0, 0)], [(0, 0), (1, 1)])


@pytest.mark.parametrize("has_file", [False, True])
def test_on_a_full_disk_topics_are_deleted_and_the_epoch_is_written_later(
    *, has_file: bool
) -> None:
    """Until then the directory is not clean; killed before, it begins another epoch."""
    home = unclean()
    if has_file:
        with home.open_as(Loading.FIRST_USE) as manager:
            fill(manager, "u", 0, 1)
    home.fs.set_free_bytes(0)
    manager = home.open_as(Loading.FIRST_USE)
    manager.delete_topic("u")
    drawn = manager.partition("t", 0).leader_epoch
    is_there = home.fs.exists(FILE)
    home.restart()
    manager = home.open_as(Loading.FIRST_USE)
    again = manager.partition("t", 0).leader_epoch
    with pytest.raises(KafkaStorageError):
        manager.close()
    is_marked = home.is_marked()
    home.fs.set_free_bytes(None)
    with home.open_as(Loading.FIRST_USE) as manager:
        last = manager.partition("t", 0).leader_epoch

    assert (is_there, is_marked) == (False, False)
    assert 0 not in {drawn, again, last}
    assert json.loads(home.fs.read(FILE))["leaderEpoch"] == last


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot be read"),
        (b'{"version":1}', "cannot be read"),
        (b'{"version":1,"leaderEpoch":-1,"isClosed":true}', "-1 is not a leader epoch"),
        (b'{"version":1,"leaderEpoch":2147483648,"isClosed":true}', "above the last"),
        (b'{"version":2,"leaderEpoch":7,"isClosed":true}', "version 2; this tidelog reads up to 1"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_storage_error(content: bytes, reason: str) -> None:
    """The directory is not used, and nothing in it has changed."""
    home = unclean()
    home.fs.write(FILE, content)
    files = {*home.files()} - {".lock"}

    with pytest.raises(KafkaStorageError, match=f"least-epoch.*{reason}"):
        home.open()
    assert {*home.files()} == files
    assert home.fs.read(FILE) == content
