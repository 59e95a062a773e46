"""An Apache Kafka broker for benchmarks to compare with: its settings, ports and CPU time.

It needs Kafka's jars: `make peer`. Other benchmarks import it: ``from kafka_broker import Broker``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

JARS = Path(__file__).parents[1] / ".peer" / "kafka"
PRODUCER = Path(__file__).with_name("KeyedProducer.java")
READY = "Kafka Server started"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={directory}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""

START = ("java", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
           "-XX:InitiatingHeapOccupancyPercent=35")  # fmt: skip
"""The options with which Kafka's own script starts the broker."""


def is_installed() -> bool:
    """Return whether Kafka's jars and a Java to run them are installed."""
    return JARS.is_dir() and shutil.which("java") is not None


def free_ports() -> tuple[int, int]:
    """Return two free ports of the loopback interface."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def server_properties(directory: Path, ports: tuple[int, int], settings: dict[str, str]) -> str:
    """Return the properties of a node, broker and controller, with one data directory."""
    base = PROPERTIES.format(broker=ports[0], controller=ports[1], directory=directory)
    return base + "".join(f"{key}={value}\n" for key, value in settings.items())


def run_class(*arguments: str) -> str:
    """Run a class of Kafka's jars, or a source file that uses them; return its output."""
    command = ["java", "-cp", f"{JARS}/*", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


def format_storage(properties: Path) -> None:
    """Format the data directory that the properties name, for a new cluster."""
    tool = "kafka.tools.StorageTool"
    cluster = run_class(tool, "random-uuid").strip().splitlines()[-1]
    run_class(tool, "format", "-t", cluster, "-c", str(properties))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far; 0 on machines without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Broker:
    """A node, broker and controller, with default settings, on free loopback ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.directory = folder / "kafka"
        self.properties = folder / "server.properties"
        ports = free_ports()
        self.port = ports[0]
        folder.mkdir(parents=True, exist_ok=True)
        self.properties.write_text(
            server_properties(self.directory, ports, {"log.retention.ms": "-1"})
        )
        if not self.directory.exists():
            format_storage(self.properties)

    @property
    def server(self) -> str:
        """The ``bootstrap.servers`` of clients."""
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[int]:
        """Start the broker and yield its process id; stop it cleanly at the end of the block."""
        log = self.folder / "broker.log"  # a pipe would fill up and block the broker
        with log.open("w") as output:
            command = [*START, "-cp", f"{JARS}/*", "kafka.Kafka", str(self.properties)]
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            while READY not in log.read_text():
                if process.poll() is not None:
                    raise RuntimeError(log.read_text()[-3000:])
                subprocess.run(["sleep", "0.1"], check=True)  # noqa: S607 - a standard program
            yield process.pid
        finally:
            process.terminate()
            process.wait()

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with default settings on the running broker."""
        arguments = ["--bootstrap-server", self.server, "--create", "--topic", topic]
        run_class(
            "org.apache.kafka.tools.TopicCommand", *arguments, "--partitions", str(partitions)
        )

    def fill(self, topic: str, records: int, value_bytes: int) -> None:
        """Write records with 16-byte keys, in batches of 16 KB, with Kafka's producer."""
        run_class(str(PRODUCER), self.server, topic, str(records), str(value_bytes))
