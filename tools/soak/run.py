"""Runs everything together for a long time, kills it at random, and compares every record.

A service holds two data directories. Into the first a Spark stream with a checkpoint and
``tidelog append --txn`` write numbered records, each once; one topic is compacted, one is retained
for seconds, and one, which no transaction writes, is moved between the directories. Readers follow
every partition. Seeded SIGKILLs end the service, the stream's driver and appends, which are run
again. The end is checked record by record, as are memory and descriptors of the service.

Needs Linux, since processes are watched in /proc. The seed decides what is killed and when, but not
how far the processes have come by then. The exit code is 1 if anything is wrong; the directory is
then kept.

    make soak [SOAK_MINUTES=60] [SOAK_SEED=1]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import tidelog
from tidelog.errors import (
    DirectoryLocked,
    KafkaStorageError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = tidelog.Record | tidelog.ConsumedRecord


STREAM: Final = Path(__file__).with_name("stream.py")
KEYS: Final = 20
PADDING: Final = "x" * 100
MAX_UNREAD: Final = 4000
"""Rows that the stream's source may be ahead of what readers have seen."""

LARGE_SHARE: Final = 0.3
"""In this share of the time the files of the stream's source are large."""

WARM_UP_S: Final = 5
"""A service that has just started is not measured."""

FEWEST_SAMPLES: Final = 10
"""In each third; with fewer, memory is not compared."""

PATIENCE_S: Final = 300
"""How long anything may take on a loaded machine before it counts as stuck."""

SERVICE_OPTIONS: Final = {
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.dedupe.buffer.size": 4_000_000,
    "log.retention.check.interval.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    "log.initial.task.delay.ms": 500,
    "replica.high.watermark.checkpoint.interval.ms": 500,
}


class Topic(NamedTuple):
    """A topic whose record at ``offset`` of a partition has a known number.

    That number is ``offset * partitions + partition``, so a record that is lost, doubled or out of
    order shows at once. ``is_complete``: no record is ever deleted.
    """

    name: str
    partitions: int
    settings: dict[str, str]
    is_complete: bool = True


SMALL: Final = {"internal.segment.bytes": "262144", "retention.ms": "-1"}
TINY: Final = {"internal.segment.bytes": "20000"}
TOPICS: Final = {
    topic.name: topic
    for topic in (
        Topic("streamed", 2, SMALL),
        Topic("lines", 2, SMALL),
        Topic("moved", 1, SMALL),
        Topic("short", 1, TINY | {"retention.ms": "5000"}, is_complete=False),
        Topic(
            "keys",
            1,
            TINY | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
            is_complete=False,
        ),
    )
}


class Sample(NamedTuple):
    """The service at one moment: resident bytes, open descriptors, whether it loaded kernels."""

    rss_bytes: int
    descriptors: int
    has_kernels: bool


def command(*words: object) -> list[str]:
    """Return the command line of ``tidelog`` with these words."""
    return [sys.executable, "-m", "tidelog", *map(str, words)]


def started_at(pid: int) -> str | None:
    """Return the start time of a process, since a later one may get its id."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return None


def process_tree(pid: int) -> dict[int, str]:
    """Return a process and all below it, by id, with their start times."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(
                path.read_text("utf-8").rpartition(")")[2].split()[1]
            )
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    times = {one: started_at(one) for one in found}
    return {one: seen for one, seen in times.items() if seen is not None}


