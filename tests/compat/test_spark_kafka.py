"""Spark's own Kafka source and sink at a broker of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.brokers import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.machinery.brokers import Served

pytestmark = [pytest.mark.compat, pytest.mark.spark, pytest.mark.slow]

COUNT = 500


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    """A broker with a topic of four partitions."""
    with served(tmp_path / "data") as found:
        found.logs.create_topic("in", partitions=4)
        yield found


def written(broker: Served) -> dict[bytes | None, bytes | None]:
    """Return the records of the topic, as its owner reads them."""
    return {record.key: record.value for record in broker.logs.read("in")}


def rows(spark: SparkSession) -> DataFrame:
    """Return rows with keys and values."""
    return spark.range(COUNT).selectExpr("string(id) key", "concat('v', id) value")


def test_the_sink_writes_and_the_source_reads(spark: SparkSession, broker: Served) -> None:
    """A batch, with Spark's producers; then read by Spark's consumers and by our own source."""
    rows(spark).write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option(
        "topic", "in"
    ).save()

    found = written(broker)
    by_kafka = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", "in")
        .load()
    )
    directory = broker.logs.manager.live_dirs[0]
    by_us = spark.read.format("tidelog").option("subscribe", "in").load(directory)

    assert found == {b"%d" % number: b"v%d" % number for number in range(COUNT)}
    columns = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert sorted(by_kafka.select(*columns).collect()) == sorted(by_us.select(*columns).collect())


def test_a_stream_goes_through(spark: SparkSession, broker: Served, tmp_path: Path) -> None:
    """From the source to the sink, twice, from where the first run has come to."""
    broker.logs.create_topic("out", partitions=2)

    def run() -> None:
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", "in")
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("key", "upper(string(value)) value")
        )
        query = (
            stream.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("topic", "out")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    for first in (0, 100):
        for number in range(first, first + 100):
            broker.logs.append("in", b"v%d" % number, key=b"%d" % number)
        run()

    values = sorted(record.value or b"" for record in broker.logs.read("out"))
    assert values == sorted(b"V%d" % number for number in range(200))
