"""Logs that Kafka wrote as Arrow tables, and as tables of the programs that take those."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.golden.conftest import in_base64, is_timely, link_all, of_some_partitions, topic_of

from tidelog.arrow import dataset, read, read_table
from tidelog.arrow.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.golden.conftest import Partition

    Rows = list[dict[str, Any]]

TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
UTC_US = pa.timestamp("us", "UTC")


@pytest.fixture
def data_dir(tmp_path: Path) -> Callable[[Partition], str]:
    """Return what makes a data directory of one partition."""

    def linked(partition: Partition) -> str:
        link_all([partition], tmp_path)
        return str(tmp_path)

    return linked


def columns_of(records: Rows) -> list[str]:
    """Return the columns that Arrow can hold: not times beyond 64 bits of microseconds."""
    return [name for name in COLUMNS if name != "timestamp" or is_timely(records)]


def listed(table: pa.Table) -> Rows:
    """Return rows in the form of Kafka's listing, as far as there are columns."""
    millis = None
    if "timestamp" in table.column_names:
        millis = [us // 1000 for us in table["timestamp"].cast(pa.int64()).to_pylist()]
        table = table.drop_columns("timestamp")
    rows: Rows = table.to_pylist()
    for number, row in enumerate(rows):
        if millis is not None:
            row["timestamp"] = millis[number]
        if "timestampType" in row:
            row["timestampType"] = TYPES[row["timestampType"]]
        for name in ("key", "value"):
            if name in row:
                row[name] = in_base64(row[name])
        if "headers" in row:
            pairs = row["headers"] or []
            row["headers"] = [[pair["key"], in_base64(pair["value"])] for pair in pairs]
    return rows


def expected(records: Rows, partition: Partition, names: list[str]) -> Rows:
    """Return listed records with the columns that were asked for."""
    place = {"topic": topic_of(partition), "partition": 0}
    return [{name: (record | place)[name] for name in names} for record in records]


@of_some_partitions
def test_a_stream_gives_the_records_that_kafka_gives(
    partition: Partition, data_dir: Callable[[Partition], str]
) -> None:
    """Every record that a Java consumer received is a row, in order, and nothing else is."""
    names = columns_of(partition.records)

    table = read(data_dir(partition), topic_of(partition), columns=names).read_all()

    assert expected(partition.records, partition, names) == listed(table)


def test_a_stream_gives_the_committed_records_that_kafka_gives(
    committed: Partition, data_dir: Callable[[Partition], str]
) -> None:
    """With isolation read_committed, rows are what such a Java consumer received."""
    names = columns_of(committed.committed)

    table = read(
        data_dir(committed), topic_of(committed), columns=names, isolation="read_committed"
    ).read_all()

    assert expected(committed.committed, committed, names) == listed(table)


@of_some_partitions
def test_any_columns_and_ranges_are_those_of_the_whole_table(
    partition: Partition, data_dir: Callable[[Partition], str]
) -> None:
    """Columns, offsets, times and filters give what is left of a full read without the others."""
    rng = random.Random(str(partition))
    topic, names = topic_of(partition), columns_of(partition.records)
    directory = data_dir(partition)
    whole = read(directory, topic, columns=names, isolation=level_of(partition)).read_all()
    records = partition.records
    times = [record["timestamp"] for record in records] if is_timely(records) else []
    times = times or [0]
    ends = [record["offset"] for record in records] or [0]
    for _ in range(2):
        columns = rng.sample(names, rng.randint(1, len(names)))
        wanted = random_filter(rng, names, times, ends)
        found = dataset(directory, topic, isolation=level_of(partition))

        table = found.to_table(columns=columns, filter=wanted)

        assert whole.filter(wanted).select(columns).to_pylist() == table.to_pylist(), wanted
        assert found.count_rows(filter=wanted) == table.num_rows


def test_times_leave_out_the_records_that_a_filter_leaves_out(
    partition: Partition, data_dir: Callable[[Partition], str]
) -> None:
    """``since`` is inclusive and ``until`` exclusive, though batches hold times in any order."""
    if not is_timely(partition.records):
        pytest.skip("Arrow cannot hold its times")
    rng = random.Random(str(partition))
    times = sorted(record["timestamp"] for record in partition.records) or [0]
    since, until = sorted(rng.choice(times) + rng.randint(-1, 1) for _ in range(2))

    table = read(
        data_dir(partition), topic_of(partition), columns=["offset"], since=since, until=until
    ).read_all()

    timely = [
        record["offset"] for record in partition.records if since <= record["timestamp"] < until
    ]
    assert timely == table["offset"].to_pylist()


@of_some_partitions
def test_the_last_records_of_a_key_are_the_last_that_kafka_gives(
    partition: Partition, data_dir: Callable[[Partition], str]
) -> None:
    """As many as there are, in order; aborted records and markers do not count."""
    rng, directory = random.Random(str(partition)), data_dir(partition)
    records = partition.committed if partition.has_committed else partition.records
    for key in {None, *rng.sample([record["key"] for record in records] or [None], 1)}:
        of_key = [record for record in records if key in {None, record["key"]}]
        last = rng.randint(0, len(of_key) + 1)

        table = read_table(
            directory,
            topic_of(partition),
            columns=["offset"],
            key=None if key is None else base64.b64decode(key),
            last=last,
            isolation=level_of(partition),
        )

        wanted = [record["offset"] for record in of_key]
        assert table["offset"].to_pylist() == wanted[max(len(wanted) - last, 0) :]


def level_of(partition: Partition) -> str:
    """Return the level whose reads the test compares."""
    return "read_committed" if partition.has_committed else "read_uncommitted"


def random_filter(
    rng: random.Random, names: list[str], times: list[int], offsets: list[int]
) -> ds.Expression:
    """Return a filter of one to three conditions on the columns of a partition."""
    made = [random_condition(rng, names, times, offsets) for _ in range(rng.randint(1, 3))]
    found = made[0]
    for one in made[1:]:
        found = rng.choice([found & one, found | one, found & ~one])
    return found


def random_condition(
    rng: random.Random, names: list[str], times: list[int], offsets: list[int]
) -> ds.Expression:
    """Return a condition on one column, with values that occur or nearly do."""
    name = rng.choice([one for one in names if one != "headers"])
    field = ds.field(name)
    if name == "offset":
        value: Any = rng.choice(offsets) + rng.randint(-1, 1)
    elif name == "timestamp":
        value = pa.scalar(rng.choice(times) * 1000 + rng.randint(-1, 1), UTC_US)
    elif name in ("partition", "timestampType"):
        value = pa.scalar(rng.randint(0, 1), pa.int32())
    elif name == "topic":
        return field == rng.choice(["other", "t"])
    else:
        return rng.choice([field.is_null(), field == b"k", field.is_valid()])
    kinds: list[Callable[[], ds.Expression]] = [
        lambda: field >= value,
        lambda: field < value,
        lambda: field == value,
        lambda: field <= value,
        lambda: field > value,
        lambda: field != value,
        lambda: field.isin(pa.array([value] if name == "offset" else [value.as_py()], TYPE[name])),
    ]
    return rng.choice(kinds)()


TYPE = {
    "offset": pa.int64(),
    "timestamp": UTC_US,
    "partition": pa.int32(),
    "timestampType": pa.int32(),
}
