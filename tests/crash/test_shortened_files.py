"""Power cuts after a file was shortened: the bytes that were cut off must not come back.

A recovery looks only at segments from the recovery point on. So what it will not see again has to
be durable, the ends of files included.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from tests.crash.power_cuts import Outcome, outcomes
from tests.machinery.cleaning import CleanerHome
from tests.machinery.log_home import LogHome, all_values

from tidelog.errors import KafkaStorageError
from tidelog.records.isolation import Isolation
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log
    from tidelog.testing import CrashFileSystem

FIRST = f"{LogHome.directory}/{0:020}.log"
WAYS = outcomes(6)


def values(start: int, end: int) -> list[tuple[int, bytes]]:
    """Return what ``append`` has written at offsets [start, end)."""
    return [(offset, b"value-%d" % offset) for offset in range(start, end)]


def append(log: Log, count: int) -> None:
    """Append records, each in a batch of its own, with its offset in the value."""
    for _ in range(count):
        log.append_as_leader(build_batch([(1, None, b"value-%d" % log.log_end_offset, ())]))


def extend(home: LogHome, path: str, data: bytes) -> None:
    """Leave durable bytes at the end of a file, as a power cut during an append may."""
    file = home.fs.open(path, "r+")
    file.pwrite(data, file.size())
    file.sync()
    file.close()


def reopened(home: LogHome, way: Outcome, recovery_point: int) -> Log:
    """Cut the power, then open the log as after an unclean shutdown."""
    home.power_cut(way.kept)
    return home.open(clean=False, recovery_point=recovery_point)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("flushes_first", [False, True])
@pytest.mark.parametrize("appended", [[0], [50], [200], [5, 5]])
def test_no_recovery_point_passes_a_preallocated_end_that_may_come_back(
    way: Outcome, flushes_first: bool, appended: list[int]
) -> None:
    """A roll trims the segment, and ``flush`` makes that durable with the records after it.

    The task that flushes after a roll does not run here.
    """
    home = LogHome(way.seed, internal_segment_bytes=4096, preallocate=True, retention_ms=-1)
    log = home.open()
    append(log, 3)
    for count in appended:
        if flushes_first:
            log.flush()
        log.roll()
        append(log, count)
    log.flush()

    log = reopened(home, way, log.recovery_point)

    end = 3 + sum(appended)
    assert log.log_end_offset == end
    assert all_values(log) == values(0, end)


class FilesDuringAFlush:
    """A disk on which something else happens before a directory is synced for the first time."""

    def __init__(self, fs: CrashFileSystem) -> None:
        self._fs = fs
        self.before_sync: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def sync_directory(self, path: str) -> None:
        """Sync a directory, after the files in it."""
        before, self.before_sync = self.before_sync, None
        if before is not None:
            before()
        self._fs.sync_directory(path)


@pytest.mark.parametrize("way", WAYS)
def test_a_roll_during_a_flush_trims_nothing_that_may_come_back(way: Outcome) -> None:
    """The segment was synced before its end was trimmed, and is synced again."""
    home = LogHome(way.seed, internal_segment_bytes=4096, preallocate=True, retention_ms=-1)
    files = FilesDuringAFlush(home.fs)
    log = home.open(fs=files)
    append(log, 3)
    files.before_sync = log.roll
    log.flush()
    append(log, 5)
    log.roll()
    append(log, 5)
    log.flush()

    log = reopened(home, way, log.recovery_point)

    assert log.segments.base_offsets == [0, 3, 8]
    assert all_values(log) == values(0, 13)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tail", [bytes(40), b"torn" * 9])
def test_what_recovery_has_cut_does_not_come_back(way: Outcome, tail: bytes) -> None:
    """The segment is not flushed again where all its records are durable, but its cut is."""
    home = LogHome(way.seed, internal_segment_bytes=400, retention_ms=-1)
    log = home.open()
    append(log, 3)
    log.flush()
    extend(home, FIRST, tail)
    home.restart()
    log = home.open(clean=False, recovery_point=log.recovery_point)
    log.roll()
    append(log, 4)
    log.flush()

    log = reopened(home, way, log.recovery_point)

    assert all_values(log) == values(0, 7)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_cut_off_a_segment_within_the_log_does_not_come_back(way: Outcome) -> None:
    """A segment without its offset index is recovered wherever it lies, and never again."""
    home = LogHome(way.seed, internal_segment_bytes=400, retention_ms=-1)
    log = home.open()
    append(log, 3)
    log.roll()
    append(log, 3)
    log.flush()
    extend(home, FIRST, b"torn" * 9)
    home.restart()
    home.fs.delete(FIRST.replace(".log", ".index"))
    log = home.open(clean=False, recovery_point=log.recovery_point)
    log.flush(force=True)
    home.fs.sync_directory(home.directory)

    log = reopened(home, way, log.recovery_point)

    assert all_values(log) == values(0, 6)


@pytest.mark.parametrize("recovery_point", [0, 3, 6])
def test_zeros_at_the_end_of_an_inactive_segment_are_trimmed(recovery_point: int) -> None:
    """No record is missing there, so what follows stays: a roll's trim may be lost in Kafka."""
    home = LogHome(internal_segment_bytes=400, retention_ms=-1)
    log = home.open()
    append(log, 3)
    log.roll()
    append(log, 3)
    log.flush()
    size = home.fs.stat(FIRST).size_bytes
    extend(home, FIRST, bytes(300))
    home.restart()

    log = home.open(clean=False, recovery_point=recovery_point)

    assert all_values(log) == values(0, 6)
    assert home.fs.stat(FIRST).size_bytes == size


