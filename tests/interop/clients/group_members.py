"""Members of groups, one class for each library: what they are assigned, and what they get.

They commit as the libraries do by themselves: also when they lose partitions, and when they leave.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

from tests.interop.clients.conftest import PATIENCE_S, AioKafka, Confluent, KafkaPython, Kcat

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.clients.conftest import Client

HEARTBEAT_MS = 200
"""How soon a member learns that another one has come or gone."""
POLL_MS = 100
_MOST_BYTES = 1 << 20


class Member(Protocol):
    """One of those who share the partitions of a topic."""

    got: list[bytes]

    def poll(self) -> set[int]:
        """Take what has come; return the partitions that it has."""

    def leave(self) -> None:
        """Leave the group."""


class ConfluentMember:
    """A consumer of librdkafka."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from confluent_kafka import Consumer

        self.got: list[bytes] = []
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": HEARTBEAT_MS,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> set[int]:
        """Take what has come; return the partitions that it has."""
        for message in self._consumer.consume(100, POLL_MS / 1000):
            assert message.error() is None, message.error()
            self.got.append(message.value())
        return {one.partition for one in self._consumer.assignment()}

    def leave(self) -> None:
        """Leave the group."""
        self._consumer.close()


class KafkaPythonMember:
    """A consumer of ``kafka-python``."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from kafka import KafkaConsumer

        self.got: list[bytes] = []
        self._consumer: Any = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        # Who leads a group before it knows the topic assigns nothing, and joins again: if `poll`
        # ends then, before the answer to SyncGroup, release 3.0.12 never takes its partitions.
        self._consumer.partitions_for_topic(topic)

    def poll(self) -> set[int]:
        """Take what has come; return the partitions that it has."""
        for records in self._consumer.poll(POLL_MS).values():
            self.got += [one.value for one in records]
        return {one.partition for one in self._consumer.assignment()}

    def leave(self) -> None:
        """Leave the group."""
        self._consumer.close()


class AioKafkaMember:
    """A consumer of ``aiokafka``, whose event loop runs while it is asked something."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.got: list[bytes] = []
        self._runner = asyncio.Runner()
        self._consumer: Any = self._runner.run(self._started(bootstrap, topic, group))

    @staticmethod
    async def _started(bootstrap: str, topic: str, group: str) -> Any:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        # It would wait for its partitions, and so for the others, who are not asked meanwhile.
        task = asyncio.ensure_future(consumer.start())
        await asyncio.wait([task], timeout=POLL_MS / 1000)
        return consumer, task

    def poll(self) -> set[int]:
        """Take what has come; return the partitions that it has."""
        return self._runner.run(self._poll())

    async def _poll(self) -> set[int]:
        consumer, starting = self._consumer
        await asyncio.wait([starting], timeout=POLL_MS / 1000)
        if not starting.done():
            return set()
        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
            self.got += [one.value for one in records]
        return {one.partition for one in consumer.assignment()}

    def leave(self) -> None:
        """Leave the group."""
        self._runner.run(self._leave())
        self._runner.close()

    async def _leave(self) -> None:
        consumer, _ = self._consumer
        await consumer.stop()


class KcatMember:
    """kcat, which prints records on one side and its partitions on the other."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.got: list[bytes] = []
        self._said = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - until it leaves
        self._printed = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - until it leaves
        settings = ("auto.offset.reset=earliest", f"heartbeat.interval.ms={HEARTBEAT_MS}")
        words = [word for one in settings for word in ("-X", one)]
        self._process = subprocess.Popen(
            [Kcat.program(), "-b", bootstrap, "-u", "-J", *words, "-G", group, topic],
            stdout=self._printed,
            stderr=self._said,
        )

    def _take(self) -> None:
        *lines, _ = _all(self._printed).split(b"\n")
        self.got = [json.loads(line)["payload"].encode() for line in lines]

    def poll(self) -> set[int]:
        """Take what has come; return the partitions that it has."""
        self._take()
        said = _all(self._said).decode()
        rebalanced = re.findall(r"rebalanced[^:]*: (assigned|revoked): (.*)", said)
        if not rebalanced or rebalanced[-1][0] == "revoked":
            return set()
        return {int(number) for number in re.findall(r"\[(\d+)\]", rebalanced[-1][1])}

    def leave(self) -> None:
        """Leave the group."""
        self._process.terminate()
        assert self._process.wait(PATIENCE_S) == 0
        self._take()
        self._said.close()
        self._printed.close()


def _all(file: IO[bytes]) -> bytes:
    """Return what a process has written; its own position in the file stays."""
    return os.pread(file.fileno(), _MOST_BYTES, 0)


MEMBERS: dict[type, Callable[[str, str, str], Member]] = {
    Confluent: ConfluentMember,
    KafkaPython: KafkaPythonMember,
    AioKafka: AioKafkaMember,
    Kcat: KcatMember,
}


class Group:
    """Members of one library, who leave when a test ends, also one that fails."""

    def __init__(self, client: Client, bootstrap: str, name: str) -> None:
        self._member = MEMBERS[type(client)]
        self._bootstrap = bootstrap
        self._name = name
        self._members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members[:]:
            self.leave(member)

    def join(self, topic: str) -> Member:
        """Let another one join."""
        self._members.append(self._member(self._bootstrap, topic, self._name))
        return self._members[-1]

    def leave(self, member: Member) -> None:
        """Let one leave."""
        self._members.remove(member)
        member.leave()
