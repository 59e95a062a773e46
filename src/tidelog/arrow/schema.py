"""The columns in which records appear as a table: those of Spark's own Kafka source.

Owns the names, types and order of the columns. Must not know how they are filled. The types are
the ones that Spark takes from a Python data source: nothing large, no view, no dictionary.
Spark: ``KafkaRecordToRowConverter``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
"""One header: a name and bytes that may be null."""

HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE))
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")

SCHEMA_WITH_HEADERS: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP_TYPE),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""All columns; a record without headers has null in ``headers``."""

SCHEMA: Final = SCHEMA_WITH_HEADERS.remove(SCHEMA_WITH_HEADERS.get_field_index("headers"))
"""The columns one gets without asking for headers."""

COLUMNS: Final = tuple(SCHEMA_WITH_HEADERS.names)


def select(names: Iterable[str]) -> pa.Schema:
    """Return the schema of the columns ``names``, in that order.

    Raises:
        InvalidArgument: a name is no column, or stands there twice.
    """
    wanted = list(names)
    unknown = [name for name in wanted if name not in COLUMNS]
    if unknown or len(set(wanted)) < len(wanted):
        what = f"no column {unknown[0]!r}" if unknown else "a column is named twice"
        raise InvalidArgument(f"{what}: a record's columns are {', '.join(COLUMNS)}")
    return pa.schema([SCHEMA_WITH_HEADERS.field(name) for name in wanted])