def test_zeros_in_the_place_of_records_end_the_log() -> None:
    """What follows lost records goes, as in Kafka: the log would have a hole."""
    home = LogHome(internal_segment_bytes=400, retention_ms=-1)
    log = home.open()
    append(log, 2)
    log.flush()
    kept = home.fs.stat(FIRST).size_bytes
    append(log, 1)
    size = home.fs.stat(FIRST).size_bytes
    log.roll()
    append(log, 3)
    log.flush()
    with_zeros = home.fs.open(FIRST, "r+")
    with_zeros.truncate(kept)
    with_zeros.truncate(size)
    with_zeros.close()
    home.restart()

    log = home.open(clean=False, recovery_point=2)

    assert all_values(log) == values(0, 2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_killed", [False, True])
def test_records_of_a_truncation_that_failed_half_way_do_not_come_back(
    way: Outcome, is_killed: bool
) -> None:
    """The log that is opened next syncs what it found before it appends anything.

    Else an old record could lie where a new one was acknowledged.
    """
    home = LogHome(way.seed, retention_ms=-1)
    log = home.open()
    append(log, 6)
    log.flush()
    home.fs.fail("truncate", ".index", OSError(errno.ENOSPC, "injected"))
    with pytest.raises(KafkaStorageError):
        log.truncate_to(3)
    if not is_killed:
        log.close_handlers()
    home.restart()
    log = home.open(clean=False, recovery_point=3)
    assert log.log_end_offset == 3
    log.append_as_leader(build_batch([(1, None, b"new", ())]))

    log = reopened(home, way, 3)

    assert all_values(log)[3:] in ([], [(3, b"new")])


@pytest.mark.parametrize("way", WAYS)
def test_a_truncation_that_was_undone_takes_no_segment_in_a_power_cut(way: Outcome) -> None:
    """The names that it has taken back are durable before the error is raised."""
    home = LogHome(way.seed, retention_ms=-1)
    log = home.open()
    append(log, 3)
    log.roll()
    append(log, 3)
    log.flush()
    home.fs.fail("truncate", ".log", OSError(errno.ENOSPC, "injected"))
    with pytest.raises(KafkaStorageError):
        log.truncate_to(2)
    assert not log.is_offline

    log = reopened(home, way, log.recovery_point)

    assert all_values(log) == values(0, 6)


@pytest.mark.parametrize("way", [*WAYS, *(Outcome("prefix", seed) for seed in range(8))])
def test_a_segment_that_could_not_be_preallocated_does_not_come_back(way: Outcome) -> None:
    """Its base offset is one of a record in the segment before, by then."""
    home = LogHome(way.seed, internal_segment_bytes=4096, preallocate=True, retention_ms=-1)
    log = home.open()
    append(log, 3)
    log.flush()
    home.fs.fail("truncate", f"{3:020}.log", OSError(errno.ENOSPC, "injected"))
    with pytest.raises(KafkaStorageError):
        log.roll()
    assert not log.is_offline
    append(log, 3)
    log.flush()

    log = reopened(home, way, log.recovery_point)

    assert log.segments.base_offsets == [0]
    assert all_values(log) == values(0, 6)


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_append_does_not_come_back(way: Outcome) -> None:
    """It is taken off the file durably before the error is raised."""
    home = LogHome(way.seed, index_interval_bytes=0, retention_ms=-1)
    log = home.open()
    append(log, 3)
    log.flush()
    home.fs.fail("pwrite", ".index", OSError(errno.ENOSPC, "injected"))
    with pytest.raises(KafkaStorageError):
        log.append_as_leader(build_batch([(1, None, b"refused", ())]))

    log = reopened(home, way, log.recovery_point)

    assert all_values(log) == values(0, 3)


@pytest.mark.parametrize("way", WAYS)
def test_closing_makes_indexes_durable_that_a_recovery_found_right(way: Outcome) -> None:
    """The process that was killed may have left them in memory only."""
    home = LogHome(way.seed, internal_segment_bytes=400, index_interval_bytes=0, retention_ms=-1)
    log = home.open()
    append(log, 3)
    log.roll()
    append(log, 3)
    home.restart()
    log = home.open(clean=False)
    log.close()
    indexes = {name: home.read(name) for name in home.files("index")}

    home.power_cut(way.kept)

    assert {name: home.read(name) for name in home.files("index")} == indexes


@pytest.mark.parametrize("seed", range(16))
def test_an_aborted_transaction_is_as_durable_as_its_marker(seed: int) -> None:
    """The index of a flushed segment stays: no recovery would make it again."""
    home = CleanerHome(seed, cleanup_policy=("delete",))
    log = home.open()
    home.producer(log, 1).send(("key", "aborted"), transactional=True)
    log.flush()
    home.end_transaction(log, 1, commit=False)
    log.flush()
    log.roll()
    home.power_cut("any")

    log = home.open(clean=False, recovery_point=log.recovery_point)

    assert all_values(log, Isolation.READ_COMMITTED) == []
