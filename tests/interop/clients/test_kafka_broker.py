"""The broker that tests of other programs use: its fixture, its faults, its clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.env.waiting import sleep_ms
from tidelog.errors import InvalidArgument
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.testing import ManualClock

PATIENCE_S = 30


def produced(broker: KafkaBroker, *values: bytes, **settings: Any) -> list[Any]:
    """Send records; return the error of each, None for none."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **settings})
    errors: list[Any] = []
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(PATIENCE_S) == 0
    return errors


def stored(broker: KafkaBroker) -> list[bytes | None]:
    """Return the values of the records of the topic."""
    return [record.value for record in broker.logs.read("t")]


def test_the_fixture_is_a_broker_for_one_test(kafka_broker: KafkaBroker) -> None:
    """Empty, and gone afterwards."""
    assert kafka_broker.logs.topics() == {}
    assert produced(kafka_broker, b"a", b"b") == [None, None]
    assert stored(kafka_broker) == [b"a", b"b"]
    assert kafka_broker.requests["Produce"] == 2


def test_a_request_that_fails_is_repeated(kafka_broker: KafkaBroker) -> None:
    """By a client that knows that the error passes; another error reaches the program."""
    kafka_broker.logs.create_topic("t")
    kafka_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert produced(kafka_broker, b"a") == [None]
    assert kafka_broker.requests["Produce"] == 3

    kafka_broker.fail("Produce", "MESSAGE_TOO_LARGE")
    (error,) = produced(kafka_broker, b"b")
    assert error.name() == "MSG_SIZE_TOO_LARGE"
    assert stored(kafka_broker) == [b"a"]


def test_a_fault_meets_one_of_the_requests_that_come_together(kafka_broker: KafkaBroker) -> None:
    """Each counts by itself, as they do in a broker without faults."""
    from confluent_kafka import Producer

    kafka_broker.logs.create_topic("t")
    kafka_broker.fail("Produce", "MESSAGE_TOO_LARGE")
    producer = Producer(
        {"bootstrap.servers": kafka_broker.bootstrap_servers, "batch.num.messages": 1}
    )
    errors: list[Any] = []
    for number in range(50):
        value = b"%d" % number
        producer.produce("t", value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0

    assert [error.name() for error in errors if error] == ["MSG_SIZE_TOO_LARGE"]
    assert len(stored(kafka_broker)) == 49
    assert kafka_broker.requests["Produce"] == 50


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_lost_answer_does_not_double_a_record(
    kafka_broker: KafkaBroker, carried_out: bool
) -> None:
    """Of an idempotent producer, whether the request was carried out or not."""
    kafka_broker.logs.create_topic("t")
    kafka_broker.drop("Produce", carried_out=carried_out, times=2)

    assert produced(kafka_broker, b"a", **{"enable.idempotence": True}) == [None]
    assert stored(kafka_broker) == [b"a"]


def test_an_answer_is_late(kafka_broker: KafkaBroker) -> None:
    """By as long as is wanted, once."""
    kafka_broker.logs.create_topic("t")
    kafka_broker.delay("Produce", 300)

    start = time.monotonic()
    produced(kafka_broker, b"a")
    assert time.monotonic() - start >= 0.3
    assert stored(kafka_broker) == [b"a"]


def test_a_broker_comes_back_where_it_was(tmp_path: Path) -> None:
    """On the same port, with its records."""
    with KafkaBroker(tmp_path) as broker:
        produced(broker, b"a")
        address = broker.bootstrap_servers
        broker.stop()
        with pytest.raises(InvalidArgument, match="stopped"):
            _ = broker.logs
        broker.start()
        assert broker.bootstrap_servers == address
        produced(broker, b"b")
        assert stored(broker) == [b"a", b"b"]


def test_time_is_the_tests(kafka_broker: KafkaBroker, kafka_clock: ManualClock) -> None:
    """A transaction is aborted when the clock says that its time is over."""
    from confluent_kafka import KafkaException, Producer

    kafka_broker.logs.create_topic("t")
    producer = Producer(
        {"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": "x"}
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", b"a")
    producer.flush(PATIENCE_S)
    kafka_clock.advance(3_600_000)
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction(PATIENCE_S)
    seen = kafka_broker.logs.read("t", isolation="read_committed")
    assert list(seen) == []


def test_an_error_of_positions_is_where_clients_look_for_it(kafka_broker: KafkaBroker) -> None:
    """One that passes is of the partitions: the client asks again, as beside a transaction."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    kafka_broker.logs.create_topic("t")
    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "g"})
    kafka_broker.fail("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", times=2)
    [found] = consumer.committed([TopicPartition("t", 0)], timeout=PATIENCE_S)
    assert (found.error, kafka_broker.requests["OffsetFetch"]) == (None, 3)
    kafka_broker.fail("OffsetFetch", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        consumer.committed([TopicPartition("t", 0)], timeout=PATIENCE_S)
    consumer.close()


@pytest.mark.parametrize(
    ("request_name", "code"),
    [
        ("Produced", "MESSAGE_TOO_LARGE"),
        ("Produce", "NONSENSE"),
        ("DescribeGroups", "NOT_COORDINATOR"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(
    kafka_broker: KafkaBroker, request_name: str, code: str
) -> None:
    """A request or an error that is not known, and a response that has no place for it."""
    with pytest.raises(InvalidArgument):
        kafka_broker.fail(request_name, code)
    with pytest.raises(InvalidArgument):
        kafka_broker.drop("Nothing")


def test_a_request_without_an_answer_fails_by_the_end_of_its_connection(
    kafka_broker: KafkaBroker,
) -> None:
    """The client would take an answer for that to its next request."""
    kafka_broker.logs.create_topic("t")
    kafka_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    produced(kafka_broker, b"lost", acks=0)
    end = time.monotonic() + PATIENCE_S
    while not kafka_broker.requests["Produce"] and time.monotonic() < end:
        sleep_ms(1)
    assert produced(kafka_broker, b"a") == [None]
    assert stored(kafka_broker) == [b"a"]
