"""Clients at a broker that is killed again and again: what was acknowledged is there, once.

A small history checker after Jepsen's queue workload: idempotent producers, a transactional one, a
group of consumers, commits of files, and programs that have joined beside them, one of which copies
records exactly once, while the broker gets SIGKILL or SIGSTOP. A larger ``SCALE`` tries more seeds.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.scale import scaled

import tidelog
from tidelog.env.waiting import sleep_ms
from tidelog.errors import (
    CommitOutcomeUnknown,
    DirectoryLocked,
    IllegalGeneration,
    NotServed,
    OutcomeUnknown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog import GroupReader, JoinedLogs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COMMAND = [sys.executable, "-m", "tidelog"]
PARTITIONS = 3
BLOWS = 5
BUSY = NotServed, OutcomeUnknown, DirectoryLocked, CommitOutcomeUnknown, IllegalGeneration
"""What a program that has joined is answered while the broker is away."""
PATIENCE_S = 60


class Broker:
    """A broker on one port, which is started as often as it is killed."""

    def __init__(self, data: Path, log: Path, *options: str) -> None:
        self.data = data
        self.options = ("num.partitions=3", *options)
        self.log = log
        self.address = "127.0.0.1:0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens; the port stays the same."""
        words = ["serve", "-d", str(self.data), "--listen", self.address]
        words += [word for option in self.options for word in ("-o", option)]
        with self.log.open("ab") as output:
            at = output.tell()
            self.process = subprocess.Popen([*COMMAND, *words], stderr=output)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for line in self.log.read_bytes()[at:].splitlines():
                if b"listening to=" in line:
                    self.address = line.rpartition(b"listening to=")[2].decode()
                    return
            sleep_ms(20)
        pytest.fail(self.log.read_text()[-3000:])

    def kill(self) -> None:
        """Kill it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def pause(self, seconds: float) -> None:
        """Stop it for some time, as a machine does that hangs."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        sleep_ms(round(1000 * seconds))
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """Let it end in order."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE_S)


class Workload:
    """What the clients have done, and what they were answered."""

    def __init__(self, address: str, data: Path) -> None:
        self.address = address
        self.data = data
        self.is_over = threading.Event()
        self.is_read = threading.Event()
        """Whether the consumers have all that the writers, who have ended, have committed."""
        self.acknowledged: set[bytes] = set()
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.unknown: set[int] = set()
        self.consumed: Counter[bytes] = Counter()
        self.files: set[int] = set()
        self.appended: set[int] = set()
        self.copies = 0
        self.faults: list[str] = []

    def done(self) -> dict[str, tuple[int, int]]:
        """Return how much was done of each kind, and how much a history has at least."""
        return {
            "records acknowledged": (len(self.acknowledged), 500),
            "transactions committed": (len(self.committed), 20),
            "records consumed": (self.consumed.total(), 60),
            "files": (len(self.files), 3),
            "joined appends": (len(self.appended), 50),
            "copies": (self.copies, 5),
        }

    def guarded(self, work: Any, *words: Any) -> threading.Thread:
        """Run a client on a thread; what it raises is a fault of the broker."""

        def run() -> None:
            try:
                work(*words)
            except Exception as error:  # noqa: BLE001 - the test fails with it
                self.faults.append(f"{work.__name__}: {error!r}")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def produce(self, name: str) -> None:
        """Send numbered records, each once, in order."""
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": PATIENCE_S * 1000,
                "socket.timeout.ms": 5000,
                "reconnect.backoff.max.ms": 200,
            }
        )

        def done(error: Any, message: Any) -> None:
            if error is not None:
                self.faults.append(f"{name}: {error}")
            self.acknowledged.add(message.value())

        number = 0
        while not self.is_over.is_set():
            value = b"%s-%d" % (name.encode(), number)
            producer.produce("plain", value, partition=number % PARTITIONS, on_delivery=done)
            number += 1
            producer.poll(0.002)
        assert producer.flush(PATIENCE_S) == 0

    def transact(self) -> None:
        """Send transactions of three records, to three partitions; each third one is aborted."""
        from confluent_kafka import KafkaException, Producer

        number = 0
        while not self.is_over.is_set():
            producer = Producer(
                {
                    "bootstrap.servers": self.address,
                    "transactional.id": "till",
                    "socket.timeout.ms": 5000,
                    "reconnect.backoff.max.ms": 200,
                    "linger.ms": 1,
                }
            )
            with suppress(KafkaException):
                producer.init_transactions(PATIENCE_S)
                while not self.is_over.is_set():
                    self._transaction(producer, number)
                    number += 1
            number += 1

    def _transaction(self, producer: Any, number: int) -> None:
        self.unknown.add(number)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce("paid", b"txn-%d" % number, partition=partition)
        if number % 3 == 2:
            producer.abort_transaction(PATIENCE_S)
            self.aborted.add(number)
        else:
            producer.commit_transaction(PATIENCE_S)
            self.committed.add(number)
        self.unknown.discard(number)

    def consume(self, name: str) -> None:
        """Read committed transactions as a member of a group, and commit after each poll."""
        from confluent_kafka import Consumer, KafkaException

        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "readers",
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
                "reconnect.backoff.max.ms": 200,
            }
        )
        last: dict[Any, Any] = {}
        # A commit that a blow took may let the next assignment begin with earlier records again.
        consumer.subscribe(["paid"], on_assign=lambda *_: last.clear())
        while not self.is_read.is_set():
            # One at a time: those that are polled together may be of two assignments.
            for message in islice(iter(partial(consumer.poll, 0.2), None), 100):
                if message.error() is not None:
                    continue
                before = last.get(message.partition(), -1)
                if message.offset() <= before:
                    fault = f"{name} got offset {message.offset()} after {before}"
                    self.faults.append(f"{fault} of {message.partition()}")
                last[message.partition()] = message.offset()
                self.consumed[message.value() or b""] += 1
            with suppress(KafkaException):
                consumer.commit(asynchronous=False)
        consumer.close()

    def append_files(self) -> None:
        """Commit files beside the broker, each once or not at all."""
        number = 0
        while not self.is_over.is_set():
            words = ["append", "files", "-d", str(self.data), "--txn", f"file-{number}"]
            lines = b"".join(b"%d-%d\n" % (number, line) for line in range(5))
            done = subprocess.run([*COMMAND, *words], input=lines, capture_output=True, check=False)
            if done.returncode == 0:
                self.files.add(number)
                number += 1
            sleep_ms(50)

    def append_joined(self) -> None:
        """Append numbers, each once, as a program that has joined; some outcomes are unknown."""
        number = 0
        with self._joined() as logs:
            while not self.is_over.is_set():
                with suppress(*BUSY):
                    logs.append("joined", b"%d" % number, partition=number % PARTITIONS)
                    self.appended.add(number)
                number += 1

    def copy_joined(self) -> None:
        """Copy what the producers send, with the positions of a group, as one that has joined."""
        with self._joined() as logs:
            while not self.is_over.is_set():
                with suppress(*BUSY), logs.reader("plain", group="copier") as reader:
                    while not self.is_over.is_set():
                        self._copy(logs, reader)

    def _copy(self, logs: JoinedLogs, reader: GroupReader) -> None:
        with logs.transaction() as txn:
            for record in islice(reader.read(idle_ms=200), 200):
                txn.append("copied", record.value, partition=record.partition)
            reader.commit(txn)
        self.copies += 1

    def _joined(self) -> JoinedLogs:
        while True:
            with suppress(NotServed):
                return tidelog.join(self.data)
            sleep_ms(20)


@contextmanager
def at_work(workload: Workload) -> Iterator[None]:
    """Let all clients work in the body of the ``with``, and the consumers until they have all."""
    consumers = [workload.guarded(workload.consume, name) for name in ("left", "right")]
    writers = [
        workload.guarded(workload.produce, "one"),
        workload.guarded(workload.produce, "two"),
        workload.guarded(workload.transact),
        workload.guarded(workload.append_files),
        workload.guarded(workload.append_joined),
        workload.guarded(workload.copy_joined),
    ]
    try:
        yield
    finally:
        workload.is_over.set()
        join_all(writers)
        end = time.monotonic() + PATIENCE_S
        wanted = {b"txn-%d" % number for number in workload.committed}
        while not wanted <= workload.consumed.keys() and time.monotonic() < end:
            sleep_ms(20)
        workload.is_read.set()
        join_all(consumers)


def join_all(threads: list[threading.Thread]) -> None:
    """Wait for clients to end."""
    for thread in threads:
        thread.join(2 * PATIENCE_S)
        assert not thread.is_alive()


def wait_for_work(workload: Workload) -> None:
    """Wait until each client has done enough, which on a busy machine takes its time."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if all(count >= least for count, least in workload.done().values()):
            return
        sleep_ms(100)


