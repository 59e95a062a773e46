"""The leader epoch cache."""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome

from tidelog.errors import InvalidArgument
from tidelog.log.directory_guard import DirectoryGuard
from tidelog.log.leader_epoch import (
    EpochEntry,
    LeaderEpochCache,
    epoch_after_loss,
    later_epoch,
)
from tidelog.testing import CrashFileSystem, ManualClock, ManualScheduler, build_batch

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

DIRECTORY = "/data/flights-0"
RECORD = ((0, b"k", b"v", ()),)


class Place:
    """A directory with a cache in it, and the clock that runs its background writes."""

    def __init__(self, *entries: tuple[int, int]) -> None:
        self.fs = CrashFileSystem()
        self.fs.make_directory(DIRECTORY)
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.cache = self.open()
        for entry in entries:
            self.cache.assign(*entry)

    def open(self) -> LeaderEpochCache:
        """Read the cache from the disk."""
        self.guard = DirectoryGuard("/data")
        return LeaderEpochCache.open(
            DIRECTORY, fs=self.fs, scheduler=self.scheduler, guard=self.guard
        )


def test_the_file_exists_from_the_start_without_entries() -> None:
    """A log without epochs has the file, too, empty, as in Kafka."""
    place = Place()

    place.cache.create()

    assert place.cache.entries == ()
    assert place.fs.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b""


def test_an_assigned_epoch_is_durable_at_once() -> None:
    """An entry is on the disk when ``assign`` returns.

    Scenario: LeaderEpochFileCacheTest.shouldAddEpochAndMessageOffsetToCache,
    LeaderEpochFileCacheTest.shouldPersistEpochsBetweenInstances
    """
    place = Place((1, 0), (3, 17))
    place.fs.sync_directory("/data")
    place.fs.sync_directory("/")
    place.fs.power_cut()

    assert place.open().entries == (EpochEntry(1, 0), EpochEntry(3, 17))


def test_the_latest_epoch_again_at_a_higher_offset_is_no_news() -> None:
    """Assigning the latest epoch at a higher offset changes nothing.

    Scenario:
    LeaderEpochFileCacheTest.shouldNotOverwriteLogEndOffsetForALeaderEpochOnceItHasBeenAssigned,
    LeaderEpochFileCacheTest.shouldNotOverwriteOffsetForALeaderEpochOnceItHasBeenAssigned,
    LeaderEpochFileCacheTest.shouldNotUpdateEpochAndStartOffsetIfItDidNotChange
    """
    place = Place((2, 5))

    assert not place.cache.assign(2, 9)
    assert not place.cache.assign(2, 5)
    assert place.cache.entries == (EpochEntry(2, 5),)
    assert place.cache.assign(3, 9)
    assert not place.cache.assign(3, 10)


