"""JSON values of records as columns: what parses becomes rows, what does not is kept aside.

Kafka Connect: ``JsonConverter``, with a dead letter queue.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SAMPLE_ROWS: Final = 10_000
"""Rows from which ``json_schema`` infers, from the first on."""
_TEXTS: Final = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_NUMBER: Final = "i"
_VALUE: Final = "v"
_REASON: Final = "reason"
_BLOCK_BYTES: Final = 1 << 20


class ParsedJson(NamedTuple):
    """Rows whose values are JSON objects, with their members as columns, and all other rows.

    ``rows`` has the columns that were given, without the parsed one, then those of the schema.
    ``bad`` has the columns that were given, then ``reason``, a text.
    """

    rows: pa.Table
    bad: pa.Table


def json_schema(rows: pa.Table | pa.RecordBatch, column: str = "value") -> pa.Schema:
    """Return the columns that the JSON objects in the first 10,000 rows have.

    Types are those that PyArrow infers: int64, double, bool, string, timestamps of texts in ISO
    8601, lists and structs. A member that is a number in one row and a text in another has the type
    of the first of them; values that are not JSON objects are left out.

    Raises InvalidArgument if there is no such column, or no object with a member.
    """
    values = _values(rows.slice(0, SAMPLE_ROWS), column)
    schema = _inferred([value for value in values if value is not None])
    if not schema:
        raise InvalidArgument(f"no value of column {column} is a JSON object with members")
    return schema


def parse_json(
    rows: pa.Table | pa.RecordBatch, schema: pa.Schema | None = None, column: str = "value"
) -> ParsedJson:
    """Parse a column of JSON objects.

    >>> rows = pa.table({"offset": [0, 1], "value": [b'{"celsius": 15.5}', b"oops"]})
    >>> parsed = tidelog.arrow.parse_json(rows, pa.schema({"celsius": pa.float64()}))
    >>> parsed.rows.to_pylist()
    [{'offset': 0, 'celsius': 15.5}]
    >>> parsed.bad["offset"].to_pylist()
    [1]

    Members that the schema lacks are left out, and those that a row lacks are null, as are all of a
    null value. A value of another type than the schema's makes a row a bad one.

    Args:
        rows: a table, or a record batch, as of ``read`` or ``follow``.
        schema: names and types of members; None: as ``json_schema`` infers them from ``rows``.
        column: the column to parse, of binary or text.

    Raises InvalidArgument if there is no such column, if the schema has no column, or has one that
    ``rows`` has as well, or if ``rows`` has a column ``reason``.
    """
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    values = _values(table, column)
    if _REASON in table.schema.names:
        raise InvalidArgument(f"the rows have a column {_REASON}, which bad rows get: rename it")
    members = json_schema(table, column) if schema is None else schema
    rest = table.drop_columns([column])
    twice = sorted(set(members.names) & set(rest.schema.names))
    if not members or twice:
        what = f"names {twice[0]}, which the rows have as well" if twice else "has no column"
        raise InvalidArgument(f"the schema of the values {what}")
    good, parts, bad, reasons = _parsed(values, members)
    parsed = pa.concat_tables([_nullable(members).empty_table(), *parts])
    taken = rest.take(pa.array(good, pa.int64()))
    found = pa.Table.from_arrays(
        [*taken.columns, *parsed.columns], schema=pa.schema([*rest.schema, *parsed.schema])
    )
    others = table.take(pa.array(bad, pa.int64()))
    return ParsedJson(found, others.append_column(_REASON, pa.array(reasons, pa.string())))


def _values(rows: pa.Table | pa.RecordBatch, column: str) -> list[bytes | None]:
    if column not in rows.schema.names:
        known = ", ".join(rows.schema.names)
        raise InvalidArgument(f"there is no column {column}; there are {known}")
    kind = rows.schema.field(column).type
    if kind not in _TEXTS:
        raise InvalidArgument(f"column {column} is of type {kind}, not binary or text")
    values: list[bytes | None] = rows[column].cast(pa.binary()).to_pylist()
    return values


def _inferred(values: Sequence[bytes]) -> pa.Schema:
    """Return the members of objects; halves that do not parse are looked at by themselves."""
    if not values:
        return pa.schema([])
    try:
        return pa.schema(list(_read(values, None)[_VALUE].type))
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.schema([])
    middle = len(values) // 2
    first, second = _inferred(values[:middle]), _inferred(values[middle:])
    fields = {field.name: field for field in second} | {field.name: field for field in first}
    for field in second:
        try:
            both = pa.unify_schemas(
                [pa.schema([fields[field.name]]), pa.schema([field])], promote_options="permissive"
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            continue  # the type that came first stays
        fields[field.name] = both.field(0)
    names = [*first.names, *(name for name in second.names if name not in set(first.names))]
    return pa.schema([fields[name] for name in names])


def _parsed(
    values: Sequence[bytes | None], members: pa.Schema
) -> tuple[list[int], list[pa.Table], list[int], list[str]]:
    """Return which rows are good, their columns in pieces, which are not, and why not."""
    good: list[int] = []
    parts: list[pa.Table] = []
    bad: list[int] = []
    reasons: list[str] = []
    for start, end, found in _pieces(values, members, 0, len(values)):
        if isinstance(found, str):
            bad.append(start)
            reasons.append(found)
        else:
            good += range(start, end)
            parts.append(found)
    return good, parts, bad, reasons


def _pieces(
    values: Sequence[bytes | None], members: pa.Schema, start: int, end: int
) -> Iterator[tuple[int, int, pa.Table | str]]:
    """Yield the columns of rows ``[start, end)``, or of one bad row the reason, in order."""
    if start == end:
        return
    given = [b"null" if value is None else value for value in values[start:end]]
    try:
        column = _read(given, members)[_VALUE].combine_chunks()
    except pa.ArrowInvalid as error:
        if end - start == 1:
            yield start, end, _reason(error)
            return
        middle = (start + end) // 2
        yield from _pieces(values, members, start, middle)
        yield from _pieces(values, members, middle, end)
        return
    # Not ``field``: the members of a null object may be anything.
    yield start, end, pa.Table.from_arrays(column.flatten(), schema=_nullable(members))


def _read(values: Sequence[bytes], members: pa.Schema | None) -> pa.Table:
    """Return a table with a row for each value; raise ArrowInvalid if one is not an object.

    Each line has its number: a value that is none, or several, would shift the rows after it.
    """
    from pyarrow import json  # noqa: PLC0415 - few read JSON

    lines = [b'{"i":%d,"v":%b}\n' % pair for pair in enumerate(values)]
    longest = max(map(len, lines))
    explicit = None
    if members is not None:
        explicit = pa.schema({_NUMBER: pa.int64(), _VALUE: pa.struct(list(_nullable(members)))})
    table = json.read_json(
        io.BytesIO(b"".join(lines)),
        read_options=json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, longest)),
        parse_options=json.ParseOptions(
            explicit_schema=explicit,
            newlines_in_values=True,
            unexpected_field_behavior="infer" if members is None else "ignore",
        ),
    )
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid("it is not UTF-8") from None
    if table.column_names != [_NUMBER, _VALUE] or not pa.types.is_struct(table[_VALUE].type):
        raise pa.ArrowInvalid("it is not a JSON object")
    if table[_NUMBER].to_pylist() != list(range(len(values))):
        raise pa.ArrowInvalid("it is not one JSON object")
    return table


def _nullable(members: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in members])


def _reason(error: pa.ArrowInvalid) -> str:
    """Return what PyArrow says, without the place in lines that only exist here."""
    text = str(error).removeprefix("JSON parse error: ").partition(" in row ")[0]
    return text.replace("Column(/v/", "Column(/").replace("Column(/v)", "The value")