def kill(tree: dict[int, str]) -> None:
    """Send SIGKILL to those processes of a tree that still run."""
    for pid, seen in tree.items():
        if started_at(pid) == seen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Soak:
    """What the threads of a run share: processes, counts, faults, and when to stop."""

    def __init__(self, base: Path, *, minutes: float, seed: int) -> None:
        self.base = base
        self.first = base / "a"
        self.second = base / "b"
        self.source = base / "source"
        self.checkpoint = base / "checkpoint"
        self.seed = seed
        self.seconds = minutes * 60
        self.begun = time.monotonic()
        self.stopping = threading.Event()
        """No more records are written, and nothing is killed."""
        self.finished = threading.Event()
        """Readers stop, too."""
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        """Each name is counted by one thread."""
        self.written: Counter[str] = Counter()
        """Records of each topic, by the one thread that writes it."""
        self.seen: Counter[tuple[str, int]] = Counter()
        """The offset after the last record that the reader of a partition has seen."""
        self.samples: list[Sample] = []
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.is_closed = False
        self.lock = threading.Lock()
        """Guards ``processes`` and ``is_closed``."""

    def rng(self, name: str) -> random.Random:
        """Return the random numbers of one thread."""
        return random.Random(f"{self.seed} {name}")  # noqa: S311 - repeatable, not secret

    def fault(self, text: str) -> None:
        """Report what is wrong; the run ends."""
        self.faults.append(text)
        print(f"WRONG: {text}", flush=True)
        self.stopping.set()

    def spawn(self, words: list[str], log: str) -> subprocess.Popen[bytes]:
        """Start a process; its output is appended to a file in the directory of the run."""
        with self.lock, (self.base / log).open("ab") as output:
            if self.is_closed:
                raise SystemExit
            process = subprocess.Popen(
                words, stdout=output, stderr=output, stdin=subprocess.DEVNULL, process_group=0
            )
            self.processes.add(process)
        return process

    def run_command(self, *words: object, log: str) -> int:
        """Run a command of tidelog; return its exit code."""
        return self.wait(self.spawn(command(*words), log))

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for a process that ends by itself; return its exit code."""
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.fault(f"{process.args!r} has not ended after {PATIENCE_S} s")
        self.end(process)
        return process.returncode

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process, with all that it has started."""
        tree = process_tree(process.pid) if process.poll() is None else {}
        kill(tree)
        process.wait()
        with self.lock:
            self.processes.discard(process)

    def close(self) -> None:
        """End every process, and start no more."""
        self.stopping.set()
        self.finished.set()
        with self.lock:
            self.is_closed = True
            processes = list(self.processes)
        for process in processes:
            self.end(process)

    def wait_until(self, condition: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
        """Wait for a condition; return whether it holds by then."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def directory_of(self, topic: str, partition: int) -> Path | None:
        """Return the data directory of a partition; None while it is exchanged by a move."""
        places = [self.first, self.second]
        found = [place for place in places if (place / f"{topic}-{partition}").is_dir()]
        return found[0] if len(found) == 1 else None


# Writers


def line(number: int) -> str:
    """Return the value of a record; all have the same length."""
    return f"{number:012} {PADDING}"


def number_of(record: Read) -> int:
    """Return the number in the value of a record."""
    return int((record.value or b"-1").split()[0])


def write_source(soak: Soak) -> None:
    """Write files of numbered lines for the stream, never far ahead of it.

    None is larger than the one before. When the stream is started again, its first batch may have
    two files, and Spark reads the largest first.
    """
    rng = soak.rng("source")
    while not soak.stopping.wait(rng.uniform(0.5, 1.5)):
        seen = sum(count for (topic, _), count in soak.seen.items() if topic == "streamed")
        if soak.written["streamed"] - seen > MAX_UNREAD:
            continue
        first = soak.written["streamed"]
        # Large files become segments of the log; small ones are copied into it.
        share = (time.monotonic() - soak.begun) / soak.seconds
        count = 2000 if share < LARGE_SHARE else round(400 - 300 * min(share, 1))
        path = soak.source / f".{first:012}"
        path.write_text("".join(f"{line(first + n)}\n" for n in range(count)), "utf-8")
        path.rename(soak.source / f"{first:012}.txt")
        soak.written["streamed"] += count


def write_records(soak: Soak, topic: Topic, count: int) -> Path:
    """Write a file with the next records of a topic for ``tidelog append --format json``."""
    first = soak.written[topic.name]
    path = soak.base / f"next-{topic.name}.json"
    records = [
        {
            "key": str(number % KEYS),
            "value": line(number),
            "partition": number % topic.partitions,
        }
        for number in range(first, first + count)
    ]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    return path


def append_by_transactions(soak: Soak) -> None:
    """Append inputs with ids of their own, and each again until it succeeds."""
    rng = soak.rng("append")
    while not soak.stopping.wait(rng.uniform(0, 1)):
        topic = TOPICS[rng.choice(["lines", "short", "keys"])]
        count = rng.randrange(100, 500)
        path = write_records(soak, topic, count)
        words = command("append", topic.name, path, "--format", "json", "-d", soak.first)
        words += ["--txn", f"{topic.name}-{soak.written[topic.name]}"]
        for _ in range(20):
            process = soak.spawn(words, "append.log")
            if rng.random() < 0.1:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(rng.uniform(0, 3))
                soak.counts["kills of appends"] += process.poll() is None
                soak.end(process)
            if soak.wait(process) == 0:
                break
            soak.counts["appends repeated"] += 1
            time.sleep(0.2)
        else:
            soak.fault(f"an append to {topic.name} failed 20 times, see append.log")
            return
        soak.written[topic.name] += count
        soak.counts["commits of appends"] += 1


def append_to_moved(soak: Soak, rng: random.Random) -> None:
    """Append to the topic that is moved, without a transaction, while no service runs."""
    first = soak.written["moved"]
    count = rng.randrange(10, 100)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            # A kill in a move may leave copies in both directories: opening both decides.
            with tidelog.open(soak.first, soak.second, log_cleaner_enable=False) as logs:
                for number in range(first, first + count):
                    logs.append("moved", line(number).encode())
        except DirectoryLocked:  # by an append, or by a commit of the stream
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            break
    soak.written["moved"] += count


def move(soak: Soak) -> None:
    """Move a partition to and fro, through the service or, while that is down, without it."""
    rng = soak.rng("move")
    while not soak.stopping.wait(rng.uniform(3, 10)):
        directory = soak.directory_of("moved", 0)
        if directory is None:
            continue
        target = soak.second if directory == soak.first else soak.first
        code = soak.run_command("move", "moved", "-d", directory, "--to", target, log="move.log")
        soak.counts["moves" if code == 0 else "moves that failed"] += 1


# What is killed and started again


class Service:
    """``tidelog run`` on both directories."""

    def __init__(self, soak: Soak) -> None:
        self.soak = soak
        self.process: subprocess.Popen[bytes] | None = None
        self.log = soak.base / "service.log"

    def start(self) -> bool:
        """Start the service, as often as an append holds the directory; wait until it is ready."""
        words = command("run", "-d", self.soak.first, "-d", self.soak.second)
        for name, value in SERVICE_OPTIONS.items():
            words += ["-o", f"{name}={value}"]
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            size = self.log.stat().st_size if self.log.exists() else 0
            process = self.soak.spawn(words, self.log.name)
            if self.soak.wait_until(
                lambda size=size, process=process: (  # type: ignore[misc]  # of this round
                    self._is_ready(size) or process.poll() is not None
                )
            ) and self._is_ready(size):
                self.process = process
                return True
            self.soak.end(process)
            self.soak.counts["starts of the service refused"] += 1
            time.sleep(0.2)
        self.soak.fault("the service does not start, see service.log")
        return False

    def _is_ready(self, position: int) -> bool:
        with self.log.open("rb") as file:
            file.seek(position)
            return b"ready pid=" in file.read()

    def measure(self) -> None:
        """Take a sample of the process."""
        if self.process is None:
            return
        place = Path(f"/proc/{self.process.pid}")
        with suppress(OSError, IndexError):
            pages = int((place / "statm").read_text("utf-8").split()[1])
            rss_bytes = pages * os.sysconf("SC_PAGE_SIZE")
            count = len(list((place / "fd").iterdir()))
            has_kernels = "llvmlite" in (place / "maps").read_text("utf-8")
            self.soak.samples.append(Sample(rss_bytes, count, has_kernels))

    def run(self) -> None:
        """Kill the service again and again, until the run stops."""
        rng = self.soak.rng("service")
        while not self.soak.stopping.is_set():
            pause_s = rng.uniform(0.3, 1.7) * min(max(self.soak.seconds / 6, 15), 240)
            started = time.monotonic()
            while time.monotonic() < started + pause_s and not self.soak.stopping.wait(1):
                if time.monotonic() > started + WARM_UP_S:
                    self.measure()
                if self.process is not None and self.process.poll() is not None:
                    self.soak.fault(f"the service ended with {self.process.returncode}")
            if self.soak.stopping.is_set():
                return
            if self.process is not None:
                self.soak.end(self.process)
                self.process = None
            self.soak.counts["kills of the service"] += 1
            append_to_moved(self.soak, rng)
            if not self.start():
                return

    def stop(self) -> None:
        """End the service in order, which has to succeed."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = -1
        if code != 0:
            self.soak.fault(f"the service ended with {code} after SIGTERM")


class Stream:
    """The driver of the Spark stream."""

    def __init__(self, soak: Soak) -> None:
        self.soak = soak
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the driver."""
        words = [sys.executable, STREAM, self.soak.source, self.soak.checkpoint, self.soak.first]
        self.process = self.soak.spawn([str(word) for word in words], "stream.log")

    def seen(self) -> int:
        """Return the number of rows that readers have seen."""
        return sum(count for (topic, _), count in self.soak.seen.items() if topic == "streamed")

    def run(self) -> None:
        """Kill the driver again and again, most times after it has written rows."""
        rng = self.soak.rng("stream")
        while True:
            self.start()
            begun, rows = time.monotonic(), self.seen()
            pause_s = rng.uniform(0.1, 1.9) * min(max(self.soak.seconds / 10, 10), 90)
            at_any_time = rng.random() < 0.2
            while not self.soak.finished.wait(0.2):
                if self.process is not None and self.process.poll() is not None:
                    break
                if self.soak.stopping.is_set():
                    continue
                if time.monotonic() < begun + pause_s:
                    continue
                late = time.monotonic() > begun + pause_s + PATIENCE_S
                if at_any_time or late or self.seen() > rows:
                    self.kill(rng)
                    break
            else:
                return
            self.soak.counts["starts of the stream again"] += 1

    def kill(self, rng: random.Random) -> None:
        """Kill the driver's JVM, or everything."""
        process = self.process
        if process is None:
            return
        tree = process_tree(process.pid)
        javas = {pid: seen for pid, seen in tree.items() if name_of(pid) == "java"}
        self.soak.counts["kills of the stream"] += 1
        if javas and rng.random() < 0.5:
            kill(javas)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
        kill(tree)
        self.soak.end(process)


def name_of(pid: int) -> str:
    """Return the name of a process's program."""
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    except OSError:
        return ""


# Readers


class Reader:
    """Follows one partition, and checks each record as it comes."""

    def __init__(self, soak: Soak, topic: Topic, partition: int) -> None:
        self.soak = soak
        self.topic = topic
        self.partition = partition
        self.next_offset = 0
        self.failures = 0
        """Since the last record."""

    def run(self) -> None:
        """Read until the run ends, or something is wrong."""
        name = f"{self.topic.name}-{self.partition}"
        while not self.soak.finished.is_set():
            try:
                fault = self.read_on()
            except OffsetOutOfRange as error:
                is_deleted = error.requested < error.log_start_offset
                fault = None if is_deleted and not self.topic.is_complete else str(error)
                self.next_offset = error.log_start_offset
            except (KafkaStorageError, UnknownTopicOrPartition) as error:
                # A move or a deletion of segments has changed the files under the reader.
                self.failures += 1
                fault = str(error) if self.failures > 100 else None
                time.sleep(0.2)
            except tidelog.TidelogError as error:
                fault = repr(error)
            if fault is not None:
                self.soak.fault(f"reader of {name}: {fault}")
                return

    def read_on(self) -> str | None:
        """Read what has come, until nothing comes for a while; return what is wrong."""
        if self.soak.directory_of(self.topic.name, self.partition) is None:
            time.sleep(0.1)
            return None
        # Both, as the partition may move from one to the other while it is read.
        logs = tidelog.open_directory_read_only(self.soak.first, self.soak.second)
        for record in logs.follow(self.topic.name, self.partition, self.next_offset, idle_ms=1000):
            fault = check_record(self.topic, self.partition, record, self.next_offset)
            if fault is not None:
                return fault
            self.failures = 0
            self.next_offset = record.offset + 1
            self.soak.seen[self.topic.name, self.partition] = self.next_offset
        return None


def check_record(topic: Topic, partition: int, record: Read, next_offset: int) -> str | None:
    """Return what is wrong with a record that is read where ``next_offset`` may be next."""
    if record.offset < next_offset or (topic.is_complete and record.offset != next_offset):
        return f"offset {record.offset} where {next_offset} was to come"
    expected = record.offset * topic.partitions + partition
    if number_of(record) != expected:
        return f"offset {record.offset} holds number {number_of(record)}, not {expected}"
    return None


# The end


def check_logs(soak: Soak) -> None:
    """Compare every log with what was written."""
    for topic in TOPICS.values():
        for partition in range(topic.partitions):
            check_log(soak, topic, partition)
    checks = [
        ("verify", "-d", soak.first, "-d", soak.second),
        ("staged", "list", "-d", soak.first),
        ("staged", "list", "-d", soak.second),
    ]
    for words in checks:
        result = subprocess.run(command(*words), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            output = result.stdout + result.stderr
            soak.fault(f"tidelog {words[0]} exits with {result.returncode}: {output}")


def check_log(soak: Soak, topic: Topic, partition: int) -> None:
    """Read a log from start to end."""
    name = f"{topic.name}-{partition}"
    directory = soak.directory_of(topic.name, partition)
    if directory is None:
        soak.fault(f"{name} is not in exactly one directory")
        return
    written = soak.written[topic.name]
    expected_end = len(range(partition, written, topic.partitions))
    last_of_key: dict[bytes | None, int] = {}
    with tidelog.open_read_only(directory / name) as log:
        start, end = log.log_start_offset, log.log_end_offset
        next_offset, count = start, 0
        for record in log.records():
            fault = check_record(topic, partition, record, next_offset)
            if fault is not None:
                soak.fault(f"{name}: {fault}")
                return
            next_offset, count = record.offset + 1, count + 1
            last_of_key[record.key] = number_of(record)
    if end != expected_end or (topic.is_complete and start != 0):
        soak.fault(f"{name} holds [{start}, {end}), not [0, {expected_end})")
    if topic.name == "keys":
        expected = {str(n % KEYS).encode(): n for n in range(max(0, written - KEYS), written)}
        if last_of_key != expected:
            soak.fault(f"{name}: the latest records are {last_of_key}, not {expected}")
        if written > 2000 and count > written // 2:
            soak.fault(f"{name} was not compacted: {count} of {written} records are left")
    if topic.name == "short" and written > 2000 and start == 0:
        soak.fault(f"{name}: nothing was deleted of {written} records")


def check_memory(soak: Soak) -> list[str]:
    """Compare the service in the first and last third of its samples; return lines to print.

    The samples without compiled kernels and those with them are compared apart, as loading the
    kernels, which the service does at its first large work, takes some 120 MiB once.
    """
    lines = []
    for has_kernels in (False, True):
        samples = [sample for sample in soak.samples if sample.has_kernels is has_kernels]
        name = f"service {'with' if has_kernels else 'without'} kernels"
        third = len(samples) // 3
        if third < FEWEST_SAMPLES:
            lines.append(f"{name}: not compared, {len(samples)} samples")
            continue
        texts = []
        for what, position, slack, unit in (
            ("RSS", 0, 48 << 20, 1 << 20),
            ("descriptors", 1, 40, 1),
        ):
            before = statistics.median(sample[position] for sample in samples[:third])
            after = statistics.median(sample[position] for sample in samples[-third:])
            texts.append(f"{what} {before / unit:.0f} -> {after / unit:.0f}")
            if after > before * 1.25 + slack:
                soak.fault(f"{what} of the {name} rose: {texts[-1]}")
        lines.append(
            f"{name}, median of the first and the last third of {len(samples)} samples: "
            f"{', '.join(texts)} (RSS in MiB)"
        )
    return lines


def print_report(soak: Soak) -> None:
    """Print what was done."""
    commits = soak.checkpoint / "commits"
    batches = len([one for one in commits.glob("[0-9]*") if one.name.isdigit()])
    print(f"{time.monotonic() - soak.begun:.0f} s, seed {soak.seed}")
    for topic in TOPICS.values():
        print(f"  {topic.name}: {soak.written[topic.name]} records written")
    print(f"  batches of the stream committed: {batches}")
    for name, count in sorted(soak.counts.items()):
        print(f"  {name}: {count}")


def create_topics(soak: Soak) -> None:
    """Make the first directory, with all topics."""
    for path in (soak.first, soak.source):
        path.mkdir()
    with tidelog.open(soak.first) as logs:
        for topic in TOPICS.values():
            logs.create_topic(topic.name, topic.partitions, topic.settings)
    append_to_moved(soak, soak.rng("first"))


def soak_all(soak: Soak) -> None:
    """Start everything, wait, let it drain, stop it, and check the logs."""
    create_topics(soak)
    service, stream = Service(soak), Stream(soak)
    if not service.start():
        return
    readers = [
        Reader(soak, topic, partition).run
        for topic in TOPICS.values()
        for partition in range(topic.partitions)
    ]
    writers: list[Callable[[], None]] = [service.run]
    writers += [partial(work, soak) for work in (write_source, append_by_transactions, move)]
    threads = {
        work: threading.Thread(target=guarded, args=(soak, work), daemon=True)
        for work in [*readers, *writers, stream.run]
    }
    for thread in threads.values():
        thread.start()
    soak.stopping.wait(soak.seconds)
    if not soak.wait_until(partial(is_killed, soak)):
        soak.fault("nothing was killed in time")
    soak.stopping.set()
    for work in writers:
        threads[work].join()
    if not soak.faults and not soak.wait_until(partial(is_read, soak)):
        soak.fault(f"after {PATIENCE_S} s readers have not seen all records: {dict(soak.seen)}")
    soak.finished.set()
    for thread in threads.values():
        thread.join()
    if stream.process is not None:
        soak.end(stream.process)
    service.stop()
    if not soak.faults:
        check_logs(soak)


def guarded(soak: Soak, work: Callable[[], None]) -> None:
    """Run the work of a thread; an error of its own is a fault, too."""
    try:
        work()
    except Exception as error:
        soak.fault(f"the soak itself failed: {error!r}")
        raise


def is_killed(soak: Soak) -> bool:
    """Return whether service and stream have been killed, or the run ends with a fault."""
    kills = ("kills of the service", "kills of the stream")
    return soak.stopping.is_set() or all(soak.counts[name] for name in kills)


def is_read(soak: Soak) -> bool:
    """Return whether readers have seen the last record of every partition."""
    return all(
        soak.seen[topic.name, partition]
        == len(range(partition, soak.written[topic.name], topic.partitions))
        for topic in TOPICS.values()
        for partition in range(topic.partitions)
    )


def main() -> int:
    """Run; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    args = parser.parse_args()
    logging.getLogger("tidelog").setLevel(logging.CRITICAL)  # of opening after a kill
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    base = Path(tempfile.mkdtemp(prefix="tidelog-soak-"))
    soak = Soak(base, minutes=args.minutes, seed=args.seed)
    print(f"{args.minutes:g} minutes, seed {args.seed}, in {base}", flush=True)
    try:
        soak_all(soak)
        memory = check_memory(soak)
        print_report(soak)
        print(*memory, sep="\n")
    except KeyboardInterrupt:
        soak.fault("interrupted")
    finally:
        soak.close()
    if soak.faults:
        print(f"{len(soak.faults)} faults; kept: {base}")
        return 1
    shutil.rmtree(base)
    print("Every record is there once and in order.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