@pytest.mark.parametrize(
    ("known", "assigned", "expected"),
    [
        ([(5, 11), (6, 12), (7, 13)], (7, 12), [(5, 11), (7, 12)]),
        ([(2, 9)], (3, 9), [(3, 9)]),
        ([(2, 9)], (1, 12), [(1, 12)]),
        ([(2, 9), (4, 20)], (3, 15), [(2, 9), (3, 15)]),
    ],
)
def test_entries_that_contradict_a_new_one_give_way(
    known: list[tuple[int, int]], assigned: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    """Epochs and start offsets stay strictly increasing: the newest assignment wins.

    Scenario: LeaderEpochFileCacheTest.shouldEnforceMonotonicallyIncreasingEpochs,
    LeaderEpochFileCacheTest.shouldEnforceMonotonicallyIncreasingStartOffsets,
    LeaderEpochFileCacheTest.shouldEnforceOffsetsIncreaseMonotonically,
    LeaderEpochFileCacheTest.shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages,
    LeaderEpochFileCacheTest.shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes,
    LeaderEpochFileCacheTest.shouldTruncateIfMatchingEpochButEarlierStartingOffset
    """
    place = Place(*known)

    place.cache.assign(*assigned)

    assert [tuple(entry) for entry in place.cache.entries] == expected


@pytest.mark.parametrize(
    ("known", "assigned", "removed"),
    [
        ([(5, 11), (6, 12), (7, 13)], (7, 12), [(6, 12), (7, 13)]),
        ([(1, 0), (2, 9)], (2, 5), [(2, 9)]),
        ([(1, 0), (2, 9)], (3, 9), []),
        ([(1, 0), (2, 9)], (3, 10), []),
        ([], (3, 10), []),
    ],
)
def test_a_warning_names_the_entries_that_gave_way(
    caplog: pytest.LogCaptureFixture,
    known: list[tuple[int, int]],
    assigned: tuple[int, int],
    removed: list[tuple[int, int]],
) -> None:
    """An epoch in which nothing was written is replaced by the next one without a warning."""
    place = Place(*known)

    assert place.cache.assign(*assigned)

    entries = tuple(EpochEntry(*entry) for entry in removed)
    assert ("leader-epochs-replaced" in caplog.text) is bool(removed)
    assert not removed or f"removed={entries}" in caplog.text


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("1 20\n2 10\n", [(2, 10)]),
        ("1 10\n1 20\n", [(1, 10)]),
        ("5 1\n3 2\n4 3\n", [(3, 2), (4, 3)]),
    ],
)
def test_in_a_file_whose_entries_do_not_rise_the_later_line_counts(
    lines: str, expected: list[tuple[int, int]]
) -> None:
    """Each line is taken as if it were assigned; the file stays as it is."""
    place = Place()
    text = f"0\n{lines.count(chr(10))}\n{lines}".encode()
    place.fs.write(f"{DIRECTORY}/leader-epoch-checkpoint", text)

    assert [tuple(entry) for entry in place.open().entries] == expected
    assert place.fs.read(f"{DIRECTORY}/leader-epoch-checkpoint") == text


def test_a_long_file_with_one_line_out_of_order_is_read_in_linear_time() -> None:
    """A damaged line does not compare each of a hundred thousand epochs with all before it."""
    place = Place()
    lines = "".join(f"{epoch} {2 * epoch}\n" for epoch in range(100_000))
    text = f"0\n100001\n{lines}90000 180001\n".encode()
    place.fs.write(f"{DIRECTORY}/leader-epoch-checkpoint", text)

    entries = place.open().entries

    assert len(entries) == 90_001
    assert entries[-2:] == (EpochEntry(89_999, 179_998), EpochEntry(90_000, 180_001))


def test_many_epochs_are_assigned_with_one_write() -> None:
    """Recovery of a log of many epochs would else write the file once for each."""
    one, many = Place((1, 0), (5, 10)), Place((1, 0), (5, 10))
    before = len(one.fs.operations), len(many.fs.operations)

    assert one.cache.assign(6, 12)
    assert many.cache.assign_all([EpochEntry(6, 12), EpochEntry(6, 13), EpochEntry(7, 20)])

    assert len(many.fs.operations) - before[1] == len(one.fs.operations) - before[0]
    assert many.open().entries == ((1, 0), (5, 10), (6, 12), (7, 20))
    assert not many.cache.assign_all([EpochEntry(7, 21)])


@pytest.mark.parametrize(("latest", "expected"), [(None, 1), (0, 1), (4, 5), (2**31 - 1,) * 2])
def test_beside_a_controller_of_kafkas_a_loss_begins_the_next_epoch(
    latest: int | None, expected: int
) -> None:
    """Clients of its broker wait for ever for a leader of an epoch above the controller's."""
    place = Place()
    place.fs.make_directory("/data/__cluster_metadata-0")

    assert epoch_after_loss(place.fs, "/data", latest, Random(5)) == expected


def test_without_a_controller_a_loss_leaves_epochs_out() -> None:
    """Those between may have begun in what is lost, and where, nobody knows."""
    drawn = {epoch_after_loss(Place().fs, "/data", 4, Random(seed)) for seed in range(20)}

    assert len(drawn) > 1
    assert min(drawn) > 1000


@pytest.mark.parametrize("line", ["-1 0", "0 -1"])
def test_a_file_with_a_negative_number_is_refused(line: str) -> None:
    """Kafka does not start on it either."""
    place = Place()
    place.fs.write(f"{DIRECTORY}/leader-epoch-checkpoint", f"0\n1\n{line}\n".encode())

    with pytest.raises(InvalidArgument):
        place.open()


