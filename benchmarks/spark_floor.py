"""How fast does Spark read a log, against the same rows from memory?

Both are Python data sources that Spark reads into its ``noop`` sink: ``tidelog`` over a log of
100-byte values in the page cache, and a source that returns prepared Arrow tables of such rows,
which leaves only Spark's own work on the rows. Goal: at least 0.6 times the rows/s from memory.
Rounds are interleaved; the best of each counts.

    .venv/bin/python benchmarks/spark_floor.py [ROWS]
"""

from __future__ import annotations

import platform
import random
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from spark_memory import TASKS, add_to_workers_path, register

import tidelog
from tidelog.records.builder import build_batch
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.spark import session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

SEED = 20130101
VALUE_BYTES = 100
BATCH_BYTES = 16 << 10
PARTITIONS = TASKS
ROUNDS = 5
GOAL = 0.6


def batch(rng: random.Random) -> tuple[bytes, int]:
    """Make one 16 KB batch of random keys and values; return it and its number of records."""
    count = BATCH_BYTES // (VALUE_BYTES + 27)
    now = 1_700_000_000_000
    records = [(now + n, rng.randbytes(16), rng.randbytes(VALUE_BYTES), ()) for n in range(count)]
    return build_batch(records), count


def write_log(path: str, rows: int) -> int:
    """Fill the topic ``bench``; return the rows written."""
    rng = random.Random(SEED)
    batches = [batch(rng) for _ in range(64)]
    megabyte = b"".join(data for data, _ in batches)
    per_append = sum(count for _, count in batches)
    written = 0
    with tidelog.open(path) as directory:
        directory.create_topic("bench", PARTITIONS)
        while written < rows:
            for partition in directory.partitions("bench"):
                partition.append(megabyte, AppendOrigin.STAGED)
                written += per_append
    return written


def seconds(frame: DataFrame) -> float:
    """Return how long Spark takes to read all rows."""
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def measure(spark: SparkSession, path: str, rows: int) -> float:
    """Print both rates; return their ratio."""
    log = spark.read.format("tidelog").option("subscribe", "bench")
    frames: dict[str, Callable[[], DataFrame]] = {
        "log, all columns": lambda: log.load(path),
        "memory, all columns": lambda: spark.read.format("memory_rows").options(rows=rows).load(),
        "log, offset and key": lambda: (
            spark.read.format("tidelog")
            .option("subscribe", "bench")
            .schema("offset long, key binary")
            .load(path)
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in frames}
    for _ in range(ROUNDS):
        for name, frame in frames.items():
            times[name].append(seconds(frame()))
    for name, rounds in times.items():
        print(f"  {name:22} {rows / min(rounds) / 1e6:5.2f} M rows/s ({min(rounds):.2f} s)")
    return min(times["memory, all columns"]) / min(times["log, all columns"])


def main() -> int:
    """Write a log, read it with Spark; return 1 if the goal is missed."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    print(f"{platform.machine()}, Python {platform.python_version()}, seed {SEED}")
    add_to_workers_path()
    spark = session()
    register(spark, sys.executable)
    print(f"Spark {spark.version} on {spark.conf.get('spark.tidelog.java')}")
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as path:
        rows = write_log(path, wanted)
        print(f"{rows:,} rows of {VALUE_BYTES} B values, {PARTITIONS} partitions")
        ratio = measure(spark, path, rows)
    spark.stop()
    print(f"ratio {ratio:.2f} (goal {GOAL}){' MISSED' if ratio < GOAL else ''}")
    return int(ratio < GOAL)


if __name__ == "__main__":
    sys.exit(main())
