"""Sessions of any time zone, with any types of text and bytes, and those that others have made."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.spark import repartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from tests.conftest import Enumerated

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
LARGE = "spark.sql.execution.arrow.useLargeVarTypes"
ZONES = ("Etc/UTC", "America/New_York", "+05:45", "UTC", "GMT", "Z", "Europe/London", "-09:30")
ROWS = (
    "SELECT 'k' || id AS key, CAST('v' || id AS BINARY) AS value,"
    " timestamp_millis(1792800000000 + id * 1234567) AS timestamp,"
    " array(named_struct('key', 'h' || id, 'value', CAST('x' AS BINARY))) AS headers FROM range(5)"
)
TIMES = [1_792_800_000_000 + number * 1_234_567 for number in range(5)]


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """Let a session have other settings for a while."""
    before = {name: spark.conf.get(name) or "" for name in given}
    for name, value in given.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def write(rows: DataFrame, path: str, topic: str) -> None:
    rows.write.format("tidelog").mode("append").save(path, topic=topic)


def read(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("tidelog").load(path, subscribe="made", includeHeaders="true")


def check_copies(spark: SparkSession, top: Path, cases: Sequence[tuple[str, str]]) -> None:
    """Write rows, and what was read of them, with the settings of each case."""
    rows = spark.sql(ROWS).coalesce(1)
    for number, case in enumerate(cases):
        path = str(top / str(number))
        with settings(spark, dict(zip((ZONE, LARGE), case, strict=True))):
            write(rows, path, "made")
            write(read(spark, path), path, "copied")
        beside = tidelog.open_directory_read_only(path)
        for topic in ("made", "copied"):
            found = [(one.timestamp, one.headers[0][0]) for one in beside.read(topic)]
            assert found == [(time, f"h{at}") for at, time in enumerate(TIMES)], (topic, case)


def test_rows_keep_their_times_in_a_session_of_another_zone(
    spark: SparkSession, tmp_path: Path, enumerated: Enumerated
) -> None:
    """Also those that a topic is copied from, with headers; a sample."""
    cases = [(ZONES[0], "false"), (ZONES[1], "true")]
    check_copies(spark, tmp_path, cases)
    enumerated("sessions", len(cases), at_least=2)


def test_a_session_whose_timestamps_have_no_zone_reads_and_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """There the word timestamp means a time without a zone, which no record has."""
    path = str(tmp_path)
    with settings(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        write(spark.sql(ROWS).coalesce(1), path, "made")
        write(read(spark, path), path, "copied")
    beside = tidelog.open_directory_read_only(path)
    assert [one.timestamp for one in beside.read("copied")] == TIMES


@pytest.mark.slow
def test_rows_keep_their_times_in_a_session_of_any_zone(
    spark: SparkSession, tmp_path: Path, enumerated: Enumerated
) -> None:
    """With both kinds of Arrow's text and bytes; in batches, streams and a repartition, too."""
    cases = [(zone, large) for zone in ZONES for large in ("false", "true")]
    check_copies(spark, tmp_path, cases)
    enumerated("sessions", len(cases), at_least=16)

    path = str(tmp_path / "0")
    with settings(spark, {ZONE: "Asia/Kathmandu", LARGE: "true"}):
        stream = spark.readStream.format("tidelog").option("startingOffsets", "earliest")
        writer = stream.load(path, subscribe="made").writeStream.format("tidelog")
        writer = writer.options(topic="streamed", checkpointLocation=f"{path}_checkpoint")
        writer.trigger(availableNow=True).start(path).awaitTermination()
        repartition(spark, path, "made", to="wide", partitions=1)
    beside = tidelog.open_directory_read_only(path)
    for topic in ("streamed", "wide"):
        assert [one.timestamp for one in beside.read(topic)] == TIMES


OF_OTHERS = f"""
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config({LARGE!r}, sys.argv[2]).getOrCreate()
def write(rows, topic):
    rows.write.format("tidelog").mode("append").save(sys.argv[1], topic=topic)
write(spark.sql({ROWS!r}), "made")
write(spark.read.format("tidelog").load(sys.argv[1], subscribe="made"), "copied")
print(spark.conf.get({ZONE!r}))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("zone", "large"), [("Etc/UTC", "false"), ("Australia/Eucla", "true")])
def test_a_session_that_the_program_has_made_itself_copies_a_topic(
    zone: str, large: str, tmp_path: Path
) -> None:
    """Its zone is that of the machine, however that is spelled."""
    source = str(Path(tidelog.__file__).parents[1])
    environment = {**os.environ, "TZ": zone, "PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", OF_OTHERS, str(tmp_path), large]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.stdout.split() == [zone], done.stderr
    beside = tidelog.open_directory_read_only(tmp_path)
    assert [one.timestamp for one in beside.read("copied")] == TIMES
