"""Requests and responses with random values, for every message and version of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from tidelog.codec.messages.function_text import default_value
from tidelog.codec.uuid_text import ZERO_ID

if TYPE_CHECKING:
    from random import Random

    from tidelog.codec.messages.message_table import Field, Message, Type

NUMBERS = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "int64": 63}
TEXTS = ("", "a", "tides", "schön", "x" * 200)


def values_of(message: Message, rng: Random) -> dict[str, Any]:
    """Return a value for each field: one that its version has not got has its default."""
    return struct_of(message.fields, message.version, rng)


def struct_of(fields: tuple[Field, ...], version: int, rng: Random) -> dict[str, Any]:
    """Return values for the fields of a structure."""
    return {
        field.name: value_of(field, field.type, version, rng)
        if field.is_in(version)
        else default_value(field)
        for field in fields
    }


def value_of(field: Field, kind: Type, version: int, rng: Random) -> Any:  # noqa: ANN401 - of any type
    """Return a random value of a type."""
    if kind.null_from <= version and rng.random() < 0.3:
        return None
    if kind.name == "struct":
        return struct_of(kind.fields, version, rng)
    if kind.element is not None:
        return [value_of(field, kind.element, version, rng) for _ in range(rng.randrange(4))]
    if kind.name == "string":
        return rng.choice(TEXTS)
    if kind.name in {"bytes", "records"}:
        return rng.randbytes(rng.choice((0, 1, 200)))
    if kind.name == "uuid":
        return rng.choice((ZERO_ID, UUID(int=rng.getrandbits(128))))
    if kind.name == "bool":
        return rng.random() < 0.5
    if "errorCode" in field.name or "ErrorCode" in field.name:
        return rng.randrange(-1, 90)
    if field.name.endswith("Ms"):
        return rng.randrange(1 << 30)  # kio takes them for durations
    return rng.randrange(1 << NUMBERS[kind.name]) if rng.random() < 0.5 else rng.randrange(100)
