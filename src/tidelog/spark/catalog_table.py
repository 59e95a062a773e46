"""Keeps the options of a table in Spark's catalog in the metadata of the table's first column.

Spark 4.3 passes the options of ``CREATE TABLE`` to a Python data source when it asks for the
schema, but not when the table is read. The catalog does keep the schema, metadata included.
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

_METADATA_KEY: Final = "tidelog.options"
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
    """Return the source's schema, with ``options`` in the metadata of its first column."""
    fields = [StructField(name, data_type) for name, data_type in _TYPES.items()]
    return keep_options(StructType(fields if has_headers else fields[:-1]), options)


def keep_options(columns: StructType, options: Mapping[str, str]) -> StructType:
    """Return ``columns`` with ``options`` in the metadata of the first one."""
    columns.fields[0].metadata = {_METADATA_KEY: json.dumps(dict(options))}
    return columns


def has_all_columns(schema: StructType) -> bool:
    """Return whether these are the columns of a table, with headers or without."""
    names = [column.name for column in schema.fields]
    return names in (list(_TYPES), list(_TYPES)[:-1])


def options_in(schema: StructType) -> dict[str, str]:
    """Return the options stored in a table's schema; empty if the schema holds none."""
    for column in schema.fields:
        stored = (column.metadata or {}).get(_METADATA_KEY)
        if stored is not None:
            options: dict[str, str] = json.loads(stored)
            return options
    return {}
