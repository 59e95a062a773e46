"""Spark reads archives: executors ask the store themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.machinery.archives import give_up_locally
from tests.machinery.object_server import BUCKET, ENVIRONMENT, object_server

import tidelog
from tidelog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """Return where an archive can be."""
    return (tmp_path / "lake").as_uri()


def append(data: Path, numbers: range, lake: str) -> None:
    """Append records to topic t, and archive what is closed."""
    settings = {"internal.segment.bytes": "2000", "retention.ms": "-1"}
    with tidelog.open(data) as logs:
        logs.create_topic("t", 2, config=settings, exist_ok=True)
        for number in numbers:
            logs.append("t", str(number).encode(), partition=number % 2, timestamp=1000 + number)
    assert main(["archive", "-d", str(data), "--to", lake, "-q"]) == 0


def archived(lake: str) -> list[tuple[int, int, str]]:
    """Return partition, offset and value of each record in the archive."""
    logs = tidelog.open_directory_read_only(lake)
    return [(one.partition, one.offset, (one.value or b"").decode()) for one in logs.read("t")]


def test_batches_and_streams_read_an_archive(
    spark: SparkSession, tmp_path: Path, lake: str
) -> None:
    """All of it, a range and a time; a stream continues with what is archived later."""
    append(tmp_path / "data", range(400), lake)
    columns = "partition", "offset", "cast(value AS string)"
    reader = spark.read.format("tidelog").option("subscribe", "t")

    rows = reader.option("minPartitions", "7").load(lake).selectExpr(*columns).collect()
    assert sorted(map(tuple, rows)) == archived(lake)
    late = reader.option("startingTimestamp", "1200").load(lake).selectExpr(*columns).collect()
    assert sorted(map(tuple, late)) == [one for one in archived(lake) if int(one[2]) >= 200]

    def run() -> None:
        stream = spark.readStream.format("tidelog").option("subscribe", "t")
        query = (
            stream.option("startingOffsets", "earliest")
            .load(lake)
            .selectExpr(*columns)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()

    run()
    before = len(archived(lake))
    append(tmp_path / "data", range(400, 600), lake)
    run()
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(map(tuple, out)) == archived(lake)
    assert len(out) > before > 0


def test_a_log_that_begins_in_an_archive_is_read_whole(
    spark: SparkSession, tmp_path: Path, lake: str
) -> None:
    """By batches, ranges and streams of the directory; tasks read the store for its beginning."""
    data = tmp_path / "data"
    settings = {
        "remote.storage.enable": "true",
        "local.retention.ms": "0",
        "retention.ms": "-1",
        "internal.segment.bytes": "2000",
    }
    with tidelog.open(data) as logs:
        logs.create_topic("t", 2, config=settings)
        for number in range(400):
            logs.append("t", str(number).encode(), partition=number % 2, timestamp=1000 + number)
    give_up_locally(data, lake)
    assert len(list((data / "t-0").glob("*.log"))) == 1
    columns = "partition", "offset", "cast(value AS string)"
    expected = [(number % 2, number // 2, str(number)) for number in range(400)]

    reader = spark.read.format("tidelog").option("subscribe", "t")
    rows = reader.option("minPartitions", "7").load(str(data)).selectExpr(*columns).collect()
    assert sorted(map(tuple, rows)) == sorted(expected)
    late = reader.option("startingTimestamp", "1100").load(str(data)).selectExpr(*columns).collect()
    assert sorted(map(tuple, late)) == sorted(one for one in expected if int(one[2]) >= 100)
    stream = spark.readStream.format("tidelog").option("subscribe", "t")
    query = (
        stream.option("startingOffsets", "earliest")
        .load(str(data))
        .selectExpr(*columns)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(map(tuple, out)) == sorted(expected)


SESSION = """
import sys
from tidelog.spark import session
spark = session(**{"spark.master": "local[2]", "spark.ui.enabled": "false"})
reader = spark.read.format("tidelog").option("subscribe", "t")
rows = reader.load(sys.argv[1]).selectExpr("partition", "offset", "cast(value AS string)").collect()
print(sorted(map(tuple, rows)))
"""


@pytest.mark.slow
def test_executors_read_a_server_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They find credentials in their environment, which they inherit from the session here."""
    with object_server() as server:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.options["endpoint"]}.items():
            monkeypatch.setenv(name, value)
        lake = f"s3://{BUCKET}/lake"
        append(tmp_path / "data", range(400), lake)
        done = subprocess.run(
            [sys.executable, "-c", SESSION, lake], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert ast.literal_eval(done.stdout.splitlines()[-1]) == archived(lake)


def test_nothing_is_written_to_an_archive(spark: SparkSession, tmp_path: Path, lake: str) -> None:
    """The error says what writes to one."""
    append(tmp_path / "data", range(100), lake)
    writer = spark.range(1).selectExpr("cast(id AS string) AS value").write.format("tidelog")

    with pytest.raises(PySparkException, match="an archive on an object store is only read"):
        writer.option("topic", "t").mode("append").save(lake)


def test_a_stream_reads_what_a_restored_log_has_got_since(
    spark: SparkSession, tmp_path: Path, lake: str
) -> None:
    """Its checkpoint is beyond the restored end: an error, then each of these records once."""
    data, lost = tmp_path / "data", tmp_path / "lost"

    def run(*, fails: bool) -> None:
        stream = spark.readStream.format("tidelog").option("subscribe", "t")
        query = (
            stream.option("startingOffsets", "earliest")
            .option("failOnDataLoss", str(fails).lower())
            .load(str(data))
            .selectExpr("cast(value AS string)")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()

    append(data, range(400), lake)
    run(fails=True)
    data.rename(lost)
    assert main(["restore", lake, "--to", str(data), "--keep-ids", "-q"]) == 0
    append(data, range(1000, 1400), (tmp_path / "other").as_uri())

    with pytest.raises(PySparkException, match="others have them now"):
        run(fails=True)
    run(fails=False)
    append(data, range(2000, 2010), (tmp_path / "other").as_uri())
    run(fails=True)
    out = sorted(int(row[0]) for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert out == [*range(400), *range(1000, 1400), *range(2000, 2010)]
