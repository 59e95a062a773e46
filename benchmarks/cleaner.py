"""How fast is a log compacted, against Apache Kafka's cleaner on the same log?

Each side cleans a whole log once with one cleaner, with the same bytes and settings. The keys are
random among a given number of keys; the offset map has room for all of them. Tidelog's cleaner
reads and cleans on one thread, while two background threads write and sync the retained batches;
Kafka's does all of that on one. Kafka's figure is what its cleaner logs in a broker that does
nothing else; it includes the seconds that a new JVM spends compiling. The copy for a run is written
to the disk before the run begins. CPU seconds are shown beside wall time, since other work on the
machine affects them less; Kafka's are those of the whole broker from "started" to "cleaned". Each
ratio compares the best rounds.

    make peer
    .venv/bin/python benchmarks/cleaner.py [--gigabytes 2] [--rounds 3] [--case 100x1M]
        [--directory /dev/shm]
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from kafka_broker import (
    JARS,
    READY,
    cpu_seconds,
    format_storage,
    free_ports,
    run_class,
    server_properties,
)

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.rewriting.background_writers import MAX_WRITERS
from tidelog.cleaner.throttle import CleanerIo
from tidelog.codec.compression import Codec
from tidelog.config.log_config import LogConfig
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import InlineScheduler, ThreadScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels import rows
from tidelog.kernels.runtime import gate
from tidelog.log.log import Log
from tidelog.records.builder import BatchSpec
from tidelog.records.bulk_builder import RecordSource, build_batches

SEED = 20130101
SEGMENT_BYTES = 256 << 20
MAP_BYTES = 512 << 20
PIECE_BYTES = 1 << 20
RECORDS_PER_CALL = 100_000
SETTINGS = {
    "log.cleaner.threads": "1",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": str(MAP_BYTES),
    "log.initial.task.delay.ms": "0",
}
CLEANED = re.compile(
    rb"cleaned log t-0 .*?([\d,.]+) MB of log processed in ([\d,.]+) seconds", re.DOTALL
)


class Case(NamedTuple):
    """The records of a log; ``goal`` is the ratio to Kafka's speed that is wanted."""

    value_bytes: int
    keys: int
    codec: Codec
    goal: float


CASES = {
    "100x1M": Case(100, 1_000_000, Codec.NONE, 6),
    "100x10M": Case(100, 10_000_000, Codec.NONE, 6),
    "1000x1M": Case(1000, 1_000_000, Codec.NONE, 4),
    "100x1M-zstd": Case(100, 1_000_000, Codec.ZSTD, 3),
}


class Figures(NamedTuple):
    """One cleaning: wall and CPU seconds."""

    seconds: float
    cpu_seconds: float


def open_log(directory: Path) -> Log:
    settings = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
    log = Log.open(
        str(directory),
        fs=SYSTEM_FILES,
        clock=SYSTEM_CLOCK,
        scheduler=InlineScheduler(),
        rng=Random(SEED),
        config=LogConfig.parse(settings),
    )
    log.update_high_watermark(log.log_end_offset)
    return log


def make(directory: Path, case: Case, size_bytes: int) -> int:
    """Fill a log with ``size_bytes`` before an empty active segment; return the record count."""
    rng = np.random.default_rng(SEED)
    digits = np.char.zfill(np.arange(case.keys).astype("S16"), 16)
    keys = np.frombuffer(digits.tobytes(), np.uint8)
    words = rng.integers(97, 123, (1 << 16, 8), np.uint8)  # text-like: zstd halves it
    values = words[rng.integers(0, 1 << 12, 1 << 20)].reshape(-1)
    count = done = 0
    with open_log(directory) as log:
        while done < size_bytes:
            table = np.zeros((rows.RECORD_COLUMNS, RECORDS_PER_CALL), np.int64)
            table[rows.TIMESTAMP] = 1_700_000_000_000 + count + np.arange(RECORDS_PER_CALL)
            table[rows.KEY_AT] = rng.integers(0, case.keys, RECORDS_PER_CALL) * 16
            table[rows.KEY_SIZE] = 16
            table[rows.VALUE_AT] = rng.integers(0, len(values) - case.value_bytes, RECORDS_PER_CALL)
            table[rows.VALUE_SIZE] = case.value_bytes
            spec = BatchSpec(codec=case.codec, base_offset=count, leader_epoch=0)
            none = np.zeros(0, np.uint8)
            built = build_batches(RecordSource(table, keys, values, none), spec)
            for at in range(0, len(built.batches), 32):
                part = built.batches.slice(at, at + 32)
                data = built.data[int(part.position[0]) : int(part.end[-1])].copy()
                log.append_as_follower(data, 0)
            done += len(built.data)
            count += RECORDS_PER_CALL
        log.roll()
        log.flush()
    return count


