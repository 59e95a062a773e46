"""The columns of records in a table: those of Spark's Kafka source.

Their types are the ones that Spark accepts from a Python data source, which excludes large types,
views and dictionaries. Spark: ``KafkaRecordToRowConverter``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.codec.given_values import listed
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
"""One header: a name and a nullable binary value."""

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
"""All columns; ``headers`` is null for a record without headers."""

SCHEMA: Final = SCHEMA_WITH_HEADERS.remove(SCHEMA_WITH_HEADERS.get_field_index("headers"))
"""The default columns, without headers."""

COLUMNS: Final = tuple(SCHEMA_WITH_HEADERS.names)


def whole_number(name: str, given: object, least: int = 0) -> int:
    """Return what is given under a name; raise InvalidArgument unless it is from ``least`` on."""
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise InvalidArgument(f"{name} must be a number from {least} on, not {given!r}")
    return given


def named_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of columns as a user gives them; None: all.

    Raises InvalidArgument for what is not a list.
    """
    return COLUMNS if columns is None else listed("columns", columns)


def select(names: Iterable[str]) -> pa.Schema:
    """Return the schema of the columns ``names``, in that order.

    Raises:
        InvalidArgument: a name is not that of a column, or occurs twice.
    """
    wanted = listed("columns", names)
    unknown = [name for name in wanted if name not in COLUMNS]
    if unknown or len(set(wanted)) < len(wanted):
        problem = f"no column {unknown[0]!r}" if unknown else "a column is named twice"
        raise InvalidArgument(f"{problem}; the columns of a record are {', '.join(COLUMNS)}")
    return pa.schema([SCHEMA_WITH_HEADERS.field(name) for name in wanted])
