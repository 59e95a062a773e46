"""How does `tidelog serve` keep up with Apache Kafka, with the same clients on the same machine?

Both run beside each other, in turn one is used, with equal policies of flushing. Produce and
consume: librdkafka by its Python package, and Kafka's own ProducerPerformance, 100 B and 1 KB, in
batches of 16 KB and 1 MB, to 1 and 8 partitions, after a round that warms both brokers up. The
clients of both take more than one of two cores, so the CPU time of each broker is shown, too: what
it leaves to the clients is what it can be faster by. Latency: single records at 100 and 1,000 a
second, acks=all. Small requests: one record each, 16 in flight on each of 4 connections, written by
hand, so that the broker's CPU time counts and not the client's. Also: memory, and the time from the
start of the process to the first answer. Goals: produce 1.2 times Kafka, consume 1.0, latencies at
most 1.0, CPU of small requests at most 0.5, memory at most 0.2, time to ready at most 0.1.

    .venv/bin/python benchmarks/broker.py [--rounds 3] [--quick]
"""

from __future__ import annotations

import argparse
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # re-exported
from kafka_broker import Broker, cpu_seconds, is_installed, run_class
from measure import heading

from tidelog.codec.protocol.apis import SIZE_BYTES, api_named, frame_size, size_of_frame
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 20261128
KIB = 1 << 10
SIZES = {100: 400_000, KIB: 100_000}
"""Records of a round, by their size in bytes."""
BATCHES = (16 * KIB, 1 << 20)
PARTITIONS = (1, 8)
READS = 5
"""Of the records of a round: one takes a tenth of a second."""
SMALL_REQUESTS = 20_000
IN_FLIGHT = 16
CONNECTIONS = 4
PATIENCE_S = 120
VERSION = 9
"""Of the produce requests that are written by hand."""


class Server(NamedTuple):
    """A broker that runs."""

    name: str
    bootstrap: str
    pid: int

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.bootstrap.partition(":")
        return host, int(port)


@contextmanager
def tidelog_server(folder: Path, policy: str) -> Iterator[Server]:
    """Run `tidelog serve` on a free port."""
    log = folder / "tidelog.log"
    command = [
        *(sys.executable, "-m", "tidelog", "serve", "-d", str(folder / "tidelog")),
        *("--listen", "127.0.0.1:0", "-o", f"tidelog.flush.policy={policy}"),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(command, stderr=output)
    try:
        while not (found := re.search(r"listening to=(\S+)", log.read_text())):
            if process.poll() is not None:
                raise RuntimeError(log.read_text()[-3000:])
            time.sleep(0.005)
        yield Server("tidelog", found[1], process.pid)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def kafka_server(folder: Path) -> Iterator[Server]:
    """Run a node of Kafka's."""
    broker = Broker(folder / "kafka")
    with broker.running() as pid:
        yield Server("Kafka", broker.server, pid)


def create(server: Server, topic: str, partitions: int, **config: str) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    new = NewTopic(topic, partitions, 1, config=config)
    for future in admin.create_topics([new]).values():
        future.result()


def produce(server: Server, topic: str, size: int, batch: int) -> float:
    """Send the records of a round with librdkafka; return records a second."""
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "acks": "all",
            "batch.size": batch,
            "batch.num.messages": 1_000_000,
            "linger.ms": 5,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "message.max.bytes": 4 << 20,
        }
    )
    producer.list_topics(topic)
    value = bytes(size)
    count = SIZES[size]
    start = time.perf_counter()
    for _ in range(count):
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    return count / (time.perf_counter() - start)


def produce_java(server: Server, topic: str, size: int, batch: int) -> float:
    """Send the records of a round with Kafka's producer; return records a second."""
    printed = run_class(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(SIZES[size]), "--record-size", str(size)),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={server.bootstrap}"),
        *("acks=all", f"batch.size={batch}", "linger.ms=5", "max.request.size=4194304"),
    )
    return float(re.findall(r"([0-9.]+) records/sec", printed)[-1])


def consume(server: Server, topic: str, partitions: int, count: int) -> float:
    """Read records with librdkafka, several times; return records a second."""
    return count * READS / sum(read_s(server, topic, partitions, count) for _ in range(READS))


