"""The column ``json`` of a table to write: values of any type, which become JSON.

Kafka Connect: ``JsonConverter`` without schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.codec.json_value import pack_json
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

_JSON: Final = "json"
_VALUE: Final = "value"
_ROWS: Final = 10_000
"""Rows whose values are in memory as Python's objects at a time."""


def with_json_as_value(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the rows with the column ``value`` in place of ``json``, if they have that.

    Names are compared without regard to case. The reader raises InvalidArgument, with the number of
    the row from 0, for what JSON cannot express; this function for two columns ``json``, or a map.
    """
    found = [i for i, name in enumerate(rows.schema.names) if name.lower() == _JSON]
    if not found:
        return rows
    if len(found) > 1:
        raise InvalidArgument("several columns are named json; drop all but one")
    kind = rows.schema.field(found[0]).type
    if _has_map(kind):
        # As Python's objects its entries are pairs, which would become lists.
        raise InvalidArgument(f"column json holds a map ({kind}); make it a struct")
    schema = rows.schema.set(found[0], pa.field(_VALUE, pa.binary()))
    return pa.RecordBatchReader.from_batches(schema, _converted(rows, schema, found[0]))


def _has_map(kind: pa.DataType) -> bool:
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_map(kind) or any(map(_has_map, inner))


def _converted(
    rows: pa.RecordBatchReader, schema: pa.Schema, index: int
) -> Iterator[pa.RecordBatch]:
    first = 0
    for whole in rows:
        for start in range(0, whole.num_rows, _ROWS):
            batch = whole.slice(start, _ROWS)
            columns = batch.columns
            columns[index] = pa.array(_packed(batch.column(index), first), pa.binary())
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            first += batch.num_rows


def _packed(column: pa.Array, first: int) -> Iterator[bytes | None]:
    """Yield the values as JSON; ``first`` is the number of the first row."""
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:  # as of nanoseconds
        raise InvalidArgument(f"rows from {first} on, column {_JSON}: {error}") from error
    for number, value in enumerate(values, start=first):
        try:
            yield pack_json(value)
        except InvalidArgument as error:
            raise InvalidArgument(f"row {number}, column {_JSON}: {error}") from error
