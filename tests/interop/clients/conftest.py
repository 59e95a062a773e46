"""Clients of other makers, and a broker for them."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest
from tests.machinery.brokers import served

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.machinery.brokers import Served

PATIENCE_S = 30.0
ALL_CODECS = ("gzip", "snappy", "lz4", "zstd")


class Got(NamedTuple):
    """A record that a consumer got."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Client(Protocol):
    """What each library is asked to do."""

    name: str
    codecs: tuple[str, ...]
    tells_offsets: bool

    def produce(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = None,
    ) -> list[int]:
        """Send records, and return the offsets that were acknowledged, if they are known."""

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Got]:
        """Read the first records of partition 0, without a group."""

    def read_as_group(self, topic: str, group: str, count: int) -> list[Got]:
        """Read some records as the only member of a group, and commit the positions."""

    def transact(self, name: str, topic: str, batches: Iterable[tuple[bool, list[bytes]]]) -> None:
        """Send each batch as a transaction, which is committed or aborted."""

    def offset_at(self, topic: str, timestamp: int) -> int:
        """Return the offset of the first record of partition 0 at a time, or after it."""

    def administer(self, topic: str) -> dict[str, str]:
        """Create a topic with settings, change them, add a partition; delete the topic ``old``.

        Two partitions and ``retention.ms=5000`` at first, three and ``segment.ms=777777``, too, in
        the end. Return these settings, as the library reads them.
        """


class Confluent:
    """librdkafka, by its Python package."""

    name = "confluent-kafka"
    codecs = ALL_CODECS
    tells_offsets = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def _producer(self, **settings: Any) -> Any:
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.bootstrap, **settings})

    def produce(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = None,
    ) -> list[int]:
        producer = self._producer(
            **{"acks": acks, "compression.type": codec, "enable.idempotence": idempotent}
        )
        offsets: list[int] = []

        def done(error: Any, message: Any) -> None:
            assert error is None, error
            offsets.append(message.offset() if acks != "0" else -1)

        place = {} if partition is None else {"partition": partition}
        for value in values:
            producer.produce(topic, value, key=b"k", on_delivery=done, **place)
        assert producer.flush(PATIENCE_S) == 0
        return offsets

    def _consumer(self, group: str, **settings: Any) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )

    @staticmethod
    def _polled(consumer: Any, count: int) -> list[Got]:
        found: list[Got] = []
        end = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < end:
            message = consumer.poll(0.5)
            if message is None:
                continue
            assert message.error() is None, message.error()
            found.append(Got(message.partition(), message.offset(), message.key(), message.value()))
        return found

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Got]:
        from confluent_kafka import TopicPartition

        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer("nobody", **{"isolation.level": isolation})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            return self._polled(consumer, count)
        finally:
            consumer.close()

    def read_as_group(self, topic: str, group: str, count: int) -> list[Got]:
        consumer = self._consumer(group)
        try:
            consumer.subscribe([topic])
            found = self._polled(consumer, count)
            consumer.commit(asynchronous=False)
            return found
        finally:
            consumer.close()

    def transact(self, name: str, topic: str, batches: Iterable[tuple[bool, list[bytes]]]) -> None:
        producer = self._producer(**{"transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        for is_commit, values in batches:
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value, partition=0)
            assert producer.flush(PATIENCE_S) == 0
            if is_commit:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)

    def offset_at(self, topic: str, timestamp: int) -> int:
        from confluent_kafka import TopicPartition

        consumer = self._consumer("nobody")
        try:
            wanted = [TopicPartition(topic, 0, timestamp)]
            (found,) = consumer.offsets_for_times(wanted, timeout=PATIENCE_S)
            assert found.error is None
            return int(found.offset)
        finally:
            consumer.close()

    def administer(self, topic: str) -> dict[str, str]:
        from confluent_kafka import admin as module

        of: Any = module  # which re-exports what follows

        def done(futures: Any) -> Any:
            return [one.result(PATIENCE_S) for one in futures.values()]

        admin = of.AdminClient({"bootstrap.servers": self.bootstrap})
        done(admin.create_topics([of.NewTopic(topic, 2, 1, config={"retention.ms": "5000"})]))
        set_it = of.AlterConfigOpType.SET
        change = of.ConfigEntry("segment.ms", "777777", incremental_operation=set_it)
        changed = of.ConfigResource(of.ResourceType.TOPIC, topic, incremental_configs=[change])
        done(admin.incremental_alter_configs([changed]))
        done(admin.create_partitions([of.NewPartitions(topic, 3)]))
        done(admin.delete_topics(["old"]))
        resource = of.ConfigResource(of.ResourceType.TOPIC, topic)
        (found,) = done(admin.describe_configs([resource]))
        return {name: found[name].value for name in ("retention.ms", "segment.ms")}


