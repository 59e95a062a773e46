"""Clients wait for a coordinator whose partition cannot be read, and continue once it can."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tidelog.broker.groups.group_coordinator import GroupCoordinator
from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
from tidelog.env.waiting import sleep_ms
from tidelog.errors import KafkaStorageError
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE_S = 60


def position(broker: KafkaBroker) -> int:
    """Commit a position if there is none; return the one that there is then."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    (found,) = consumer.committed([TopicPartition("t", 0)], timeout=PATIENCE_S)
    if found.offset < 0:
        consumer.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
        return position(broker)
    consumer.close()
    return int(found.offset)


def transaction(broker: KafkaBroker) -> int:
    """Write a record in a transaction; return how many were written."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", b"a")
    producer.commit_transaction(PATIENCE_S)
    return len(list(broker.logs.read("t", isolation="read_committed")))


@pytest.mark.parametrize(
    ("coordinator", "act", "wanted"),
    [(GroupCoordinator, position, [7, 7]), (TransactionCoordinator, transaction, [1, 2])],
)
def test_it_is_found_again(
    coordinator: type,
    act: Callable[[KafkaBroker], int],
    wanted: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the position that was committed, and the producer that is to be fenced."""

    def unreadable(*_: object) -> None:
        raise KafkaStorageError("the disk failed")

    with KafkaBroker(tmp_path) as broker:
        broker.logs.create_topic("t")
        assert act(broker) == wanted[0]
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "_stored", unreadable)
        broker.start()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(act, broker)
            sleep_ms(1500)
            assert not waiting.done(), waiting.exception()
            patch.undo()
            assert waiting.result(PATIENCE_S) == wanted[1]
    broker.stop()
