"""Log lines that are Kafka's own, with Kafka's values."""

from __future__ import annotations

import errno
import logging

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.testing import build_batch
from tidelog.testing.log_home import LogHome

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
