"""Tables of other programs, such as CSV files: which columns are the key and the time of a record.

Kafka Connect: the transforms ``ValueToKey`` and ``InsertField``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.arrow.writing.input_columns import unnamed_index
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def with_named_columns(
    rows: pa.RecordBatchReader, key: str | None, timestamp: str | None
) -> pa.RecordBatchReader:
    """Return rows with the columns ``key`` and ``timestamp``, and all others as one, ``json``.

    Whole numbers become text as keys, and times as members of the object: JSON has none. The index
    of a pandas frame is a member only if it has a name.

    Args:
        rows: a table with any columns.
        key: the name of the column that becomes the key; None: records have none.
        timestamp: the name of the column that becomes the record's timestamp; None: the time of
            the write. If both are None, the rows are returned as they are.

    Raises:
        InvalidArgument: there is no such column, or more than one; or no other, or two others of
            one name, or only ``json``, which then would not stand for the value.
    """
    fields = {"key": key, "timestamp": timestamp}
    wanted = {field: name for field, name in fields.items() if name is not None}
    if not wanted:
        return rows
    names = rows.schema.names
    for field, name in wanted.items():
        if names.count(name) != 1:
            raise InvalidArgument(
                f"{field}={name!r} must name one column, not {names.count(name)}; columns:"
                f" {', '.join(names)}"
            )
    taken = {field: names.index(name) for field, name in wanted.items()}
    left_out = {*wanted.values(), *unnamed_index(rows.schema)}
    others = [index for index, name in enumerate(names) if name not in left_out]
    if [names[index] for index in others] == ["json"]:
        renamed = " and ".join(f"column {name!r} to {field}" for field, name in wanted.items())
        raise InvalidArgument(
            f"with {' and '.join(wanted)} the column json is a member of the value: for it to be"
            f" the value itself, rename {renamed}, and give neither"
        )
    if not others:
        raise InvalidArgument(f"no column is left for the value beside {', '.join(names)}")
    members_of = Counter(names[index] for index in others)
    if twice := next((name for name, count in members_of.items() if count > 1), None):
        raise InvalidArgument(f"several columns are named {twice}: rename all but one")

    def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
        members = [_as_text(batch, index, pa.types.is_temporal) for index in others]
        columns = {
            field: _as_text(batch, index, pa.types.is_integer)
            if field == "key"
            else batch.column(index)
            for field, index in taken.items()
        }
        value = pa.StructArray.from_arrays(members, [names[index] for index in others])
        return pa.RecordBatch.from_pydict({**columns, "json": value})

    def batches() -> Iterator[pa.RecordBatch]:
        yield from map(converted, rows)

    nothing = [pa.nulls(0, field.type) for field in rows.schema]
    schema = converted(pa.RecordBatch.from_arrays(nothing, schema=rows.schema)).schema
    return pa.RecordBatchReader.from_batches(schema, batches())


def _as_text(
    batch: pa.RecordBatch, index: int, is_meant: Callable[[pa.DataType], bool]
) -> pa.Array:
    array = batch.column(index)
    if not is_meant(array.type):
        return array
    try:
        text = array.cast(pa.string())
    except pa.ArrowException as error:
        raise InvalidArgument(f"column {batch.schema.names[index]}: {error}") from error
    # Arrow writes of a time beyond its calendar that it is one.
    if pc.any(pc.starts_with(text, "<")).as_py():
        name, kind = batch.schema.names[index], array.type
        raise InvalidArgument(f"column {name} of {kind} has a time that no calendar has")
    return text
