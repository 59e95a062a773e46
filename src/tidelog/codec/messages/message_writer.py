"""Writes a message by its table entry, from values as ``message_reader`` returns them."""

from __future__ import annotations

import base64
import struct
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.messages.function_text import INT16, NUMBERS, FunctionText
from tidelog.codec.uuid_text import parse_uuid
from tidelog.codec.varint import write_unsigned_varint
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from tidelog.codec.messages.message_table import Field, Message, Type

_MISSING: Final = object()
_SMALL: Final = tuple(bytes([value]) for value in range(128))
"""The varints of one byte."""
_ZERO: Final = repr(_SMALL[0])
_WRONG_VALUES: Final = (KeyError, TypeError, ValueError, AttributeError, struct.error)


def write_message(message: Message, values: Mapping[str, Any]) -> bytes:
    """Return the bytes of a message from values in JSON's forms, as ``read_message`` returns them.

    Tagged fields are written where ``values`` has them. Raises InvalidArgument for values that are
    missing, unknown or out of range.
    """
    return b"".join(_write(writer_of(message, as_json=True), message, values))


def write_values(message: Message, values: Mapping[str, Any]) -> list[Any]:
    """Return the parts that make a message, from values as ``read_values`` returns them.

    A field that ``values`` lacks gets its default, and one of another version is left out. A part
    is bytes, or what was given as records, unchanged; it may be any object that has a length.
    Raises InvalidArgument for values that are out of range.
    """
    return _write(writer_of(message), message, values)


def _write(
    function: Callable[[Mapping[str, Any]], list[Any]],
    message: Message,
    values: Mapping[str, Any],
) -> list[Any]:
    try:
        return function(values)
    except _WRONG_VALUES as error:
        raise InvalidArgument(f"not the values of a message {message.name}: {error!r}") from error


def with_version(version: int, message: bytes) -> bytes:
    """Return a key or value of a record: the int16 that ``split_version`` reads, and a message."""
    return INT16.pack(version) + message


