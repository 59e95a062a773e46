"""Clients read a log that begins in its archive, from its beginning."""

from __future__ import annotations

from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest
from tests.interop.clients.conftest import KINDS
from tests.machinery.brokers import served

from tidelog.broker.data import fetch, list_offsets
from tidelog.embedded.door_client import DoorClient
from tidelog.service.log_service import LogService
from tidelog.service.move_pace import CopyThrottle

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.clients.conftest import AioKafka, Confluent, KafkaPython, Kcat

    from tidelog.embedded.logs import Logs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries

CONFIG = {
    "internal.segment.bytes": "100000",
    "index.interval.bytes": "256",
    "remote.storage.enable": "true",
    "local.retention.bytes": "1",
}


def archive(logs: Logs) -> None:
    """Copy what is closed to the archive, and delete it here."""
    manager = logs.manager
    assert isinstance(manager, LogService)
    assert manager.tasks.archiving is not None
    manager.tasks.archiving.run()
    manager.tasks.cleanup_logs()


def test_what_an_answer_has_no_room_for_is_in_the_next(tmp_path: Path) -> None:
    """It is not out of range: a consumer would begin again at the end, and skip all of it."""
    from confluent_kafka import Consumer, TopicPartition

    limit = 50_000
    settings = {
        "group.id": "g",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "message.max.bytes": limit,
        "fetch.max.bytes": limit,
        "receive.message.max.bytes": limit * 10,
    }
    config = {"tidelog.archive.uri": f"file://{tmp_path}/lake"}
    with served(tmp_path / "data", config=config) as broker:
        places = []
        for topic in ("a", "b"):
            broker.logs.create_topic(topic, config=CONFIG)
            for _ in range(6):
                broker.logs.append_all(topic, [b"x" * 400] * 200)
            places.append(TopicPartition(topic, 0, 0))
        archive(broker.logs)
        consumer = Consumer(settings | {"bootstrap.servers": broker.bootstrap})
        consumer.assign(places)
        for _ in range(2400):
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
        consumer.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_client_begins_at_the_beginning(
    tmp_path: Path, kind: type[Confluent | KafkaPython | AioKafka | Kcat]
) -> None:
    """And gets every record once, across the place where the disk begins."""
    uri = f"file://{tmp_path}/lake"
    with served(tmp_path / "data", config={"tidelog.archive.uri": uri}) as broker:
        client = kind(broker.bootstrap)
        broker.logs.create_topic("t", config=CONFIG)
        first = [b"%d" % number + b"x" * 400 for number in range(200)]
        aborted = [b"aborted-%d" % number + b"x" * 400 for number in range(100)]
        last = [b"last-%d" % number + b"x" * 400 for number in range(200)]
        client.produce("t", first, partition=0)
        client.transact("till", "t", [(False, aborted)])
        client.produce("t", last, partition=0)
        archive(broker.logs)
        log = broker.logs.partition("t", 0).log
        assert log.log_start_offset == 0
        assert log.local_log_start_offset > 150

        everything = client.read("t", 500)
        committed = client.read("t", 400, committed=True)

        assert [one.value for one in everything] == [*first, *aborted, *last]
        assert [one.value for one in committed] == [*first, *last]
        assert client.read_as_group("t", "g", 1)[0].offset == 0


def test_where_the_archive_and_the_disk_begin_and_end_is_found(tmp_path: Path) -> None:
    """By the names of KIP-405, and by the time of a record that only the archive has."""
    config = {"tidelog.archive.uri": f"file://{tmp_path}/lake"}
    with served(tmp_path / "data", config=config) as broker:
        broker.logs.create_topic("t", config=CONFIG)
        first_ms = 1_700_000_000_000
        for number in range(600):
            broker.logs.append("t", bytes(400), timestamp=first_ms + 10 * number)
        archive(broker.logs)
        log = broker.logs.partition("t", 0).log
        local = log.local_log_start_offset
        assert 0 < local < log.log_end_offset

        door = DoorClient(broker.logs.manager.live_dirs[0])
        found = {}
        for wanted in (-2, -4, -5, -1, first_ms + 95):
            topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "timestamp": wanted}]}]
            answer = door.ask("ListOffsets", 9, replicaId=-1, topics=topics)
            found[wanted] = answer["topics"][0]["partitions"][0]["offset"]
        door.close()
    assert found == {-2: 0, -4: local, -5: local - 1, -1: 600, first_ms + 95: 10}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_client_gets_beyond_a_range_of_which_nothing_is_left(
    tmp_path: Path, kind: type[Confluent | KafkaPython | AioKafka | Kcat]
) -> None:
    """All that the archive has was aborted, by a marker that is on the disk."""
    from confluent_kafka import Producer

    config = {"tidelog.archive.uri": f"file://{tmp_path}/lake"}
    with served(tmp_path / "data", config=config) as broker:
        broker.logs.create_topic("t", config=CONFIG)
        log = broker.logs.partition("t", 0).log
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "x", "batch.size": 10_000}
        )
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(200):
            producer.produce("t", b"x" * 400, partition=0)
        producer.flush()
        log.roll()
        producer.abort_transaction()
        client = kind(broker.bootstrap)
        client.produce("t", [b"a", b"b"], partition=0)
        archive(broker.logs)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 200)

        assert [one.value for one in client.read("t", 2, committed=True)] == [b"a", b"b"]


