"""How fast does Spark write a log, against its own Kafka sink?

A cached DataFrame of 16-byte keys and values of 100 bytes, and one of 1 KB, is written to topics of
4 partitions: through ``tidelog`` into a data directory, fsync and commit included, and through
Spark's Kafka sink to a broker with ``acks=all``, which makes nothing durable itself. Both also with
zstd; and to a sink in Python that does nothing. Then streams with one row in each micro-batch are
written to all three. All run in turn, in one session with two cores, which the broker shares;
ratios are of median wall times, and by CPU. It needs Kafka's jars and Spark's connector: `make
peer`.

    .venv/bin/python benchmarks/spark_write.py [--rows N] [--large-rows N] [--rounds N]
        [--warm-up N] [--parts small,large,stream]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_memory import NothingSink
from spark_side import SparkBesideKafka, WallGoals, in_rounds, print_rates, run_beside_kafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

PARTITIONS = 4
SEED = 20130101
GOAL, LATENCY_GOAL = 3.0, 1.5
PARTS = ("small", "large", "stream")
ONE_ROW = "one-row"
BATCHES = 14
SETTLE = 6
"""The number of first micro-batches that are not counted."""


def cached(pair: SparkBesideKafka, rows: int, value_bytes: int) -> DataFrame:
    """Return rows in memory; half of each value are random digits."""
    digits = f"transform(sequence(1, {value_bytes // 32}), n -> hex(xxhash64(id, n)))"
    frame = pair.spark.range(rows, numPartitions=PARTITIONS).selectExpr(
        "CAST(lpad(CAST(id AS string), 16, '0') AS binary) AS key",
        f"CAST(rpad(concat_ws('', {digits}), {value_bytes}, 'x') AS binary) AS value",
    )
    frame = frame.cache()
    frame.count()
    return frame


class Sinks:
    """Writes a frame to both sinks, each time to a new topic, which may be created first."""

    def __init__(self, pair: SparkBesideKafka, directory: str) -> None:
        self._pair = pair
        self._directory = directory
        self._count = 0

    def _topic(self) -> str:
        self._count += 1
        return f"written-{self._count}"

    def ours(self, frame: DataFrame, codec: str) -> None:
        """Write through tidelog."""
        writer = frame.write.format("tidelog").option("topic", self._topic())
        writer = writer.option("numPartitions", PARTITIONS).option("compression", codec)
        writer.mode("append").save(self._directory)

    def kafka(self, frame: DataFrame, codec: str, topic: str) -> None:
        """Write through Spark's Kafka sink; the topic exists."""
        writer = frame.write.format("kafka").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", self._pair.broker.server)
        writer.option("kafka.acks", "all").option("kafka.compression.type", codec).save()


def compare(
    pair: SparkBesideKafka, rows: int, value_bytes: int, rounds: int, goals: WallGoals
) -> None:
    """Compare writes of a cached frame, without a codec and with zstd."""
    frame = cached(pair, rows, value_bytes)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder:
        sinks = Sinks(pair, f"{folder}/data")
        queries: dict[str, Callable[[], None]] = {}
        for codec in ("none", "zstd"):
            topic = f"of-{value_bytes}-{codec}"
            pair.broker.create(topic, PARTITIONS)
            queries[f"kafka, {codec}"] = partial(sinks.kafka, frame, codec, topic)
            queries[f"tidelog, {codec}"] = partial(sinks.ours, frame, codec)
        nothing = frame.write.format("nothing").mode("append")
        queries["nothing, in Python"] = nothing.save
        times = in_rounds(pair, queries, rounds)
    frame.unpersist()
    print(f"{rows:,} rows of {value_bytes} B, {rounds} rounds:")
    for codec in ("none", "zstd"):
        label = f"{value_bytes} B, {codec}, Kafka sink"
        goals.at_least(GOAL, label, times[f"tidelog, {codec}"], times[f"kafka, {codec}"])
    print_rates(times, rows)


def stream(pair: SparkBesideKafka, rounds: int, goals: WallGoals) -> None:
    """Compare the smallest micro-batches."""
    pair.broker.create(ONE_ROW, 1)
    found: dict[str, list[int]] = {"kafka": [], "tidelog": [], "nothing, in Python": []}
    for _ in range(max(rounds - 1, 1)):
        for name in found:
            found[name] += micro_batches(pair, name)
    print("Smallest micro-batch, one row, median of ms:")
    middle = {name: statistics.median(times) for name, times in found.items()}
    goals.at_most(LATENCY_GOAL, "micro-batch, Kafka sink", middle["tidelog"], middle["kafka"])
    for name, times in found.items():
        p90 = sorted(times)[int(len(times) * 0.9)]
        print(f"    {name:20} p50 {middle[name]:4.0f}, p90 {p90:4.0f} of {len(times)}")


def micro_batches(pair: SparkBesideKafka, name: str) -> list[int]:
    """Return the durations in ms of micro-batches into a sink."""
    frame = pair.spark.readStream.format("memory_rows").options(rows=1).load()
    sinks: dict[str, tuple[str, dict[str, Any]]] = {
        "kafka": ("kafka", {"kafka.bootstrap.servers": pair.broker.server, "kafka.acks": "all"}),
        "tidelog": ("tidelog", {}),
        "nothing, in Python": ("nothing", {}),
    }
    source, options = sinks[name]
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder:
        options |= {"topic": ONE_ROW, "checkpointLocation": f"{folder}/c"}
        writer = frame.select("key", "value").writeStream.format(source).options(**options)
        query = writer.start(f"{folder}/data") if source != "kafka" else writer.start()
        while len(query.recentProgress) < BATCHES + SETTLE and query.isActive:
            time.sleep(0.2)
        progress = query.recentProgress[SETTLE : BATCHES + SETTLE]
        if not query.isActive:
            raise SystemExit(f"{name}: {query.exception()}")
        query.stop()
    return [each["durationMs"]["triggerExecution"] for each in progress]


def run(pair: SparkBesideKafka, arguments: argparse.Namespace) -> int:
    """Run the parts that ``--parts`` names; return 1 if a goal was missed."""
    pair.spark.dataSource.register(NothingSink)
    goals = WallGoals()
    if "small" in arguments.parts:
        compare(pair, arguments.rows, 100, arguments.rounds, goals)
    if "large" in arguments.parts:
        compare(pair, arguments.large_rows, 1000, arguments.rounds, goals)
    if "stream" in arguments.parts:
        stream(pair, arguments.rounds, goals)
    return goals.status


def main() -> int:
    """Read the arguments, start broker and Spark, run the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="of 100 bytes")
    parser.add_argument("--large-rows", type=int, default=500_000, help="of 1 KB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds that are not counted")
    parser.add_argument(
        "--parts", default=",".join(PARTS), help="parts to run, separated by commas"
    )
    arguments = parser.parse_args()
    arguments.parts = arguments.parts.split(",")
    title, warm_up = __doc__.splitlines()[0], arguments.warm_up
    return run_beside_kafka(title, SEED, warm_up, lambda pair: run(pair, arguments))


if __name__ == "__main__":
    sys.exit(main())
