"""A partition that another thread holds, as a large commit does, holds up its own clients only."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.env.waiting import sleep_ms
from tidelog.manager.lifecycle.creator import LogCreator

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


def is_served(broker: Served) -> bool:
    """Return whether another client is answered."""
    from confluent_kafka.admin import AdminClient

    return bool(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics)


def test_a_topic_that_is_being_created_holds_up_no_client(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even those who ask for it; a thousand partitions take seconds."""
    from confluent_kafka import Producer

    begun, may_end, create = threading.Event(), threading.Event(), LogCreator.create_new

    def slow(*given: Any, **how: Any) -> None:
        begun.set()
        may_end.wait(PATIENCE_S)
        create(*given, **how)

    broker.logs.create_topic("free")
    monkeypatch.setattr(LogCreator, "create_new", slow)
    creating = threading.Thread(target=broker.logs.create_topic, args=("new",))
    creating.start()
    begun.wait(PATIENCE_S)
    new = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    try:
        new.produce("new", b"a")
        new.poll(0.5)
        assert is_served(broker)
        free = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        free.produce("free", b"a")
        assert free.flush(PATIENCE_S / 2) == 0
        assert len(new) == 1
    finally:
        may_end.set()
        creating.join()
    assert new.flush(PATIENCE_S) == 0
    assert [record.value for record in broker.logs.read("new")] == [b"a"]


def test_positions_wait_for_their_partition_and_nobody_else_does(broker: Served) -> None:
    """In the order in which they were committed."""
    from confluent_kafka import Consumer, TopicPartition

    broker.logs.create_topic("t")
    broker.logs.append_all("t", [b"x"] * 9)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)

    with broker.logs.partition("__consumer_offsets", 0).lock:
        for offset in (2, 3, 4):
            consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=True)
            consumer.poll(0.05)
        assert is_served(broker)
        assert broker.logs.groups.committed("g")["t", 0].position.offset == 1  # type: ignore[index]  # as a TopicPartition
    consumer.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False)
    consumer.close()

    assert broker.logs.groups.committed("g")["t", 0].position.offset == 5  # type: ignore[index]  # as a TopicPartition
    seen = [record.value for record in broker.logs.read("__consumer_offsets")]
    assert len(seen) == 5


def test_positions_are_read_while_the_cleaner_swaps_segments(broker: Served) -> None:
    """It holds the log's own lock; those who fetch positions, or list groups, need not wait."""
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient

    broker.logs.create_topic("t")
    broker.logs.append_all("t", [b"x"] * 9)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    with broker.logs.partition("__consumer_offsets", 0).log._state.lock:
        (found,) = consumer.committed([TopicPartition("t", 0)], timeout=PATIENCE_S)
        listed = admin.list_consumer_groups().result(PATIENCE_S)
    consumer.close()

    assert found.offset == 1
    assert [one.group_id for one in listed.valid] == ["g"]


@pytest.mark.parametrize("held", ["t", "__transaction_state"])
def test_a_transaction_ends_when_its_partitions_are_free(broker: Served, held: str) -> None:
    """Also the coordinator's. Its producer waits for it, and nobody else."""
    from confluent_kafka import Producer

    broker.logs.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"a")
    producer.flush()
    with ThreadPoolExecutor(1) as pool:
        with broker.logs.partition(held, 0).lock:
            ending = pool.submit(producer.commit_transaction, PATIENCE_S)
            sleep_ms(200)
            assert is_served(broker)
            assert not ending.done()
        ending.result(PATIENCE_S)
    records = broker.logs.read("t", isolation="read_committed")
    assert [record.value for record in records] == [b"a"]