def test_nothing_on_the_disk_waits_for_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many clients read what only an archive has, and wait as long as it does."""
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._listoffsets import OffsetSpec
    from confluent_kafka.cimpl import NewTopic

    answers = Event()

    def slow(read: Any) -> Any:
        return lambda *given: answers.wait(60) and read(*given)

    config = {"tidelog.archive.uri": f"file://{tmp_path}/lake"}
    with served(tmp_path / "data", config=config) as broker:
        settings = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "error"}
        admin, other = (AdminClient({"bootstrap.servers": broker.bootstrap}) for _ in range(2))
        broker.logs.create_topic("t", partitions=12, config=CONFIG)
        broker.logs.create_topic("on-disk")
        broker.logs.append("on-disk", b"here")
        for _ in range(24):
            broker.logs.append_all("t", [(b"%d" % key, b"x" * 400) for key in range(400)])
        archive(broker.logs)
        for module, name in ((fetch, "archived_batches"), (list_offsets, "offset_at")):
            monkeypatch.setattr(module, name, slow(getattr(module, name)))
        consumers = []
        for number in range(12):
            assert broker.logs.partition("t", number).log.local_log_start_offset > 0
            consumers.append(Consumer(settings | {"group.id": "g", "enable.auto.commit": False}))
            places = [TopicPartition("t", number, 0), TopicPartition("on-disk", 0, 0)]
            consumers[number].assign(places)
            live = consumers[number].poll(20)
            assert live is not None
            assert live.value() == b"here"

        admin.list_offsets({TopicPartition("t", 0): OffsetSpec.for_timestamp(0)})
        place = TopicPartition("on-disk", 0)
        made = other.create_topics([NewTopic("new", 1)], request_timeout=20)["new"]
        found = other.list_offsets({place: OffsetSpec.for_timestamp(0)}, request_timeout=20)[place]
        assert made.result() is None

        answers.set()
        assert found.result().offset == 0
        late = [consumer.poll(20) for consumer in consumers]
        assert {one and (one.topic(), one.offset()) for one in late} == {("t", 0)}
        for consumer in consumers:
            consumer.close()


def test_the_deletion_of_a_topic_that_waits_for_a_store_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass stops once the store has answered; until then topics are created as usual."""
    asked, answers = Event(), Event()

    def wait(_: object) -> int:
        asked.set()
        answers.wait(60)
        return 0

    config = {"tidelog.archive.uri": f"file://{tmp_path}/lake"}
    with served(tmp_path / "data", config=config) as broker:
        broker.logs.create_topic("t", partitions=3, config=CONFIG)
        for _ in range(6):
            broker.logs.append_all("t", [(b"%d" % key, b"x" * 400) for key in range(400)])
        monkeypatch.setattr(CopyThrottle, "wait_ms", wait)
        copy = Thread(target=partial(archive, broker.logs))
        copy.start()
        assert asked.wait(20)
        deletion = Thread(target=partial(broker.logs.delete_topic, "t"))
        deletion.start()
        deletion.join(0.5)
        assert deletion.is_alive()

        creation = Thread(target=partial(broker.logs.create_topic, "new"))
        creation.start()
        creation.join(20)
        is_created = not creation.is_alive()
        answers.set()
        for thread in (copy, deletion, creation):
            thread.join()
        assert is_created
        assert [*broker.logs.topics()] == ["new"]
