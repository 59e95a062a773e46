"""A broker of Apache Kafka, for benchmarks that compare with it: its settings, ports, CPU seconds.

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
"""How Kafka's own script starts its broker."""


def is_installed() -> bool:
    """Say whether there are Kafka's jars and a Java to run them."""
    return JARS.is_dir() and shutil.which("java") is not None


def free_ports() -> tuple[int, int]:
    """Return two ports of the loopback that nobody listens to."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def server_properties(directory: Path, ports: tuple[int, int], settings: dict[str, str]) -> str:
    """Return the settings of one node, broker and controller, with one data directory."""
    base = PROPERTIES.format(broker=ports[0], controller=ports[1], directory=directory)
    return base + "".join(f"{key}={value}\n" for key, value in settings.items())


def run_class(*words: str) -> str:
    """Run a class of Kafka's jars, or a source file with them; return what it printed."""
    command = ["java", "-cp", f"{JARS}/*", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


def format_storage(properties: Path) -> None:
    """Make the data directory that the settings name one of a new cluster."""
    tool = "kafka.tools.StorageTool"
    cluster = run_class(tool, "random-uuid").strip().splitlines()[-1]
    run_class(tool, "format", "-t", cluster, "-c", str(properties))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has taken; 0 where the machine does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Broker:
    """One node, broker and controller, with defaults, on free ports of the loopback."""

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
        """What clients take as ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[int]:
        """Start it; give its process id; stop it cleanly at the end of the block."""
        told = self.folder / "broker.log"  # a pipe would fill up, and then the broker waits
        with told.open("w") as output:
            command = [*START, "-cp", f"{JARS}/*", "kafka.Kafka", str(self.properties)]
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            while READY not in told.read_text():
                if process.poll() is not None:
                    raise RuntimeError(told.read_text()[-3000:])
                subprocess.run(["sleep", "0.1"], check=True)  # noqa: S607 - any machine's own
            yield process.pid
        finally:
            process.terminate()
            process.wait()

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with default settings; the broker runs."""
        words = ["--bootstrap-server", self.server, "--create", "--topic", topic]
        run_class("org.apache.kafka.tools.TopicCommand", *words, "--partitions", str(partitions))

    def fill(self, topic: str, records: int, value_bytes: int) -> None:
        """Let Kafka's producer write records with keys of 16 bytes, in batches of 16 KB."""
        run_class(str(PRODUCER), self.server, topic, str(records), str(value_bytes))
