"""The brokers that the suites are run against: tidelog, and Apache Kafka of ``make peer``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # for the brokers of the tests

from tests.compat.conftest import (  # noqa: E402 - the line above lets it be found
    JARS,
    READY,
    SERVER_PROPERTIES,
    Java,
    Kafka,
    free_ports,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KAFKA_JARS: Final = JARS
SETTINGS: Final = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "3000",
}
"""What the suites count on; the delay, Kafka's default, lets members join a new group at once."""

NODE_ID: Final = 0
"""A test of kafka-python puts partitions on a broker of this id."""

KAFKA_SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.share.record.lock.duration.ms": "15000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
PATIENCE_S: Final = 60


@contextmanager
def tidelog(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Serve a directory in ``folder`` while the block runs; give the address."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    (folder / "data").mkdir()
    (folder / "data" / "meta.properties").write_text(
        f"version=1\nnode.id={NODE_ID}\ncluster.id=client-suites\n"
    )
    command: list[str | Path] = [
        Path(sys.executable).with_name("tidelog"),
        "serve",
        "-d",
        folder / "data",
    ]
    given = SETTINGS | {"advertised.listeners": f"PLAINTEXT://{address}"} | dict(settings)
    pairs = [f"{name}={value}" for name, value in given.items()]
    words = [word for pair in pairs for word in ("-o", pair)]
    with (folder / "broker.log").open("w") as log:
        process = subprocess.Popen([*command, "--listen", address, *words], stderr=log)
        try:
            _wait_for(folder / "broker.log", "listening", process)
            yield address
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@contextmanager
def kafka(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Run Apache Kafka over a directory in ``folder`` while the block runs; give the address."""
    program = shutil.which("java")
    if program is None or not JARS.is_dir():
        raise SystemExit("Apache Kafka is not here: make peer")
    port, controller = free_ports(2)
    properties = folder / "server.properties"
    lines = SERVER_PROPERTIES.format(broker=port, controller=controller, directory=folder / "data")
    lines = lines.replace("node.id=1", f"node.id={NODE_ID}").replace("=1@", f"={NODE_ID}@")
    for name, value in (SETTINGS | KAFKA_SETTINGS | dict(settings)).items():
        lines += f"{name}={value}\n"
    properties.write_text(lines)
    made = Kafka(Java(program, folder), folder / "data", properties, port)
    made.format()
    command = made.java.command("kafka.Kafka", str(properties))
    with (folder / "broker.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_for(folder / "broker.log", READY, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _wait_for(log: Path, words: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE_S
    while words not in log.read_text("utf-8", "replace"):
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"the broker does not start: {log.read_text('utf-8', 'replace')}")
        time.sleep(0.1)
