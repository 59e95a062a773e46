"""How fast are unclean logs recovered, against Apache Kafka on the same files?

Three logs of 16 KB batches: values of 100 bytes, of 1 KB, and of 100 bytes compressed with zstd.
All are opened as after a power cut, from recovery point 0, with their index files: each byte is
read, each CRC verified, each index rebuilt. tidelog and Kafka run in turn, each time in a new
process, on the same files, which were read once just before and so are in the page cache.

Kafka's time is that between its log messages about loading, and its CPU time that of its process
meanwhile: starting the JVM is not counted, compiling meanwhile is. Our time is that of opening the
logs, after the kernels were loaded and a small log was opened. The times from the start of the
process, with loading the kernels, are printed too. It needs Kafka's jars: `make peer`.

Goals: 4 times Kafka's bytes per CPU second and 2.5 times its bytes per second, with one thread
each; 0.9 times as fast as a thread that only reads the same log from the page cache, and two
threads on one log 0.95 times as fast as two that only read.

    .venv/bin/python benchmarks/recovery.py [GIGABYTES [DIRECTORY]]
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from kafka_broker import (
    JARS,
    READY,
    START,
    cpu_seconds,
    format_storage,
    free_ports,
    is_installed,
    run_class,
    server_properties,
)
from measure import heading

from tidelog.codec.compression import Codec
from tidelog.config.log_config import LogConfig
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import ThreadScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels.runtime import gate
from tidelog.log.log import Log
from tidelog.records.builder import BatchSpec
from tidelog.records.bulk_builder import RecordSource, build_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 20130101
GIGABYTES = 7.0
ROUNDS = 5
SEGMENT_BYTES = 1 << 30
WARM, WARM_BYTES = "warm", 64 << 20
KINDS = {"small": (100, Codec.NONE), "large": (1000, Codec.NONE), "zstd": (100, Codec.ZSTD)}
BUFFER = bytearray(1 << 20)
CPU_GOAL, WALL_GOAL = 4.0, 2.5
READ_GOALS = {1: 0.9, 2: 0.95}
"""By the number of threads on one log, against as many that only read it."""

SETTINGS = {"log.retention.ms": "-1", "num.recovery.threads.per.data.dir": "1"}


class RecoveryTime(NamedTuple):
    """Wall and CPU seconds of the recovery, and those from the start of its process."""

    wall: float
    cpu: float
    whole_wall: float
    whole_cpu: float


def make_log(directory: Path, total_bytes: int, value_bytes: int, codec: Codec) -> None:
    """Write the .log files of a log: the same batches repeatedly, with consecutive offsets."""
    from sample import make_records

    from tidelog.kernels.stamp_kernel import stamp_batches

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
                written += file.write(data.data)


def place_logs(source: Path, target: Path) -> None:
    """Link the .log files, and copy their indexes, into a partition's directory."""
    target.mkdir(exist_ok=True)
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in sorted(source.iterdir()):
        if path.suffix == ".log":
            os.link(path, target / path.name)
            with path.open("rb", buffering=0) as file:
                while file.readinto(BUFFER):
                    pass
        else:
            shutil.copy(path, target / path.name)


def keep_indexes(directory: Path, names: list[str]) -> None:
    """Build the logs' index files with a first recovery."""
    recover(directory, names, 1)
    for name in names:
        for path in (directory / "ours" / f"{name}-0").glob("*index"):
            shutil.copy(path, directory / name / path.name)


def recover(directory: Path, names: list[str], threads: int) -> RecoveryTime:
    """Open the logs in a new process, one after the other, each as after a power cut."""
    ours = directory / "ours"
    ours.mkdir(exist_ok=True)
    for name in names:
        place_logs(directory / name, ours / f"{name}-0")
    place_logs(directory / WARM, ours / f"{WARM}-0")
    began = time.perf_counter()
    paths = [str(ours / name) for name in (WARM, *names)]
    command = [sys.executable, __file__, "--open", str(threads), *paths]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with output_of(child) as output:
        wall, cpu = map(float, output.read().split())
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return RecoveryTime(wall, cpu, time.perf_counter() - began, used.ru_utime + used.ru_stime)


