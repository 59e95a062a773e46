"""Rows of plain values as Arrow record batches, by the names of Spark's types."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_BATCH_ROWS: Final = 4096
_MAX_TIME_MS: Final = (2**63 - 1) // 1000
"""Arrow counts microseconds: a later time, which a log may hold, is null in its rows."""

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


class ChosenColumn(NamedTuple):
    """A column: its name, Spark's name for its type, and its number in each row.

    Times are in ms since 1970-01-01 UTC.
    """

    name: str
    type: str
    number: int
    is_nullable: bool


def rows_schema(columns: Sequence[ChosenColumn]) -> pa.Schema:
    """Return the schema of rows of these columns."""
    return pa.schema([pa.field(one.name, _TYPES[one.type], one.is_nullable) for one in columns])


def rows_batches(
    columns: Sequence[ChosenColumn], rows: Iterator[tuple[Any, ...]]
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of rows as record batches."""
    schema = rows_schema(columns)
    for page in iter(lambda: list(islice(rows, _BATCH_ROWS)), []):
        arrays = [
            _array([row[one.number] for row in page], field.type)
            for one, field in zip(columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        micros = [None if ms is None or abs(ms) > _MAX_TIME_MS else ms * 1000 for ms in values]
        return pa.array(micros, pa.int64()).cast(kind)
    if pa.types.is_map(kind):
        values = [None if one is None else list(one.items()) for one in values]
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # a path that is not UTF-8
        return pa.array(list(map(_encodable, values)), kind)


def _encodable(value: Any) -> Any:  # noqa: ANN401 - a value of any column
    """Return a value with what is not Unicode in its texts escaped, as commands print it."""
    if isinstance(value, list):
        return [tuple(map(_encodable, pair)) for pair in value]
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


class Rescanned:
    """A table for programs that take Arrow's streams: each stream makes its rows again."""

    def __init__(
        self, columns: Sequence[ChosenColumn], rows: Callable[[], Iterator[tuple[Any, ...]]]
    ) -> None:
        self._columns = columns
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = rows_batches(self._columns, self._rows())
        reader = pa.RecordBatchReader.from_batches(rows_schema(self._columns), batches)
        return reader.__arrow_c_stream__(requested_schema)
