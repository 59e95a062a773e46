"""The columns of a DataFrame that become the fields of a record.

They are those of Spark's Kafka sink, and ``timestamp``, which that sink does not accept.
Spark: ``KafkaWriter.validateQuery``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.arrow.record_tables import plain
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

WRITTEN_TYPES: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The types that each column may have, as Spark's ``simpleString`` spells them."""

READ_ONLY: Final = ("offset", "timestamptype")
"""Columns that a read returns and a write ignores: the log assigns them."""


def row_columns(schema: StructType, *, has_topic: bool) -> dict[str, int]:
    """Return the index in ``schema`` of each column of a record, ignoring the case of names.

    Args:
        schema: the schema of the DataFrame to write.
        has_topic: an option names the topic, which overrides the column ``topic``.

    Raises:
        InvalidArgument: a column is missing, unknown, of a wrong type, or duplicated.
    """
    indexes: dict[str, int] = {}
    for index, column in enumerate(schema.fields):
        name = column.name.lower()
        if name in READ_ONLY:
            continue
        if name not in WRITTEN_TYPES:
            columns = ", ".join(WRITTEN_TYPES)
            raise InvalidArgument(
                f"column {column.name} is not a field of a record ({columns}); drop it, or put it "
                "into value, as with to_json(struct('*'))"
            )
        found = column.dataType.simpleString()
        if found not in WRITTEN_TYPES[name]:
            expected = " or ".join(WRITTEN_TYPES[name])
            raise InvalidArgument(f"column {column.name} must be {expected}, not {found}; cast it")
        if name in indexes:
            other = schema.fields[indexes[name]].name
            raise InvalidArgument(
                f"columns {other} and {column.name} are the same field of a record; drop one"
            )
        indexes[name] = index
    if "value" not in indexes:
        raise InvalidArgument("there is no column value, which every record needs")
    if not has_topic and "topic" not in indexes:
        raise InvalidArgument("no topic is named: set the option topic, or add a column topic")
    if has_topic:
        indexes.pop("topic", None)
    return indexes


def select_columns(batch: pa.RecordBatch, indexes: Mapping[str, int]) -> pa.RecordBatch:
    """Return the columns at ``indexes``, with the names of a record's fields.

    Text and bytes get the types that all later steps take: a session may send large ones, which
    not all functions of Arrow take.
    """
    arrays = [plain(batch.column(index)) for index in indexes.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(indexes))


def split_by_topic(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Split rows by their column ``topic``, which is dropped; rows stay in order.

    Raises:
        InvalidArgument: a row has null for its topic.
    """
    topics = batch.column("topic")
    if topics.null_count:
        raise InvalidArgument("a row has null in column topic, and option topic is not set")
    rest = batch.drop_columns(["topic"])
    names = topics.unique().to_pylist()
    if len(names) == 1:
        return {names[0]: rest}
    return {name: rest.filter(pa.compute.equal(topics, name)) for name in names}
