"""How a log is looked at while it changes."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.machinery.held_lock import HeldLock
from tests.machinery.log_home import LogHome

from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.log.state import UNLOCKED_LOOKS
from tidelog.records.isolation import Isolation
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.log.reading.log_reads import LogView

BATCH = build_batch([(1_700_000_000_000, None, b"value", ())])


def test_a_look_that_fails_because_the_log_changed_is_repeated() -> None:
    """A segment closed under a reader is not a disk failure: the log is asked again."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)
    ends: list[int] = []

    def question(view: LogView) -> int:
        ends.append(view.offsets.log_end_offset)
        if len(ends) == 1:
            log.append_as_leader(BATCH)
            raise OSError(errno.EBADF, "closed")
        return view.offsets.log_end_offset

    assert log._state.look("asking", question) == 2
    assert (ends, home.failures) == ([1, 2], [])


def test_a_look_that_fails_by_itself_is_a_failed_disk() -> None:
    """An error on a log that stayed as it was takes the directory offline."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)
    home.fs.fail("pread", ".log", OSError(errno.EIO, "broken"))

    with pytest.raises(KafkaStorageError):
        log.read(0, isolation=Isolation.LOG_END)
    assert [error.errno for error in home.failures] == [errno.EIO]


def test_reading_a_closed_log_is_no_failed_disk() -> None:
    """A read after close raises an error; the directory stays online."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)
    log.close()

    with pytest.raises(KafkaStorageError):
        log.read(0, isolation=Isolation.LOG_END)
    assert home.failures == []


def test_reading_a_log_that_is_being_closed_is_no_failed_disk() -> None:
    """The first of its segments is closed; the reader waits, and learns that the log is."""
    home = LogHome(internal_segment_bytes=2 * len(BATCH))
    log = home.open()
    for _ in range(5):
        log.append_as_leader(BATCH)
    log.segments.all[0].close()
    log._state.lock = HeldLock.until(log.close)

    with pytest.raises(KafkaStorageError, match="flights-0 is closed"):
        log.read(0, isolation=Isolation.LOG_END)
    assert (home.failures, log.is_offline) == ([], False)


def being_cut(log: Log, offset: int) -> None:
    """Truncate a log of one segment, and stop right after the records have left its file."""
    state, file = log._state, log.segments.active.view().file
    records = file.pread(file.size(), 0)
    place, cutting = log.offset_metadata(offset), state.cutting()

    def finish() -> None:
        file.pwrite(records, 0)  # the truncation begins again, and runs to its end
        log.truncate_to(offset)
        cutting.__exit__(None, None, None)

    cutting.__enter__()
    file.truncate(place.position)
    log._state.lock = HeldLock.until(finish)


def test_a_read_beside_a_truncation_waits_for_its_end() -> None:
    """Records that are gone from the file, but not yet from the log, are not damaged."""
    home = LogHome()
    log = home.open()
    for _ in range(5):
        log.append_as_leader(BATCH)
    being_cut(log, 3)

    with pytest.raises(OffsetOutOfRange, match=r"the log holds \[0, 3\]"):
        log.read(4, isolation=Isolation.LOG_END)
    assert [record.offset for record in log.records(isolation=Isolation.LOG_END)] == [0, 1, 2]
    assert home.failures == []


def test_a_look_during_which_the_log_was_cut_is_repeated() -> None:
    """Other records may have come in place of the cut, so that the log ends where it did."""
    log = LogHome().open()
    asked: list[LogView] = []

    def question(view: LogView) -> int:
        asked.append(view)
        if len(asked) == 1:
            with log._state.cutting():
                pass
            raise CorruptMessage("the file ends inside a batch", 0, "log")
        return view.offsets.log_end_offset

    assert log._state.look("asking", question) == 0
    assert asked[0] == asked[1]


def test_damage_that_the_truncating_thread_finds_is_raised() -> None:
    """It holds the lock, so there is nothing to wait for."""
    log = LogHome().open()

    def question(_: LogView) -> None:
        raise CorruptMessage("damaged", 0, "log")

    with log._state.lock, log._state.cutting(), pytest.raises(CorruptMessage, match="damaged"):
        log._state.look("asking", question)


def test_a_look_that_keeps_failing_beside_a_writer_ends_under_the_lock() -> None:
    """Nothing is appended there; damage is then raised, however fast records come."""
    log = LogHome().open()
    held: list[bool] = []

    def question(_: LogView) -> None:
        held.append(_is_held(log))
        assert len(held) < 20, "it is repeated without end"
        if not held[-1]:
            log.append_as_leader(BATCH)
        raise CorruptMessage("damaged", 0, "log")

    with pytest.raises(CorruptMessage, match="damaged"):
        log._state.look("asking", question)
    assert held == [False] * (len(held) - 1) + [True]
    assert not _is_held(log)


def _is_held(log: Log) -> bool:
    """Return whether the log's lock is held."""
    return log._state.listeners.is_lock_held()


def test_a_log_closed_while_a_look_waits_for_the_lock_is_said_to_be_closed() -> None:
    """This is neither damage nor a failed disk."""
    home = LogHome()
    log = home.open()
    asked: list[LogView] = []

    def question(view: LogView) -> None:
        asked.append(view)
        log.append_as_leader(BATCH)
        if len(asked) == UNLOCKED_LOOKS:
            log._state.lock = HeldLock.until(log.close)
        raise CorruptMessage("damaged", 0, "log")

    with pytest.raises(KafkaStorageError, match="flights-0 is closed"):
        log._state.look("asking", question)
    assert (len(asked), home.failures) == (UNLOCKED_LOOKS, [])
