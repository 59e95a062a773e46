"""Which columns of a DataFrame make a record.

Owns the names and types that a written DataFrame may have. Must not know how rows become batches.
The columns are those of Spark's Kafka sink, and ``timestamp``, which that one does not take.
Spark: ``KafkaWriter.validateQuery``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

WRITTEN_TYPES: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""Spark's names for the types that each column may have."""

READ_ONLY: Final = ("offset", "timestamptype")
"""Columns of a DataFrame that was read, which a log gives anew."""


def row_columns(schema: StructType, *, has_topic: bool) -> dict[str, int]:
    """Return the place in ``schema`` of each column of a record; names have no case.

    Args:
        schema: of the DataFrame to be written.
        has_topic: an option names the topic, which then goes before the column ``topic``.

    Raises:
        InvalidArgument: a column is missing, unknown or of a wrong type.
    """
    places: dict[str, int] = {}
    for place, column in enumerate(schema.fields):
        name = column.name.lower()
        if name in READ_ONLY:
            continue
        if name not in WRITTEN_TYPES:
            columns = ", ".join(WRITTEN_TYPES)
            raise InvalidArgument(
                f"column {column.name} has no place in a record, which has {columns}; drop it, or "
                "put it into value, as with to_json(struct('*'))"
            )
        kind = column.dataType.simpleString()
        if kind not in WRITTEN_TYPES[name]:
            wanted = " or ".join(WRITTEN_TYPES[name])
            raise InvalidArgument(f"column {column.name} must be {wanted}, not {kind}: cast it")
        places[name] = place
    if "value" not in places:
        raise InvalidArgument("there is no column value; that is what a record holds")
    if not has_topic and "topic" not in places:
        raise InvalidArgument("no topic: set the option topic, or add a column of that name")
    if has_topic:
        places.pop("topic", None)
    return places


def pick(batch: pa.RecordBatch, places: dict[str, int]) -> pa.RecordBatch:
    """Return a table of the columns at ``places``, under their names."""
    arrays = [batch.column(place) for place in places.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(places))


def by_topic(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Cut a table by its column ``topic``, which goes.

    Raises:
        InvalidArgument: a row has no topic.
    """
    topics = batch.column("topic")
    if topics.null_count:
        raise InvalidArgument("a row has null for its topic")
    rest = batch.drop_columns(["topic"])
    names = topics.unique().to_pylist()
    if len(names) == 1:
        return {names[0]: rest}
    return {name: rest.filter(pa.compute.equal(topics, name)) for name in names}
