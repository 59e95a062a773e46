"""How fast does Spark read an archive, beside the same rows as Parquet on the same server?

A topic of four partitions is archived on S3Proxy, a server that speaks S3, on this machine. Spark
writes what it reads there as Parquet to the same server, by Hadoop's S3A, and reads both into its
``noop`` sink, in turn, in one session with two cores, which the server shares: all columns, and the
value alone. Goal: at least 0.5 times the speed of Parquet, by the median of wall times. It needs
S3Proxy and S3A: `make peer .peer/s3a/.installed`.

    .venv/bin/python benchmarks/spark_archive.py [--rows N] [--rounds N]
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


def fill(folder: str, rows: int) -> None:
    """Write the topic, and archive what is closed."""
    content = random.Random(SEED).randbytes(rows // PARTITIONS + VALUE_BYTES)
    settings = {"retention.ms": "-1", "segment.bytes": str(32 << 20)}
    with tidelog.open(folder) as logs:
        logs.create_topic("t", PARTITIONS, config=settings)
        for number in range(PARTITIONS):
            values = (
                {"key": b"%016d" % n, "value": content[n : n + VALUE_BYTES], "partition": number}
                for n in range(rows // PARTITIONS)
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
    times: dict[str, list[float]] = {name: [] for name in queries}
    for number in range(rounds + 1):
        for name, query in queries.items():
            start = time.perf_counter()
            query()
            if number:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(some) for name, some in times.items()}
    print(f"  {rows:,} rows of {VALUE_BYTES} B, {rounds} rounds")
    for name, seconds in medians.items():
        print(f"  {name:22} {seconds:6.2f} s, {rows / seconds / 1e6:5.2f} million rows/s")
    ratio = medians["parquet, all columns"] / medians["archive, all columns"]
    is_missed = ratio < ALL_GOAL
    verdict = " MISSED" if is_missed else ""
    print(f"  archive, beside Parquet, all columns: {ratio:.2f} times (goal {ALL_GOAL}){verdict}")
    ratio = medians["parquet, value"] / medians["archive, value"]
    print(f"  archive, beside Parquet, the value: {ratio:.2f} times")
    return int(is_missed)


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    heading(__doc__.splitlines()[0], SEED)
    if not S3A.is_dir() or not S3PROXY.is_dir():
        print("S3A and S3Proxy are not installed: run `make peer .peer/s3a/.installed` first")
        return 0
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder, server(folder):
        fill(f"{folder}/data", arguments.rows)
        spark = spark_session()
        try:
            return run(spark, arguments.rounds)
        finally:
            spark.stop()


if __name__ == "__main__":
    sys.exit(main())
