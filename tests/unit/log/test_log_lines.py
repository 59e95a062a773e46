"""Log lines that are Kafka's own, with Kafka's values."""

from __future__ import annotations

import errno
import logging
import sys
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome

from tidelog.config.log_levels import TRACE
from tidelog.errors import KafkaStorageError
from tidelog.manager.partition import Partition
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from types import FrameType

IDENT = "[UnifiedLog partition=flights-0, dir=/data]"
BATCH = build_batch([(1_700_000_000_000, b"k", b"v", ())] * 3)


def test_a_flush_is_logged_before_its_syncs_with_its_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A flush that hangs has said what it is about to do; Kafka's words and values."""
    home = LogHome()
    log = home.open()
    opened_ms = home.clock.now_ms()
    log.append_as_leader(BATCH)
    home.clock.advance(500)
    home.fs.fail("sync", ".log", OSError(errno.EIO, "broken"))

    with (
        caplog.at_level(logging.DEBUG, "tidelog.log.flushing"),
        pytest.raises(KafkaStorageError),
    ):
        log.flush()

    line = (
        f"{IDENT} Flushing log up to offset 3 (exclusive) with recovery point 3, last flushed:"
        f" {opened_ms}, current time: {opened_ms + 500}, unflushed: 3"
    )
    assert caplog.messages == [line]


def test_a_log_is_described_as_kafka_does() -> None:
    """So that what reads Kafka's log lines about loading reads these."""
    log = LogHome().open()
    log.append_as_leader(BATCH)

    assert str(log) == (
        "Log(dir=/data/flights-0, topic=flights, partition=0, highWatermark=0,"
        " lastStableOffset=0, logStartOffset=0, logEndOffset=3)"
    )


def test_appends_reads_and_high_watermarks_are_logged_at_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In Kafka's words; below DEBUG, as there is one of each for every request."""
    log = LogHome().open()
    with caplog.at_level(logging.DEBUG, "tidelog.log.trace"):
        log.append_as_leader(BATCH)
        log.update_high_watermark(1)
        log.read(0).close()
    silent = list(caplog.messages)

    with caplog.at_level(TRACE, "tidelog.log.trace"):
        log.append_as_leader(BATCH)
        log.maybe_increment_high_watermark(log.log_end)
        log.read(3, 500).close()

    size = len(BATCH)
    assert silent == []
    offsets = "last offset: 5, first offset: 3, next offset: 6"
    local = "[LocalLog partition=flights-0, dir=/data/flights-0]"
    total = f"from log with total length {2 * size} bytes"
    assert caplog.messages == [
        f"{IDENT} Appended message set with {offsets}, and messages: MemoryRecords(size={size})",
        f"{IDENT} Setting high watermark (offset=6, segment=[0:{2 * size}])",
        f"{local} Reading maximum 500 bytes at offset 3 {total}",
    ]
    assert {record.levelname for record in caplog.records} == {"TRACE"}


def test_a_repeated_batch_is_logged_as_such(caplog: pytest.LogCaptureFixture) -> None:
    """With the offsets that it has already."""
    log = LogHome().open()
    again = build_batch(
        [(1_700_000_000_000, b"k", b"v", ())], producer_id=7, producer_epoch=0, base_sequence=0
    )
    log.append_as_leader(again)

    with caplog.at_level(TRACE, "tidelog.log.trace"):
        log.append_as_leader(again)

    line = (
        f"{IDENT} Duplicate batch detected, returning AppendInfo from duplicate batch with last"
        f" offset: 0, first offset: 0, next offset: 1, skipped messages: MemoryRecords(size="
        f"{len(again)})"
    )
    assert caplog.messages == [line]


def test_an_append_asks_once_whether_it_is_traced() -> None:
    """That is all the lines cost while they are off: the append itself takes 20 us."""
    partition = Partition("flights", 0, LogHome().open())
    partition.append(BATCH)
    asked: list[str] = []

    def count(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code.co_name == "isEnabledFor":
            asked.append(event)

    sys.setprofile(count)
    partition.append(BATCH)
    sys.setprofile(None)

    assert partition.log.high_watermark == 6
    assert len(asked) == 1
