"""How long do commands that look take, against Kafka's tool for the same question?

A broker holds a directory with a topic of 4 partitions. Its tools ask it, or dump its files;
tidelog reads the same files beside it. Each is a process of its own, as an operator starts it, with
the options of Kafka's own scripts; files are in the page cache and kernels compiled. Goal: a fifth
of the CPU time. It needs Kafka's jars: `make peer`.

    .venv/bin/python benchmarks/cli.py [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_broker import JARS, Broker, is_installed, run_class
from measure import Goals, Timing, heading, installed_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEED = 0
TOPIC = "asked"
GROUP = "readers"
TOOLS = "org.apache.kafka.tools"
PARTITIONS = 4
VALUE_BYTES = 100
GOAL = 5.0
"""Times as fast, by CPU."""
TOOL = ("java", "-Xmx256M", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true", "-cp", f"{JARS}/*")  # fmt: skip
"""How Kafka's scripts start its tools."""
TIDELOG = (sys.executable, "-m", "tidelog")


class Question(NamedTuple):
    """What is asked, by a command line of each side."""

    name: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


def of_files(broker: Broker) -> list[Question]:
    """Return what is asked about files, which Kafka's dump tool reads without a broker."""
    partition = broker.directory / f"{TOPIC}-0"
    log, index = (str(partition / f"{0:020d}{suffix}") for suffix in (".log", ".index"))
    theirs = (f"{TOOLS}.DumpLogSegments", "--files")
    deep = ("--deep-iteration", "--print-data-log")
    return [
        Question("batches of a segment", ("dump", log), (*theirs, log)),
        Question("records of a segment", ("dump", log, "--records"), (*theirs, log, *deep)),
        Question("entries of an index", ("dump", index), (*theirs, index)),
    ]


def of_broker(broker: Broker, records: int) -> list[Question]:
    """Return what Kafka's tools ask the broker; ``records`` are in the topic."""
    where, server = ("-d", str(broker.directory)), ("--bootstrap-server", broker.server)
    offsets = (f"{TOOLS}.GetOffsetShell", *server, "--topic", TOPIC)
    groups = (f"{TOOLS}.consumer.group.ConsumerGroupCommand", *server, "--describe")
    reads = (f"{TOOLS}.consumer.ConsoleConsumer", *server, "--topic", TOPIC, "--from-beginning")
    topics, sizes = (f"{TOOLS}.{name}Command" for name in ("Topic", "LogDirs"))
    at = ("offsets", TOPIC, *where, "--at")
    return [
        Question("topics and partitions", ("list", *where), (topics, *server, "--describe")),
        Question(
            "size of each log",
            ("describe", "--log-dirs", *where),
            (sizes, *server, "--describe"),
        ),
        Question("latest offsets", (*at, "latest"), offsets),
        Question("offsets at a time", (*at, "1000"), (*offsets, "--time", "1000")),
        Question("lag of a group", ("groups", GROUP, *where), (*groups, "--group", GROUP)),
        Question(
            "all records",
            ("cat", TOPIC, *where, "--format", "text"),
            (*reads, "--max-messages", str(records)),
        ),
    ]


class Run(NamedTuple):
    """One process, in seconds."""

    wall: float
    cpu: float


def run(command: Sequence[str], environ: Mapping[str, str]) -> Run:
    """Run a process; it must succeed and print something."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command, stdout=output, stderr=subprocess.PIPE, env=environ, check=False
        )
        wall = time.perf_counter() - start
        if done.returncode or not output.tell():
            raise SystemExit(f"{' '.join(command)}: {done.stderr.decode()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def timing(runs: Sequence[Run]) -> Timing:
    """Return the best and the median of some runs."""
    walls = [one.wall for one in runs]
    return Timing(min(walls), statistics.median(walls), min(one.cpu for one in runs))


def ask(question: Question, rounds: int, goals: Goals, environ: Mapping[str, str]) -> None:
    """Ask both sides in turn, after one round to warm up, and print how they compare."""
    sides = {"tidelog": [*TIDELOG, *question.ours], "Kafka": [*TOOL, *question.theirs]}
    runs: dict[str, list[Run]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, command in sides.items():
            found = run(command, environ)
            if number:
                runs[name].append(found)
    ours, theirs = (timing(each) for each in runs.values())
    wall = f"{ours.best:.2f} s of {theirs.best:.2f} s: {ours.best / theirs.best:.2f}"
    cpu = f"{ours.cpu:.2f} s of {theirs.cpu:.2f} s: {ours.cpu / theirs.cpu:.2f}"
    print(f"{question.name}: {wall}; CPU {cpu}")
    goals.at_least(GOAL, question.name, ours, theirs)


def main() -> int:
    """Fill a topic, commit a group's positions, and ask each question."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not is_installed():
        raise SystemExit("Kafka's jars are missing: make peer")
    heading(__doc__.splitlines()[0] if __doc__ else "", SEED)
    goals = Goals()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder))
        environ = installed_environment(Path(folder) / "compiled")
        with broker.running():
            broker.create(TOPIC, PARTITIONS)
            broker.fill(TOPIC, arguments.records, VALUE_BYTES)
            run_class(
                *(f"{TOOLS}.consumer.ConsoleConsumer", "--bootstrap-server"),
                *(broker.server, "--topic", TOPIC, "--group", GROUP, "--from-beginning"),
                *("--max-messages", "1000"),
            )
            for question in [*of_files(broker), *of_broker(broker, arguments.records)]:
                ask(question, arguments.rounds, goals, environ)
    return goals.status


if __name__ == "__main__":
    sys.exit(main())