@cache
def writer_of(
    message: Message, *, as_json: bool = False
) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Return the function that makes the parts of such messages."""
    function: Callable[[Mapping[str, Any]], list[Any]]
    function = _WriterText(message, as_json=as_json).function()
    return function


def _varint(value: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


def _check_names(values: Mapping[str, Any], known: Collection[str]) -> None:
    unknown = values.keys() - known
    if unknown:
        raise ValueError(f"no fields {sorted(unknown)}")


def _null() -> ValueError:
    return ValueError("a null where a value is needed")


def _is_of_records(kind: Type) -> bool:
    """Whether a type is ``records``, or has some in it."""
    if kind.element is not None:
        return _is_of_records(kind.element)
    return kind.name == "records" or any(_is_of_records(field.type) for field in kind.fields)


class _WriterText(FunctionText):
    """Writes the function: ``values`` are written to the list ``out``, which is returned."""

    def __init__(self, message: Message, *, as_json: bool) -> None:
        super().__init__(
            message,
            pack=struct.pack,
            int16=INT16.pack,
            int32=struct.Struct(">i").pack,
            varint=_varint,
            SMALL=_SMALL,
            SIZES=_SMALL[1:],
            MISSING=_MISSING,
            parse_uuid=parse_uuid,
            base64=base64.b64decode,
            check_names=_check_names,
            null=_null,
        )
        self._as_json = as_json
        self._out = "out"
        self._unwritten: list[str] = []
        """Parts that follow each other: one line adds them all."""

    def function(self) -> Any:  # noqa: ANN401 - as ``compiled``
        self.add("out = []")
        self._struct(self.message.fields, "values")
        # Records are parts by themselves: they are large, and perhaps not in memory.
        has_records = any(_is_of_records(field.type) for field in self.message.fields)
        self.add("return out" if has_records else "return [b''.join(out)]")
        return self.compiled("values")

    def add(self, line: str) -> None:
        """Add a line, after the parts before it."""
        self._add_parts()
        super().add(line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """As that of any function, and the parts of the body belong to it."""
        with super().block(head):
            yield
            self._add_parts()

    def _add_parts(self) -> None:
        parts, self._unwritten = self._unwritten, []
        if len(parts) == 1:
            super().add(f"{self._out}.append({parts[0]})")
        elif parts:
            super().add(f"{self._out} += {', '.join(parts)}")

    def _append(self, part: str) -> None:
        self._unwritten.append(part)

    def _struct(self, fields: tuple[Field, ...], values: str) -> None:
        if self._as_json:
            self.add(f"check_names({values}, {self.named({field.name for field in fields})})")
        for run in self.runs(fields):
            if run[0].type.name in NUMBERS:
                signs = "".join(NUMBERS[field.type.name] for field in run)
                pack = self.named(struct.Struct(">" + signs).pack)
                self._append(f"{pack}({', '.join(self._given(one, values) for one in run)})")
            else:
                value = self.new_name()
                self.add(f"{value} = {self._given(run[0], values)}")
                self._value(run[0].type, value)
        if self.message.is_flexible:
            self._tags(self.tagged(fields), values)

    def _given(self, field: Field, values: str) -> str:
        if self._as_json:
            return f"{values}[{field.name!r}]"
        return f"{values}.get({field.name!r}, {self.default_of(field)})"

    def _tags(self, fields: list[Field], values: str) -> None:
        if not fields:
            self._append(_ZERO)
            return
        tags = self.new_name()
        self.add(f"{tags} = []")
        for field in fields:
            value = self.new_name()
            self.add(f"{value} = {values}.get({field.name!r}, MISSING)")
            differs = "" if self._as_json else f" and {value} != {self.default_of(field)}"
            with self.block(f"if {value} is not MISSING{differs}:"):
                self._tagged(field, value, tags)
        self._append(f"SMALL[len({tags})]")
        self.add(f"{self._out} += {tags}")

    def _tagged(self, field: Field, value: str, tags: str) -> None:
        """Add what writes a tagged field; a structure that may be null has a varint before it."""
        outer, self._out = self._out, self.new_name()
        self.add(f"{self._out} = []")
        if field.type.name == "struct" and self.may_be_null(field.type):
            self._append(f"SMALL[{value} is not None]")
            with self.block(f"if {value} is not None:"):
                self._struct(field.type.fields, value)
        else:
            self._value(field.type, value)
        data = self.new_name()
        self.add(f"{data} = b''.join({self._out})")
        self.add(f"{tags}.append(varint({field.tag}) + varint(len({data})) + {data})")
        self._out = outer

    def _value(self, kind: Type, value: str) -> None:
        if kind.name in NUMBERS:
            self._append(f"pack('>{NUMBERS[kind.name]}', {value})")
        elif kind.name == "uuid":
            self._append(f"parse_uuid({value}).bytes" if self._as_json else f"{value}.bytes")
        elif kind.name == "struct":
            self._struct_or_null(kind, value)
        else:
            with self.block(f"if {value} is None:"):
                self._null(kind)
            with self.block("else:"):
                self._sized(kind, value)

    def _struct_or_null(self, kind: Type, value: str) -> None:
        """Add what writes a structure; one that may be null has a byte before it, -1 for null."""
        if not self.may_be_null(kind):
            self._struct(kind.fields, value)
            return
        self._append(f"b'\\xff' if {value} is None else SMALL[1]")
        with self.block(f"if {value} is not None:"):
            self._struct(kind.fields, value)

    def _null(self, kind: Type) -> None:
        if not self.may_be_null(kind):
            self.add("raise null()")
        elif self.message.is_flexible:
            self._append(_ZERO)
        else:
            self._append("int16(-1)" if kind.name == "string" else "int32(-1)")

    def _sized(self, kind: Type, value: str) -> None:
        """Add what writes text, bytes or an array."""
        if kind.name == "string":
            self.add(f"{value} = {value}.encode()")
        elif kind.name == "bytes" and self._as_json:
            self.add(f"{value} = base64({value})")
        size = self.new_name()
        self.add(f"{size} = len({value})")
        if self.message.is_flexible:
            # Sizes are written one more than they are.
            self._append(f"SIZES[{size}] if {size} < {len(_SMALL) - 1} else varint({size} + 1)")
        else:
            self._append(f"{'int16' if kind.name == 'string' else 'int32'}({size})")
        if kind.element is None:
            self._append(value)
        elif kind.element.name in NUMBERS:
            self._append(f"pack(f'>{{{size}}}{NUMBERS[kind.element.name]}', *{value})")
        else:
            one = self.new_name()
            with self.block(f"for {one} in {value}:"):
                self._value(kind.element, one)