def clean_here(source: Path, work: Path) -> Figures:
    """Clean a copy with tidelog."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work / "t-0")
    os.sync()
    scheduler = ThreadScheduler(MAX_WRITERS)
    scheduler.start()
    try:
        with open_log(work / "t-0") as log:
            cleaner = Cleaner(
                CleanerSettings(MAP_BYTES, 0.9),
                clock=SYSTEM_CLOCK,
                scheduler=scheduler,
                rng=Random(SEED),
                io=CleanerIo(PIECE_BYTES, lambda: None),
            )
            end = log.segments.active.base_offset
            wall, cpu = time.perf_counter(), time.process_time()
            cleaned = cleaner.clean(log, OffsetsToClean(0, end), time.time_ns() // 1_000_000)
            figures = Figures(time.perf_counter() - wall, time.process_time() - cpu)
            if cleaned.end_offset != end:
                raise SystemExit("the map was too small for one round")
    finally:
        scheduler.shutdown()
    return figures


class Broker:
    """A Kafka broker on one data directory, which logs to a file."""

    def __init__(self, work: Path, properties: Path) -> None:
        self._log = work / "broker.log"
        command = ["java", "-Xmx2g", "-cp", f"{JARS}/*", "kafka.Kafka", str(properties)]
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        self.wait_for(re.compile(READY.encode()), 60)

    def wait_for(self, pattern: re.Pattern[bytes], seconds: float) -> re.Match[bytes]:
        """Wait for the first match in the broker's log and return it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._process.poll() is None:
            found = pattern.search(self._log.read_bytes())
            if found is not None:
                return found
            time.sleep(0.2)
        self.stop()
        raise SystemExit(f"Kafka did not log {pattern.pattern!r}: see {self._log}")

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the process so far."""
        return cpu_seconds(self._process.pid)

    def stop(self) -> None:
        """Stop it with SIGTERM and wait until it has ended."""
        self._process.terminate()
        self._process.wait(60)


def clean_by_kafka(source: Path, work: Path) -> Figures:
    """Have Kafka's cleaner clean a copy; return the figures that it logs."""
    shutil.rmtree(work, ignore_errors=True)
    data, properties = work / "data", work / "server.properties"
    data.mkdir(parents=True)
    ports = free_ports()
    properties.write_text(server_properties(data, ports, SETTINGS), "utf-8")
    format_storage(properties)
    broker = Broker(work, properties)
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "0.01",
    }
    flags = [part for key, value in settings.items() for part in ("--config", f"{key}={value}")]
    server = ["--bootstrap-server", f"127.0.0.1:{ports[0]}"]
    topic = ["--create", "--topic", "t", "--partitions", "1", "--replication-factor", "1"]
    run_class("org.apache.kafka.tools.TopicCommand", *server, *topic, *flags)
    broker.stop()
    for path in (data / "t-0").iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, data / "t-0")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        end = max(path.stem for path in source.glob("*.log"))
        (data / name).write_text(f"0\n1\nt 0 {int(end)}\n", "ascii")
    os.sync()
    broker = Broker(work, properties)
    before = broker.cpu_seconds()
    found = broker.wait_for(CLEANED, 600)
    cpu = broker.cpu_seconds() - before
    broker.stop()
    return Figures(float(found[2].replace(b",", b"")), cpu)


def show(name: str, who: str, figures: Figures, size_bytes: int, count: int) -> None:
    records, megabytes = count / figures.seconds / 1e6, size_bytes / figures.seconds / 1e6
    print(
        f"{name:12} {who:8} {figures.seconds:7.2f} s  {figures.cpu_seconds:6.2f} CPU s"
        f"  {records:6.2f} M records/s  {megabytes:7.0f} MB/s",
        flush=True,
    )


def measure(name: str, case: Case, size_bytes: int, rounds: int, directory: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=directory) as temporary:
        source, work = Path(temporary) / "t-0", Path(temporary) / "work"
        source.mkdir()
        count = make(source, case, size_bytes)
        written = sum(path.stat().st_size for path in source.glob("*.log"))
        clean_here(source, work)  # compiles, and warms the page cache
        rounds_of: dict[str, list[Figures]] = {}
        for _ in range(rounds):
            for who, clean in (("tidelog", clean_here), ("kafka", clean_by_kafka)):
                if who == "kafka" and not JARS.exists():
                    continue
                figures = clean(source, work)
                show(name, who, figures, written, count)
                rounds_of.setdefault(who, []).append(figures)
        if "kafka" in rounds_of:
            compare(name, case, rounds_of["tidelog"], rounds_of["kafka"])


def compare(name: str, case: Case, ours: list[Figures], kafkas: list[Figures]) -> None:
    """Print the ratio of Kafka's best round to ours."""
    wall, cpu = (
        min(figures[index] for figures in kafkas) / min(figures[index] for figures in ours)
        for index in range(2)
    )
    print(f"{name:12} {wall:.1f} times Kafka by wall time, {cpu:.1f} by CPU; wanted {case.goal:g}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--directory", help="where the logs are made; /dev/shm leaves out the disk")
    args = parser.parse_args()
    print(
        platform.platform(),
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        f"seed {SEED}",
    )
    gate.force(True)
    for name in args.case or CASES:
        measure(name, CASES[name], int(args.gigabytes * 1e9), args.rounds, args.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
