"""How fast does Spark read a log directory, against its own Kafka source and against Parquet?

Apache Kafka writes two topics of 4 partitions: keys of 16 bytes, values of 100 and of 1000, no
codec. Then Spark reads them into its ``noop`` sink: by its Kafka source from the broker, by
``tidelog`` from the broker's directory, and from a Parquet copy; as streams, too. All run in turn,
in one session of two cores, which the broker shares. Ratios are of median wall times. It needs
Kafka's jars and Spark's connector: `make peer`.

    .venv/bin/python benchmarks/spark_read.py [--rows N] [--large-rows N] [--rounds N]
        [--warm-up N] [--directory DIR] [--parts prepare,small,large,stream,latency]

The defaults are for a quick look; docs/performance.md has the figures of 10 M and 1 M rows. With
``--directory`` topics and copies are kept and found again, so parts can run one at a time.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from kafka_broker import Broker, is_installed
from measure import heading
from spark_side import CONNECTOR, Judge, Side, in_rounds, tell, to_noop
from spark_streams import TICKS, available_now, latency

PARTITIONS = 4
SEED = 20130101
"""That of ``KeyedProducer.java``."""

FULL_GOAL, TWO_GOAL, PARQUET_GOAL, COLUMN_GOAL = 3.0, 6.0, 0.5, 0.6
PARTS = ("prepare", "small", "large", "stream", "latency")


class Topic(NamedTuple):
    """A topic to be read."""

    name: str
    rows: int
    value_bytes: int


def prepare(side: Side, topics: list[Topic]) -> None:
    """Fill the topics and make their copies, as far as they are not there."""
    for topic in [*(each for each in topics if each.rows), Topic(TICKS, 0, 0)]:
        if not (side.broker.directory / f"{topic.name}-0").exists():
            side.broker.create(topic.name, PARTITIONS if topic.rows else 1)
            if topic.rows:
                side.broker.fill(topic.name, topic.rows, topic.value_bytes)
        copy = copy_of(side, topic)
        if topic.rows and not (copy / "_SUCCESS").exists():
            side.kafka(topic.name).load().write.mode("overwrite").parquet(str(copy))


def copy_of(side: Side, topic: Topic) -> Path:
    """Return where the Parquet copy of a topic lies."""
    return side.broker.folder / f"{topic.name}.parquet"


def scan(side: Side, topic: Topic, rounds: int, judge: Judge) -> None:
    """Compare scans of all columns, of two and of one."""
    name, parquet = topic.name, str(copy_of(side, topic))
    rows = side.ours(name).count()
    copied = side.spark.read.parquet(parquet).count()
    if not rows == copied >= topic.rows:
        raise SystemExit(f"{topic}: {rows} rows here, {copied} in the copy")
    works = {
        "kafka, all": lambda: to_noop(side.kafka(name).load()),
        "tidelog, all": lambda: to_noop(side.ours(name)),
        "parquet, all": lambda: to_noop(side.spark.read.parquet(parquet)),
        "kafka, offset and key": lambda: to_noop(side.kafka(name).load().select("offset", "key")),
        "tidelog, offset and key": lambda: to_noop(side.ours(name, "offset long, key binary")),
        "tidelog, value": lambda: to_noop(side.ours(name, "value binary")),
        "parquet, value": lambda: to_noop(side.spark.read.parquet(parquet).select("value")),
    }
    taken = in_rounds(side, works, rounds)
    print(f"{rows:,} rows of {topic.value_bytes} B, {rounds} rounds:")
    two, value = "tidelog, offset and key", "tidelog, value"
    kafka = taken["kafka, all"]
    judge.at_least(FULL_GOAL, "all columns, Kafka source", taken["tidelog, all"], kafka)
    judge.at_least(TWO_GOAL, "two columns, Kafka source", taken[two], taken[f"kafka{two[7:]}"])
    judge.at_least(
        PARQUET_GOAL, "all columns, Parquet", taken["tidelog, all"], taken["parquet, all"]
    )
    judge.at_least(COLUMN_GOAL, "one column, Parquet", taken[value], taken["parquet, value"])
    tell(taken, rows)


def run(side: Side, given: argparse.Namespace) -> int:
    """Run the parts that were asked for; return 1 if a goal was missed."""
    small, large = Topic("small", given.rows, 100), Topic("large", given.large_rows, 1000)
    prepare(side, [small, large])
    judge = Judge()
    for topic in (small, large):
        if topic.name in given.parts and topic.rows:
            scan(side, topic, given.rounds, judge)
    if "stream" in given.parts and small.rows:
        available_now(side, small.name, given.rounds, judge)
    if "latency" in given.parts:
        latency(side, given.rounds, judge)
    return judge.status


def main() -> int:
    """Read the arguments, start broker and Spark, run the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="of 100 bytes; 0: none")
    parser.add_argument("--large-rows", type=int, default=100_000, help="of 1 KB; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--directory", type=Path, help="where topics and copies are kept")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of the parts, by commas")
    given = parser.parse_args()
    given.parts = given.parts.split(",")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a broker must not outlive a time-out
    heading(__doc__.splitlines()[0], SEED)
    if not is_installed() or not CONNECTOR.is_dir():
        print("no Apache Kafka to compare with: `make peer` first")
        return 0
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as temporary:
        broker = Broker((given.directory or Path(temporary)).absolute())
        with broker.running() as pid:
            side = Side(broker, pid, given.warm_up)
            print(f"Spark {side.spark.version} on {side.spark.conf.get('spark.tidelog.java')}")
            try:
                return run(side, given)
            finally:
                side.spark.stop()


if __name__ == "__main__":
    sys.exit(main())