def test_a_negative_epoch_is_refused() -> None:
    """Neither an epoch nor a start offset is negative."""
    place = Place()

    with pytest.raises(InvalidArgument):
        place.cache.assign(-1, 0)
    with pytest.raises(InvalidArgument):
        place.cache.assign(0, -1)


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [
        (0, []),
        (8, [(2, 6)]),
        (9, [(2, 6), (3, 8)]),
        (12, [(2, 6), (3, 8), (4, 11)]),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_truncating_the_end_drops_epochs_that_begin_there(
    end_offset: int, expected: list[tuple[int, int]]
) -> None:
    """Entries that begin at or above the new end go; a negative end is ignored.

    Scenario: LeaderEpochFileCacheTest.shouldClearLatestOnEmptyCache,
    LeaderEpochFileCacheTest.shouldDropEntriesBetweenEpochBoundaryWhenRemovingNewest,
    LeaderEpochFileCacheTest.shouldDropEntriesOnEpochBoundaryWhenRemovingLatestEntries,
    LeaderEpochFileCacheTest.shouldNotResetEpochHistoryHeadIfUndefinedPassed
    """
    place = Place((2, 6), (3, 8), (4, 11))

    is_changed = place.cache.truncate_from_end(end_offset)

    assert [tuple(entry) for entry in place.cache.entries] == expected
    assert is_changed is place.cache.is_dirty is (len(expected) < 3)


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [
        (1, [(2, 6), (3, 8), (4, 11)]),
        (6, [(2, 6), (3, 8), (4, 11)]),
        (7, [(2, 7), (3, 8), (4, 11)]),
        (8, [(3, 8), (4, 11)]),
        (9, [(3, 9), (4, 11)]),
        (11, [(4, 11)]),
        (15, [(4, 15)]),
    ],
)
def test_truncating_the_start_cuts_the_epoch_that_covers_it(
    start_offset: int, expected: list[tuple[int, int]]
) -> None:
    """The epoch in force at the new start begins there; older ones go.

    Scenario: LeaderEpochFileCacheTest.shouldClearEarliestOnEmptyCache,
    LeaderEpochFileCacheTest.shouldNotClearAnythingIfOffsetToEarly,
    LeaderEpochFileCacheTest.shouldNotClearAnythingIfOffsetToFirstOffset,
    LeaderEpochFileCacheTest.shouldNotResetEpochHistoryTailIfUndefinedPassed,
    LeaderEpochFileCacheTest.shouldPreserveResetOffsetOnClearEarliestIfOneExists,
    LeaderEpochFileCacheTest.shouldRetainLatestEpochOnClearAllEarliest,
    LeaderEpochFileCacheTest.shouldRetainLatestEpochOnClearAllEarliestAndUpdateItsOffset,
    LeaderEpochFileCacheTest.shouldUpdateOffsetBetweenEpochBoundariesOnClearEarliest,
    LeaderEpochFileCacheTest.shouldUpdateOffsetBetweenEpochBoundariesOnClearEarliest2,
    LeaderEpochFileCacheTest.shouldUpdateSavedOffsetWhenOffsetToClearToIsBetweenEpochs
    """
    place = Place((2, 6), (3, 8), (4, 11))

    is_changed = place.cache.truncate_from_start(start_offset)

    assert [tuple(entry) for entry in place.cache.entries] == expected
    assert is_changed is place.cache.is_dirty is (start_offset > 6)


def test_a_truncation_reaches_the_file_in_background() -> None:
    """The file follows a truncation when the scheduled task has run, not before.

    Scenario: LeaderEpochFileCacheTest.shouldWriteCheckpointOnTruncation
    """
    place = Place((2, 6), (3, 8))
    place.cache.truncate_from_end(8)
    before = place.open().entries
    waiting = place.scheduler.first()

    place.clock.advance(0)

    assert waiting is not None
    assert waiting.name == "leader-epoch-cache-flush-flights-0"

    assert before == (EpochEntry(2, 6), EpochEntry(3, 8))
    assert place.open().entries == (EpochEntry(2, 6),)


