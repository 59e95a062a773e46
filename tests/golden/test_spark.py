"""Logs that Kafka wrote, read by Spark: all of them in one query, since each takes seconds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.golden.conftest import LATEST_MS, in_base64, is_timely, link_all, topic_of

from tidelog.embedded.doors import open_logs
from tidelog.env.clock import ClockAt
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.explain.tables.system_table import ColumnType, open_tables
from tidelog.explain.tables.system_tables import SYSTEM_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from tests.conftest import Enumerated
    from tests.golden.conftest import Partition

    Rows = list[dict[str, Any]]

pytestmark = pytest.mark.spark

TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
NOW_MS = 1_795_260_000_000
TIMELESS = (
    "topic string, partition int, offset bigint, timestampType int, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
COLUMNS = ("topic", "partition", "offset", "timestampType", "key", "value", "headers")


# Not of the module: cases of one partition run together, whatever file they are in, and the next
# case of this file would read all again.
@pytest.fixture(scope="session")
def data_dir(
    partitions: list[Partition],
    recovered: list[Partition],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """Return one data directory of all partitions, each with a topic of its own."""
    directory = tmp_path_factory.mktemp("data")
    link_all(partitions + recovered, directory)
    return str(directory)


@pytest.fixture(scope="session")
def rows_by_partition(
    spark: SparkSession, partitions: list[Partition], data_dir: str
) -> dict[str, Rows]:
    """Read every partition and return the rows by topic; those without fitting times separately."""
    timely = [found for found in partitions if is_timely(found.records)]
    timeless = [found for found in partitions if not is_timely(found.records)]
    frames = [
        reader_of(spark, timely)
        .option("includeHeaders", "true")
        .load(data_dir)
        .selectExpr("unix_millis(timestamp) AS millis", *COLUMNS),
        reader_of(spark, timeless)
        .schema(TIMELESS)
        .load(data_dir)
        .selectExpr("CAST(NULL AS bigint) AS millis", *COLUMNS),
    ]
    return by_topic(frames[0].union(frames[1]))


@pytest.fixture(scope="session")
def committed_by_partition(
    spark: SparkSession, partitions: list[Partition], recovered: list[Partition], data_dir: str
) -> dict[str, Rows]:
    """Read committed records of every partition that has a listing of them."""
    listed_ones = [found for found in partitions + recovered if found.has_committed]
    frame = (
        reader_of(spark, listed_ones)
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load(data_dir)
        .selectExpr("unix_millis(timestamp) AS millis", *COLUMNS)
    )
    return by_topic(frame)


def reader_of(spark: SparkSession, partitions: list[Partition]) -> DataFrameReader:
    """Return a reader of these partitions; their topics are the only ones named so."""
    topics = "|".join(re.escape(topic_of(found)) for found in partitions)
    return spark.read.format("tidelog").option("subscribePattern", f"^({topics})$")


def by_topic(frame: DataFrame) -> dict[str, Rows]:
    """Collect the rows of each topic."""
    rows: dict[str, Rows] = {}
    for row in frame.collect():
        rows.setdefault(row["topic"], []).append(listed(row))
    return rows


def listed(row: Any) -> dict[str, Any]:
    """Return a row in the form of Kafka's listing; Spark's source knows no leader epoch."""
    return {
        "offset": row["offset"],
        "timestamp": row["millis"],
        "timestampType": TYPES[row["timestampType"]],
        "key": in_base64(row["key"]),
        "value": in_base64(row["value"]),
        "headers": [[name, in_base64(value)] for name, value in row["headers"] or []],
    }


def without(records: Iterable[dict[str, Any]], *names: str) -> Rows:
    """Return records without some of their members."""
    return [{name: record[name] for name in record if name not in names} for record in records]


def test_spark_gives_the_records_that_kafka_gives(
    partition: Partition, rows_by_partition: dict[str, Rows]
) -> None:
    """Every record that a Java consumer received is a row, and nothing else is."""
    rows = sorted(rows_by_partition.get(topic_of(partition), []), key=lambda row: row["offset"])
    if is_timely(partition.records):
        assert without(partition.records, "leaderEpoch") == rows
    else:
        unheld = ("leaderEpoch", "timestamp")
        assert without(partition.records, *unheld) == without(rows, *unheld)


def test_spark_gives_the_committed_records_that_kafka_gives(
    committed: Partition, committed_by_partition: dict[str, Rows]
) -> None:
    """With isolation read_committed, rows are what such a Java consumer received."""
    rows = committed_by_partition.get(topic_of(committed), [])

    expected = without(committed.committed, "leaderEpoch")
    assert expected == sorted(rows, key=lambda row: row["offset"])


def test_system_tables_are_those_of_the_command(
    spark: SparkSession, partitions: list[Partition], tmp_path: Path, enumerated: Enumerated
) -> None:
    """Each row of each table, whatever tasks made it; times are timestamps."""
    count, data_dir = 0, str(tmp_path)
    link_all([found for found in partitions if not found.is_log_files_only], tmp_path)
    source = open_tables(SYSTEM_FILES, data_dir, clock=ClockAt(NOW_MS))
    for name, table in SYSTEM_TABLES.items():
        frame = (
            spark.read.format("tidelog").option("table", name).option("now", NOW_MS).load(data_dir)
        )
        columns = [
            f"unix_millis({one.name})" if one.type is ColumnType.TIME else f"`{one.name}`"
            for one in table.columns
        ]
        found = [tuple(row) for row in frame.selectExpr(*columns).collect()]
        is_time = [one.type is ColumnType.TIME for one in table.columns]
        expected = [
            tuple(
                None if timed and value and value > LATEST_MS else value
                for timed, value in zip(is_time, row, strict=True)
            )
            for row in table.rows(source)
        ]

        assert sorted(found, key=repr) == sorted(expected, key=repr), name
        count += len(found)
    enumerated("rows", count, at_least=1000)


def test_a_system_table_in_the_catalog_is_planned_anew_by_each_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It shows what was appended since; a column and a topic may be chosen."""
    directory = str(tmp_path)
    with open_logs(directory) as logs:
        logs.create_topic("one", partitions=2)
        logs.create_topic("two")
    spark.sql(
        "CREATE TABLE log_ends USING tidelog"
        f" OPTIONS (path '{directory}', table 'Partitions', subscribe 'one')"
    )
    query = "SELECT sum(logEndOffset) AS n, count(*) AS partitions FROM log_ends"
    before = spark.sql(query).collect()
    with open_logs(directory) as logs:
        logs.append("one", b"v", partition=1)
        logs.append("two", b"v")

    assert [tuple(row) for row in before + spark.sql(query).collect()] == [(0, 2), (1, 2)]
    spark.sql("DROP TABLE log_ends")
