"""A broker under load for a long time: what it holds stays the same.

200 connections come and go, groups form and end, records are retained, compacted and expire beside
that. ``SCALE`` makes it longer, ``SOAK_MINUTES`` gives the time.
"""

from __future__ import annotations

import os
import random
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.crash.test_broker_history import PATIENCE_S, Broker
from tests.machinery.scale import scaled

import tidelog
from tidelog.codec.protocol.apis import SIZE_BYTES, api_named, frame_size, size_of_frame
from tidelog.env.waiting import sleep_ms

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTES = float(os.environ.get("SOAK_MINUTES", scaled(30)))
CROWD = 190
"""Connections that ask a little; clients make more."""
MEMBERS = 4
MIB = 1 << 20
OPTIONS = (
    *("log.retention.check.interval.ms=1000", "log.cleaner.backoff.ms=500"),
    *("log.initial.task.delay.ms=500", "log.segment.delete.delay.ms=1000"),
    *("log.cleaner.dedupe.buffer.size=4000000", "offsets.retention.check.interval.ms=5000"),
)
SMALL = {"internal.segment.bytes": "200000", "file.delete.delay.ms": "1000"}
TOPICS = {
    "retained": SMALL | {"retention.bytes": "2000000"},
    "brief": SMALL | {"retention.ms": "10000"},
    "keyed": SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(round(MINUTES * 180) + 600),
    pytest.mark.skipif(sys.platform != "linux", reason="the broker is watched in /proc"),
]


class Sample(NamedTuple):
    """The broker at one moment."""

    rss_bytes: int
    descriptors: int
    sockets: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Sample:
        """Look at a process."""
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        links = []
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                links.append(os.readlink(one))
        sockets = sum(link.startswith("socket:") for link in links)
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), len(links), sockets, threads)