def test_earlier_entries_are_restored_in_background() -> None:
    """What an undone truncation dropped is in the file again, after the next write."""
    place = Place((2, 6), (3, 8))
    earlier = place.cache.entries
    place.cache.truncate_from_end(8)

    place.cache.restore(earlier)
    place.clock.advance(0)

    assert place.cache.entries == place.open().entries == earlier


@pytest.mark.parametrize("is_dirty", [True, False])
def test_a_clean_or_offline_cache_is_not_written_in_background(is_dirty: bool) -> None:
    """The disk failed, or there is nothing to write."""
    place = Place((2, 6))
    if is_dirty:
        place.cache.truncate_from_end(6)
        place.guard.take_offline(OSError(errno.EIO, "the disk failed"))
    traced = place.fs.trace()

    place.cache.flush_if_dirty()

    assert traced == []


def test_all_epochs_are_dropped_even_if_the_disk_is_full() -> None:
    """Memory does not wait for the file; another error of the disk is raised."""
    full, broken = Place((2, 6)), Place((2, 6))
    full.fs.fail("pwrite", "leader-epoch-checkpoint.tmp", FULL)
    broken.fs.fail("pwrite", "leader-epoch-checkpoint.tmp", OSError(errno.EIO, "broken"))

    full.cache.truncate_all()
    with pytest.raises(OSError, match="broken"):
        broken.cache.truncate_all()

    assert full.cache.entries == broken.cache.entries == ()
    assert full.cache.is_dirty


