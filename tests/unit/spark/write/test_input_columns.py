"""Which columns of a DataFrame make a record."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelog.errors import InvalidArgument
from tidelog.spark.write.input_columns import by_topic, pick, row_columns

types = pytest.importorskip("pyspark.sql.types")


def schema(text: str) -> object:
    """Return Spark's schema for columns given as ``name type, ...``, without a session."""
    made = types.StructType()
    kinds = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
    }
    for part in text.split(", "):
        name, kind = part.split()
        made.add(name, kinds[kind])
    return made


def test_columns_are_found_by_name_without_case() -> None:
    """Spark's column names have no case; the order of columns does not matter."""
    found = row_columns(schema("Value string, KEY binary, timestamp timestamp"), has_topic=True)

    assert found == {"value": 0, "key": 1, "timestamp": 2}


def test_what_was_read_can_be_written() -> None:
    """The columns of a read are taken; offset and timestamp type are given anew by the log."""
    read = schema(
        "key binary, value binary, topic string, partition int, offset bigint, "
        "timestamp timestamp, timestampType int"
    )

    assert set(row_columns(read, has_topic=False)) == {
        "key",
        "value",
        "topic",
        "partition",
        "timestamp",
    }
    assert "topic" not in row_columns(read, has_topic=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("value bigint", "column value must be binary or string, not bigint"),
        ("key binary", "no column value"),
        ("value string, carrier string", "column carrier has no place"),
        ("value string, partition bigint", "column partition must be int"),
        ("value string", "set the option topic"),
    ],
)
def test_other_columns_are_refused(text: str, words: str) -> None:
    """A missing, unknown or mistyped column is an error that says what to do."""
    with pytest.raises(InvalidArgument, match=words):
        row_columns(schema(text), has_topic=False)


def test_a_table_is_cut_by_topic() -> None:
    """Rows of each topic stay in order; the column goes."""
    table = pa.RecordBatch.from_pydict({"topic": ["a", "b", "a"], "value": ["1", "2", "3"]})

    cut = by_topic(table)

    assert {topic: rows.to_pydict() for topic, rows in cut.items()} == {
        "a": {"value": ["1", "3"]},
        "b": {"value": ["2"]},
    }


def test_a_row_without_topic_is_refused() -> None:
    """A null topic is an error, since no default stands in for it."""
    table = pa.RecordBatch.from_pydict({"topic": ["a", None], "value": ["1", "2"]})

    with pytest.raises(InvalidArgument, match="null for its topic"):
        by_topic(table)


def test_columns_are_picked_under_their_own_names() -> None:
    """The table that goes on has the record's names, whatever the DataFrame's spelling."""
    table = pa.RecordBatch.from_pydict({"offset": [7], "VALUE": ["v"]})

    assert pick(table, {"value": 1}).to_pydict() == {"value": ["v"]}
