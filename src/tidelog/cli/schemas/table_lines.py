"""The lines of ``tidelog table``, made from the declared columns of the system tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.cli.schemas.forms import line, nullable, with_unit
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
        text = with_unit(column.text) if column.type is ColumnType.TIME else column.text
        field = {**_TYPES[column.type], "description": text}
        fields[column.name] = nullable(field) if column.is_nullable else field
    return line("One row.", fields)
