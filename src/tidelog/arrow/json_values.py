"""JSON values of records as columns: what parses becomes rows, what does not is kept aside.

Kafka Connect: ``JsonConverter``, with a dead letter queue.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.arrow.json_levels import MOST_LEVELS, are_deep, are_single
from tidelog.arrow.rounded_numbers import rounded_rows
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TEXTS: Final = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_NUMBER: Final = "i"
_VALUE: Final = "v"
_REASON: Final = "reason"
_BLOCK_BYTES: Final = 1 << 20
_ZONE: Final = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
"""How a time in ISO 8601 ends that says which zone it is in; a date ends in ``-05`` as well."""


class ParsedJson(NamedTuple):
    """Rows whose values are JSON objects, with their members as columns, and all other rows.

    ``rows`` has the columns that were given, without the parsed one, then those of the schema.
    ``bad`` has the columns that were given, then ``reason``, a text.
    """

    rows: pa.Table
    bad: pa.Table


def json_schema(rows: pa.Table | pa.RecordBatch, column: str = "value") -> pa.Schema:
    """Return the columns that the JSON objects in all rows have together.

    Types are those that PyArrow infers: int64, double, bool, string, timestamps of texts in ISO
    8601, lists and structs. Timestamps are in UTC if all of these texts name their zone, and have
    no zone if none does; a mix stays text. Numbers are double if one has a fraction, or more than
    64 bits. A member that is a number in one row and a text in another has the type of the first of
    them; values that are not JSON objects are left out.

    Raises InvalidArgument if there is no such column, or no object with a member.
    """
    return _schema_of(_values(rows, column), column)


def parse_json(
    rows: pa.Table | pa.RecordBatch,
    schema: pa.Schema | None = None,
    column: str = "value",
    *,
    prefix: str = "",
) -> ParsedJson:
    """Parse a column of JSON objects.

    >>> rows = pa.table({"offset": [0, 1], "value": [b'{"celsius": 15.5}', b"oops"]})
    >>> parsed = tidelog.arrow.parse_json(rows, pa.schema({"celsius": pa.float64()}))
    >>> parsed.rows.to_pylist()
    [{'offset': 0, 'celsius': 15.5}]
    >>> parsed.bad["offset"].to_pylist()
    [1]

    Members that the schema lacks are left out, and those that a row lacks are null, as are all of a
    null value. A value of another type than the schema's makes a row a bad one, and so does a whole
    number that the type would round, as double does some above 2^53; decimal128 holds these beside
    fractions.

    Args:
        rows: a table, or a record batch, as of ``read`` or ``follow``.
        schema: names and types of members; None: as ``json_schema`` infers them from ``rows``.
        column: the column to parse, of binary or text.
        prefix: put before the name of each member, for members named as columns of ``rows`` are.

    Raises InvalidArgument if ``rows`` is neither, if there is no such column, if the schema has no
    column, names one twice, or has some that ``rows`` has as well, or if ``rows`` has a column
    ``reason``.
    """
    values = _values(rows, column)
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    if _REASON in table.schema.names:
        raise InvalidArgument(f"the rows have a column {_REASON}, which bad rows get: rename it")
    members = _schema_of(values, column) if schema is None else schema
    if not isinstance(members, pa.Schema):
        raise InvalidArgument(f"the schema is {members!r}, not of the form pa.schema({{...}})")
    if not members:
        raise InvalidArgument("the schema of the values has no column")
    if len(set(members.names)) < len(members):
        raise InvalidArgument("the schema of the values names a column twice")
    rest = table.drop_columns([column])
    named = _named_columns(members, prefix, rest.schema)
    good, parts, bad, reasons = _parsed(values, members)
    parsed = pa.concat_tables([_nullable(members).empty_table(), *parts])
    taken = rest.take(pa.array(good, pa.int64()))
    found = pa.Table.from_arrays(
        [*taken.columns, *parsed.columns], schema=pa.schema([*rest.schema, *named])
    )
    others = table.take(pa.array(bad, pa.int64()))
    return ParsedJson(found, others.append_column(_REASON, pa.array(reasons, pa.string())))


def _named_columns(members: pa.Schema, prefix: str, others: pa.Schema) -> pa.Schema:
    """Return the columns of members; raise InvalidArgument if ``others`` have their names."""
    named = [field.with_name(prefix + field.name) for field in _nullable(members)]
    twice = [field.name for field in named if field.name in others.names]
    if twice:
        raise InvalidArgument(
            f"the values have members named as columns of the rows: {', '.join(twice)}; give"
            " a prefix=, such as 'value_', or drop these columns from the rows"
        )
    return pa.schema(named)


def _values(rows: pa.Table | pa.RecordBatch, column: str) -> list[bytes | None]:
    if not isinstance(rows, pa.Table | pa.RecordBatch):
        raise InvalidArgument(
            f"{type(rows).__name__} is neither a table nor a record batch: call read_all() of a"
            " reader, or parse each record batch of it, with a schema"
        )
    if column not in rows.schema.names:
        known = ", ".join(rows.schema.names)
        raise InvalidArgument(f"there is no column {column}; there are {known}")
    kind = rows.schema.field(column).type
    if kind not in _TEXTS:
        raise InvalidArgument(f"column {column} is of type {kind}, not binary or text")
    values: list[bytes | None] = rows[column].cast(pa.binary()).to_pylist()
    return values


def _schema_of(values: Sequence[bytes | None], column: str) -> pa.Schema:
    schema = _inferred([value for value in values if value is not None])
    if not schema:
        raise InvalidArgument(f"no value of column {column} is a JSON object with members")
    texts = {field.name: _as_text(field.type) for field in schema}
    timed = [field.name for field in schema if field.type != texts[field.name]]
    if not timed:
        return schema
    # PyArrow makes the same type of times with and without a zone: the difference is in the texts.
    parts = _parsed(values, pa.schema({name: texts[name] for name in timed}))[1]
    for name in timed:
        index, kind = schema.get_field_index(name), schema.field(name).type
        zoned = _with_zone(kind, [part[name].combine_chunks() for part in parts])
        schema = schema.set(index, pa.field(name, zoned))
    return schema


def _as_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with text for each timestamp in it."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_as_text(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_text(field.type)) for field in kind])
    return kind


def _with_zone(kind: pa.DataType, texts: list[pa.Array]) -> pa.DataType:
    """Return a type with UTC for the timestamps in it whose texts name a zone."""
    if pa.types.is_timestamp(kind):
        ends = [pc.match_substring_regex(array.drop_null(), _ZONE) for array in texts]
        found = set().union(*(array.unique().to_pylist() for array in ends))
        if found == {True, False}:
            return pa.string()
        return pa.timestamp(kind.unit, "UTC") if True in found else kind
    if pa.types.is_list(kind):
        return pa.list_(_with_zone(kind.value_type, [array.flatten() for array in texts]))
    if pa.types.is_struct(kind):
        children = [array.flatten() for array in texts]
        fields = [
            field.with_type(_with_zone(field.type, [array[index] for array in children]))
            for index, field in enumerate(kind)
        ]
        return pa.struct(fields)
    return kind


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
        fields[field.name] = _wider(fields[field.name], field)
    names = [*first.names, *(name for name in second.names if name not in set(first.names))]
    return pa.schema([fields[name] for name in names])


def _wider(first: pa.Field, second: pa.Field) -> pa.Field:
    """Return a field that has values of both; of types that exclude each other the first."""
    if {str(first.type), str(second.type)} == {"string", "timestamp[s]"}:
        return first.with_type(pa.string())
    try:
        both = pa.unify_schemas(
            [pa.schema([first]), pa.schema([second])], promote_options="permissive"
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return first
    return both.field(0)


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
            yield start, end, _reason(error, given[0])
            return
        middle = (start + end) // 2
        yield from _pieces(values, members, start, middle)
        yield from _pieces(values, members, middle, end)
        return
    # Not ``field``: the members of a null object may be anything.
    table = pa.Table.from_arrays(column.flatten(), schema=_nullable(members))
    begin = 0
    for row, reason in rounded_rows(given, column).items():
        if row > begin:
            yield start + begin, start + row, table.slice(begin, row - begin)
        yield start + row, start + row + 1, reason
        begin = row + 1
    yield start + begin, end, table.slice(begin)


def _read(values: Sequence[bytes], members: pa.Schema | None) -> pa.Table:
    """Return a table with a row for each value; raise ArrowInvalid if one is not an object.

    Each line has its number: a value that is none, or several, would shift the rows after it.
    """
    from pyarrow import json as arrow_json  # noqa: PLC0415 - few read JSON

    if are_deep(values):
        raise pa.ArrowInvalid(f"it is nested more than {MOST_LEVELS} levels deep")
    lines = [b'{"i":%d,"v":%b}\n' % pair for pair in enumerate(values)]
    longest = max(map(len, lines))
    explicit = None
    if members is not None:
        explicit = pa.schema({_NUMBER: pa.int64(), _VALUE: pa.struct(list(_nullable(members)))})
    table = arrow_json.read_json(
        io.BytesIO(b"".join(lines)),
        read_options=arrow_json.ReadOptions(
            use_threads=False, block_size=max(_BLOCK_BYTES, longest)
        ),
        parse_options=arrow_json.ParseOptions(
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
    is_numbered = table[_NUMBER].to_pylist() == list(range(len(values)))
    if not (is_numbered and are_single(values)):
        raise pa.ArrowInvalid("it is not one JSON object")
    return table


def _nullable(members: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in members])


def _reason(error: pa.ArrowInvalid, value: bytes) -> str:
    """Return what PyArrow says, without the place in lines that only exist here.

    Of a value that is cut off it says what is wrong with the rest of the line it stands in.
    """
    if _ends_early(value):
        return "it ends before the JSON does"
    text = str(error).removeprefix("JSON parse error: ").partition(" in row ")[0]
    return text.replace("Column(/v/", "Column(/").replace("Column(/v)", "The value")


def _ends_early(value: bytes) -> bool:
    """Return whether a value is only the beginning of some JSON."""
    try:
        json.loads(value)
    except json.JSONDecodeError as error:
        is_open = error.msg.startswith("Unterminated string")
        return bool(error.doc.strip()) and (is_open or error.pos >= len(error.doc.rstrip()))
    except (UnicodeDecodeError, RecursionError):
        return False
    return False
