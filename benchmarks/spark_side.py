"""What the Spark benchmarks share: a session, timing of queries in rounds, and goals.

CPU seconds are those of Spark (its JVM and all Python processes below it) and of the broker.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_broker import Broker, cpu_seconds, is_installed
from measure import heading
from spark_memory import add_to_workers_path, register

from tidelog.spark import session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

CONNECTOR = Path(__file__).parents[1] / ".peer" / "spark-connector"


class QueryTime(NamedTuple):
    """Wall time and CPU time of a query, in seconds."""

    wall: float
    spark: float
    broker: float


class SparkBesideKafka:
    """A Spark session and a running broker, with the CPU time of both.

    ``warm_up`` rounds are not counted, since the JVM compiles code that runs often.
    """

    def __init__(self, broker: Broker, broker_pid: int, warm_up: int) -> None:
        self.broker = broker
        self.warm_up = warm_up
        self._broker_pid = broker_pid
        jars = ",".join(str(path) for path in sorted(CONNECTOR.glob("*.jar")))
        conf = {"spark.master": "local[2]", "spark.driver.memory": "3g", "spark.jars": jars}
        conf["spark.log.level"] = "ERROR"
        add_to_workers_path()
        self.spark: SparkSession = session(**conf)
        register(self.spark, sys.executable)
        jvm = self.spark.sparkContext._jvm  # noqa: SLF001 - py4j's door
        assert jvm is not None
        self._jvm_pid = int(jvm.java.lang.ProcessHandle.current().pid())

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of Spark and of the broker so far."""
        return tree_seconds(self._jvm_pid), cpu_seconds(self._broker_pid)

    def timed(self, query: Callable[[], object]) -> QueryTime:
        """Run a query; return its time."""
        cpu, start = self.cpu(), time.perf_counter()
        query()
        wall = time.perf_counter() - start
        spark, broker = (after - before for after, before in zip(self.cpu(), cpu, strict=True))
        return QueryTime(wall, spark, broker)

    def kafka(self, topic: str) -> DataFrameReader:
        """Return a reader of all records of a topic through Spark's own Kafka source."""
        reader = self.spark.read.format("kafka").option("subscribe", topic)
        return reader.option("kafka.bootstrap.servers", self.broker.server)

    def ours(self, topic: str, schema: str = "") -> DataFrame:
        """Return a topic from the broker's directory, with all columns or those of ``schema``."""
        reader = self.spark.read.format("tidelog").option("subscribe", topic)
        return (reader.schema(schema) if schema else reader).load(str(self.broker.directory))


def run_beside_kafka(
    title: str,
    seed: int,
    warm_up: int,
    run: Callable[[SparkBesideKafka], int],
    directory: Path | None = None,
) -> int:
    """Print a heading, start a broker and Spark, and return the status that ``run`` returns.

    The broker keeps its data in ``directory``, or in one that is removed at the end. Without the
    peer nothing runs, and the status is 0.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a broker must not outlive a time-out
    heading(title, seed)
    if not is_installed() or not CONNECTOR.is_dir():
        print("Apache Kafka is not installed: run `make peer` first")
        return 0
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as temporary:
        broker = Broker((directory or Path(temporary)).absolute())
        with broker.running() as pid:
            pair = SparkBesideKafka(broker, pid, warm_up)
            print(f"Spark {pair.spark.version} on {pair.spark.conf.get('spark.tidelog.java')}")
            try:
                return run(pair)
            finally:
                pair.spark.stop()


def tree_seconds(root: int) -> float:
    """Return the CPU time of a process and its descendants, ended ones included."""
    children: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                text = (path / "stat").read_text("utf-8")
            except OSError:
                continue  # the process has ended
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
    """Let Spark read all rows and discard them."""
    frame.write.format("noop").mode("overwrite").save()


def in_rounds(
    pair: SparkBesideKafka, queries: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[QueryTime]]:
    """Run the queries in turn, ``rounds`` times each after the warm-up rounds.

    The disk is idle when a query begins: a sync would wait for what the one before it has written.
    """
    times: dict[str, list[QueryTime]] = {name: [] for name in queries}
    for number in range(-pair.warm_up, rounds):
        for name, query in queries.items():
            os.sync()
            time_of_query = pair.timed(query)
            if number >= 0:
                times[name].append(time_of_query)
    return times


def median(times: list[QueryTime]) -> QueryTime:
    """Return the median of each of the three times."""
    return QueryTime(*(statistics.median(each) for each in zip(*times, strict=True)))


def print_rates(times: Mapping[str, list[QueryTime]], rows: int) -> None:
    """Print rows/s, wall time and CPU time of each query."""
    for name, rounds in times.items():
        middle, best = median(rounds), min(rounds)
        print(
            f"    {name:26} {rows / middle.wall / 1e6:5.2f} M rows/s (best "
            f"{rows / best.wall / 1e6:5.2f}); {middle.wall:6.2f} s, CPU s: Spark "
            f"{middle.spark:5.2f}, broker {middle.broker:5.2f}"
        )


class WallGoals:
    """Ratios of wall time that a benchmark must reach; ``status`` is the process's exit code."""

    def __init__(self) -> None:
        self.status = 0

    def at_least(
        self, goal: float, name: str, ours: list[QueryTime], theirs: list[QueryTime]
    ) -> None:
        """Print how many times as fast as ``theirs`` ``ours`` is, by medians."""
        us, them = median(ours), median(theirs)
        cpu = (them.spark + them.broker) / (us.spark + us.broker)
        self._check(name, them.wall / us.wall, f"by CPU {cpu:.2f}", goal, is_most=False)

    def at_most(self, goal: float, name: str, ours: float, theirs: float) -> None:
        """Print the ratio of our time to theirs, both in ms."""
        self._check(name, ours / theirs, f"{ours:.0f} of {theirs:.0f} ms", goal, is_most=True)

    def _check(self, name: str, ratio: float, more: str, goal: float, *, is_most: bool) -> None:
        missed = ratio > goal if is_most else ratio < goal
        self.status |= int(missed)
        bound = "at most" if is_most else "at least"
        end = " MISSED" if missed else ""
        print(f"  {ratio:5.2f} times: {name} ({more}; goal {bound} {goal:g}){end}", flush=True)
