"""``tidelog.open`` on a clock and a disk that a program's tests control."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.errors import KafkaStorageError
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000


def test_background_work_runs_as_the_clock_advances(tmp_path: Path) -> None:
    """Records are deleted when they have expired by the clock, on the thread that advances it."""
    clock = ManualClock()
    with tidelog.open(tmp_path, clock=clock, retention_ms=HOUR_MS) as logs:
        logs.create_topic("t")
        logs.append("t", b"old")
        clock.advance(HOUR_MS // 2)
        logs.append("t", b"new")
        early = [record.value for record in logs.read("t")]
        clock.advance(2 * HOUR_MS)
        late = [record.value for record in logs.read("t")]

    assert (early, late) == ([b"old", b"new"], [])


def test_a_record_has_the_time_of_the_clock(tmp_path: Path) -> None:
    """Unless it is given one."""
    clock = ManualClock(1_000)
    with tidelog.open(tmp_path, clock=clock) as logs:
        logs.create_topic("t")
        clock.advance(234)
        logs.append("t", b"a")
        found = [record.timestamp for record in logs.read("t")]

    assert found == [1_234]


def test_a_reader_that_waits_advances_the_clock(tmp_path: Path) -> None:
    """So ``idle_ms`` passes at once, where nobody else would advance the clock."""
    clock = ManualClock()
    with tidelog.open(tmp_path, clock=clock) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        found = [record.value for record in logs.follow("t", idle_ms=2 * HOUR_MS)]
        with logs.reader("t", group="g") as reader:
            read = [record.value for record in reader.read(idle_ms=HOUR_MS)]

    assert (found, read) == ([b"a"], [b"a"])
    assert clock.elapsed_ms() >= 3 * HOUR_MS


def test_nothing_runs_after_the_close() -> None:
    """A clock that several tests share runs no task of what an earlier one has opened."""
    clock = ManualClock()
    disk = CrashFileSystem(clock=clock)
    with tidelog.open("/data", clock=clock, files=disk) as logs:
        logs.create_topic("t")
    done = len(disk.operations)

    clock.advance(48 * HOUR_MS)

    assert len(disk.operations) == done


def test_a_process_that_lost_power_does_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    """Its tasks would change the files of the process after it."""
    clock = ManualClock()
    disk = CrashFileSystem(clock=clock)
    lost = tidelog.open("/data", clock=clock, files=disk, retention_ms=HOUR_MS)
    lost.create_topic("t")
    lost.append("t", b"a")
    lost.flush()
    disk.power_cut()
    clock.forget_tasks()
    with tidelog.open("/data", clock=clock, files=disk) as logs:
        clock.advance(2 * HOUR_MS)
        logs.append("t", b"b")
        found = [record.value for record in logs.read("t")]

    assert found == [b"b"]
    assert "offline" not in caplog.text


def test_a_full_disk_refuses_appends_until_there_is_space() -> None:
    """The error is the one of a real disk; reads continue."""
    clock = ManualClock()
    disk = CrashFileSystem(clock=clock)
    with tidelog.open("/data", clock=clock, files=disk) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        disk.set_free_bytes(0)
        with pytest.raises(KafkaStorageError, match="No space left on device") as refused:
            logs.append("t", b"b")
        during = [record.value for record in logs.read("t")]
        disk.set_free_bytes(None)
        clock.advance(60_000)
        logs.append("t", b"c")
        after = [record.value for record in logs.read("t")]

    assert isinstance(refused.value.__cause__, OSError)
    assert refused.value.__cause__.errno == errno.ENOSPC
    assert (during, after) == ([b"a"], [b"a", b"c"])


def test_a_disk_may_be_controlled_in_real_time() -> None:
    """Without a clock, background work has threads as usual."""
    disk = CrashFileSystem()
    with tidelog.open("/data", files=disk) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
    with tidelog.open("/data", files=disk) as logs:
        assert [record.value for record in logs.read("t")] == [b"a"]