def read_s(server: Server, topic: str, partitions: int, count: int) -> float:
    """Read records once; return how many seconds they took after the first one."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 4 << 20,
            "queued.max.messages.kbytes": 1 << 20,
            # With as many in its queue, it asks for no more for a second: the faster the answers
            # are, the longer it would wait.
            "queued.min.messages": 10_000_000,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found = len(consumer.consume(1, PATIENCE_S))
    start = time.perf_counter()
    while found < count:
        # No more than there are: it would wait for the others until its time is over.
        found += len(consumer.consume(min(count - found, 10_000), PATIENCE_S))
    seconds = time.perf_counter() - start
    consumer.close()
    return seconds


def latencies_ms(server: Server, topic: str, rate: int, seconds: int) -> tuple[float, float]:
    """Send single records at a rate; return the median and the 99th percentile."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all", "linger.ms": 0})
    producer.list_topics(topic)
    waited: list[float] = []
    first = time.perf_counter() + 0.1
    for number in range(rate * seconds):
        due = first + number / rate
        while (left := due - time.perf_counter()) > 0:
            producer.poll(min(left, 0.001))
        sent = time.perf_counter()
        producer.produce(
            topic,
            b"x" * 100,
            on_delivery=lambda *_, sent=sent: waited.append(time.perf_counter() - sent),
        )
    assert producer.flush(PATIENCE_S) == 0
    waited.sort()
    return waited[len(waited) // 2] * 1e3, waited[len(waited) * 99 // 100] * 1e3


def small_requests(server: Server, topic: str) -> tuple[float, float]:
    """Send requests of one record; return requests a second, and CPU seconds for a million."""
    api = api_named("Produce")
    batch = build_batch([(1_700_000_000_000, None, bytes(100), ())])
    values = {
        "acks": 1,
        "timeoutMs": 30_000,
        "topicData": [{"name": topic, "partitionData": [{"index": 0, "records": batch}]}],
    }
    parts = [api.request_header(VERSION, 1, "bench"), *api.write_request(VERSION, values)]
    request = size_of_frame(parts) + b"".join(parts)
    sockets = [socket.create_connection(server.address) for _ in range(CONNECTIONS)]
    for one in sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    files = [one.makefile("rb", 1 << 16) for one in sockets]
    cpu, start = cpu_seconds(server.pid), time.perf_counter()
    for _ in range(SMALL_REQUESTS // IN_FLIGHT // CONNECTIONS):
        for one in sockets:
            one.sendall(request * IN_FLIGHT)
        for file in files:
            for _ in range(IN_FLIGHT):
                file.read(frame_size(file.read(SIZE_BYTES), 0))
    seconds = time.perf_counter() - start
    cpu = cpu_seconds(server.pid) - cpu
    for file, one in zip(files, sockets, strict=True):
        file.close()
        one.close()
    return SMALL_REQUESTS / seconds, cpu * 1e6 / SMALL_REQUESTS


def memory_mib(server: Server) -> float:
    """Return the resident memory of a process that is its own."""
    text = Path(f"/proc/{server.pid}/status").read_text("utf-8")
    return int(re.search(r"RssAnon:\s+([0-9]+)", text)[1]) / KIB  # type: ignore[index]  # Linux has it


class Results:
    """Figures of both, and whether the goals are met."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.status = 0

    def add(self, what: str, server: Server, figure: float) -> None:
        """Add the figure of a round."""
        self.found[what][server.name].append(figure)

    def show(self, what: str, goal: float | None, *, is_cost: bool, unit: str) -> None:
        """Print the medians, and ours as a ratio of Kafka's, and whether it meets the goal."""
        ours, theirs = (statistics.median(self.found[what][n]) for n in ("tidelog", "Kafka"))
        ratio, judged = ours / theirs, ""
        if goal is not None:
            missed = ratio > goal if is_cost else ratio < goal
            self.status |= int(missed)
            judged = f" (goal {'at most' if is_cost else 'at least'} {goal:g})"
            judged += " MISSED" if missed else ""
        print(f"  {what:48} {ours:12,.2f} {theirs:12,.2f} {unit:11} {ratio:5.2f} times{judged}")


def throughput(servers: list[Server], results: Results, rounds: int, *, quick: bool) -> None:
    """Measure produce and consume."""
    cases = [(s, b, p) for s in SIZES for b in BATCHES for p in PARTITIONS]
    for server in servers:
        warm_up(server)
    for size, batch, partitions in cases[:: 4 if quick else 1]:
        case = f"{size} B, batches of {batch // KIB} KB, {partitions} part."
        ways: dict[str, tuple[float, Callable[[Server, str], float]]] = {
            "produce": (1.2, partial(produce, size=size, batch=batch)),
            "consume": (1.0, partial(consume, partitions=partitions, count=SIZES[size])),
            "Java": (1.2, partial(produce_java, size=size, batch=batch)),
        }
        if quick:
            del ways["Java"]
        for number in range(rounds):
            topic = f"t-{size}-{batch}-{partitions}-{number}"
            for server in servers:
                create(server, topic, partitions, **{"max.message.bytes": str(4 << 20)})
                for way, (_, measure) in ways.items():
                    cpu = cpu_seconds(server.pid)
                    results.add(f"{way} {case}", server, measure(server, topic))
                    cpu = max(cpu_seconds(server.pid) - cpu, 0.01)  # a tick of the system's clock
                    results.add(f"{way} {case}, CPU", server, cpu)
        for way, (goal, _) in ways.items():
            results.show(f"{way} {case}", goal, is_cost=False, unit="records/s")
            results.show(f"{way} {case}, CPU", None, is_cost=True, unit="s")


def warm_up(server: Server) -> None:
    """Have a broker compile or load what it needs for large batches."""
    create(server, "warm", 1, **{"max.message.bytes": str(4 << 20)})
    for size in SIZES:
        for batch in BATCHES:
            produce(server, "warm", size, batch)


def small(servers: list[Server], results: Results, rounds: int) -> None:
    """Measure small requests."""
    for server in servers:
        create(server, "small", 1)
        small_requests(server, "small")
    for _ in range(rounds):
        for server in servers:
            rate, cpu = small_requests(server, "small")
            results.add("small requests", server, rate)
            results.add("CPU of small requests", server, cpu)
    results.show("small requests", 1.0, is_cost=False, unit="requests/s")
    results.show("CPU of small requests", 0.5, is_cost=True, unit="us each")


def delays(servers: list[Server], results: Results, seconds: int) -> None:
    """Measure latencies."""
    for server in servers:
        create(server, "delays", 1)
    for rate in (100, 1000):
        for server in servers:
            median, most = latencies_ms(server, "delays", rate, seconds)
            results.add(f"p50 at {rate}/s", server, median)
            results.add(f"p99 at {rate}/s", server, most)
        results.show(f"p50 at {rate}/s", 1.0, is_cost=True, unit="ms")
        results.show(f"p99 at {rate}/s", 1.0, is_cost=True, unit="ms")


def main() -> int:
    """Print all figures; return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer cases")
    args = parser.parse_args()
    if not is_installed():
        print("needs Apache Kafka and Java: make peer")
        return 2
    heading("tidelog serve beside Apache Kafka: ours, Kafka's, ours / Kafka's", SEED)
    results = Results()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        servers = []
        for entered in (tidelog_server(folder, "none"), kafka_server(folder)):
            start = time.perf_counter()
            server = stack.enter_context(entered)
            Producer({"bootstrap.servers": server.bootstrap}).list_topics(timeout=PATIENCE_S)
            results.add("ready", server, time.perf_counter() - start)
            servers.append(server)
        results.show("ready", 0.1, is_cost=True, unit="s")
        small(servers, results, args.rounds)
        delays(servers, results, 3 if args.quick else 10)
        throughput(servers, results, args.rounds, quick=args.quick)
        for server in servers:
            results.add("memory", server, memory_mib(server))
        results.show("memory", 0.2, is_cost=True, unit="MiB")
    return results.status


if __name__ == "__main__":
    sys.exit(main())