@pytest.mark.parametrize("seed", range(scaled(1)))
def test_nothing_is_lost_doubled_or_torn(seed: int, tmp_path: Path, enumerated: Enumerated) -> None:
    """Blow after blow; then the logs hold what the clients were answered, and no more."""
    broker = Broker(tmp_path / "data", tmp_path / "log")
    with tidelog.open(broker.data) as logs:
        for topic in ("plain", "paid", "files", "joined", "copied"):
            logs.create_topic(topic, partitions=PARTITIONS)
    broker.start()
    workload = Workload(broker.address, broker.data)
    rng = random.Random(seed)
    with at_work(workload):
        for _ in range(BLOWS):
            sleep_ms(rng.randrange(1000, 3000))
            if rng.random() < 0.3:
                broker.pause(rng.uniform(0.5, 2.0))
            else:
                broker.kill()
                sleep_ms(rng.randrange(500))
                broker.start()
        sleep_ms(3000)
        wait_for_work(workload)
    assert broker.stop() == 0

    assert workload.faults == []
    check_plain(workload, broker.data)
    check_paid(workload, broker.data)
    check_files(workload, broker.data)
    check_joined(workload, broker.data)
    check_copied(broker.data)
    enumerated("blows", BLOWS, at_least=5)
    for what, (count, least) in workload.done().items():
        enumerated(what, count, at_least=least)


