"""How a log is looked at while it changes."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.log.notifying_lock import NotifyingLock
from tidelog.records.isolation import Isolation
from tidelog.testing import build_batch
from tidelog.testing.log_home import LogHome

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log
    from tidelog.log.log_reads import LogView

BATCH = build_batch([(1_700_000_000_000, None, b"value", ())])


class Waiting(NotifyingLock):
    """A lock that another thread holds: who asks for it gets it once that thread has ended."""

    def __init__(self, other: Callable[[], object]) -> None:
        super().__init__()
        self._other: Callable[[], object] | None = other

    def __enter__(self) -> None:
        other, self._other = self._other, None
        if other is not None:
            other()
        super().__enter__()


def holding(log: Log, other: Callable[[], object]) -> None:
    """Let ``other`` be what remains to be done by the thread that holds the log's lock."""
    log._state.lock = Waiting(other)


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
    holding(log, log.close)

    with pytest.raises(KafkaStorageError, match="flights-0 is closed"):
        log.read(0, isolation=Isolation.LOG_END)
    assert (home.failures, log.is_offline) == ([], False)
