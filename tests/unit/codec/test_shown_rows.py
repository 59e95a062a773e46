"""What is shown of a value, by the declaration of its fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, NamedTuple

from tidelog.codec.shown_rows import (
    AnyTime,
    Named,
    PartitionNumber,
    Range,
    Stored,
    TextOrEmpty,
    TimeOrMinus1,
    TopicName,
    as_json,
    fields_of,
    list_as_json,
    shape_of,
    shown,
)


class Colour(Enum):
    """A type of which JSON has the value."""

    RED = "red"


class Place(NamedTuple):
    """Where it is."""

    topic: TopicName
    partition: PartitionNumber = 0
    note: str = "is not shown"


@dataclass(frozen=True, slots=True)
class Facts:
    """A row with everything that a field may be."""

    name: Annotated[str, "Its name."]
    size_bytes: Annotated[int, "Its size."]
    other: Annotated[Place | None, "Another place; null: none."] = None
    places: Annotated[tuple[Place, ...], "More of them."] = ()
    colours: Annotated[dict[Colour, Annotated[int, "How many."]], Named("counts"), "By colour."] = (
        field(default_factory=dict)
    )
    colour: Annotated[Colour, "One colour."] = Colour.RED
    reason: Annotated[TextOrEmpty, "Why; null: no reason."] = ""

    @property
    @shown(after="size_bytes")
    def twice(self) -> int | None:
        """Twice its size."""
        return 2 * self.size_bytes

    @property
    def hidden(self) -> int:
        """Is not shown."""
        return 0


class Made:
    """A value that is shown as another."""

    def as_row(self) -> Place:
        """Return what it is shown as."""
        return Place("m")


def test_fields_are_shown_under_camel_case_names_in_their_order() -> None:
    """A property comes after the field that it names."""
    names = [one.name for one in fields_of(Facts)]

    assert names == [
        *("name", "sizeBytes", "twice", "other", "places", "counts", "colour"),
        "reason",
    ]
    assert [one.shape.text for one in fields_of(Facts)][1:3] == ["Its size.", "Twice its size."]
    assert fields_of(int) == fields_of(tuple) == ()


def test_a_row_is_an_object_and_rows_within_are_too() -> None:
    """An enum is its value, also as a name; empty text is null where it is declared so."""
    facts = Facts("t", 5, Place("u"), (Place("v"),), {Colour.RED: 3}, reason="late")

    assert as_json(facts) == {
        "name": "t",
        "sizeBytes": 5,
        "twice": 10,
        "other": {"topic": "u", "partition": 0},
        "places": [{"topic": "v", "partition": 0}],
        "counts": {"red": 3},
        "colour": "red",
        "reason": "late",
    }
    assert as_json(Facts("t", 5))["reason"] is None
    assert as_json(Facts("t", 5))["other"] is None
    assert list_as_json([Made()]) == [{"topic": "m", "partition": 0}]
    assert [one.name for one in fields_of(Made)] == ["topic", "partition"]


def test_what_stands_further_out_replaces_what_is_declared_within() -> None:
    """A type with a text of its own may get another one, and so for all else beside it."""
    inner, outer = shape_of(TopicName), shape_of(Annotated[TopicName | None, "Another text."])
    time = shape_of(Annotated[TimeOrMinus1, "When.", Range(7)])

    assert (inner.type, inner.text, inner.is_nullable) == (str, "Name of the topic.", False)
    assert (outer.type, outer.text, outer.is_nullable) == (str, "Another text.", True)
    assert (time.stored, time.range) == (Stored.TIME, Range(7, None))
    assert shape_of(AnyTime).range == Range(None, None)
    assert shape_of(int).range == Range(0, None)
    assert not shape_of(int).text
