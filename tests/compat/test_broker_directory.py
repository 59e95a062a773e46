"""The directory of a broker, run by the service for a month and given back to the broker."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.coarse_scheduler import CoarseScheduler

from tidelog.config.sources import broker_config
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.machine import Machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.service.log_service import LogService
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Kafka


pytestmark = pytest.mark.compat

DAY_MS = 86_400_000
SMALL = "internal.segment.bytes=16384"
TOPICS = {
    "forever": f"{SMALL},retention.ms=-1,cleanup.policy=delete",
    "unknown": SMALL,
    "compacted": f"{SMALL},cleanup.policy=compact,min.cleanable.dirty.ratio=0.01",
    "aged": f"{SMALL},cleanup.policy=delete,retention.ms={DAY_MS}",
    "sized": f"{SMALL},cleanup.policy=delete,retention.bytes=20000,retention.ms=-1",
}
METADATA = "__cluster_metadata-0"
IDLE = "log.retention.check.interval.ms=86400000\nlog.cleaner.enable=false\nlog.retention.ms=-1\n"
"""With these the broker leaves retention and compaction to the service.

That its default is to keep everything is not in the directory."""


def run_service(directory: Path) -> None:
    """Run the service for thirty simulated days from now."""
    clock = ManualClock(SYSTEM_CLOCK.now_ms())
    machine = Machine(SYSTEM_FILES, clock, CoarseScheduler(clock), random.Random(0), clock.advance)
    config = {"log.dirs": str(directory), "log.cleaner.backoff.ms": str(CoarseScheduler.PERIOD_MS)}
    manager = LogService(broker_config(config), machine)
    manager.startup()
    clock.advance(30 * DAY_MS)
    manager.shutdown()


def offsets_of(directory: Path) -> dict[str, list[int]]:
    """Return the offsets of all records of each partition."""
    opened = open_directory_read_only(str(directory), fs=SYSTEM_FILES)
    return {
        f"{log.topic}-{log.partition}": [record.offset for record in log.records()]
        for log in opened.logs()
    }


def controller_files(directory: Path) -> dict[str, bytes]:
    """Return the files of the controller by name."""
    paths = [*(directory / METADATA).iterdir(), directory / "bootstrap.checkpoint"]
    return {path.name: path.read_bytes() for path in paths}


def test_a_month_of_the_service_leaves_what_the_broker_would(kafka: Kafka) -> None:
    """Unknown and infinite retention keep every record; known limits and policies are followed.

    The broker opens the directory afterwards, serves what is left and appends to it.
    """
    kafka.properties.write_text(kafka.properties.read_text("utf-8") + IDLE, "utf-8")
    with kafka.running():
        for topic, settings in TOPICS.items():
            kafka.ask(f"create {topic} {settings}", f"produce {topic} none 2000")
        kafka.ask("transact forever 6")
        kafka.ask("produce compacted none 2000")
        served = {topic: kafka.consume(topic) for topic in ("forever", "unknown", "compacted")}
    before, controller = offsets_of(kafka.directory), controller_files(kafka.directory)

    run_service(kafka.directory)

    after = offsets_of(kafka.directory)
    assert controller_files(kafka.directory) == controller
    kept = [name for name in before if not name.startswith(("aged", "sized", "compacted"))]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert len(before["forever-0"]) > 2000
    assert after["aged-0"] == []
    assert 0 < len(after["sized-0"]) < len(before["sized-0"])
    newest = {key: offset for offset, _, key, *_ in served["compacted"]}
    assert set(newest.values()) <= set(after["compacted-0"]) < set(before["compacted-0"])

    (kafka.directory / "tidelog.topics.json").rename(kafka.directory.parent / "topics.json")
    with kafka.running():
        again = {topic: kafka.consume(topic) for topic in served}
        kafka.ask("produce aged none 10")
        appended = kafka.consume("aged")
    assert [again[topic] for topic in ("forever", "unknown")] == [
        served[topic] for topic in ("forever", "unknown")
    ]
    assert {key: offset for offset, _, key, *_ in again["compacted"]} == newest
    assert len(appended) == 10
