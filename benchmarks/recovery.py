"""How fast are unclean logs recovered, against Apache Kafka on the same files?

Three logs of 16 KB batches: values of 100 bytes, of 1 KB, and of 100 bytes compressed with zstd.
All are opened as after a power cut, from recovery point 0: each byte is read, each CRC checked,
each index built anew. Both sides run in turn, on the same files in the page cache. Kafka's time is
that between its own messages about loading, so the start of its JVM does not count; what its JVM
compiles meanwhile does. It needs Kafka's jars: `make peer`.

Goals: 4 times Kafka's bytes per CPU second and 2.5 times its bytes per second, with one thread
each; two threads on one log are 1.6 times as fast as one.

    .venv/bin/python benchmarks/recovery.py [GIGABYTES [DIRECTORY]]
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from measure import heading
from sample import make_records

from tidelog.codec.compression import Codec
from tidelog.config.log import LogConfig
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import ThreadScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels.gate import warm
from tidelog.kernels.stamp import stamp_batches
from tidelog.log.log import Log
from tidelog.records.builder import BatchSpec
from tidelog.records.bulk import RecordSource, build_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 20130101
GIGABYTES = 7.0
ROUNDS = 3
SEGMENT_BYTES = 1 << 30
JARS = Path(__file__).parents[1] / ".peer" / "kafka"
KINDS = {"small": (100, Codec.NONE), "large": (1000, Codec.NONE), "zstd": (100, Codec.ZSTD)}
CPU_GOAL, WALL_GOAL, TWO_GOAL = 4.0, 2.5, 1.6

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={directory}
log.retention.ms=-1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class Took(NamedTuple):
    """Seconds by the clock, and of CPU."""

    wall: float
    cpu: float

    def told(self, size: int) -> str:
        """Return both as a speed."""
        return f"{size / self.wall / 1e9:6.2f} GB/s {size / self.cpu / 1e9:6.2f} GB per CPU second"


def make_log(directory: Path, total_bytes: int, value_bytes: int, codec: Codec) -> None:
    """Write the .log files of a log, from one piece that is repeated with other offsets."""
    directory.mkdir()
    records = make_records(32 << 20, value_bytes, SEED)
    source = RecordSource(records.table, records.data, records.data, records.data)
    built = build_batches(source, BatchSpec(codec=codec, leader_epoch=0), batch_bytes=16384)
    data, columns = built.data.copy(), built.batches.array.copy()
    offset = written = 0
    while written < total_bytes:
        path = directory / f"{offset:020d}.log"
        with path.open("wb") as file:
            while written < total_bytes and file.tell() + len(data) <= SEGMENT_BYTES:
                offset = stamp_batches(data, columns, offset, 0)
                written += file.write(data)


def link_logs(source: Path, target: Path) -> None:
    """Put the same .log files, and no others, into another partition's directory."""
    target.mkdir(exist_ok=True)
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in sorted(source.glob("*.log")):
        os.link(path, target / path.name)


def recover(directory: Path, names: list[str], threads: int) -> Took:
    """Open the logs one after the other, each as after a power cut."""
    scheduler = ThreadScheduler(threads)
    ours = directory / "ours"
    ours.mkdir(exist_ok=True)
    for name in names:
        link_logs(directory / name, ours / f"{name}-0")
    wall, cpu = time.perf_counter(), time.process_time()
    logs = [
        Log.open(
            str(ours / f"{name}-0"),
            fs=SYSTEM_FILES,
            clock=SYSTEM_CLOCK,
            scheduler=scheduler,
            rng=Random(0),
            config=LogConfig(),
            clean_shutdown=False,
            recovery_threads=threads,
        )
        for name in names
    ]
    took = Took(time.perf_counter() - wall, time.process_time() - cpu)
    for log in logs:
        log.close_handlers()
    return took


