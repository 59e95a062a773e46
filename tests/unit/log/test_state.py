"""How a log is looked at while it changes."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.records.isolation import Isolation
from tidelog.testing import build_batch
from tidelog.testing.log_home import LogHome

if TYPE_CHECKING:
    from tidelog.log.log_reads import LogView

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
