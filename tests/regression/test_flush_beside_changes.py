"""A flush takes no lock, so anything may happen to the log in the meantime."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.machinery.held_lock import HeldLock
from tests.machinery.log_home import LogHome, all_values

from tidelog.errors import KafkaStorageError
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.segment.segment import LogSegment

BATCH = build_batch([(1, b"key", b"value", ())])
FLUSHES = ["flush", "flush_records"]


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, segment: LogSegment, name: str, change: Callable[[], object]
) -> None:
    """Let ``change`` happen right before the segment's method of that name begins."""
    method = getattr(segment, name)

    def change_before() -> None:
        monkeypatch.undo()
        change()
        method()

    monkeypatch.setattr(segment, name, change_before)


@pytest.mark.parametrize("name", FLUSHES)
def test_closing_under_a_flush_is_no_failure_of_the_disk(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The flush reports that the log is closed, and the directory stays online."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)
    meanwhile(monkeypatch, log.segments.active, name, log.close)

    with pytest.raises(KafkaStorageError, match="closed"):
        getattr(log, name)()
    assert (home.failures, log.is_offline) == ([], False)


@pytest.mark.parametrize("name", FLUSHES)
def test_a_segment_that_is_deleted_under_a_flush_needs_none(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The others are flushed, and the directory stays online."""
    home = LogHome(
        internal_segment_bytes=2 * len(BATCH),
        retention_bytes=len(BATCH),
        retention_ms=-1,
        file_delete_delay_ms=0,
    )
    log = home.open()
    for _ in range(5):
        log.append_as_leader(BATCH)
    log.update_high_watermark(5)

    def delete() -> None:
        log.delete_old_segments()
        home.clock.advance(0)

    meanwhile(monkeypatch, log.segments.all[0], name, delete)
    getattr(log, name)()
    home.power_cut("none")

    assert home.failures == []
    assert [offset for offset, _ in all_values(home.open(clean=False, log_start_offset=4))] == [4]


@pytest.mark.parametrize("name", FLUSHES)
def test_a_log_that_is_deleted_under_a_flush_needs_none(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its directory is gone, but the disk has not failed."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)
    meanwhile(monkeypatch, log.segments.active, name, log.delete)

    getattr(log, name)()

    assert (home.failures, home.fs.exists(home.directory)) == ([], False)


@pytest.mark.parametrize("code", [errno.EBADF, errno.ENOENT])
@pytest.mark.parametrize("name", FLUSHES)
def test_a_file_that_is_lost_without_a_change_is_a_failed_disk(
    monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    """Nothing has closed, deleted or renamed the segment that could not be flushed."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)

    def lose() -> None:
        raise OSError(code, "lost")

    meanwhile(monkeypatch, log.segments.active, name, lose)

    with pytest.raises(KafkaStorageError, match="flushing failed in /data"):
        getattr(log, name)()
    assert [error.errno for error in home.failures] == [code]


@pytest.mark.parametrize("name", FLUSHES)
def test_a_renaming_under_a_flush_is_waited_for(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The log does not know its new directory yet; its files are flushed there."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)
    log.roll()
    log.append_as_leader(BATCH)
    new = "flights-1"

    def begin_renaming() -> None:
        home.fs.rename(home.directory, f"{home.data_directory}/{new}")
        log._state.lock = HeldLock.until(end_renaming)

    def end_renaming() -> None:
        home.fs.rename(f"{home.data_directory}/{new}", home.directory)  # it begins again
        log.rename_directory(new)

    meanwhile(monkeypatch, log.segments.active, name, begin_renaming)
    getattr(log, name)()
    home.power_cut("none")
    home.directory = log.directory

    assert (home.directory, home.failures) == ("/data/flights-1", [])
    assert [offset for offset, _ in all_values(home.open(clean=False))] == [0, 1]


def test_a_flush_does_not_count_records_that_came_after_a_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log end that the flush read was truncated; other records now have its offsets."""
    home = LogHome(seed=3, internal_segment_bytes=2 * len(BATCH))
    log = home.open()
    for _ in range(10):
        log.append_as_leader(BATCH)
    active = log.segments.active
    flush = active.flush

    def cut_after() -> None:
        monkeypatch.undo()
        flush()
        log.truncate_to(3)
        for _ in range(20):
            log.append_as_leader(BATCH)

    monkeypatch.setattr(active, "flush", cut_after)
    log.flush()
    flushed_to = log.recovery_point
    home.power_cut()

    assert flushed_to >= 10
    reopened = home.open(clean=False, recovery_point=flushed_to)
    assert [offset for offset, _ in all_values(reopened)][:flushed_to] == list(range(flushed_to))


def test_a_snapshot_that_is_gone_when_it_should_be_synced_stays_gone() -> None:
    """A truncation has deleted it, and the roll's task creates no empty file in its place."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)
    log.append_as_leader(BATCH)
    log.roll()
    assert home.files(".snapshot") == ["00000000000000000002.snapshot"]
    log.truncate_to(1)
    home.clock.advance(1)

    assert home.files(".snapshot") == ["00000000000000000001.snapshot"]


def test_a_roll_under_a_flush_is_flushed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the recovery point would pass a segment whose trim may be undone by a power cut."""
    home = LogHome(internal_segment_bytes=4096, preallocate=True)
    log = home.open()
    log.append_as_leader(BATCH)
    segment = log.segments.active
    flush = segment.flush

    def roll_after() -> None:
        monkeypatch.undo()
        flush()
        log.roll()

    monkeypatch.setattr(segment, "flush", roll_after)
    log.flush()
    home.power_cut("none")

    assert log.recovery_point == 1
    assert home.files(".log") == [f"{0:020}.log", f"{1:020}.log"]
    assert len(home.read(f"{0:020}.log")) == len(BATCH)