def output_of(process: subprocess.Popen[str]) -> IO[str]:
    """Return the pipe from a process that was started with one."""
    assert process.stdout is not None
    return process.stdout


def open_logs(threads: int, paths: list[str]) -> None:
    """Open the logs in this process, which ``recover`` started; print wall and CPU seconds.

    The kernels, which a small log would not have loaded, and the first log, for which the process
    imports what it needs, are not counted.
    """
    gate.warm(time.monotonic_ns)
    scheduler = ThreadScheduler(threads)
    warm, *logs = paths
    open_log(warm, threads, scheduler).close_handlers()
    wall, cpu = time.perf_counter(), time.process_time()
    opened = [open_log(path, threads, scheduler) for path in logs]
    print(time.perf_counter() - wall, time.process_time() - cpu)
    for log in opened:
        log.close_handlers()


def open_log(path: str, threads: int, scheduler: ThreadScheduler) -> Log:
    """Open one log as after a power cut."""
    return Log.open(
        f"{path}-0",
        fs=SYSTEM_FILES,
        clock=SYSTEM_CLOCK,
        scheduler=scheduler,
        rng=Random(0),
        config=LogConfig(),
        clean_shutdown=False,
        recovery_threads=threads,
    )


def only_read(directory: Path, threads: int) -> float:
    """Return the seconds in which ``threads`` threads only read a log from the page cache."""
    files = [os.open(path, os.O_RDONLY) for path in sorted(directory.glob("*.log"))]

    def read(number: int) -> None:
        for file in files:
            share = os.fstat(file).st_size // threads
            for position in range(number * share, (number + 1) * share, len(BUFFER)):
                os.preadv(file, [buffers[number]], position)

    buffers = [bytearray(len(BUFFER)) for _ in range(threads)]
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, range(threads)))
    seconds = time.perf_counter() - began
    for file in files:
        os.close(file)
    return seconds