class Kafka:
    """A broker of one node, with one topic for each log."""

    def __init__(self, directory: Path, names: list[str]) -> None:
        self.source, self.names = directory, names
        self.directory, self.properties = directory / "kafka", directory / "server.properties"
        ports = []
        for _ in range(2):
            with socket.socket() as found:
                found.bind(("127.0.0.1", 0))
                ports.append(found.getsockname()[1])
        self.properties.write_text(
            PROPERTIES.format(broker=ports[0], controller=ports[1], directory=self.directory)
        )
        tool = "kafka.tools.StorageTool"
        cluster = self._run(tool, "random-uuid").strip().splitlines()[-1]
        self._run(tool, "format", "-t", cluster, "-c", str(self.properties))
        server = f"127.0.0.1:{ports[0]}"
        with self._started() as broker:
            for line in broker.stdout:
                if "Kafka Server started" in line:
                    break
            for name in names:
                self._run(
                    *("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", server),
                    *("--create", "--topic", name, "--partitions", "1"),
                )

    def recover(self) -> Took:
        """Start on the logs; return what passed between its messages about loading."""
        for name in self.names:
            link_logs(self.source / name, self.directory / f"{name}-0")
        (self.directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (self.directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        begun = Took(0, 0)
        with self._started() as broker:
            for line in broker.stdout:
                now = Took(time.perf_counter(), cpu_seconds(broker.pid))
                if "Loading logs from log dirs" in line:
                    begun = now
                elif "Loaded " in line and " logs in " in line and "LogManager" in line:
                    return Took(now.wall - begun.wall, now.cpu - begun.cpu)
        raise RuntimeError("Kafka told nothing of its logs")

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[str]]:
        command = ["java", "-Xmx1g", "-cp", f"{JARS}/*", "kafka.Kafka", str(self.properties)]
        pipe = subprocess.PIPE
        broker = subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        try:
            yield broker
        finally:
            broker.terminate()
            broker.communicate()

    @staticmethod
    def _run(*words: str) -> str:
        command = ["java", "-cp", f"{JARS}/*", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has taken, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def best(found: list[Took]) -> Took:
    """Return the least of each."""
    return Took(min(each.wall for each in found), min(each.cpu for each in found))


def report(name: str, found: list[Took], size: int) -> Took:
    """Print the best round and all others' wall times."""
    least = best(found)
    walls = ", ".join(f"{each.wall:.2f}" for each in found)
    print(f"  {name:24} {least.told(size)}   (seconds: {walls})")
    return least


def judge(name: str, ratio: float, goal: float) -> int:
    """Print how a ratio compares with its goal; return 1 if it was missed."""
    print(f"  {name}: {ratio:.2f} times (goal {goal:g}){' MISSED' if ratio < goal else ''}")
    return int(ratio < goal)


def compare(directory: Path, total_bytes: int) -> int:
    """Make the logs, run all rounds, print; return 1 if a goal is missed."""
    for name, (value_bytes, codec) in KINDS.items():
        make_log(directory / name, total_bytes // len(KINDS), value_bytes, codec)
    names = list(KINDS)
    sizes = {n: sum(p.stat().st_size for p in (directory / n).glob("*.log")) for n in names}
    print(f"{sum(sizes.values()) / 1e9:.1f} GB in {names}; best of {ROUNDS} rounds in turn:")
    kafka = Kafka(directory, names) if JARS.is_dir() and shutil.which("java") else None
    runs = {f"ours, {n}": (lambda n=n: recover(directory, [n], 1)) for n in names}
    runs |= {
        "ours, all": lambda: recover(directory, names, 1),
        "ours, small, 2 threads": lambda: recover(directory, ["small"], 2),
    }
    if kafka is not None:
        runs["Kafka, all"] = kafka.recover
    found: dict[str, list[Took]] = {name: [] for name in runs}
    recover(directory, names, 1)
    for _ in range(ROUNDS):
        for name, run in runs.items():
            found[name].append(run())
    all_bytes = sum(sizes.values())
    least = {
        name: report(name, took, next((sizes[n] for n in names if n in name), all_bytes))
        for name, took in found.items()
    }
    one, two = least["ours, small"], least["ours, small, 2 threads"]
    status = judge("two threads on one log", one.wall / two.wall, TWO_GOAL)
    if kafka is not None:
        ours, theirs = least["ours, all"], least["Kafka, all"]
        status |= judge("per CPU second, against Kafka", theirs.cpu / ours.cpu, CPU_GOAL)
        status |= judge("per second, against Kafka", theirs.wall / ours.wall, WALL_GOAL)
    return status


def main() -> int:
    """Run in a directory of its own, which is removed again."""
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else GIGABYTES
    heading(__doc__.splitlines()[0], SEED)
    warm(time.monotonic_ns)
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as directory:
        return compare(Path(directory), int(gigabytes * 1e9))


if __name__ == "__main__":
    sys.exit(main())
