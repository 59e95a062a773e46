"""How fast does Spark write a topic to another number of partitions, against its Kafka connector?

A topic of 3 partitions, with 16-byte keys and values of 100 bytes, which a broker holds, is written
to new topics of 12 partitions: by ``tidelog.spark.repartition`` from the broker's directory into a
data directory, fsync and commit included, timestamps kept and each record once; and through Spark's
Kafka source and sink, with ``acks=all``, which makes nothing durable itself. Both run in turn, in
one session with two cores, which the broker shares; the ratio is of median wall times, and by CPU.
It needs Kafka's jars and Spark's connector: `make peer`.

    .venv/bin/python benchmarks/spark_repartition.py [--rows N] [--rounds N] [--warm-up N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from spark_side import SparkBesideKafka, WallGoals, in_rounds, print_rates, run_beside_kafka

from tidelog.spark import repartition

SOURCE, PARTITIONS, NEW_PARTITIONS = "source", 3, 12
SEED = 20130101
GOAL = 2.0


class Copies:
    """Writes the topic to a new one each time."""

    def __init__(self, pair: SparkBesideKafka, directory: str) -> None:
        self._pair = pair
        self._directory = directory
        self._count = 0

    def ours(self) -> None:
        """Write into a data directory."""
        self._count += 1
        repartition(
            self._pair.spark,
            str(self._pair.broker.directory),
            SOURCE,
            to=f"copy-{self._count}",
            partitions=NEW_PARTITIONS,
            to_path=self._directory,
        )

    def kafka(self) -> None:
        """Write through the broker; the topic exists."""
        frame = self._pair.kafka(SOURCE).option("includeHeaders", "true").load()
        writer = frame.select("key", "value", "headers").write.format("kafka")
        writer = writer.option("kafka.bootstrap.servers", self._pair.broker.server)
        writer.option("kafka.acks", "all").option("topic", "copies").save()


def run(pair: SparkBesideKafka, arguments: argparse.Namespace) -> int:
    """Compare the two; return 1 if the goal was missed."""
    goals = WallGoals()
    pair.broker.create(SOURCE, PARTITIONS)
    pair.broker.create("copies", NEW_PARTITIONS)
    pair.broker.fill(SOURCE, arguments.rows, 100)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder:
        copies = Copies(pair, f"{folder}/data")
        queries = {"kafka": copies.kafka, "tidelog": copies.ours}
        times = in_rounds(pair, queries, arguments.rounds)
    print(f"{arguments.rows:,} rows of 100 B, {PARTITIONS} to {NEW_PARTITIONS} partitions:")
    goals.at_least(GOAL, "repartition", times["tidelog"], times["kafka"])
    print_rates(times, arguments.rows)
    return goals.status


def main() -> int:
    """Read the arguments, start broker and Spark, run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds that are not counted")
    arguments = parser.parse_args()
    title, warm_up = __doc__.splitlines()[0], arguments.warm_up
    return run_beside_kafka(title, SEED, warm_up, lambda pair: run(pair, arguments))


if __name__ == "__main__":
    sys.exit(main())
