"""Functions made from text: one flat function reads or writes one version of a message.

The table of a message is looked at once, not for each message.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tidelog.codec.uuid_text import ZERO_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.codec.messages.message_table import Field, Message, Type

INT16: Final = struct.Struct(">h")
NUMBERS: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}
"""The types of fixed size, and their signs in ``struct``."""


class FunctionText:
    """The text of a function, and the values that it names."""

    def __init__(self, message: Message, **names: object) -> None:
        self.message: Final = message
        self._lines: list[str] = []
        self._names: dict[str, object] = dict(names)
        self._count = 0
        self._depth = 1

    def add(self, line: str) -> None:
        """Add a line to the block that is open."""
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line, and what is added in the body of the ``with`` below it."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def new_name(self) -> str:
        """Return the name of a new variable."""
        self._count += 1
        return f"v{self._count}"

    def named(self, value: object) -> str:
        """Return the name by which the function knows a value."""
        name = self.new_name().upper()
        self._names[name] = value
        return name

    def compiled(self, arguments: str) -> Any:  # noqa: ANN401 - its signature is the caller's
        """Return the function."""
        text = "\n".join([f"def function({arguments}):", *(self._lines or ["    pass"])])
        code = compile(text, f"<{self.message.name} version {self.message.version}>", "exec")
        exec(code, self._names)  # noqa: S102 - the text is made from tables of this package
        return self._names["function"]

    # What reading and writing have in common

    def is_present(self, field: Field) -> bool:
        """Whether this version has the field."""
        return field.is_in(self.message.version)

    def may_be_null(self, kind: Type) -> bool:
        """Whether this version takes a null there."""
        return kind.null_from <= self.message.version

    def runs(self, fields: tuple[Field, ...]) -> Iterator[list[Field]]:
        """Yield fields that are always there: numbers that follow each other together."""
        run: list[Field] = []
        for field in fields:
            if field.tag is not None or not self.is_present(field):
                continue
            if field.type.name in NUMBERS:
                run.append(field)
                continue
            if run:
                yield run
                run = []
            yield [field]
        if run:
            yield run

    def tagged(self, fields: tuple[Field, ...]) -> list[Field]:
        """Return the tagged fields of this version, in order of their tags."""
        return sorted(
            (field for field in fields if field.tag is not None and self.is_present(field)),
            key=lambda field: field.tag or 0,
        )

    def default_of(self, field: Field) -> str:
        """Return the expression of a field's default."""
        value = default_value(field)
        return self.named(value) if isinstance(value, UUID) else repr(value)


def default_value(field: Field) -> Any:  # noqa: ANN401 - any type of the table
    """Return what a field is that nobody has given."""
    kind, text = field.type, field.default
    if text == "null":
        return None
    if kind.name == "bool":
        return text == "true"
    if kind.name == "string":
        return text or ""
    if kind.name in NUMBERS:
        return int(text or 0)
    if kind.name == "struct":
        return {one.name: default_value(one) for one in kind.fields}
    return {"uuid": ZERO_ID, "bytes": b"", "records": None, "array": []}[kind.name]
