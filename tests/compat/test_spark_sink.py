"""What Spark wrote into a broker's directory is served by Apache Kafka to its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.compat.conftest import Consumed, Kafka

pytestmark = [
    pytest.mark.compat,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

PARTITIONS = 4
KEYED = 300
LARGE = 2000
FIRST_MS = 1_700_000_000_000
SETTINGS = "segment.bytes=1048576,retention.ms=-1"


def consume(kafka: Kafka) -> list[list[Consumed]]:
    """Return the records of each partition, as a Java consumer of committed records gets them."""
    whats = [("halves", f"read_committed {number}") for number in range(PARTITIONS)]
    return kafka.consume_each(*whats)


def read_here(directory: Path) -> list[list[Consumed]]:
    """Return the same, read from the files."""
    found = []
    for number in range(PARTITIONS):
        with tidelog.open_read_only(directory / f"halves-{number}") as log:
            found.append(
                [
                    (each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
                    for each in log.records()
                ]
            )
    return found


def homes(partitions: list[list[Consumed]]) -> dict[bytes | None, set[int]]:
    """Return the partitions in which each key is."""
    found: dict[bytes | None, set[int]] = {}
    for number, records in enumerate(partitions):
        for record in records:
            found.setdefault(record[2], set()).add(number)
    return found


def rows(spark: SparkSession, count: int, value: str) -> DataFrame:
    """Return rows with the keys of Kafka's producer, a timestamp and a header each."""
    return spark.range(0, count, numPartitions=2).selectExpr(
        "concat('java-', id) AS key",
        f"{value} AS value",
        f"timestamp_millis({FIRST_MS} + id) AS timestamp",
        "array(named_struct('key', 'n', 'value', cast(cast(id AS string) AS binary))) AS headers",
    )


def test_a_topic_written_half_by_kafka_and_half_by_spark_has_each_key_in_one_partition(
    spark: SparkSession, kafka: Kafka
) -> None:
    """Kafka's consumer gets all records, of runs that were appended and of files adopted whole."""
    produce = f"produce halves lz4 {KEYED} 0"
    with kafka.running():
        kafka.ask(f"create halves {SETTINGS} {PARTITIONS}", produce)
        before = consume(kafka)
    path = str(kafka.directory)
    for frame, codec in (
        (rows(spark, KEYED, "if(id % 7 = 0, null, concat('spark-', id))"), "zstd"),
        (rows(spark, LARGE, "repeat(cast(id % 10 AS string), 1000)"), "none"),
    ):
        writer = frame.write.format("tidelog").option("topic", "halves")
        writer.option("compression", codec).mode("append").save(path)
    segments = [len(list((kafka.directory / f"halves-{n}").glob("*.log"))) for n in range(4)]
    with kafka.running():
        served = consume(kafka)
        kafka.ask(produce)
        grown = consume(kafka)

    assert min(segments) >= 2
    assert all(len(numbers) == 1 for numbers in homes(grown).values())
    assert len(homes(grown)) == LARGE
    assert grown == read_here(kafka.directory)
    for old, new, last in zip(before, served, grown, strict=True):
        assert new[: len(old)] == old
        assert last[: len(new)] == new
        assert [record[0] for record in last] == list(range(len(last)))
    written = [
        record for old, new in zip(before, served, strict=True) for record in new[len(old) :]
    ]
    assert sorted(written_as(record) for record in written) == sorted(
        [(n, 1 + (n % 7 != 0)) for n in range(KEYED)] + [(n, 3) for n in range(LARGE)]
    )
    assert sum(map(len, grown)) == 3 * KEYED + LARGE


def written_as(record: Consumed) -> tuple[int, int]:
    """Check a record that Spark wrote; return its number, and which kind of value it has."""
    _, timestamp, key, value, headers = record
    assert key is not None
    number = int(key.removeprefix(b"java-"))
    assert timestamp == FIRST_MS + number
    assert headers == (("n", str(number).encode()),)
    if value is None:
        return number, 1
    if value == f"spark-{number}".encode():
        return number, 2
    assert value == str(number % 10).encode() * 1000
    return number, 3
