"""What commands and system tables show, declared once as the fields of a value.

A row is a NamedTuple or a dataclass; a field that is shown has its text beside its type:
``size_bytes: Annotated[int, "Size of the log, in bytes."]``. From that follow the JSON object
(``as_json``), its JSON schema (``tidelog.cli.schemas``), the column of a system table
(``tidelog.explain.tables``) in Arrow, in Spark and on a terminal, and the pages of the docs.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

F = TypeVar("F", bound="Callable[..., Any]")
_AFTER: Final = "_shown_after"


class Range(NamedTuple):
    """The least and the greatest value of a number, None: any; without a Range, at least 0."""

    least: int | None = 0
    most: int | None = None


class Named(NamedTuple):
    """The name that a field has where it is shown, if that is not its own in camel case."""

    name: str


class Stored(Enum):
    """How a value is stored, where its type alone does not say that."""

    INT32 = "int"
    TIME = "timestamp"
    """Milliseconds since 1970-01-01 UTC; the text of a field does not say so again."""
    TEXT_OR_EMPTY = "string"
    """Text that is null in JSON if it is empty."""


Int32 = Annotated[int, Stored.INT32]
AnyInt = Annotated[int, Range(None)]
OrMinus1 = Annotated[int, Range(-1)]
"""A number, or -1, which stands for none."""
Time = Annotated[int, Stored.TIME]
AnyTime = Annotated[int, Stored.TIME, Range(None)]
TimeOrMinus1 = Annotated[int, Stored.TIME, Range(-1)]
TextOrEmpty = Annotated[str, Stored.TEXT_OR_EMPTY]

# Fields of several rows

TopicName = Annotated[str, "Name of the topic."]
TransactionalId = Annotated[str | None, "The producer's transactional id; null: not known."]
PartitionNumber = Annotated[Int32, "Number of the partition."]
BaseOffset = Annotated[int, "First offset that it may hold."]
EndOffset = Annotated[int, "Base offset of the next segment, or the log end offset."]
SegmentBytes = Annotated[int, "Size of its `.log` file, in bytes."]
Batches = dict[str, Annotated[int, "Number of batches."]]
LogBytes = Annotated[int, "Size of the `.log` files, in bytes."]
LogStart = Annotated[int, "First offset that readers may read."]
HighWatermark = Annotated[int, "Offset at which reading ends, exclusive."]
LastStable = Annotated[
    int,
    "Offset at which reading with `read_committed` ends, exclusive: no transaction is open below.",
]
LogEnd = Annotated[int, "Offset that the next record will get."]
Damage = Annotated[
    str | None, "What is damaged or missing at the end of what can be read; null: nothing."
]


class Shape(NamedTuple):
    """What an annotation declares: the type without None, and what stands beside it.

    ``text`` says what the values are; it is empty for a field that is not shown.
    """

    type: Any
    is_nullable: bool
    text: str
    range: Range
    stored: Stored | None
    name: str | None


def shape_of(hint: Any) -> Shape:  # noqa: ANN401 - any annotation
    """Return what an annotation declares; what stands further out replaces what is inside."""
    is_nullable, marks = False, dict[type, Any]()
    while get_origin(hint) in {Annotated, Union, UnionType}:
        if get_origin(hint) is Annotated:
            marks = {type(mark): mark for mark in hint.__metadata__} | marks
            hint = hint.__origin__
        else:
            is_nullable = True
            [hint] = [member for member in get_args(hint) if member is not NoneType]
    named, stored = marks.get(Named), marks.get(Stored)
    return Shape(
        hint,
        is_nullable or stored is Stored.TEXT_OR_EMPTY,
        marks.get(str, ""),
        marks.get(Range, Range()),
        stored,
        None if named is None else named.name,
    )


def shown(*, after: str) -> Callable[[F], F]:
    """Show a property, too, after the field of that name; stands below ``@property``.

    The docstring of the property is its text.
    """

    def mark(getter: F) -> F:
        setattr(getter, _AFTER, after)
        return getter

    return mark


class Field(NamedTuple):
    """A field that is shown: its attribute, the name that it is shown under, and its shape."""

    attribute: str
    name: str
    shape: Shape


def row_type(shown_type: type) -> type:
    """Return the row that a value is shown as: itself, or what its ``as_row`` makes of it."""
    as_row = getattr(shown_type, "as_row", None)
    made: type = shown_type if as_row is None else get_type_hints(as_row)["return"]
    return made


@cache
def fields_of(row: type) -> tuple[Field, ...]:
    """Return the fields of a row that are shown, in their order; none of any other class."""
    row = row_type(row)
    if not (hasattr(row, "_fields") or hasattr(row, "__dataclass_fields__")):
        return ()
    hints = get_type_hints(row, include_extras=True)
    shapes = {name: shape for name, hint in hints.items() if (shape := shape_of(hint)).text}
    order = list(shapes)
    for name, member in vars(row).items():
        after = getattr(getattr(member, "fget", None), _AFTER, None)
        if after is not None:
            hint = get_type_hints(member.fget, include_extras=True)["return"]
            shapes[name] = shape_of(Annotated[hint, member.__doc__])
            order.insert(order.index(after) + 1, name)
    return tuple(Field(name, shapes[name].name or camel_case(name), shapes[name]) for name in order)


def as_json(value: object) -> dict[str, Any]:
    """Return the JSON object of a row, or of what is shown as one: its fields by their names."""
    as_row = getattr(value, "as_row", None)
    row: object = value if as_row is None else as_row()
    found = {}
    for field in fields_of(type(row)):  # type: ignore[arg-type]  # mypy: type[object] is not hashable
        value = _plain(getattr(row, field.attribute))
        is_none = field.shape.stored is Stored.TEXT_OR_EMPTY and not value
        found[field.name] = None if is_none else value
    return found


def list_as_json(rows: Iterable[object]) -> list[dict[str, Any]]:
    """Return the JSON objects of rows."""
    return [as_json(row) for row in rows]


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {_plain(name): _plain(member) for name, member in value.items()}
    if fields_of(type(value)):  # type: ignore[arg-type]  # the same
        return as_json(value)
    return [_plain(member) for member in value] if isinstance(value, (list, tuple)) else value


def camel_case(name: str) -> str:
    """Return a name of Python in the form that JSON and Spark have."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
