"""Logs that Kafka wrote as tables of DuckDB, Polars and pandas, and in a table written back."""

from __future__ import annotations

import random
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.golden.conftest import is_timely, link_all, of_some_partitions, topic_of
from tests.golden.test_arrow import columns_of, expected, listed

import tidelog
from tidelog import arrow
from tidelog.errors import CorruptMessage, InvalidTimestamp
from tidelog.testing import damage_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection
    from tests.golden.conftest import Partition

    from tidelog.arrow import TopicDataset

    Query = Callable[[TopicDataset, list[str], int, int], pa.Table]


@cache
def database() -> DuckDBPyConnection:
    """Return a database of DuckDB, which takes long to start."""
    import duckdb

    return duckdb.connect()


def by_duckdb(topic: TopicDataset, names: list[str], start: int, end: int) -> pa.Table:
    """Select columns of a range of offsets; DuckDB finds ``topic`` by its name."""
    columns = ", ".join(f'"{name}"' for name in names)
    where = f'"offset" >= {start} AND "offset" < {end}'
    with database().cursor() as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.register("topic", topic)
        found: pa.Table = connection.sql(
            f'SELECT {columns} FROM topic WHERE {where} ORDER BY "offset"'
        ).to_arrow_table()
    return found


def by_polars(topic: TopicDataset, names: list[str], start: int, end: int) -> pa.Table:
    """Select the same of a lazy scan."""
    import polars as pl

    wanted = (pl.col("offset") >= start) & (pl.col("offset") < end)
    return topic.scan().filter(wanted).select(names).collect().to_arrow()


def by_pandas(topic: TopicDataset, names: list[str], start: int, end: int) -> pa.Table:
    """Select the same of a frame of the whole topic."""
    frame = topic.to_table(columns=list({*names, "offset"})).to_pandas()
    chosen = frame[(frame["offset"] >= start) & (frame["offset"] < end)][names]
    schema = pa.schema([topic.schema.field(name) for name in names])
    return pa.Table.from_pandas(chosen, schema, preserve_index=False)


QUERIES = {"duckdb": by_duckdb, "polars": by_polars, "pandas": by_pandas}
"""Those of libraries that are installed; ``make test-all`` has all of them."""


@of_some_partitions
@pytest.mark.parametrize("query", [QUERIES[name] for name in QUERIES if find_spec(name)])
def test_a_query_gives_the_records_that_kafka_gives(
    partition: Partition, tmp_path: Path, query: Query
) -> None:
    """All of them, and some columns of a range, in both isolations."""
    link_all([partition], tmp_path)
    rng = random.Random(str(partition))
    levels = {"read_uncommitted": partition.records}
    if partition.has_committed:
        levels["read_committed"] = partition.committed
    assert levels
    for isolation, records in levels.items():
        topic = arrow.dataset(tmp_path, topic_of(partition), isolation=isolation)
        known = columns_of(records)
        start, end = sorted(rng.choices([record["offset"] for record in records] or [0], k=2))
        some = rng.sample(known, rng.randint(1, len(known)))
        for names, first, stop in ((known, 0, 2**62), (some, start, end)):
            wanted = [record for record in records if first <= record["offset"] < stop]

            found = query(topic, names, first, stop)

            assert expected(wanted, partition, names) == listed(plain(found)), (isolation, names)


@pytest.mark.parametrize("query", [QUERIES[name] for name in QUERIES if find_spec(name)])
def test_damage_is_an_error_of_each_query(tmp_path: Path, query: Query) -> None:
    """Ours, or of DuckDB, which keeps the text: it names the file and the byte."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        for number in range(5):
            logs.append("t", b"%d" % number)
    damage_batch(tmp_path, "t", 2)

    with pytest.raises(
        Exception, match=r"CRC of a batch is wrong at byte \d+ of .*\.log"
    ) as caught:
        query(arrow.dataset(tmp_path, "t"), ["value"], 0, 5)
    assert isinstance(caught.value, CorruptMessage) or query is by_duckdb


def plain(table: pa.Table) -> pa.Table:
    """Return a table with the types of a topic's columns, whatever its library calls them."""
    fields = [arrow.SCHEMA_WITH_HEADERS.field(name) for name in table.column_names]
    return table.cast(pa.schema(fields))


@of_some_partitions
def test_a_table_written_back_has_the_same_records(partition: Partition, tmp_path: Path) -> None:
    """With new offsets, and the time of a log that appends with its own as the record's."""
    link_all([partition], tmp_path)
    if not is_timely(partition.records):
        with pytest.raises(InvalidTimestamp):
            arrow.write(tmp_path / "new", "t", arrow.dataset(tmp_path, topic_of(partition)))
        return
    times = [record["timestamp"] for record in partition.records]
    columns = ["key", "value", "headers", *(["timestamp"] if min(times, default=0) >= 0 else [])]
    table = arrow.read_table(tmp_path, topic_of(partition), columns=columns)

    done = arrow.write(
        tmp_path / "new", "t", table, config={"message.timestamp.after.max.ms": 2**63 - 1}
    )

    written = arrow.read_table(tmp_path / "new", "t", columns=columns)
    assert done.total == written.num_rows == table.num_rows
    assert written.to_pylist() == table.to_pylist()
