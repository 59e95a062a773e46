"""The columns of the data source: those of Spark's own Kafka source."""

from __future__ import annotations

from typing import Final

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

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

RECORD_COLUMNS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", ArrayType(_HEADER)),
    ]
)
"""All of them; ``headers``, the last, is there if it is asked for."""

COLUMN_TYPES: Final = {field.name: field.dataType.simpleString() for field in RECORD_COLUMNS.fields}


def record_columns(*, has_headers: bool) -> StructType:
    """Return the columns of a read; as types, since what SQL means by a name is a setting."""
    return RECORD_COLUMNS if has_headers else StructType(RECORD_COLUMNS.fields[:-1])
