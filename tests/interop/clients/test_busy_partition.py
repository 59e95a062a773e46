"""A partition that another thread holds, as a large commit does, holds up its own clients only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.machinery.brokers import Served

PATIENCE_S = 30


def test_others_are_served_meanwhile(broker: Served) -> None:
    """Records for another topic are acknowledged, and those that wait are not lost or reordered."""
    from confluent_kafka import Producer

    for topic in ("busy", "free"):
        broker.logs.create_topic(topic)
    waiting, other = (
        Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}) for _ in range(2)
    )
    done: list[bytes | None] = []

    with broker.logs.partition("busy", 0).lock:
        for number in range(5):
            value = b"%d" % number
            waiting.produce("busy", value, on_delivery=lambda _, m: done.append(m.value()))
            waiting.poll(0.05)
        other.produce("free", b"a")
        assert other.flush(PATIENCE_S) == 0
        waiting.poll(0.1)
        assert done == []
    assert waiting.flush(PATIENCE_S) == 0

    assert done == [b"%d" % number for number in range(5)]
    assert [record.value for record in broker.logs.read("busy")] == done


def test_any_number_of_clients_may_wait_for_it(broker: Served) -> None:
    """They take all threads of the event loop, and others are acknowledged all the same."""
    from confluent_kafka import Producer

    for topic in ("busy", "free"):
        broker.logs.create_topic(topic)
    count = (os.cpu_count() or 1) + 6
    *waiting, other = (
        Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}) for _ in range(count)
    )
    with broker.logs.partition("busy", 0).lock:
        for one in waiting:
            one.produce("busy", b"a")
            one.poll(0.05)
        other.produce("free", b"a")
        assert other.flush(PATIENCE_S / 2) == 0
    assert [one.flush(PATIENCE_S) for one in waiting] == [0] * len(waiting)
