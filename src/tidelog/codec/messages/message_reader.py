"""Reads a message by its table entry, into values that JSON can say.

The bytes are input like any other: sizes are checked against what is left before anything is
allocated. Kafka: the generated ``...JsonConverter`` classes, which print the same values.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tidelog.codec.messages.message_table import Type
from tidelog.codec.uuid_text import format_uuid
from tidelog.codec.varint import read_unsigned_varint
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from tidelog.codec.messages.message_table import Field, Message

NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
    "bool": struct.Struct(">?"),
}
SIZE: Final = Type("int32")
SIZE_OF_TEXT: Final = Type("int16")


def read_message(message: Message, data: bytes) -> dict[str, Any]:
    """Return the fields of a message; those with unknown tags are left out.

    Bytes are base64, ids as Kafka prints them. Tagged fields that are not there, because they have
    their defaults, are left out, too. Raises InvalidRecord if the bytes are not such a message.
    """
    reader = _Reader(data, message)
    found = reader.struct(message.fields)
    if reader.left:
        raise InvalidRecord(f"{message.name} is followed by {reader.left} other bytes")
    return found


def split_version(data: bytes) -> tuple[int, bytes]:
    """Return the int16 that a key or value begins with, and what follows; InvalidRecord if cut."""
    layout = NUMBERS["int16"]
    if len(data) < layout.size:
        raise InvalidRecord("a message is cut short")
    version: int = layout.unpack_from(data)[0]
    return version, data[layout.size :]


class _Reader:
    def __init__(self, data: bytes, message: Message) -> None:
        self._data = data
        self._message = message
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return len(self._data) - self._at

    def struct(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        found = {field.name: self._value(field.type) for field in fields if field.tag is None}
        if self._message.is_flexible:
            tagged = {field.tag: field for field in fields if field.tag is not None}
            for _ in range(self._unsigned()):
                number, size = self._unsigned(), self._unsigned()
                end = self._at + size
                if number in tagged and size <= self.left:
                    found[tagged[number].name] = self._tagged(tagged[number].type)
                if end < self._at or end > len(self._data):
                    raise self._cut_short()
                self._at = end
        return found

    def _tagged(self, kind: Type) -> Any:  # noqa: ANN401 - JSON is any nesting of values
        """Read the value of a tagged field; a structure that may be null has a varint before it."""
        if kind.name == "struct" and kind.is_nullable:
            return self.struct(kind.fields) if self._unsigned() else None
        return self._value(kind)

    def _value(self, kind: Type) -> Any:  # noqa: ANN401 - JSON is any nesting of values
        if kind.name in NUMBERS:
            layout = NUMBERS[kind.name]
            return layout.unpack(self._take(layout.size))[0]
        if kind.name == "uuid":
            return format_uuid(UUID(bytes=self._take(16)))
        if kind.name == "struct":
            return self._struct_or_null(kind)
        size = self._size(kind)
        if size is None:
            return None
        if kind.element is not None:
            if size > self.left:  # each element has at least a byte
                raise self._cut_short()
            return [self._value(kind.element) for _ in range(size)]
        data = self._take(size)
        if kind.name == "bytes":
            return base64.b64encode(data).decode()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise InvalidRecord(f"{self._message.name} has text that is not UTF-8") from None

    def _struct_or_null(self, kind: Type) -> dict[str, Any] | None:
        """Read a structure; one that may be null has a byte before it, -1 for null."""
        if kind.is_nullable and self._take(1) == b"\xff":
            return None
        return self.struct(kind.fields)

    def _size(self, kind: Type) -> int | None:
        """Read the length of text, bytes or an array; None for null."""
        if self._message.is_flexible:
            size = self._unsigned() - 1
        else:
            size = self._value(SIZE_OF_TEXT if kind.name == "string" else SIZE)
        if size >= 0:
            return size
        if kind.is_nullable:
            return None
        raise InvalidRecord(f"{self._message.name} has a null where a value is needed")

    def _unsigned(self) -> int:
        value, self._at = read_unsigned_varint(self._data, self._at)
        return value

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise self._cut_short()
        self._at += size
        return taken

    def _cut_short(self) -> InvalidRecord:
        return InvalidRecord(f"{self._message.name} is cut short")