class Kafka:
    """A broker of one node, with one topic for each log."""

    def __init__(self, directory: Path, names: list[str]) -> None:
        self.source, self.names = directory, names
        self.directory, self.properties = directory / "kafka", directory / "server.properties"
        ports = free_ports()
        self.properties.write_text(server_properties(self.directory, ports, SETTINGS))
        format_storage(self.properties)
        server = f"127.0.0.1:{ports[0]}"
        with self._started() as broker:
            for line in output_of(broker):
                if READY in line:
                    break
            for name in names:
                run_class(
                    *("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", server),
                    *("--create", "--topic", name, "--partitions", "1"),
                )

    def recover(self) -> RecoveryTime:
        """Start on the logs; return the time between its messages about loading."""
        for name in self.names:
            place_logs(self.source / name, self.directory / f"{name}-0")
        (self.directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (self.directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        began = wall = time.perf_counter()
        cpu = 0.0
        with self._started() as broker:
            for line in output_of(broker):
                if "Loading logs from log dirs" in line:
                    wall, cpu = time.perf_counter(), cpu_seconds(broker.pid)
                elif "Loaded " in line and " logs in " in line and "LogManager" in line:
                    end, end_cpu = time.perf_counter(), cpu_seconds(broker.pid)
                    return RecoveryTime(end - wall, end_cpu - cpu, end - began, end_cpu)
        raise RuntimeError("Kafka did not log that it loaded its logs")

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[str]]:
        command = [*START, "-cp", f"{JARS}/*", "kafka.Kafka", str(self.properties)]
        pipe = subprocess.PIPE
        broker = subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        try:
            yield broker
        finally:
            broker.terminate()
            broker.communicate()


class Speed(NamedTuple):
    """The times of one kind of run: the minimum of each number, and the median."""

    best: RecoveryTime
    median: RecoveryTime

    @classmethod
    def of(cls, times: list[RecoveryTime]) -> Speed:
        """Return minimum and median of all rounds."""
        columns = [*zip(*times, strict=True)]
        return cls(RecoveryTime(*map(min, columns)), RecoveryTime(*map(statistics.median, columns)))

    def line(self, name: str, size: int) -> str:
        """Return a line with the best speeds and the medians."""
        wall, cpu = (size / 1e9 / np.array([self.best[i], self.median[i]]) for i in (0, 1))
        whole = f"{self.best.whole_wall:.2f} s, {self.best.whole_cpu:.2f} CPU s"
        return (
            f"  {name:24} {wall[0]:5.2f} GB/s (median {wall[1]:.2f}), {cpu[0]:5.2f} GB per CPU"
            f" second ({cpu[1]:.2f}); with its process {whole}"
        )


def check_goal(name: str, ours: Speed, theirs: Speed, field: str, goal: float) -> int:
    """Print how many times as fast as ``theirs`` ``ours`` is; return 1 if the goal was missed."""
    ratio, median = (
        getattr(them, field) / getattr(us, field) for us, them in zip(ours, theirs, strict=True)
    )
    is_missed = ratio < goal
    missed = " MISSED" if is_missed else ""
    print(f"  {name}: {ratio:.2f} times (of the medians {median:.2f}; goal {goal:g}){missed}")
    return int(is_missed)


def compare(directory: Path, total_bytes: int) -> int:
    """Make the logs, run all rounds, print the results; return 1 if a goal is missed."""
    for name, (value_bytes, codec) in KINDS.items():
        make_log(directory / name, total_bytes // len(KINDS), value_bytes, codec)
    make_log(directory / WARM, WARM_BYTES, 100, Codec.NONE)
    names = list(KINDS)
    keep_indexes(directory, names)
    sizes = {n: sum(p.stat().st_size for p in (directory / n).glob("*.log")) for n in names}
    print(f"{sum(sizes.values()) / 1e9:.1f} GB in {names}; best of {ROUNDS} rounds in turn:")
    kafka = Kafka(directory, names) if is_installed() else None
    runs: dict[str, Callable[[], RecoveryTime]]
    runs = {f"ours, {n}": partial(recover, directory, [n], 1) for n in names}
    runs |= {
        "ours, all": lambda: recover(directory, names, 1),
        "ours, small, 2 threads": lambda: recover(directory, ["small"], 2),
    }
    if kafka is not None:
        runs["Kafka, all"] = kafka.recover
    times: dict[str, list[RecoveryTime]] = {name: [] for name in runs}
    reads: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            times[name].append(run())
        for threads, seconds in reads.items():
            seconds.append(only_read(directory / "small", threads))
    speeds = {name: Speed.of(rounds) for name, rounds in times.items()}
    for name, speed in speeds.items():
        print(speed.line(name, sum(sizes[n] for n in names if n in name) or sum(sizes.values())))
    status = 0
    for threads, name in {1: "ours, small", 2: "ours, small, 2 threads"}.items():
        read = Speed.of([RecoveryTime(*[seconds] * 4) for seconds in reads[threads]])
        text = f"{threads} thread(s) on one log, against as many that only read it"
        status |= check_goal(text, speeds[name], read, "wall", READ_GOALS[threads])
    if kafka is not None:
        pair = speeds["ours, all"], speeds["Kafka, all"]
        status |= check_goal("per CPU second, against Kafka", *pair, "cpu", CPU_GOAL)
        status |= check_goal("per second, against Kafka", *pair, "wall", WALL_GOAL)
        check_goal("per CPU second, from the process's start", *pair, "whole_cpu", 0)
        check_goal("per second, from the process's start", *pair, "whole_wall", 0)
    return status


def main() -> int:
    """Run in a temporary directory; with ``--open``, be the process that opens logs."""
    if sys.argv[1:2] == ["--open"]:
        open_logs(int(sys.argv[2]), sys.argv[3:])
        return 0
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else GIGABYTES
    heading(__doc__.splitlines()[0], SEED)
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as directory:
        return compare(Path(directory), int(gigabytes * 1e9))


if __name__ == "__main__":
    sys.exit(main())
