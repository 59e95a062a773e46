"""A table of Spark's catalogue: how it knows its options when it is read.

Owns where they are kept. Spark 4.3 tells a Python data source the options of ``CREATE TABLE`` when
it asks for the columns, and tells nothing when the table is read; but it does keep the columns. So
the options go with a column, as metadata, where nobody else looks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY: Final = "tidelog.options"
_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: Final[dict[str, Any]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}


def columns_with_options(options: Mapping[str, str], *, has_headers: bool) -> StructType:
    """Return the columns of the data source, the first one with ``options`` in its metadata."""
    fields = [StructField(name, kind) for name, kind in _TYPES.items()]
    fields[0].metadata = {_KEY: json.dumps(dict(options))}
    return StructType(fields if has_headers else fields[:-1])


def options_in(schema: StructType) -> dict[str, str]:
    """Return the options that a table's columns keep; none where there is no such table."""
    for column in schema.fields:
        kept = (column.metadata or {}).get(_KEY)
        if kept is not None:
            options: dict[str, str] = json.loads(kept)
            return options
    return {}
