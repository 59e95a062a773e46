"""How fast does Spark read an archive, beside the same rows as Parquet on the same server?

A topic of four partitions is archived on S3Proxy, a server that speaks S3, on this machine. Spark
writes what it reads there as Parquet to the same server, by Hadoop's S3A, and reads both into its
``noop`` sink, in turn, in one session with two cores, which the server shares: all columns, and the
value alone. Goal: at least 0.5 times the speed of Parquet, by the medians of wall time and of the
CPU time of Spark and the server. It needs S3Proxy and S3A: `make peer .peer/s3a/.installed`.

Values are random bytes, so that both hold as many. With ``--alike`` a value has all bytes but one
of the value before: Parquet's Snappy makes them an eighth, and the log has no compression.

    .venv/bin/python benchmarks/spark_archive.py [--rows N] [--rounds N] [--alike]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from measure import heading
from spark_side import tree_seconds

import tidelog
from tidelog.cli.main import main as tidelog_command
from tidelog.spark import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

SEED = 20261128
VALUE_BYTES = 200
PARTITIONS = 4
ALL_GOAL = 0.5
ROOT = Path(__file__).parent.parent
S3A, S3PROXY = ROOT / ".peer" / "s3a", ROOT / ".peer" / "s3proxy"
SERVE = """
import sys
from pathlib import Path
from tests.machinery.store_servers import s3proxy
with s3proxy(Path(sys.argv[1])) as server:
    print(*(f"{name}={value}" for name, value in server.environ.items()), sep=chr(31), flush=True)
    input()
"""
LAKE, PARQUET = "s3://lake/logs", "s3a://lake/parquet"


@contextmanager
def server(folder: str) -> Iterator[None]:
    """Run the server; processes that are started in the body find it by their environment."""
    words = [sys.executable, "-c", SERVE, folder]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        pairs = process.stdout.readline().rstrip("\n").split(chr(31))
        os.environ.update(dict(pair.split("=", 1) for pair in pairs))
        yield
        process.communicate("\n")


def fill(folder: str, rows: int, *, are_alike: bool) -> None:
    """Write the topic, and archive what is closed."""
    step = 1 if are_alike else VALUE_BYTES
    content = random.Random(SEED).randbytes(rows // PARTITIONS * step + VALUE_BYTES)
    settings = {"retention.ms": "-1", "segment.bytes": str(32 << 20)}
    with tidelog.open(folder) as logs:
        logs.create_topic("t", PARTITIONS, config=settings)
        for number in range(PARTITIONS):
            values = (
                {"key": b"%016d" % n, "value": content[at : at + VALUE_BYTES], "partition": number}
                for n in range(rows // PARTITIONS)
                for at in [n * step]
            )
            logs.append_all("t", values)
    assert tidelog_command(["archive", "-d", folder, "--to", LAKE, "-q"]) == 0


def spark_session() -> SparkSession:
    """Return a session that reaches the server by S3A, too."""
    access = {
        "endpoint": os.environ["AWS_ENDPOINT_URL"],
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    conf = {f"spark.hadoop.fs.s3a.{name}": value for name, value in access.items()}
    conf |= {"spark.master": "local[2]", "spark.driver.memory": "3g", "spark.log.level": "ERROR"}
    conf["spark.driver.extraClassPath"] = f"{S3A}/*"
    return session(**conf)


def to_noop(frame: DataFrame) -> None:
    """Read all rows."""
    frame.write.format("noop").mode("overwrite").save()


def run(spark: SparkSession, rounds: int) -> int:
    """Measure; return 1 if the goal was missed."""
    reader = spark.read.format("tidelog").option("subscribe", "t")
    archive = reader.load(LAKE)
    archive.write.mode("overwrite").parquet(PARQUET)
    rows = archive.count()
    parquet = spark.read.parquet(PARQUET)
    assert parquet.count() == rows > 0
    queries: dict[str, Callable[[], None]] = {
        "archive, all columns": lambda: to_noop(archive),
        "parquet, all columns": lambda: to_noop(parquet),
        "archive, value": lambda: to_noop(reader.schema("value binary").load(LAKE)),
        "parquet, value": lambda: to_noop(parquet.select("value")),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in queries}
    for number in range(rounds + 1):
        for name, query in queries.items():
            cpu, start = tree_seconds(os.getpid()), time.perf_counter()
            query()
            wall = time.perf_counter() - start
            if number:  # the first round warms up
                times[name].append((wall, tree_seconds(os.getpid()) - cpu))
    medians = {
        name: [statistics.median(each) for each in zip(*some, strict=True)]
        for name, some in times.items()
    }
    print(f"  {rows:,} rows of {VALUE_BYTES} B, {rounds} rounds")
    for name, (wall, cpu) in medians.items():
        print(
            f"  {name:22} {wall:6.2f} s, {rows / wall / 1e6:5.2f} million rows/s; CPU {cpu:.2f} s"
        )
    ratios = {
        columns: [
            theirs / ours
            for theirs, ours in zip(
                medians[f"parquet, {columns}"], medians[f"archive, {columns}"], strict=True
            )
        ]
        for columns in ("all columns", "value")
    }
    for columns, (wall, cpu) in ratios.items():
        print(f"  archive, beside Parquet, {columns}: {wall:.2f} times, by CPU {cpu:.2f}")
    is_missed = min(ratios["all columns"]) < ALL_GOAL
    print(f"  goal, all columns: {ALL_GOAL}{' MISSED' if is_missed else ''}")
    return int(is_missed)


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alike", action="store_true", help="values that compress well")
    arguments = parser.parse_args()
    heading(__doc__.splitlines()[0], SEED)
    if not S3A.is_dir() or not S3PROXY.is_dir():
        print("S3A and S3Proxy are not installed: run `make peer .peer/s3a/.installed` first")
        return 0
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder, server(folder):
        fill(f"{folder}/data", arguments.rows, are_alike=arguments.alike)
        spark = spark_session()
        try:
            return run(spark, arguments.rounds)
        finally:
            spark.stop()


if __name__ == "__main__":
    sys.exit(main())
