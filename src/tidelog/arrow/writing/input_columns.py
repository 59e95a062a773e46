"""The columns of a table that become the fields of a record.

They are those of Spark's Kafka sink, and ``timestamp``, which that sink does not accept.
Spark: ``KafkaWriter.validateQuery``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from tidelog.arrow.record_tables import plain, plain_type
from tidelog.arrow.schema import HEADERS_TYPE
from tidelog.errors import InvalidArgument, InvalidTimestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

READ_ONLY: Final = ("offset", "timestamptype")
"""Columns that a read returns and a write ignores: the log assigns them."""

_UNNAMED_INDEX: Final = re.compile(r"__index_level_\d+__")


class ColumnRules(NamedTuple):
    """What a kind of tables calls the types that each column may have.

    ``as_value`` is how its users put other columns into the value, ``with_topic`` how they name the
    topic.
    """

    types: Mapping[str, tuple[str, ...]]
    as_value: str
    with_topic: str


_ARROW: Final = ColumnRules(
    {
        "key": ("binary", "string"),
        "value": ("binary", "string"),
        "topic": ("string",),
        "partition": ("integer",),
        "timestamp": ("timestamp", "integer"),
        "headers": (str(HEADERS_TYPE),),
    },
    as_value="make it part of a struct in a column json",
    with_topic="give topic",
)


def row_columns(
    columns: Iterable[tuple[str, str]], rules: ColumnRules, *, has_topic: bool
) -> dict[str, int]:
    """Return the index of each column of a record, ignoring the case of names.

    Args:
        columns: name and type of each column of the table to write.
        rules: the types that they may have.
        has_topic: the topic is named, which overrides the column ``topic``.

    Raises:
        InvalidArgument: a column is missing, unknown, of a wrong type, or duplicated.
    """
    indexes: dict[str, int] = {}
    names = []
    for index, (given, found) in enumerate(columns):
        names.append(given)
        name = given.lower()
        if name in READ_ONLY:
            continue
        expected = rules.types.get(name)
        if expected is None:
            known = ", ".join(rules.types)
            raise InvalidArgument(
                f"column {given} is not a field of a record ({known}); drop it, or {rules.as_value}"
            )
        if found not in expected:
            types = " or ".join(expected)
            raise InvalidArgument(f"column {given} must be {types}, not {found}; cast it")
        if name in indexes:
            raise InvalidArgument(
                f"columns {names[indexes[name]]} and {given} are the same field of a record;"
                " drop one"
            )
        indexes[name] = index
    if "value" not in indexes:
        raise InvalidArgument("there is no column value, which every record needs")
    if not has_topic and "topic" not in indexes:
        raise InvalidArgument(f"no topic is named: {rules.with_topic}, or add a column topic")
    if has_topic:
        indexes.pop("topic", None)
    return indexes


def arrow_columns(schema: pa.Schema, *, has_topic: bool) -> dict[str, int]:
    """Return the index of each column of a record in ``schema``; errors as ``row_columns``.

    Text and bytes may have any type that ``plain`` accepts, and any column be all null. The column
    that pandas makes of an index without a name is ignored: every filtered frame has one.
    """
    unnamed = unnamed_index(schema)
    kept = [index for index, name in enumerate(schema.names) if name not in unnamed]
    columns = ((schema.field(index).name, _word(schema.field(index))) for index in kept)
    found = row_columns(columns, _ARROW, has_topic=has_topic)
    return {name: kept[index] for name, index in found.items()}


def unnamed_index(schema: pa.Schema) -> set[str]:
    """Return the columns that are levels of a pandas index which the frame has no name for."""
    indexes = (schema.pandas_metadata or {}).get("index_columns", ())
    return {name for name in indexes if isinstance(name, str) and _UNNAMED_INDEX.fullmatch(name)}


def _word(field: pa.Field) -> str:
    """Return what the rules call the type of a column."""
    kind = plain_type(field.type)
    expected = _ARROW.types.get(field.name.lower())
    if pa.types.is_null(kind) and expected is not None:
        return expected[0]
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "timestamp"
    return str(kind)


def select_columns(batch: pa.RecordBatch, indexes: Mapping[str, int]) -> pa.RecordBatch:
    """Return the columns at ``indexes``, with the names of a record's fields.

    Text, bytes and times get the types that all later steps take: a table may have large ones,
    which not all functions of Arrow take. Raises InvalidTimestamp.
    """
    arrays = {name: plain(batch.column(index)) for name, index in indexes.items()}
    if "timestamp" in arrays:
        arrays["timestamp"] = _instants(arrays["timestamp"])
    return pa.RecordBatch.from_pydict(arrays)


def _instants(array: pa.Array) -> pa.Array:
    """Return times with a zone: those without one are in UTC, whole numbers are ms since 1970."""
    kind = array.type
    if pa.types.is_integer(kind):
        try:
            return array.cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))
        except pa.ArrowInvalid as error:
            raise InvalidTimestamp(f"a timestamp is no number of ms: {error}") from error
    if pa.types.is_date(kind):
        return array.cast(pa.timestamp("s")).cast(pa.timestamp("s", "UTC"))
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return array.cast(pa.timestamp(kind.unit, "UTC"))
    return array


def split_by_topic(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Split rows by their column ``topic``, which is dropped; rows stay in order.

    Raises:
        InvalidArgument: a row has null for its topic.
    """
    topics = batch.column("topic")
    if topics.null_count:
        raise InvalidArgument("a row has null in column topic, and no topic is named")
    rest = batch.drop_columns(["topic"])
    names = topics.unique().to_pylist()
    if len(names) == 1:
        return {names[0]: rest}
    return {name: rest.filter(pa.compute.equal(topics, name)) for name in names}