class KafkaPython:
    """The package ``kafka-python``."""

    name = "kafka-python"
    codecs = ("gzip", "lz4", "zstd")  # snappy by python-snappy only
    tells_offsets = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = None,
    ) -> list[int]:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            sent = [producer.send(topic, value, key=b"k", partition=partition) for value in values]
            return [one.get(PATIENCE_S).offset for one in sent]
        finally:
            producer.close(timeout=PATIENCE_S)

    def _consumer(self, **settings: Any) -> Any:
        from kafka import KafkaConsumer

        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )

    @staticmethod
    def _polled(consumer: Any, count: int) -> list[Got]:
        found: list[Got] = []
        end = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < end:
            for records in consumer.poll(500, max_records=count - len(found)).values():
                found += [Got(one.partition, one.offset, one.key, one.value) for one in records]
        return found

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Got]:
        from kafka import TopicPartition

        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(isolation_level=isolation)
        try:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek_to_beginning()
            return self._polled(consumer, count)
        finally:
            consumer.close()

    def read_as_group(self, topic: str, group: str, count: int) -> list[Got]:
        consumer = self._consumer(group_id=group)
        try:
            consumer.subscribe([topic])
            found = self._polled(consumer, count)
            consumer.commit()
            return found
        finally:
            consumer.close()

    def transact(self, name: str, topic: str, batches: Iterable[tuple[bool, list[bytes]]]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=name)
        try:
            producer.init_transactions()
            for is_commit, values in batches:
                producer.begin_transaction()
                for one in [producer.send(topic, value, partition=0) for value in values]:
                    one.get(PATIENCE_S)
                (producer.commit_transaction if is_commit else producer.abort_transaction)()
        finally:
            producer.close(timeout=PATIENCE_S)

    def offset_at(self, topic: str, timestamp: int) -> int:
        from kafka import TopicPartition

        consumer = self._consumer()
        try:
            place = TopicPartition(topic, 0)
            return int(consumer.offsets_for_times({place: timestamp})[place].offset)
        finally:
            consumer.close()

    def administer(self, topic: str) -> dict[str, str]:
        from kafka.admin import (
            ConfigResource,
            ConfigResourceType,
            KafkaAdminClient,
            NewPartitions,
            NewTopic,
        )

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "5000"})])
            kind = ConfigResourceType.TOPIC
            admin.alter_configs([ConfigResource(kind, topic, {"segment.ms": "777777"})])
            admin.create_partitions({topic: NewPartitions(3)})
            admin.delete_topics(["old"])
            found = admin.describe_configs([ConfigResource(kind, topic)])["topic"][topic]
            return {name: found[name]["value"] for name in ("retention.ms", "segment.ms")}
        finally:
            admin.close()


class AioKafka:
    """The package ``aiokafka``."""

    name = "aiokafka"
    codecs = ALL_CODECS
    tells_offsets = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = None,
    ) -> list[int]:
        from aiokafka import AIOKafkaProducer

        async def run() -> list[int]:
            async with AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks=acks if acks == "all" else int(acks),
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
            ) as producer:
                sent = [
                    await producer.send(topic, value, key=b"k", partition=partition)
                    for value in values
                ]
                found = [await one for one in sent]
                return [-1 if one is None else one.offset for one in found]

        return asyncio.run(run())

    def _polled(self, count: int, *topics: str, assigned: bool, **settings: Any) -> list[Got]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def run() -> list[Got]:
            consumer = AIOKafkaConsumer(
                *(() if assigned else topics),
                bootstrap_servers=self.bootstrap,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                **settings,
            )
            async with consumer:
                if assigned:
                    consumer.assign([TopicPartition(topic, 0) for topic in topics])
                    await consumer.seek_to_beginning()
                found: list[Got] = []
                end = time.monotonic() + PATIENCE_S
                while len(found) < count and time.monotonic() < end:
                    batches = await consumer.getmany(timeout_ms=500, max_records=count - len(found))
                    for records in batches.values():
                        found += [
                            Got(one.partition, one.offset, one.key, one.value) for one in records
                        ]
                if not assigned:
                    await consumer.commit()
                return found

        return asyncio.run(run())

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Got]:
        isolation = "read_committed" if committed else "read_uncommitted"
        return self._polled(count, topic, assigned=True, isolation_level=isolation)

    def read_as_group(self, topic: str, group: str, count: int) -> list[Got]:
        return self._polled(count, topic, assigned=False, group_id=group)

    def transact(self, name: str, topic: str, batches: Iterable[tuple[bool, list[bytes]]]) -> None:
        from aiokafka import AIOKafkaProducer

        async def run() -> None:
            async with AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, transactional_id=name
            ) as producer:
                for is_commit, values in batches:
                    await producer.begin_transaction()
                    for value in values:
                        await producer.send_and_wait(topic, value, partition=0)
                    await (
                        producer.commit_transaction() if is_commit else producer.abort_transaction()
                    )

        asyncio.run(run())

    def offset_at(self, topic: str, timestamp: int) -> int:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def run() -> int:
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
                place = TopicPartition(topic, 0)
                return int((await consumer.offsets_for_times({place: timestamp}))[place].offset)

        return asyncio.run(run())

    def administer(self, topic: str) -> dict[str, str]:
        from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        async def run() -> dict[str, str]:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                settings = {"retention.ms": "5000"}
                new = NewTopic(topic, 2, 1, topic_configs=dict(settings))
                await admin.create_topics([new])
                settings |= {"segment.ms": "777777"}  # it replaces all of them
                resource = ConfigResource(ConfigResourceType.TOPIC, topic, settings)
                await admin.alter_configs([resource])
                await admin.create_partitions({topic: NewPartitions(3)})
                await admin.delete_topics(["old"])
                asked = ConfigResource(ConfigResourceType.TOPIC, topic)
                (answer,) = await admin.describe_configs([asked])
                found = {one[0]: one[1] for one in answer.resources[0][4]}
                return {name: found[name] for name in settings}
            finally:
                await admin.close()

        return asyncio.run(run())


