"""The columns of a DataFrame that become the fields of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.errors import InvalidArgument
from tidelog.spark.write.frame_columns import frame_columns

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
    found = frame_columns(schema("Value string, KEY binary, timestamp timestamp"), has_topic=True)

    assert found == {"value": 0, "key": 1, "timestamp": 2}


def test_what_was_read_can_be_written() -> None:
    """The columns of a read are accepted; the log assigns offset and timestamp type again."""
    read = schema(
        "key binary, value binary, topic string, partition int, offset bigint, "
        "timestamp timestamp, timestampType int"
    )

    assert set(frame_columns(read, has_topic=False)) == {
        "key",
        "value",
        "topic",
        "partition",
        "timestamp",
    }
    assert "topic" not in frame_columns(read, has_topic=True)


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
        frame_columns(schema(text), has_topic=False)