def test_a_full_disk_puts_a_background_write_off(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once until the file is written; no task fails, and a later flush writes it."""
    place = Place((2, 6), (3, 8), (4, 11))
    place.fs.fail("pwrite", "leader-epoch-checkpoint.tmp", FULL, count=2)
    for end in (11, 8):
        place.cache.truncate_from_end(end)
        place.clock.advance(0)
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("WARNING", f"leader-epochs-not-flushed directory={DIRECTORY}")
    ]
    assert place.cache.is_dirty

    place.cache.flush_if_room()

    assert place.open().entries == place.cache.entries == (EpochEntry(2, 6),)


def test_a_log_that_is_emptied_has_a_file_that_says_so() -> None:
    """As Kafka's has, also one that never had an epoch."""
    place = Place()
    place.cache.create()

    place.cache.truncate_all()

    assert place.fs.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n0\n"


def test_a_background_write_of_a_deleted_log_leaves_its_successor_alone() -> None:
    """A log was renamed to be deleted, and its topic made again, before the write could begin."""
    home = LogHome()
    log = home.open()
    for epoch in (5, 6, 7):
        log.append_as_leader(build_batch([(0, b"k", b"v", ())]), epoch)
    log.update_high_watermark(3)
    log.delete_records(1)
    log.rename_directory(f"flights-0.{'0' * 32}-delete", goes_on=False)
    home.fs.make_directory(home.directory)
    successor = home.open()
    successor.append_as_leader(build_batch([(0, b"k", b"v", ())]), 0)

    home.clock.advance(0)

    assert home.read("leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    assert home.open().epochs.entries == successor.epochs.entries == (EpochEntry(0, 0),)
    assert log.epochs.entries == ()


def test_no_background_write_follows_a_log_that_was_closed_without_one() -> None:
    """Its directory may be another process's by then, whose epochs the write would undo."""
    home = LogHome()
    log = home.open()
    log.maybe_assign_epoch(1, 0)
    log.append_as_leader(build_batch([(1000, b"k", b"v", ())]), leader_epoch=1)
    log.maybe_assign_epoch(2, 1)
    log.truncate_to(1)
    log.close_handlers()
    path = f"{home.directory}/leader-epoch-checkpoint"
    home.fs.write(path, b"0\n1\n7 0\n")

    home.clock.advance(0)

    assert home.fs.read(path) == b"0\n1\n7 0\n"


def test_a_background_write_follows_a_log_that_is_renamed_and_goes_on() -> None:
    """The truncation reaches the file where it is now."""
    place = Place((2, 6), (3, 8))
    place.cache.truncate_from_end(8)
    place.fs.rename(DIRECTORY, "/data/flights-1")
    place.cache.moved_to("/data/flights-1")

    place.clock.advance(0)

    assert place.fs.read("/data/flights-1/leader-epoch-checkpoint") == b"0\n1\n2 6\n"
    assert (place.fs.exists(DIRECTORY), place.cache.is_dirty) == (False, False)


def test_entries_forgotten_as_their_write_begins_are_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is their loss: at their place may be the file of another log by now."""
    place = Place((2, 6), (3, 8))
    place.cache.truncate_from_end(8)
    watch = place.guard.watch

    def watch_late(doing: str) -> AbstractContextManager[None]:
        place.cache.clear()
        return watch(doing)

    monkeypatch.setattr(place.guard, "watch", watch_late)
    place.clock.advance(0)

    assert place.open().entries == (EpochEntry(2, 6), EpochEntry(3, 8))


def test_a_background_write_tolerates_a_vanished_directory() -> None:
    """A log renamed or deleted meanwhile takes its epochs along: nothing fails."""
    place = Place((2, 6))
    place.cache.truncate_from_end(6)
    place.fs.rename(DIRECTORY, f"{DIRECTORY}.gone")

    place.clock.advance(0)

    assert not place.fs.exists(DIRECTORY)


@pytest.mark.parametrize(
    ("entries", "epoch", "expected"),
    [
        ([(5, 11), (6, 12), (7, 13)], 4, (4, 11)),
        ([(0, 10), (2, 13), (4, 17)], 1, (0, 13)),
        ([(0, 10), (2, 13), (4, 17)], 2, (2, 17)),
        ([(0, 10), (2, 13), (4, 17)], 3, (2, 17)),
        ([(5, 11)], 5, (5, 20)),
        ([(5, 11)], 6, (-1, -1)),
        ([(5, 11)], -1, (-1, -1)),
        ([], 0, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(
    entries: list[tuple[int, int]], epoch: int, expected: tuple[int, int]
) -> None:
    """The answer names the greatest known epoch up to the one asked for, and where it ended.

    Scenario: LeaderEpochFileCacheTest.shouldFetchEndOffsetOfEmptyCache,
    LeaderEpochFileCacheTest.
    shouldGetFirstOffsetOfSubsequentEpochWhenOffsetRequestedForPreviousEpoch,
    LeaderEpochFileCacheTest.shouldReturnFirstEpochIfRequestedEpochLessThanFirstEpoch,
    LeaderEpochFileCacheTest.shouldReturnInvalidOffsetIfEpochIsRequestedWhichIsNotCurrentlyTracked,
    LeaderEpochFileCacheTest.shouldReturnLogEndOffsetIfLatestEpochRequested,
    LeaderEpochFileCacheTest.shouldReturnNextAvailableEpochIfThereIsNoExactEpochForTheOneRequested,
    LeaderEpochFileCacheTest.shouldReturnUndefinedOffsetIfUndefinedEpochRequested,
    LeaderEpochFileCacheTest.shouldReturnUnsupportedIfNoEpochRecorded,
    LeaderEpochFileCacheTest.shouldReturnUnsupportedIfNoEpochRecordedAndUndefinedEpochRequested,
    LeaderEpochFileCacheTest.shouldSupportEpochsThatDoNotStartFromZero
    """
    place = Place(*entries)

    assert place.cache.end_offset_for(epoch, log_end_offset=20) == expected


def test_lookups_find_the_latest_epoch_and_that_of_an_offset() -> None:
    """An offset below all entries has no epoch that is known, an empty cache no latest one.

    Scenario: LeaderEpochFileCacheTest.shouldFetchEpochForGivenOffset,
    LeaderEpochFileCacheTest.shouldFetchLatestEpochOfEmptyCache
    """
    cache = Place((2, 6), (3, 8), (4, 11)).cache
    assert (cache.latest, cache.latest_epoch) == (EpochEntry(4, 11), 4)
    cache = Place((2, 6), (4, 11)).cache

    assert [cache.epoch_for_offset(offset) for offset in (5, 6, 10, 11)] == [None, 2, 2, 4]
    assert (Place().cache.latest, Place().cache.latest_epoch) == (None, None)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, (2, 0)), (1, (5, 1)), (2, (5, 1)), (3, (7, 3)), (4, None), (-1, None)],
)
def test_a_log_answers_with_the_epoch_and_its_end(
    epoch: int, expected: tuple[int, int] | None
) -> None:
    """The latest epoch ends at the log end; nothing is known above it.

    An epoch below all known ones is answered with itself, as Kafka does.
    """
    log = LogHome().open()
    log.truncate_fully_and_start_at(2)
    for leader_epoch, count in ((1, 3), (3, 2)):
        log.append_as_leader(build_batch([(0, b"k", b"v", ())] * count), leader_epoch)

    found = log.end_offset_for_epoch(epoch)

    assert (found and (found.offset, found.leader_epoch)) == expected


def test_a_truncated_epoch_does_not_come_back_among_records_of_a_lower_one() -> None:
    """Its file was behind until a task had run: a kill before that brought it back."""
    home = LogHome()
    log = home.open()
    for epoch, offset in ((4, 0), (5, 1)):
        log.append_as_follower(build_batch(RECORD, base_offset=offset, leader_epoch=epoch), 5)
    log.truncate_to(1)
    for offset in (1, 2):
        log.append_as_follower(build_batch(RECORD, base_offset=offset, leader_epoch=4), 5)
    home.restart()

    assert home.open(clean=False).epochs.entries == ((4, 0),)


def test_a_log_without_epochs_knows_no_end_of_one() -> None:
    """As a log of old batches, or a new one."""
    assert LogHome().open().end_offset_for_epoch(0) is None


FULL = OSError(errno.ENOSPC, "full")


def test_an_epoch_that_cannot_be_written_is_not_known() -> None:
    """Else it would never reach the file: assigning it again would change nothing."""
    place = Place((1, 0))
    place.fs.fail("pwrite", "leader-epoch-checkpoint.tmp", FULL)
    with pytest.raises(OSError, match="full"):
        place.cache.assign(2, 3)
    refused = place.cache.entries

    place.cache.assign(2, 3)

    assert refused == (EpochEntry(1, 0),)
    assert place.open().entries == place.cache.entries == (EpochEntry(1, 0), EpochEntry(2, 3))


def test_epochs_that_cannot_be_cleared_on_disk_are_kept() -> None:
    """Memory and file stay the same."""
    place = Place((1, 0))
    place.fs.fail("open", "leader-epoch-checkpoint.tmp", FULL)
    with pytest.raises(OSError, match="full"):
        place.cache.clear_and_flush()

    assert place.open().entries == place.cache.entries == (EpochEntry(1, 0),)


@pytest.mark.parametrize("how", ["flush", "close"])
def test_a_truncation_that_missed_the_file_is_written_later(how: str) -> None:
    """If the truncation and the task find the disk full, the next flush or the closing writes."""
    home = LogHome()
    log = home.open()
    for epoch in (1, 2):
        log.append_as_leader(build_batch([(0, b"k", b"v", ())]), epoch)
    home.fs.fail("pwrite", "leader-epoch-checkpoint.tmp", FULL, count=2)
    log.truncate_to(1)
    home.clock.advance(0)
    before = home.read("leader-epoch-checkpoint")

    getattr(log, how)()

    assert (before, home.read("leader-epoch-checkpoint")) == (b"0\n2\n1 0\n2 1\n", b"0\n1\n1 0\n")
    assert home.failures == []


def test_an_epoch_after_a_loss_is_one_that_no_other_log_has() -> None:
    """Above what a lost log may have come to meanwhile, and another one each time."""
    rng = Random(1)
    drawn = [later_epoch(latest, rng) for latest in [None, 7] * 500]

    assert min(drawn) >= 4096
    assert len(set(drawn)) > 990
    assert later_epoch(2**31 - 1, rng) == 2**31 - 1


def test_the_epochs_that_are_left_out_are_some_thousands_up_to_a_million() -> None:
    """More than a broker has elections in a while, and few enough for 2,000 losses."""

    class Extremes(Random):
        """Draws the least number, and keeps the range."""

        def randint(self, a: int, b: int) -> int:
            drawn.append((a, b))
            return a

    drawn: list[tuple[int, int]] = []
    assert later_epoch(None, Extremes()) == 4095
    assert later_epoch(7, Extremes()) == 7 + 4096
    assert set(drawn) == {(4096, 1_048_576)}
