"""What the Spark benchmarks share: a session, one piece of work timed, rounds of several works.

CPU seconds are those of Spark (its JVM and all Python processes under it) and of the broker.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_broker import Broker, cpu_seconds
from spark_memory import on_workers_path, register

from tidelog.spark import session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

CONNECTOR = Path(__file__).parents[1] / ".peer" / "spark-connector"


class Took(NamedTuple):
    """Seconds by the clock, and of CPU."""

    wall: float
    spark: float
    broker: float


class Side:
    """A Spark session beside a running broker, with the CPU that both take.

    ``warm_up`` rounds do not count: the JVM compiles what it runs often.
    """

    def __init__(self, broker: Broker, broker_pid: int, warm_up: int) -> None:
        self.broker = broker
        self.warm_up = warm_up
        self._broker_pid = broker_pid
        jars = ",".join(str(path) for path in sorted(CONNECTOR.glob("*.jar")))
        conf = {"spark.master": "local[2]", "spark.driver.memory": "3g", "spark.jars": jars}
        conf["spark.log.level"] = "ERROR"
        on_workers_path()
        self.spark: SparkSession = session(**conf)
        register(self.spark, sys.executable)
        jvm = self.spark.sparkContext._jvm  # noqa: SLF001 - py4j's door
        assert jvm is not None
        self._jvm_pid = int(jvm.java.lang.ProcessHandle.current().pid())

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of Spark and of the broker so far."""
        return tree_seconds(self._jvm_pid), cpu_seconds(self._broker_pid)

    def timed(self, work: Callable[[], object]) -> Took:
        """Do the work; return what it took."""
        cpu, begun = self.cpu(), time.perf_counter()
        work()
        wall = time.perf_counter() - begun
        spark, broker = (after - before for after, before in zip(self.cpu(), cpu, strict=True))
        return Took(wall, spark, broker)

    def kafka(self, topic: str) -> DataFrameReader:
        """Return Spark's own Kafka source of all records of a topic."""
        reader = self.spark.read.format("kafka").option("subscribe", topic)
        return reader.option("kafka.bootstrap.servers", self.broker.server)

    def ours(self, topic: str, schema: str = "") -> DataFrame:
        """Return the same from the broker's data directory; with ``schema``, some columns only."""
        reader = self.spark.read.format("tidelog").option("subscribe", topic)
        return (reader.schema(schema) if schema else reader).load(str(self.broker.directory))


def tree_seconds(root: int) -> float:
    """Return the CPU time of a process and all below it, those that have ended among them."""
    children: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                text = (path / "stat").read_text("utf-8")
            except OSError:
                continue  # it has ended
            fields = text.rpartition(")")[2].split()
            pid = int(path.name)
            children.setdefault(int(fields[1]), []).append(pid)
            times[pid] = sum(int(field) for field in fields[11:15]) / 100
    total, waiting = 0.0, [root]
    while waiting:
        pid = waiting.pop()
        total += times.get(pid, 0.0)
        waiting += children.get(pid, [])
    return total


def to_noop(frame: DataFrame) -> None:
    """Let Spark make all rows and throw them away."""
    frame.write.format("noop").mode("overwrite").save()


def in_rounds(
    side: Side, works: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[Took]]:
    """Do the works in turn, ``rounds`` times each after those that do not count."""
    taken: dict[str, list[Took]] = {name: [] for name in works}
    for number in range(-side.warm_up, rounds):
        for name, work in works.items():
            took = side.timed(work)
            if number >= 0:
                taken[name].append(took)
    return taken


def median(taken: list[Took]) -> Took:
    """Return the median of each."""
    return Took(*(statistics.median(each) for each in zip(*taken, strict=True)))


def tell(taken: Mapping[str, list[Took]], rows: int) -> None:
    """Print rows/s, seconds by the clock and CPU seconds of each work."""
    for name, rounds in taken.items():
        middle, best = median(rounds), min(rounds)
        print(
            f"    {name:26} {rows / middle.wall / 1e6:5.2f} M rows/s (best "
            f"{rows / best.wall / 1e6:5.2f}); {middle.wall:6.2f} s, CPU s: Spark "
            f"{middle.spark:5.2f}, broker {middle.broker:5.2f}"
        )


class Judge:
    """Ratios of wall time that must be reached; ``status`` is the process's exit code."""

    def __init__(self) -> None:
        self.status = 0

    def at_least(self, goal: float, name: str, ours: list[Took], theirs: list[Took]) -> None:
        """Print how many times as fast as ``theirs`` we are, by medians."""
        us, them = median(ours), median(theirs)
        cpu = (them.spark + them.broker) / (us.spark + us.broker)
        self._say(name, them.wall / us.wall, f"by CPU {cpu:.2f}", goal, is_most=False)

    def at_most(self, goal: float, name: str, ours: float, theirs: float) -> None:
        """Print our part of their time."""
        self._say(name, ours / theirs, f"{ours:.0f} of {theirs:.0f} ms", goal, is_most=True)

    def _say(self, name: str, ratio: float, more: str, goal: float, *, is_most: bool) -> None:
        missed = ratio > goal if is_most else ratio < goal
        self.status |= int(missed)
        bound = "at most" if is_most else "at least"
        end = " MISSED" if missed else ""
        print(f"  {ratio:5.2f} times: {name} ({more}; goal {bound} {goal:g}){end}", flush=True)
