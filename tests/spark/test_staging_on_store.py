"""Writes by tasks that do not see the data directory: they stage on a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.spark.written_rows import left_over, values, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Return where the store is: a directory, which needs no credentials."""
    return tmp_path / "spool"


def stored(spool: Path) -> list[Path]:
    """Return the objects that are on the store."""
    return [path for path in spool.rglob("*") if path.is_file()]


def rows(spark: SparkSession, first: int, count: int) -> DataFrame:
    """Return numbers as values, in two partitions."""
    numbers = spark.range(first, first + count, numPartitions=2)
    return numbers.selectExpr("cast(id AS string) AS value")


def test_a_batch_is_staged_on_the_store_and_committed_once(
    spark: SparkSession, tmp_path: Path, spool: Path
) -> None:
    """Into a directory that is new, and again; a repeat is skipped, and nothing stays behind."""
    path = str(tmp_path / "data")
    for first, txn in ((0, "a"), (40, "b"), (40, "b")):
        written = rows(spark, first, 40).write.format("tidelog").mode("append")
        written = written.options(
            topic="t", numPartitions="2", txnId=txn, stagingUri=spool.as_uri()
        )
        written.option("stagingUri", spool.as_uri()).save(path)

    assert values(path) == list(range(80))
    assert left_over(path) == []
    assert stored(spool) == []
    assert spool.exists()


def test_a_stream_is_staged_on_the_store_and_committed_once(
    spark: SparkSession, tmp_path: Path, spool: Path
) -> None:
    """Each micro-batch, and after a restart."""
    path, lines = str(tmp_path / "data"), str(tmp_path / "lines")
    for first in (0, 40):
        write_lines(lines, first, 40)
        stream = spark.readStream.format("text").load(lines).writeStream.format("tidelog")
        stream = stream.options(topic="t", stagingUri=spool.as_uri())
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert stream.trigger(availableNow=True).start(path).awaitTermination(200)

    assert values(path) == list(range(80))
    assert left_over(path) == []
    assert stored(spool) == []


def test_a_row_that_is_refused_leaves_nothing_on_the_store(
    spark: SparkSession, tmp_path: Path, spool: Path
) -> None:
    """The abort deletes what the other task has put."""
    path = str(tmp_path / "data")
    bad = "cast(if(id = 79, null, id) AS string) AS value", "cast(null AS string) AS key"
    compacted = {"topic": "t", "config.cleanup.policy": "compact", "stagingUri": spool.as_uri()}
    written = spark.range(0, 80, numPartitions=2).selectExpr(*bad).write.format("tidelog")
    with pytest.raises(PySparkException, match="key"):
        written.mode("append").options(**compacted).save(path)

    assert left_over(path) == []
    assert stored(spool) == []


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("/tmp/spool", "is not the URI of a store"),
        ("ftp://host/spool", "is not the URI of a store"),
        ("s3://user:word@lake/spool", "holds credentials"),
        ("file://spool", "absolute path"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_before_tasks_work(
    spark: SparkSession, tmp_path: Path, uri: str, says: str
) -> None:
    """The error says which store and why, and never a secret."""
    path = tmp_path / "data"
    written = rows(spark, 0, 4).write.format("tidelog").mode("append")
    with pytest.raises(PySparkException, match=says) as refused:
        written.options(topic="t", stagingUri=uri).save(str(path))

    assert "word" not in str(refused.value)
    assert not path.exists() or left_over(str(path)) == []
