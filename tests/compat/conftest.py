"""Apache Kafka 4.3.1, as ``make peer`` installs it: its tools, its clients, its broker."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Unpack

import pytest
from tests.compat.two_logs import KafkaLog

import tidelog
from tidelog.codec.compression import Codec
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.waiting import sleep_ms
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.machinery.fields import ProducerFields

    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields, RecordFields

    Consumed = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
    """Offset, timestamp, key, value and headers of a record."""

HERE = Path(__file__).parent
JARS = HERE.parents[1] / ".peer" / "kafka"
PATIENCE_S = 180
"""How long to wait for a Java process on a machine that has other work."""
FIRST_MS = 1_700_000_000_000
SMALL_SEGMENTS = {
    "internal.segment.bytes": "16384",
    "index.interval.bytes": "512",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
}
READY = "Kafka Server started"

SERVER_PROPERTIES = """\
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
log.cleaner.backoff.ms=500
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000
"""


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; fail if that takes too long."""
    end_ms = SYSTEM_CLOCK.now_ms() + PATIENCE_S * 1000
    while not is_so():
        assert SYSTEM_CLOCK.now_ms() < end_ms
        sleep_ms(100)


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody uses just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@dataclass(frozen=True)
class Java:
    """The machine's Java with Kafka's jars and the classes of this folder."""

    program: str
    classes: Path
    before: str = ""
    """A jar of another release, which is taken before those."""

    def command(self, *words: str) -> list[str]:
        """Return the words that start a class with arguments."""
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
        in_utf8 = [f"-D{name}=UTF-8" for name in ("file.encoding", "stdout.encoding")]
        jars = [*filter(None, [self.before]), f"{JARS}/*", str(self.classes)]
        return [self.program, *quick, *in_utf8, "-cp", ":".join(jars), *words]

    def run(self, *words: str) -> str:
        """Run it to its end; return what it printed."""
        done = subprocess.run(
            self.command(*words), capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:].decode()
        return done.stdout.decode()

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run it while the block runs; stop it after that."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self.command(*words), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            for end in (process.stdin, process.stdout):
                assert end is not None
                end.close()


class LogOf:
    """What a process prints, read as it comes, since it waits when nobody reads."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._settled = threading.Event()
        self.reader = threading.Thread(target=self._read, args=[process.stdout], daemon=True)
        self.reader.start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self.lines.append(line)
            if READY in line:
                self._settled.set()
        self._settled.set()

    def wait_for_start(self) -> None:
        """Wait until the broker says that it runs; fail with its last words if it does not."""
        self._settled.wait(PATIENCE_S)
        if not any(READY in line for line in self.lines):
            pytest.fail("".join(self.lines[-40:]))


@dataclass(frozen=True)
class Kafka:
    """A broker of one node over one data directory; it runs only inside ``running``."""

    java: Java
    directory: Path
    properties: Path
    port: int

    def format(self, *options: str) -> None:
        """Make the directory that of a new cluster; ``options`` are those of the tool."""
        tool = "kafka.tools.StorageTool"
        cluster = self.java.run(tool, "random-uuid").strip()
        given = ["-t", cluster, "-c", str(self.properties), *options]
        self.java.run(tool, "format", *given)

    @contextmanager
    def running(self, *, is_killed: bool = False) -> Iterator[LogOf]:
        """Start the broker; stop it cleanly at the end of the block, or as kill -9 does.

        What it prints is complete after the block.
        """
        with self.java.started("kafka.Kafka", str(self.properties)) as process:
            log = LogOf(process)
            try:
                log.wait_for_start()
                yield log
            finally:
                (process.kill if is_killed else process.terminate)()
                log.reader.join(PATIENCE_S)

    def ask(self, *commands: str) -> str:
        """Let Kafka's own clients carry out commands of ``Clients.java``; return their output."""
        return self.java.run("Clients", f"127.0.0.1:{self.port}", *commands)

    @contextmanager
    def asked(self, *commands: str) -> Iterator[LogOf]:
        """Let the clients carry out commands while the block runs; give what they print."""
        address = f"127.0.0.1:{self.port}"
        with self.java.started("Clients", address, *commands) as process:
            yield LogOf(process)

    def consume(self, topic: str, isolation: str = "read_uncommitted") -> list[Consumed]:
        """Return offset, time, key, value and headers of each record of partition 0."""
        (found,) = self.consume_each((topic, isolation))
        return found

    def consume_each(self, *what: tuple[str, str]) -> list[list[Consumed]]:
        """Return the records of several topics, each with its isolation, by one client."""
        found: list[list[Consumed]] = [[]]
        for line in self.ask(*(f"consume {topic} {kind}" for topic, kind in what)).splitlines():
            if line == "end":
                found.append([])
            else:
                found[-1].append(consumed(line.split("\t")))
        assert len(found) == len(what) + 1
        return found[:-1]


