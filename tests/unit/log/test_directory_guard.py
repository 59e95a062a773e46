"""Which errors take a data directory offline."""

from __future__ import annotations

import errno

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import DirectoryGuard

LACKS = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]
FULL = [errno.ENOSPC, errno.EDQUOT]


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


def test_a_file_that_could_not_be_opened_was_not_synced() -> None:
    """So nothing is lost; but an error of a sync itself leaves unknown what the disk holds."""
    assert [online_after(code, is_sync=True) for code in LACKS] == [True] * 3
    assert [online_after(code, is_sync=True) for code in (*FULL, errno.EIO)] == [False] * 3


@pytest.mark.parametrize("code", [*LACKS, *FULL, errno.EIO])
def test_what_must_be_finished_takes_the_directory_offline_if_it_is_not(code: int) -> None:
    """Whatever the error, only opening the log anew makes it whole."""
    assert not online_after(code, must_finish=True)
