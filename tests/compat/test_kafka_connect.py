"""Kafka Connect and MirrorMaker, unmodified, at a broker of ours."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.compat.conftest import JARS, PATIENCE_S, free_ports, wait_until
from tests.interop.clients.conftest import Confluent
from tests.machinery.brokers import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.compat.conftest import Java, Kafka
    from tests.machinery.brokers import Served

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

CONNECT: Final = JARS.parent / "connect"
TOPICS: Final = ("config", "offset", "status")
WORKER: Final = """\
group.id=connect
listeners=http://127.0.0.1:{port}
bootstrap.servers={bootstrap}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.flush.interval.ms=500
exactly.once.source.support=enabled
"""
MIRROR: Final = """\
clusters=kafka,ours
kafka.bootstrap.servers={kafka}
ours.bootstrap.servers={ours}
kafka->ours.enabled=true
kafka->ours.topics=words
kafka.consumer.isolation.level=read_committed
ours->kafka.enabled=false
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
refresh.topics.interval.seconds=1
sync.group.offsets.enabled=true
emit.checkpoints.interval.seconds=1
sync.group.offsets.interval.seconds=1
ours.exactly.once.source.support=enabled
dedicated.mode.enable.internal.rest=true
listeners=http://127.0.0.1:{port}
"""


class Worker:
    """A program of Kafka Connect, over a file of properties."""

    def __init__(self, java: Java, name: str, properties: Path, text: str) -> None:
        if not CONNECT.is_dir():
            pytest.skip("needs Kafka Connect: make peer")
        (self.port,) = free_ports(1)
        properties.write_text(text.replace("{port}", str(self.port)))
        self._log = properties.with_suffix(".log")
        self._words = [
            *(java.program, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Xmx512m"),
            *("-cp", f"{JARS}/*:{CONNECT}/*", name, str(properties)),
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it; at the end of the block it is killed."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._words, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    @property
    def errors(self) -> list[str]:
        """What it has logged as errors."""
        return [line for line in self._log.read_text().splitlines() if "] ERROR " in line]

    def configure(self, connector: str, **config: str) -> bool:
        """Create or change a connector; return whether it took that."""
        path, body = f"/connectors/{connector}/config", json.dumps(config)
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("PUT", path, body, {"Content-Type": "application/json"})
            return connection.getresponse().status in {200, 201}
        except ConnectionError:
            return False
        finally:
            connection.close()


def committed(broker: Served, topic: str) -> list[Any]:
    """Return the values of committed records; none while there is no topic."""
    if topic not in broker.logs.topics():
        return []
    return [record.value for record in broker.logs.read(topic, isolation="read_committed")]


def add(file: Path, lines: range) -> None:
    """Add lines to a file."""
    with file.open("a") as out:
        out.writelines(f"{number}\n" for number in lines)


def test_connectors_that_are_killed_go_on_where_they_were(java: Java, tmp_path: Path) -> None:
    """A source writes each line of its file once, and a sink loses none."""
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    with served(tmp_path / "data") as broker:
        text = WORKER.replace("{bootstrap}", broker.bootstrap)
        for topic in TOPICS:
            text += f"{topic}.storage.topic={topic}s\n{topic}.storage.replication.factor=1\n"
        name = "org.apache.kafka.connect.cli.ConnectDistributed"
        worker = Worker(java, name, tmp_path / "worker.properties", text)
        reader = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(source),
            "topic": "lines",
            "exactly.once.support": "required",
        }
        writer = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(sink),
            "topics": "lines",
            # Else the test could kill the source before it has committed what the sink has written.
            "consumer.override.isolation.level": "read_committed",
            # The one that is killed leaves no word: it is a member for as long as this.
            "consumer.override.session.timeout.ms": "6000",
        }

        def is_through(count: int) -> bool:
            return sink.exists() and len(set(sink.read_text().split())) == count

        add(source, range(300))
        with worker.running():
            wait_until(lambda: worker.configure("reader", **reader))
            wait_until(lambda: worker.configure("writer", **writer))
            wait_until(lambda: is_through(300))
            add(source, range(300, 600))
            wait_until(lambda: len(committed(broker, "lines")) > 300)
        add(source, range(600, 900))
        with worker.running():
            wait_until(lambda: is_through(900))
        found = committed(broker, "lines")
        settings = [broker.logs.topic(f"{topic}s").config["cleanup.policy"] for topic in TOPICS]

    assert found == [str(number).encode() for number in range(900)]
    assert settings == ["compact"] * len(TOPICS)


def test_mirrormaker_copies_a_topic_and_a_group(java: Java, kafka: Kafka, tmp_path: Path) -> None:
    """Committed records of Kafka's, each once; it finds no access rules to copy, and no error."""
    with kafka.running(), served(tmp_path / "data") as broker:
        kafka.ask("create words retention.ms=-1", "produce words zstd 50", "transact words 2")
        consumed = [record[3] for record in kafka.consume("words", "read_committed")]
        address = f"127.0.0.1:{kafka.port}"
        Confluent(address).read_as_group("words", "readers", len(consumed))
        text = MIRROR.replace("{kafka}", address).replace("{ours}", broker.bootstrap)
        name = "org.apache.kafka.connect.mirror.MirrorMaker"
        mirror = Worker(java, name, tmp_path / "mirror.properties", text)
        with mirror.running():
            wait_until(lambda: len(committed(broker, "kafka.words")) >= len(consumed))
            wait_until(lambda: "readers" in broker.logs.group_positions())
        found = committed(broker, "kafka.words")
        (position,) = broker.logs.group_positions()["readers"].values()

    assert len(consumed) == 100
    assert found == consumed
    assert position.offset <= 101  # with a marker; MirrorMaker rounds down
    assert mirror.errors == []