class Load:
    """Clients of a broker, until it is over."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_over = threading.Event()
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.threads: list[threading.Thread] = []

    def start(self) -> None:
        """Let all clients begin."""
        works: list[Callable[[], None]] = [self.crowd, self.transact]
        works += [lambda name=name: self.produce(name) for name in TOPICS]  # type: ignore[misc]  # bound now
        works += [lambda at=at: self.consume(at) for at in range(MEMBERS)]  # type: ignore[misc]  # bound now
        for work in works:
            thread = threading.Thread(target=self._guarded, args=[work], daemon=True)
            thread.start()
            self.threads.append(thread)

    def end(self) -> None:
        """Let all clients end."""
        self.is_over.set()
        for thread in self.threads:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive()

    def is_enough(self) -> bool:
        """Whether so much was done that growth would show; a busy machine takes longer."""
        done = min(self.counts[name] for name in ("produced", "consumed", "asked"))
        return bool(self.faults) or (
            done > 1000 * MINUTES and self.counts["memberships"] > 5 * MINUTES
        )

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.faults.append(repr(error))

    def crowd(self) -> None:
        """Keep many connections, of which some end and others come."""
        rng, clients = random.Random(1), [self._connect() for _ in range(CROWD)]
        while not self.is_over.is_set():
            at = rng.randrange(CROWD)
            if rng.random() < 0.1:
                clients[at].close()
                clients[at] = self._connect()
            self._ask(clients[at])
            self.counts["asked"] += 1
            sleep_ms(5)
        for client in clients:
            client.close()

    def _connect(self) -> socket.socket:
        host, _, port = self.address.partition(":")
        self.counts["connections"] += 1
        return socket.create_connection((host, int(port)), PATIENCE_S)

    def _ask(self, client: socket.socket) -> None:
        api = api_named("ApiVersions")
        parts = [api.request_header(0, 5, "me"), *api.write_request(0, {})]
        client.sendall(size_of_frame(parts) + b"".join(parts))
        found = b""
        while len(found) < SIZE_BYTES or len(found) < SIZE_BYTES + frame_size(found, 0):
            got = client.recv(65536)
            assert got, "the broker has closed a connection"
            found += got

    def _settings(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, **more}

    def produce(self, topic: str) -> None:
        """Send records with few keys; after some the producer is a new one."""
        from confluent_kafka import Producer

        number = 0

        def done(error: Any, _: Any) -> None:
            self.counts["failed" if error is not None else "produced"] += 1

        while not self.is_over.is_set():
            producer = Producer(self._settings(**{"enable.idempotence": True, "linger.ms": 5}))
            for _ in range(2000):
                if self.is_over.is_set():
                    break
                key = b"%d" % (number % 50)
                producer.produce(topic, b"v" * 500, key=key, on_delivery=done)
                number += 1
                producer.poll(0.003)
            assert producer.flush(PATIENCE_S) == 0

    def transact(self) -> None:
        """Commit and abort transactions, of a few transactional ids."""
        from confluent_kafka import Producer

        number = 0
        while not self.is_over.is_set():
            name = f"till-{number % 5}"
            producer = Producer(self._settings(**{"transactional.id": name}))
            producer.init_transactions(PATIENCE_S)
            for _ in range(20):
                producer.begin_transaction()
                producer.produce("brief", b"paid", key=b"till")
                end = producer.abort_transaction if number % 3 else producer.commit_transaction
                end(PATIENCE_S)
                number += 1
                self.counts["transactions"] += 1
                sleep_ms(20)
            number += 1

    def consume(self, at: int) -> None:
        """Join a group, read and commit, leave; then another one."""
        from confluent_kafka import Consumer

        number = 0
        while not self.is_over.is_set():
            settings = {
                "group.id": f"group-{(number + at // 2) % 20}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
            consumer = Consumer(self._settings(**settings))
            consumer.subscribe(list(TOPICS))
            for _ in range(20):
                found = consumer.consume(500, 0.2)
                if any(one.error() is None for one in found):
                    self.counts["consumed"] += len(found)
                    consumer.commit(asynchronous=True)
            consumer.close()
            self.counts["memberships"] += 1
            number += 1


def watched(pid: int, seconds: float, is_enough: Callable[[], bool] = lambda: True) -> list[Sample]:
    """Look at a process each second, for some time and until ``is_enough``."""
    samples, end = [], time.monotonic() + seconds
    while time.monotonic() < end or not is_enough():
        samples.append(Sample.of(pid))
        sleep_ms(1000)
    return samples


def test_a_broker_holds_no_more_than_at_first(tmp_path: Path) -> None:
    """Memory, descriptors and threads of the last third are those of the second one.

    Retention and compaction keep the topics small. Once the clients are gone the broker has no
    sockets but those that it listens on.
    """
    broker = Broker(tmp_path / "data", tmp_path / "log", *OPTIONS)
    with tidelog.open(broker.data) as logs:
        for topic, config in TOPICS.items():
            logs.create_topic(topic, partitions=3, config=config)
    broker.start()
    assert broker.process is not None
    pid, load = broker.process.pid, Load(broker.address)
    sleep_ms(2000)
    first = Sample.of(pid)
    load.start()
    samples = watched(pid, MINUTES * 60, load.is_enough)
    load.end()
    last = watched(pid, 20)[-1]
    assert broker.stop() == 0
    third = len(samples) // 3
    middle, end = (
        Sample(*(round(statistics.median(each)) for each in zip(*part, strict=True)))
        for part in (samples[third : 2 * third], samples[2 * third :])
    )
    print(f"{first=} {middle=} {end=} {last=} {dict(load.counts)}")  # noqa: T201 - the figures

    assert load.faults == []
    assert load.counts["failed"] == 0
    assert middle.sockets > CROWD
    assert end.rss_bytes < 1.05 * middle.rss_bytes + 8 * MIB
    assert end.descriptors < 1.1 * middle.descriptors + 20
    assert last.sockets == first.sockets
    assert end.threads <= middle.threads + 2
    # Kafka's own topics shrink only as their segments of 100 MiB end.
    logs_of = (path for topic in TOPICS for path in broker.data.glob(f"{topic}-*/*.log"))
    assert sum(path.stat().st_size for path in logs_of) < 30 * MIB
