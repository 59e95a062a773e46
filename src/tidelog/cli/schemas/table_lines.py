"""The lines of ``tidelog table``, made from the declared columns of the system tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.cli.schemas.forms import line, nullable
from tidelog.explain.tables.system_table import ColumnType

if TYPE_CHECKING:
    from tidelog.cli.schemas.forms import Schema
    from tidelog.explain.tables.system_table import SystemTable

_TYPES: Final[dict[ColumnType, Schema]] = {
    ColumnType.TEXT: {"type": "string"},
    ColumnType.INT: {"type": "integer"},
    ColumnType.LONG: {"type": "integer"},
    ColumnType.DOUBLE: {"type": "number"},
    ColumnType.BOOLEAN: {"type": "boolean"},
    ColumnType.TIME: {"type": "integer"},
    ColumnType.COUNTS: {"type": "object", "additionalProperties": {"type": "integer"}},
    ColumnType.TEXTS: {"type": "object", "additionalProperties": {"type": "string"}},
}


def table_line(table: SystemTable) -> Schema:
    """Return the schema of a row."""
    fields = {}
    for column in table.columns:
        unit = ", in ms since 1970-01-01" if column.type is ColumnType.TIME else ""
        field = {**_TYPES[column.type], "description": f"{column.text}{unit}"}
        fields[column.name] = nullable(field) if column.is_nullable else field
    return line("One row.", fields)
