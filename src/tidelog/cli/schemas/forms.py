"""JSON schemas of values, made by short functions: every field has a sentence that describes it."""

from __future__ import annotations

from typing import Any

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


def counts(**numbers: str) -> Schema:
    """Return the schema of the last line of ``--json``."""
    held = line("Numbers of the whole answer.", {name: integer(numbers[name]) for name in numbers})
    return line("The last line.", {"counts": held})
