"""Listeners to the offsets of a log."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Unpack

import pytest
from tests.machinery.log_home import LogHome

from tidelog.errors import MessageTooLarge
from tidelog.log.listeners import LogListener
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.fields import TransactionFields

    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields

NOW_MS = 1_700_000_000_000


def batch(count: int = 1, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch of ``count`` records."""
    return build_batch([(NOW_MS, b"k", b"v", ())] * count, **fields)


class Recorder(LogListener):
    """Keeps what it hears; ``then`` runs after each call."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.heard: list[tuple[str, int]] = []
        self._then = then

    def _hear(self, name: str, offset: int) -> None:
        self.heard.append((name, offset))
        self._then()

    def on_log_end_offset_updated(self, log_end_offset: int) -> None:
        self._hear("end", log_end_offset)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        self._hear("watermark", high_watermark)

    def on_last_stable_offset_updated(self, last_stable_offset: int) -> None:
        self._hear("stable", last_stable_offset)

    def on_log_start_offset_updated(self, log_start_offset: int) -> None:
        self._hear("start", log_start_offset)

    def of(self, name: str) -> list[int]:
        """Return the values heard of one offset."""
        return [offset for heard, offset in self.heard if heard == name]


def heard_by(log: Log) -> Recorder:
    """Return a listener of the log."""
    recorder = Recorder()
    log.add_listener(recorder)
    return recorder


def test_a_listener_hears_each_new_value_of_each_offset() -> None:
    """Log end, high watermark, last stable offset and log start, each when it changes.

    Scenario: UnifiedLogTest.testLogOffsetsListener, UnifiedLogTest.testUpdateLogOffsetsListener
    """
    log = LogHome().open()
    recorder = heard_by(log)

    log.append_as_leader(batch(3))
    for offset in (1, 1, 3):
        log.update_high_watermark(offset)
    log.delete_records(2)
    log.truncate_to(2)

    assert recorder.of("end") == [3, 2]
    assert recorder.of("watermark") == recorder.of("stable") == [1, 3, 2]
    assert recorder.of("start") == [2]


def test_the_last_stable_offset_is_heard_apart_from_the_watermark() -> None:
    """An open transaction holds it back until its marker is replicated."""
    log = LogHome().open()
    recorder = heard_by(log)
    fields: TransactionFields = {
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }
    guard = log.start_verification(7, 0, 0, supports_epoch_bump=False)
    log.append_as_leader(batch(2))
    log.append_as_leader(batch(**fields), verification_guard=guard)
    log.update_high_watermark(3)
    marker = build_marker(
        producer_id=7, producer_epoch=0, coordinator_epoch=0, is_commit=True, timestamp=NOW_MS
    )
    log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)
    log.update_high_watermark(4)

    assert (recorder.of("watermark"), recorder.of("stable")) == ([3, 4], [2, 4])


def test_all_listeners_hear_all_in_the_order_they_were_added() -> None:
    """A log has any number of listeners; one that is added twice is called once."""
    log = LogHome().open()
    order: list[str] = []
    for name in ("first", "second"):
        listener = Recorder(partial(order.append, name))
        log.add_listener(listener)
        log.add_listener(listener)

    log.append_as_leader(batch())

    assert order == ["first", "second"]


def test_a_removed_listener_hears_nothing_more() -> None:
    """Neither of later changes nor of those that wait to be reported."""
    log = LogHome().open()
    second = Recorder()
    first = Recorder(lambda: log.remove_listener(second))
    log.add_listener(first)
    log.add_listener(second)

    log.append_as_leader(batch())
    log.remove_listener(first)
    log.append_as_leader(batch())

    assert (first.heard, second.heard) == ([("end", 1)], [])


def test_an_error_of_a_listener_is_logged_and_reaches_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Other listeners are called, the append succeeds, and the disk is not blamed."""
    home = LogHome()
    log = home.open()

    def fail() -> None:
        raise OSError(5, "not the disk's")

    log.add_listener(Recorder(fail))
    recorder = heard_by(log)
    with caplog.at_level(logging.ERROR):
        info = log.append_as_leader(batch())

    assert (info.last_offset, recorder.heard, home.failures) == (0, [("end", 1)], [])
    assert ["listener-failed log=/data/flights-0" in line for line in caplog.messages] == [True]


def test_listeners_are_called_after_the_outermost_hold_of_the_lock() -> None:
    """A change inside another is reported when both are done."""
    log = LogHome().open()
    recorder = heard_by(log)

    with log._state.notices, log._state.lock:
        log.append_as_leader(batch())
        log.update_high_watermark(1)
        during = list(recorder.heard)

    assert during == []
    assert recorder.heard == [("end", 1), ("watermark", 1), ("stable", 1)]


def test_a_change_is_reported_when_what_follows_it_fails() -> None:
    """The offsets have moved, whatever the caller's error is."""
    log = LogHome(max_message_bytes=200).open()
    recorder = heard_by(log)

    def append_two() -> None:
        with log._state.notices, log._state.lock:
            log.append_as_leader(batch())
            log.append_as_leader(batch(100))

    with pytest.raises(MessageTooLarge):
        append_two()

    assert recorder.heard == [("end", 1)]


def test_a_listener_may_append() -> None:
    """What it changes is reported afterwards, not in the middle of its call."""
    log = LogHome().open()
    calls: list[str] = []

    def append_twice() -> None:
        calls.append("begin")
        if log.log_end_offset < 3:
            log.append_as_leader(batch())
        calls.append("end")

    recorder = Recorder(append_twice)
    log.add_listener(recorder)
    log.append_as_leader(batch())

    assert recorder.of("end") == [1, 2, 3]
    assert calls == ["begin", "end"] * 3
