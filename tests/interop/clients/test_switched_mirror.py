"""Clients of a source read on in its mirror, which lacks the last records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.interop.clients.conftest import PATIENCE_S
from tests.machinery.brokers import served

import tidelog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_consumer_skips_nothing_that_a_mirror_appends(reset: str, tmp_path: Path) -> None:
    """It runs on while the mirror takes the address; its position there is of another epoch."""
    from confluent_kafka import Consumer, TopicPartition

    source, mirror = tmp_path / "source", tmp_path / "mirror"
    with served(source) as broker:
        bootstrap = broker.bootstrap
        broker.logs.create_topic("t")
        broker.logs.append_all("t", [b"both"] * 3)
        tidelog.mirror(source, mirror)
        broker.logs.append_all("t", [b"source"] * 3)
        settings = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": reset}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.assign([TopicPartition("t", 0, 0)])
        assert values(consumer, 6) == [b"both"] * 3 + [b"source"] * 3
    try:
        with served(mirror, listeners=f"PLAINTEXT://{bootstrap}") as broker:
            new = [b"mirror %d" % number for number in range(9)]
            broker.logs.append_all("t", new)
            assert values(consumer, 9) == new
    finally:
        consumer.close()


def values(consumer: Any, count: int) -> list[bytes]:
    """Return what comes next."""
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, found
        if message.error() is None:
            found.append(message.value())
    return found
