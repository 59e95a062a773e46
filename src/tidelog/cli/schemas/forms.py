"""JSON schemas of values, made by short functions: every field has a sentence that describes it."""

from __future__ import annotations

import inspect
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from tidelog.codec.shown_rows import Stored, fields_of, row_type, shape_of

if TYPE_CHECKING:
    from tidelog.codec.shown_rows import Shape

Schema = dict[str, Any]


def integer(text: str, *, least: int | None = 0) -> Schema:
    """Return the schema of a whole number of at least ``least``; None: of any."""
    limit = {} if least is None else {"minimum": least}
    return {"type": "integer", **limit, "description": text}


def number(text: str) -> Schema:
    """Return the schema of a number."""
    return {"type": "number", "description": text}


def string(text: str, *values: str) -> Schema:
    """Return the schema of text; of one of ``values``, if there are any."""
    return {"type": "string", **({"enum": list(values)} if values else {}), "description": text}


def boolean(text: str) -> Schema:
    """Return the schema of true or false."""
    return {"type": "boolean", "description": text}


def nullable(schema: Schema) -> Schema:
    """Return a schema that takes null, too."""
    kind = schema["type"]
    kinds = [*(kind if isinstance(kind, list) else [kind]), "null"]
    wider = schema | {"type": kinds}
    return wider | {"enum": [*schema["enum"], None]} if "enum" in schema else wider


def array(items: Schema, text: str) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items, "description": text}


def mapping(values: Schema, text: str) -> Schema:
    """Return the schema of an object whose names are data."""
    return {"type": "object", "additionalProperties": values, "description": text}


def line(text: str, fields: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "description": text,
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
        "additionalProperties": False,
    }


def fields(declared: type) -> dict[str, Schema]:
    """Return the schemas of the fields of a row, by their names."""
    return {
        field.name: nullable(_value(field.shape))
        if field.shape.is_nullable
        else _value(field.shape)
        for field in fields_of(declared)
    }


def row(declared: type, more: dict[str, Schema] | None = None) -> Schema:
    """Return the schema of a row with the first sentence about it, and perhaps ``more`` fields."""
    text, _, _ = inspect.cleandoc(row_type(declared).__doc__ or "").partition("\n\n")
    return line(" ".join(text.split()), fields(declared) | (more or {}))


def _value(shape: Shape) -> Schema:
    declared, text = shape.type, shape.text
    if declared is int or declared is float:
        return _number(shape)
    if declared is bool:
        return boolean(text)
    if declared is str:
        return string(text)
    origin, inner = get_origin(declared), get_args(declared)
    if origin is Literal:
        return string(text, *inner)
    if origin is tuple and inner[1] is not ...:
        return {
            "type": "array",
            "items": {"type": [_value(shape_of(one))["type"] for one in inner]},
        }
    if origin is tuple:
        return array(_value(shape_of(inner[0])), text)
    if origin is not None:
        return mapping(_value(shape_of(inner[1])), text)
    if issubclass(declared, Enum):
        return string(text, *(member.value for member in declared))
    schema = row(declared)
    return schema | {"description": text} if text else schema


def _number(shape: Shape) -> Schema:
    if shape.type is float:
        limits = {"minimum": shape.range.least, "maximum": shape.range.most}
        known = {name: limit for name, limit in limits.items() if limit is not None}
        return number(shape.text) | known
    text = with_unit(shape.text) if shape.stored is Stored.TIME else shape.text
    return integer(text, least=shape.range.least)


def with_unit(text: str) -> str:
    """Return the text of a time with its unit, before what else it says and the full stop."""
    return re.sub(r"(?=;|\.?$)", ", in ms since 1970-01-01", text, count=1)


def counts(**numbers: str) -> Schema:
    """Return the schema of the last line of ``--json``."""
    of_stores = {
        "storeRequests": integer("Requests that this command has sent to object stores, if any."),
        "storeBytes": integer("Bytes of objects that it has received from them, or sent."),
    }
    of_answer = {name: integer(numbers[name]) for name in numbers}
    held = line("Numbers of the whole answer.", of_answer, of_stores)
    return line("The last line.", {"counts": held})