def check_plain(workload: Workload, data: Path) -> None:
    """Each acknowledged record is there once, and those of a producer are in order."""
    logs = tidelog.open_directory_read_only(data)
    seen: list[bytes] = []
    for number in range(PARTITIONS):
        values = [record.value or b"" for record in logs.read("plain", partition=number)]
        by_producer: defaultdict[bytes, list[int]] = defaultdict(list)
        for value in values:
            name, _, at = value.partition(b"-")
            by_producer[name].append(int(at))
        assert all(found == sorted(found) for found in by_producer.values())
        seen += values
    assert [value for value, count in Counter(seen).items() if count > 1] == []
    assert workload.acknowledged <= set(seen)


def check_paid(workload: Workload, data: Path) -> None:
    """A transaction is there in all partitions or in none, as its producer was answered."""
    logs = tidelog.open_directory_read_only(data)
    found = [
        Counter(
            int((record.value or b"").partition(b"-")[2])
            for record in logs.read("paid", partition=number, isolation="read_committed")
        )
        for number in range(PARTITIONS)
    ]
    assert found[0] == found[1] == found[2]
    assert set(found[0].values()) <= {1}
    there = set(found[0])
    assert workload.committed <= there <= workload.committed | workload.unknown
    assert not there & workload.aborted
    # Read by a group that commits after each poll: all of them, and none that is aborted.
    got = {int(value.partition(b"-")[2]) for value in workload.consumed}
    assert workload.committed <= got <= there


def check_files(workload: Workload, data: Path) -> None:
    """Each file that was committed is there once, whole."""
    logs = tidelog.open_directory_read_only(data)
    values = Counter(record.value for record in logs.read("files"))
    assert set(values.values()) <= {1}
    numbers = Counter(int((value or b"").partition(b"-")[0]) for value in values)
    assert set(numbers.values()) <= {5}
    assert workload.files <= set(numbers)


def check_joined(workload: Workload, data: Path) -> None:
    """Each append that a joined program was answered is there, none twice, and in order."""
    logs = tidelog.open_directory_read_only(data)
    seen: list[int] = []
    for number in range(PARTITIONS):
        found = [int(record.value or b"") for record in logs.read("joined", partition=number)]
        assert found == sorted(set(found))
        seen += found
    assert workload.appended <= set(seen)


def check_copied(data: Path) -> None:
    """The copy has what the group has read, each record once, in its order."""
    with tidelog.open(data) as logs:
        positions = logs.group_positions()["copier"]
        for number in range(PARTITIONS):
            end = positions["plain", number].offset  # type: ignore[index]  # as a TopicPartition
            wanted = [one.value for one in logs.read("plain", number) if one.offset < end]
            assert [record.value for record in logs.read("copied", number)] == wanted
