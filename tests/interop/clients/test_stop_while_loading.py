"""A broker that is stopped while it reads its groups and transactions stops at once."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.log.reading.readable import ReadableLog
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 30


@pytest.mark.parametrize("reading", ["columns_by_transaction", "settled_records", "records"])
def test_a_stop_does_not_wait_until_all_is_read(
    reading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions, groups or transactions: here they are endless."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    with KafkaBroker(tmp_path) as broker:
        broker.logs.create_topic("t")
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        Producer({**servers, "transactional.id": "x"}).init_transactions(PATIENCE_S)
        consumer = Consumer({**servers, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
        consumer.close()

    entered, released = threading.Event(), threading.Event()
    plain = getattr(ReadableLog, reading)

    def endless(*given: Any, **how: Any) -> Iterator[Any]:
        (first, *_) = plain(*given, **how)
        entered.set()
        return itertools.takewhile(lambda _: not released.is_set(), itertools.repeat(first))

    monkeypatch.setattr(ReadableLog, reading, endless)
    broker = KafkaBroker(tmp_path)
    broker.start()
    assert entered.wait(PATIENCE_S)
    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(broker.stop).result(PATIENCE_S)
        finally:
            released.set()
