"""How fast does Spark read a log directory, against its own Kafka source and against Parquet?

Apache Kafka writes two topics of 4 partitions: 16-byte keys, values of 100 and of 1000 bytes, no
codec. Then Spark reads them into its ``noop`` sink: through its Kafka source from the broker,
through ``tidelog`` from the broker's directory, and from a Parquet copy; also as streams. All run
in turn, in one session with two cores, which the broker shares. Ratios are of median wall times. It
needs Kafka's jars and Spark's connector: `make peer`.

    .venv/bin/python benchmarks/spark_read.py [--rows N] [--large-rows N] [--rounds N]
        [--warm-up N] [--directory DIR] [--parts prepare,small,large,stream,latency,checkpoint]

The defaults are for a quick run; docs/performance.md has the figures for 10 M and 1 M rows. With
``--directory`` topics and copies are kept for the next run, so parts can run one at a time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from spark_side import (
    SparkBesideKafka,
    WallGoals,
    in_rounds,
    print_rates,
    run_beside_kafka,
    to_noop,
)
from spark_streams import TICKS, available_now, checkpoints, latency

PARTITIONS = 4
SEED = 20130101
"""The seed in ``KeyedProducer.java``."""

FULL_GOAL, TWO_GOAL, PARQUET_GOAL, COLUMN_GOAL = 3.0, 6.0, 0.5, 0.6
PARTS = ("prepare", "small", "large", "stream", "latency", "checkpoint")


class Topic(NamedTuple):
    """A topic to read."""

    name: str
    rows: int
    value_bytes: int


def prepare(pair: SparkBesideKafka, topics: list[Topic]) -> None:
    """Create the topics and their Parquet copies, unless they exist."""
    for topic in [*(each for each in topics if each.rows), Topic(TICKS, 0, 0)]:
        if not (pair.broker.directory / f"{topic.name}-0").exists():
            pair.broker.create(topic.name, PARTITIONS if topic.rows else 1)
            if topic.rows:
                pair.broker.fill(topic.name, topic.rows, topic.value_bytes)
        copy = copy_of(pair, topic)
        if topic.rows and not (copy / "_SUCCESS").exists():
            pair.kafka(topic.name).load().write.mode("overwrite").parquet(str(copy))


def copy_of(pair: SparkBesideKafka, topic: Topic) -> Path:
    """Return the path of the Parquet copy of a topic."""
    return pair.broker.folder / f"{topic.name}.parquet"


def scan(pair: SparkBesideKafka, topic: Topic, rounds: int, goals: WallGoals) -> None:
    """Compare scans of all columns, of two columns and of one."""
    name, parquet = topic.name, str(copy_of(pair, topic))
    rows = pair.ours(name).count()
    copied = pair.spark.read.parquet(parquet).count()
    if not rows == copied >= topic.rows:
        raise SystemExit(f"{topic}: {rows} rows here, {copied} in the copy")
    queries = {
        "kafka, all": lambda: to_noop(pair.kafka(name).load()),
        "tidelog, all": lambda: to_noop(pair.ours(name)),
        "parquet, all": lambda: to_noop(pair.spark.read.parquet(parquet)),
        "kafka, offset and key": lambda: to_noop(pair.kafka(name).load().select("offset", "key")),
        "tidelog, offset and key": lambda: to_noop(pair.ours(name, "offset long, key binary")),
        "tidelog, value": lambda: to_noop(pair.ours(name, "value binary")),
        "parquet, value": lambda: to_noop(pair.spark.read.parquet(parquet).select("value")),
    }
    times = in_rounds(pair, queries, rounds)
    print(f"{rows:,} rows of {topic.value_bytes} B, {rounds} rounds:")
    two, value = "tidelog, offset and key", "tidelog, value"
    kafka = times["kafka, all"]
    goals.at_least(FULL_GOAL, "all columns, Kafka source", times["tidelog, all"], kafka)
    goals.at_least(TWO_GOAL, "two columns, Kafka source", times[two], times[f"kafka{two[7:]}"])
    goals.at_least(
        PARQUET_GOAL, "all columns, Parquet", times["tidelog, all"], times["parquet, all"]
    )
    goals.at_least(COLUMN_GOAL, "one column, Parquet", times[value], times["parquet, value"])
    print_rates(times, rows)


def run(pair: SparkBesideKafka, arguments: argparse.Namespace) -> int:
    """Run the parts that ``--parts`` names; return 1 if a goal was missed."""
    small, large = Topic("small", arguments.rows, 100), Topic("large", arguments.large_rows, 1000)
    prepare(pair, [small, large])
    goals = WallGoals()
    for topic in (small, large):
        if topic.name in arguments.parts and topic.rows:
            scan(pair, topic, arguments.rounds, goals)
    if "stream" in arguments.parts and small.rows:
        available_now(pair, small.name, arguments.rounds, goals)
    if "latency" in arguments.parts:
        latency(pair, arguments.rounds, goals)
    if "checkpoint" in arguments.parts:
        checkpoints(pair, arguments.rounds)
    return goals.status


def main() -> int:
    """Read the arguments, start broker and Spark, run the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="of 100 bytes; 0: none")
    parser.add_argument("--large-rows", type=int, default=100_000, help="of 1 KB; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that are not counted")
    parser.add_argument("--directory", type=Path, help="keep topics and copies here")
    parser.add_argument(
        "--parts", default=",".join(PARTS), help="parts to run, separated by commas"
    )
    arguments = parser.parse_args()
    arguments.parts = arguments.parts.split(",")
    title, warm_up = __doc__.splitlines()[0], arguments.warm_up
    return run_beside_kafka(
        title, SEED, warm_up, lambda pair: run(pair, arguments), arguments.directory
    )


if __name__ == "__main__":
    sys.exit(main())
