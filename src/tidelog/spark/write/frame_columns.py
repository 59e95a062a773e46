"""The columns of a DataFrame that become the fields of a record, with Spark's names of types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.arrow.writing.input_columns import ColumnRules, row_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_RULES: Final = ColumnRules(
    {
        "key": ("binary", "string"),
        "value": ("binary", "string"),
        "topic": ("string",),
        "partition": ("int",),
        "timestamp": ("timestamp",),
        "headers": ("array<struct<key:string,value:binary>>",),
    },
    as_value="put it into value, as with to_json(struct('*'))",
    with_topic="set the option topic",
)


def frame_columns(schema: StructType, *, has_topic: bool) -> dict[str, int]:
    """Return the index in ``schema`` of each column of a record; see ``row_columns``."""
    columns = ((column.name, column.dataType.simpleString()) for column in schema.fields)
    return row_columns(columns, _RULES, has_topic=has_topic)
