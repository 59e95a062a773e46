"""How long does loading a thousand logs take, after a clean stop and after kill -9, against Kafka?

1,000 partitions of 3 segments of 1 MB, in one directory that both programs open in turn, under
``ulimit -Sn 1024``. Wall time is what each program logs; CPU time is that of the whole process from
its start until it is ready, less that with an empty directory. It needs Kafka's jars: `make peer`.

    benchmarks/start_up.py [DIRECTORY [PARTITIONS [ROUNDS]]]
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import kafka_broker
from kafka_broker import JARS, cpu_seconds, format_storage, free_ports, server_properties
from measure import heading, installed_environment

from tidelog.embedded.doors import open_briefly
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"Loaded (\d+) logs in (\d+)ms")
READY = {"kafka": kafka_broker.READY, "tidelog": " ready "}
SEED = 5
TOPIC = "start"
SETTINGS = {"log.retention.ms": "-1", "log.cleaner.enable": "false"}
PORTS = free_ports()


def server(directory: Path) -> str:
    """Return the properties of a Kafka node with one data directory."""
    return server_properties(directory, PORTS, SETTINGS)


class Start(NamedTuple):
    """One start, in seconds: loading as the program logs it, until ready, and CPU time."""

    loading: float
    ready: float
    cpu: float


def command(program: str, directory: Path) -> list[str]:
    """Return the command that starts a program on a directory."""
    if program == "kafka":
        (directory.parent / "server.properties").write_text(server(directory))
        return [*java("kafka.Kafka"), str(directory.parent / "server.properties")]
    arguments = ["run", "-d", str(directory), "-o", "log.cleaner.enable=false"]
    return [str(Path(sys.executable).with_name("tidelog")), *arguments, "-o", "log.retention.ms=-1"]


def java(name: str) -> list[str]:
    """Return the command that runs a class of Kafka."""
    return ["java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.logFile=System.out",
            "-cp", f"{JARS}/*", name]  # fmt: skip


def start(program: str, directory: Path, stop: signal.Signals) -> Start:
    """Start a program, wait until it is ready, and end it with a signal."""
    began, loading = time.perf_counter(), 0.0
    process = subprocess.Popen(
        command(program, directory),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=installed_environment(directory.parent / "compiled"),
        preexec_fn=limit_descriptors,  # noqa: PLW1509 - nothing else runs in this process
    )
    assert process.stdout is not None
    output = []
    for line in process.stdout:
        output.append(line)
        if (found := LOADED.search(line)) is not None:
            loading = int(found[2]) / 1000
        if READY[program] in line:
            break
    else:
        raise RuntimeError(f"{program} ended before it was ready:\n{''.join(output[-20:])}")
    ready, cpu = time.perf_counter() - began, cpu_seconds(process.pid)
    process.send_signal(stop)
    process.stdout.read()
    process.wait()
    return Start(loading, ready, cpu)


def limit_descriptors() -> None:
    """Set the soft limit that shells set by default; the process may raise it by itself."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))


def make(directory: Path, partitions: int) -> None:
    """Create the topic with Kafka, and fill its logs with random records."""
    text = server(directory)
    (directory.parent / "server.properties").write_text(text)
    format_storage(directory.parent / "server.properties")
    create_topic(directory, partitions)
    batch = build_batch([(int(time.time() * 1000), None, os.urandom(1000), ())] * 16)
    # Records without keys need to know that the topic is not compacted.
    overrides = {"segment.bytes": str(1 << 20), "retention.ms": "-1", "cleanup.policy": "delete"}
    with open_briefly(directory, overrides=overrides) as opened:
        for partition in opened.partitions(TOPIC):
            log = partition.log
            while len(log.segments) < 3 or log.segments.active.size_bytes < 1_000_000:
                partition.append(bytearray(batch))


def create_topic(directory: Path, partitions: int) -> None:
    """Start Kafka, create the topic, stop Kafka."""
    log = directory.parent / "kafka.log"  # a pipe would fill up and block the broker
    with log.open("w") as output:
        process = subprocess.Popen(command("kafka", directory), stdout=output)
    while READY["kafka"] not in log.read_text():
        time.sleep(0.1)
    arguments = ["--bootstrap-server", f"127.0.0.1:{PORTS[0]}", "--create", "--topic", TOPIC]
    arguments += ["--partitions", str(partitions), "--config", "segment.bytes=1048576"]
    subprocess.run([*java("org.apache.kafka.tools.TopicCommand"), *arguments], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    time.sleep(partitions / 200)  # the broker creates the logs after it has responded
    process.terminate()
    process.wait()


def rounds(directory: Path, count: int) -> Iterator[tuple[str, str, Start]]:
    """Yield program, kind of start, and times; each program opens what the other left."""
    for _ in range(count):
        for program in ("kafka", "tidelog"):
            start(
                program, directory, signal.SIGTERM
            )  # reads the logs into the page cache and stops cleanly
            yield program, "clean", start(program, directory, signal.SIGKILL)
            yield program, "killed", start(program, directory, signal.SIGTERM)


def main() -> None:
    """Measure and print."""
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "data"
    partitions = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    heading(f"Load {partitions:,} logs of 3 segments of 1 MB, in seconds", SEED)
    if not JARS.exists():
        print("Apache Kafka is not installed: run `make peer` first")
        return
    directory = chosen.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if not any(directory.iterdir()):
        make(directory, partitions)
    empty = {"tidelog": directory.parent / "empty"}
    idle = {"tidelog": min(start("tidelog", empty["tidelog"], signal.SIGTERM) for _ in range(3))}
    idle["kafka"] = idle_kafka(directory.parent / "empty-kafka" / "data")
    for program, time_of_idle in idle.items():
        ready, cpu = time_of_idle.ready, time_of_idle.cpu
        print(f"{program:8} empty   ready {ready:6.2f}  CPU {cpu:6.2f}")
    best: dict[tuple[str, str], Start] = {}
    for program, kind, times in rounds(directory, count):
        cpu = times.cpu - idle[program].cpu
        print(f"{program:8} {kind:7} loading {times.loading:6.2f}  CPU {cpu:6.2f}", flush=True)
        known = best.get((program, kind), Start(1e9, 1e9, 1e9))
        best[program, kind] = Start(*map(min, zip(known, times._replace(cpu=cpu), strict=True)))
    for kind, goal in (("clean", 0.3), ("killed", 0.25)):
        ours, theirs = best["tidelog", kind], best["kafka", kind]
        wall, cpu = ours.loading / theirs.loading, ours.cpu / theirs.cpu
        print(f"{kind}: {wall:.2f} of Kafka's time, {cpu:.2f} of its CPU (goal {goal})")


def idle_kafka(directory: Path) -> Start:
    """Return the times of Kafka with a directory without logs."""
    shutil.rmtree(directory.parent, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory.parent / "server.properties").write_text(server(directory))
    cluster_id = "MkU3OEVBNTcwNTJENDM2Qk"
    arguments = ["format", "-t", cluster_id, "-c", str(directory.parent / "server.properties")]
    subprocess.run([*java("kafka.tools.StorageTool"), *arguments], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    return min(start("kafka", directory, signal.SIGTERM) for _ in range(2))


if __name__ == "__main__":
    main()
