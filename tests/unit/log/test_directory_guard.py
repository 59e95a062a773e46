"""Which errors take a data directory offline."""

from __future__ import annotations

import errno

import pytest

from tidelog.errors import CorruptMessage, KafkaStorageError
from tidelog.log.directory_guard import DirectoryGuard
from tidelog.segment.undo import UndoFailed

LACKS = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]
FULL = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]


def online_after(code: int, **how: bool) -> bool:
    """Say whether a directory is online after an error; it is raised as a retriable one."""
    told: list[int | None] = []
    guard = DirectoryGuard("/data", lambda _directory, error: told.append(error.errno))
    with pytest.raises(KafkaStorageError) as raised, guard.watch("working", **how):
        raise OSError(code, "no")
    assert raised.value.code.retriable
    assert told == ([code] if guard.is_offline else [])
    return not guard.is_offline


@pytest.mark.parametrize("code", LACKS + FULL)
def test_a_full_disk_and_a_lack_of_descriptors_or_memory_may_pass(code: int) -> None:
    """The disk still serves what it holds."""
    assert online_after(code)


def test_any_other_error_takes_the_directory_offline() -> None:
    """The disk has failed."""
    assert not online_after(errno.EIO)


def failed(error: OSError, **how: bool) -> tuple[bool, int]:
    """Say whether a log is offline after an error, and how often its directory was reported."""
    reported: list[OSError] = []
    guard = DirectoryGuard("/data", lambda _directory, error: reported.append(error))
    with pytest.raises(KafkaStorageError), guard.watch("working", **how):
        raise error
    return guard.is_offline, len(reported)


@pytest.mark.parametrize("code", [*LACKS, *FULL])
def test_a_change_that_stops_half_way_takes_the_log_offline(code: int) -> None:
    """Only opening it again makes it whole; nothing speaks against the disk."""
    assert failed(OSError(code, "no"), must_finish=True) == (True, 0)
    assert failed(UndoFailed(OSError(code, "no"), "/data/t-0/1.log")) == (True, 0)
    assert failed(OSError(code, "no")) == (False, 0)


def test_a_failed_disk_takes_the_directory_offline_even_after_the_log() -> None:
    """The directory is reported, whatever took the log offline before."""
    reported: list[OSError] = []
    guard = DirectoryGuard("/data", lambda _directory, error: reported.append(error))
    guard.take_offline(OSError(errno.ENOSPC, "full"))
    guard.take_offline(OSError(errno.EIO, "bad"))

    assert [error.errno for error in reported] == [errno.EIO]
    with pytest.raises(KafkaStorageError, match=r"/data is offline: .*bad"):
        guard.check_online()


def test_any_error_in_the_middle_of_a_change_takes_the_log_offline() -> None:
    """It may have stopped half-way for another reason than the disk, which stays online."""
    reported: list[OSError] = []
    guard = DirectoryGuard("/data", lambda _directory, error: reported.append(error))
    with pytest.raises(CorruptMessage), guard.watch("working"):
        raise CorruptMessage("no batch")
    assert not guard.is_offline

    with pytest.raises(CorruptMessage), guard.watch("working", must_finish=True):
        raise CorruptMessage("no batch")

    assert (guard.needs_reopening, reported) == (True, [])
    with pytest.raises(KafkaStorageError, match=r"not completed: no batch.* must be reopened"):
        guard.check_online()
