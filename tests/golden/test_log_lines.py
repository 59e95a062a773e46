"""Log lines beside those that Kafka wrote of the same directory."""

from __future__ import annotations

import logging
import random
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.config.broker_config import BrokerConfig
from tidelog.env.machine import Machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.service.log_service import LogService
from tidelog.testing import ManualClock, ManualScheduler

if TYPE_CHECKING:
    import pytest

CRASH = Path(__file__).parent / "data" / "whole-dir-crash"
LOADING = re.compile("(Loading logs|Recovering [0-9]+ logs|Completed load|Loaded) .*")
ORDER = re.compile(r"\([0-9]+/")
WATERMARKS = re.compile("(highWatermark|lastStableOffset)=[0-9]+")
"""Kafka logs them before the checkpoint is read."""
LIST = re.compile(r"(ArrayBuffer\(|\[')(.*?)('\]|\))")


def normal(lines: list[str], directory: str) -> list[str]:
    """Return the lines about loading, without what may differ: order, milliseconds, the path."""
    found = [match[0] for line in lines if (match := LOADING.search(line))]
    for pattern, plain in (
        (re.escape(directory), "DATA-DIR"),
        (LIST, r"[\2]"),
        (ORDER, "(N/"),
        (WATERMARKS, r"\1=N"),
        (re.compile("[0-9]+ms"), "Nms"),
    ):
        found = [re.sub(pattern, plain, line) for line in found]
    return sorted(found)


def test_loading_is_logged_word_for_word_as_kafka_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What reads a broker's log lines about loading and recovery reads a service's."""
    directory = tmp_path / "data"
    shutil.copytree(CRASH / "before", directory)
    kafkas = (CRASH / "recovery-log.txt").read_text("utf-8").splitlines()
    clock = ManualClock()
    machine = Machine(SYSTEM_FILES, clock, ManualScheduler(clock), random.Random(0), clock.advance)
    manager = LogService(BrokerConfig(log_dirs=(str(directory),)), machine)

    with caplog.at_level(logging.INFO):
        manager.startup()
    manager.shutdown()

    expected = normal(kafkas, "DATA-DIR")
    assert len(expected) == 12
    assert normal(caplog.messages, str(directory)) == expected
