"""A flush takes no lock, so anything may happen to the log in the meantime."""

from __future__ import annotations

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.testing import build_batch
from tidelog.testing.log_home import LogHome, all_values

BATCH = build_batch([(1, b"key", b"value", ())])


def test_closing_under_a_flush_is_no_failure_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flush reports that the log is closed, and the directory stays online."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(BATCH)
    active = log.segments.active
    flush = active.flush

    def close_before() -> None:
        monkeypatch.undo()
        log.close()
        flush()

    monkeypatch.setattr(active, "flush", close_before)

    with pytest.raises(KafkaStorageError, match="closed"):
        log.flush()
    assert home.failures == []


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
