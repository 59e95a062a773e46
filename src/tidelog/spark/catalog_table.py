"""Keeps the options of a table in Spark's catalog in the metadata of one of its columns.

Spark 4.3 passes the options of ``CREATE TABLE`` to a Python data source when it asks for the
schema, but not when the table is read or written. The catalog does keep the schema, metadata
included. But a query hands the metadata of a table's columns on, to a write and to a new table, so
options alone do not say that a statement is about their table. Two marks beside them do:

* A write to a table has the columns of the table only if Spark rewrote those of the query, which it
  leaves out where names and types are equal. So the column ``topic`` has a length of its own in
  each table, which Spark counts as part of the type, and leaves out of a column that it rewrites.
  Spark: ``V2WriteCommand.outputResolved``, ``TableOutputResolver.applyColumnMetadata``.
* ``CREATE TABLE ... AS SELECT`` leaves out of the new table's columns what Spark uses to resolve
  names, ``_OF_THIS_TABLE`` among it, and so does each write. Spark: ``removeInternalMetadata``.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructField, StructType

from tidelog.errors import InvalidArgument
from tidelog.spark.source_columns import RECORD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTIONS: Final = "tidelog.table"
_OLD_OPTIONS: Final = "tidelog.options"
"""The key of earlier tables, on the first column and without marks: they can be read."""
_LENGTH: Final = "__CHAR_VARCHAR_TYPE_STRING"
_LENGTHS: Final = range(249, 1 << 16)
"""From the longest name of a topic to the longest text that any catalog takes."""
_OF_THIS_TABLE: Final = "__qualified_access_only"

_TOPIC: Final = "topic"
OLD_TABLE: Final = (
    "a table that an earlier version of tidelog created takes no rows, since Spark may write them"
    " to the topic of the table that they are selected from: drop the table, which deletes no"
    " record, and create it again"
)
UNCHANGED_COLUMNS: Final = (
    "the rows have the columns of a table as they were read, so Spark does not say which table to"
    " write. To append to the same table, name columns, as in INSERT INTO t (key, value) SELECT"
    " key, value FROM t. A new table is made by CREATE TABLE t USING tidelog OPTIONS (subscribe"
    " 'topic', topic 'topic') LOCATION '/path/to/data', then INSERT INTO t"
)


def columns_with_options(options: Mapping[str, str], *, has_headers: bool) -> StructType:
    """Return the source's schema, with ``options`` in the metadata of the column ``topic``."""
    fields = [StructField(one.name, one.dataType) for one in RECORD_COLUMNS.fields]
    columns = StructType(fields if has_headers else fields[:-1])
    text = json.dumps(dict(options))
    length = _LENGTHS[zlib.crc32(text.encode()) % len(_LENGTHS)]
    columns[_TOPIC].metadata = {
        _OPTIONS: text,
        _OF_THIS_TABLE: True,
        _LENGTH: f"varchar({length})",
    }
    return columns


def keep_options(columns: StructType, options: Mapping[str, str]) -> StructType:
    """Return ``columns`` of a table that is only read, with ``options`` in the first one."""
    columns.fields[0].metadata = {_OPTIONS: json.dumps(dict(options)), _OF_THIS_TABLE: True}
    return columns


def options_in(schema: StructType) -> dict[str, str]:
    """Return the options of the table with this schema.

    Empty if it holds none, or holds those of the table that ``AS SELECT`` made this one from.
    """
    for column in schema.fields:
        metadata = column.metadata or {}
        text = metadata.get(_OPTIONS) if _OF_THIS_TABLE in metadata else None
        text = text or metadata.get(_OLD_OPTIONS)
        if text is not None:
            options: dict[str, str] = json.loads(text)
            return options
    return {}


def target_of(schema: StructType) -> dict[str, str]:
    """Return the options of the table that rows with this schema are inserted into.

    Raises:
        InvalidArgument: the columns do not say which table that is.
    """
    metadata = next((one.metadata or {} for one in schema.fields if one.name == _TOPIC), {})
    text = metadata.get(_OPTIONS)
    if text is not None and _LENGTH in metadata:
        raise InvalidArgument(UNCHANGED_COLUMNS)
    if text is not None:
        options: dict[str, str] = json.loads(text)
        return options
    if any(_OLD_OPTIONS in (column.metadata or {}) for column in schema.fields):
        raise InvalidArgument(OLD_TABLE)
    return {}