def consumed(fields: Sequence[str]) -> Consumed:
    """Read one line of a consumer."""
    texts = [None if each == "null" else base64.b64decode(each[1:]) for each in fields[2:]]
    headers = tuple(
        (str(texts[at] or b"", "utf-8"), texts[at + 1]) for at in range(2, len(texts), 2)
    )
    return int(fields[0]), int(fields[1]), texts[0], texts[1], headers


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Return Java with Kafka's classes and those of this folder, which are compiled first."""
    program, compiler = shutil.which("java"), shutil.which("javac")
    if program is None or compiler is None or not JARS.is_dir():
        pytest.skip("needs Apache Kafka and a JDK: make peer")
    classes = tmp_path_factory.mktemp("classes")
    sources = sorted(str(path) for path in HERE.glob("*.java"))
    subprocess.run([compiler, "-cp", f"{JARS}/*", "-d", str(classes), *sources], check=True)
    return Java(program, classes)


@pytest.fixture(scope="module")
def kafka_log(java: Java) -> Iterator[KafkaLog]:
    """Kafka's log, in one Java for all tests of a file."""
    made = KafkaLog(java)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def new_kafka(java: Java) -> Callable[[Path], Kafka]:
    """Make brokers that were never started, each over an empty directory in a given folder."""

    def make(folder: Path) -> Kafka:
        broker, controller = free_ports(2)
        properties = folder / "server.properties"
        directory = folder / "kafka"
        properties.write_text(
            SERVER_PROPERTIES.format(broker=broker, controller=controller, directory=directory)
        )
        made = Kafka(java, directory, properties, broker)
        made.format()
        return made

    return make


@pytest.fixture
def kafka(new_kafka: Callable[[Path], Kafka], tmp_path: Path) -> Kafka:
    """Return a broker that was never started, over an empty directory."""
    return new_kafka(tmp_path)


@dataclass(frozen=True)
class Written:
    """What was appended to a log: each record as a consumer gets it, and which are committed."""

    directory: Path
    records: list[tuple[object, ...]]
    aborted: set[int]

    @property
    def committed(self) -> list[tuple[object, ...]]:
        """What a consumer gets that reads committed records only."""
        return [record for record in self.records if record[0] not in self.aborted]


def new_records(number: int, count: int = 20) -> list[RecordFields]:
    """Return records of all kinds, different for each ``number``."""
    key = f"{number}-".encode()
    return [
        (
            FIRST_MS + 1000 * number + (7 * at) % 100,
            None if at % 7 == 3 else key + bytes([at]),
            None if at % 5 == 1 else bytes(range(at)) * (number % 4),
            (("größe", b"\x00\xff"), ("größe", None), ("", b"")) if at % 4 == 2 else (),
        )
        for at in range(count)
    ]


def append_all(log: Log) -> tuple[list[tuple[object, ...]], set[int]]:
    """Append batches of every codec, with and without producers, and transactions."""
    appended: list[tuple[object, ...]] = []
    aborted: set[int] = set()

    def append(number: int, guard: int = 0, **fields: Unpack[BatchFields]) -> range:
        records = new_records(number)
        batch = build_batch(records, **fields)
        first = log.append_as_leader(batch, verification_guard=guard).first_offset
        offsets = range(first, first + len(records))
        appended.extend((at, *record) for at, record in zip(offsets, records, strict=True))
        return offsets

    for number in range(40):
        codec = Codec(number % 5)
        append(number, codec=codec)
        append(number, codec=codec, producer_id=77, producer_epoch=0, base_sequence=20 * number)
        if number % 3 == 0:
            producer: ProducerFields = {"producer_id": 5, "producer_epoch": number}
            guard = log.start_verification(5, 0, number, supports_epoch_bump=False)
            offsets = append(
                number, guard, codec=codec, base_sequence=0, transactional=True, **producer
            )
            is_commit = number % 2 == 0
            marker = build_marker(
                **producer, coordinator_epoch=1, is_commit=is_commit, timestamp=FIRST_MS + number
            )
            log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)
            aborted.update(() if is_commit else offsets)
    return appended, aborted


@pytest.fixture(scope="session")
def write_mixed() -> Callable[[Path], Written]:
    """Write logs of several segments with a bit of everything, and close them."""

    def write(folder: Path) -> Written:
        directory = folder / "ours"
        with tidelog.open(directory) as opened:
            opened.create_topic("mixed", config=SMALL_SEGMENTS)
            records, aborted = append_all(opened.partition("mixed", 0).log)
        return Written(directory / "mixed-0", records, aborted)

    return write


@pytest.fixture
def written(write_mixed: Callable[[Path], Written], tmp_path: Path) -> Written:
    """Return a log of several segments, written here and closed."""
    return write_mixed(tmp_path)


def hand_over(source: Path, target: Path) -> None:
    """Put a log's files in the place of those of an empty partition; its topic id stays."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copyfile(path, target / path.name)
