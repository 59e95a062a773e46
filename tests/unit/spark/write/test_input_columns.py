"""The columns of a DataFrame that become the fields of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidelog.errors import InvalidArgument
from tidelog.spark.write.input_columns import row_columns, select_columns, split_by_topic

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


types = pytest.importorskip("pyspark.sql.types")


def schema(text: str) -> StructType:
    """Return Spark's schema of the columns ``name type, ...``, without a session."""
    made: StructType = types.StructType()
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


def test_columns_are_found_by_name_in_any_case() -> None:
    """Spark's column names are case-insensitive; the order of columns does not matter."""
    found = row_columns(schema("Value string, KEY binary, timestamp timestamp"), has_topic=True)

    assert found == {"value": 0, "key": 1, "timestamp": 2}


def test_what_was_read_can_be_written() -> None:
    """The columns of a read are accepted; the log assigns offset and timestamp type again."""
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
        ("value string, carrier string", "column carrier is not a field of a record"),
        ("value string, partition bigint", "column partition must be int"),
        ("value string", "set the option topic"),
        ("value string, VALUE binary", "columns value and VALUE are the same field"),
    ],
)
def test_other_columns_are_refused(text: str, words: str) -> None:
    """A missing, unknown, mistyped or repeated column is an error that names the remedy."""
    with pytest.raises(InvalidArgument, match=words):
        row_columns(schema(text), has_topic=False)


def test_rows_are_split_by_topic() -> None:
    """Rows of each topic stay in order; the column is dropped."""
    table = pa.RecordBatch.from_pydict({"topic": ["a", "b", "a"], "value": ["1", "2", "3"]})

    split = split_by_topic(table)

    assert {topic: rows.to_pydict() for topic, rows in split.items()} == {
        "a": {"value": ["1", "3"]},
        "b": {"value": ["2"]},
    }


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()])
def test_rows_with_large_text_are_split_by_topic(kind: pa.DataType) -> None:
    """A session with ``useLargeVarTypes`` sends large types; Arrow filters no views."""
    names = pa.array(["a", "b", "a"], kind)
    table = pa.RecordBatch.from_pydict({"topic": names, "value": names})

    split = split_by_topic(select_columns(table, {"topic": 0, "value": 1}))

    assert {topic: rows.to_pydict() for topic, rows in split.items()} == {
        "a": {"value": ["a", "a"]},
        "b": {"value": ["b"]},
    }


def test_a_row_without_topic_is_refused() -> None:
    """A null topic is an error, since there is no default."""
    table = pa.RecordBatch.from_pydict({"topic": ["a", None], "value": ["1", "2"]})

    with pytest.raises(InvalidArgument, match="null in column topic"):
        split_by_topic(table)


def test_columns_are_renamed_to_the_fields_of_a_record() -> None:
    """The selected columns have the names of fields, whatever case the DataFrame uses."""
    table = pa.RecordBatch.from_pydict({"offset": [7], "VALUE": ["v"]})

    assert select_columns(table, {"value": 1}).to_pydict() == {"value": ["v"]}