class Kcat:
    """kcat: librdkafka 2.0, on the command line."""

    name = "kcat"
    codecs = ALL_CODECS
    tells_offsets = False

    def __init__(self, bootstrap: str) -> None:
        self._words = [self.program(), "-q", "-b", bootstrap]

    @staticmethod
    def program() -> str:
        """Return where it is."""
        path = shutil.which("kcat")
        if path is None:
            pytest.skip("kcat is not installed: apt install kcat")
        return path

    def run(self, *words: object, stdin: bytes = b"") -> bytes:
        """Run it, and return what it prints."""
        command = [*self._words, *map(str, words)]
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def produce(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = None,
    ) -> list[int]:
        words = ["-P", "-t", topic, "-k", "k", "-z", codec, "-X", f"acks={acks}"]
        words += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
        words += [] if partition is None else ["-p", str(partition)]
        self.run(*words, stdin=b"\n".join(values))
        return []

    @staticmethod
    def _printed(output: bytes) -> list[Got]:
        found = [json.loads(line) for line in output.splitlines()]
        return [
            Got(
                one["partition"],
                one["offset"],
                None if one["key"] is None else one["key"].encode(),
                None if one["payload"] is None else one["payload"].encode(),
            )
            for one in found
        ]

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Got]:
        isolation = f"isolation.level=read_{'' if committed else 'un'}committed"
        words = ("-t", topic, "-p", 0, "-o", "beginning", "-X", isolation)
        return self._printed(self.run("-C", "-J", "-c", count, *words))

    def read_as_group(self, topic: str, group: str, count: int) -> list[Got]:
        words = ("-J", "-c", count, "-X", "auto.offset.reset=earliest")
        return self._printed(self.run(*words, "-G", group, topic))

    def transact(self, name: str, topic: str, batches: Iterable[tuple[bool, list[bytes]]]) -> None:
        words = ("-P", "-t", topic, "-p", 0, "-X", f"transactional.id={name}")
        for is_commit, values in batches:
            if not is_commit:
                pytest.skip("kcat aborts at a signal only, and sends little before its input ends")
            self.run(*words, stdin=b"\n".join(values))

    def offset_at(self, topic: str, timestamp: int) -> int:
        return int(self.run("-Q", "-t", f"{topic}:0:{timestamp}").split()[-1])

    def administer(self, topic: str) -> dict[str, str]:  # noqa: ARG002 - as the others
        pytest.skip("kcat changes no topics")


KINDS = (Confluent, KafkaPython, AioKafka, Kcat)


@pytest.fixture(autouse=True)
def _no_socket_of_kafka_python_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the connection that ``kafka-python`` was making when its client was closed.

    Release 3.0.12 leaves that socket to the garbage collector, whose warning would fail whichever
    test runs then.
    """
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        from kafka.net.inet import KafkaNetSocket

    made: list[socket.socket] = []

    def recorded(_self: KafkaNetSocket, *kind: int) -> socket.socket:
        made.append(socket.socket(*kind))
        return made[-1]

    monkeypatch.setattr(KafkaNetSocket, "socket", recorded)
    yield
    for one in made:
        one.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    """A broker over an empty directory."""
    with served(tmp_path / "data") as found:
        yield found


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, broker: Served) -> Client:
    """A client of that broker, of each library."""
    found: Client = request.param(broker.bootstrap)
    return found
