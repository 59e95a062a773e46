"""Writes a message by its table entry, from values as ``read_message`` returns them."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

from tidelog.codec.messages.message_reader import NUMBERS, SIZE, SIZE_OF_TEXT
from tidelog.codec.uuid_text import parse_uuid
from tidelog.codec.varint import write_unsigned_varint
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.codec.messages.message_table import Field, Message, Type


def write_message(message: Message, values: Mapping[str, Any]) -> bytes:
    """Return the bytes of a message; tagged fields are written where ``values`` has them.

    Raises InvalidArgument for values that are missing, unknown or out of range.
    """
    out = bytearray()
    try:
        _Writer(out, message).struct(message.fields, values)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise InvalidArgument(f"not the values of a message {message.name}: {error!r}") from error
    return bytes(out)


def with_version(version: int, message: bytes) -> bytes:
    """Return a key or value of a record: the int16 that ``split_version`` reads, and a message."""
    return NUMBERS["int16"].pack(version) + message


class _Writer:
    def __init__(self, out: bytearray, message: Message) -> None:
        self._out = out
        self._message = message

    def struct(self, fields: tuple[Field, ...], values: Mapping[str, Any]) -> None:
        unknown = values.keys() - {field.name for field in fields}
        if unknown:
            raise ValueError(f"no fields {sorted(unknown)}")
        for field in fields:
            if field.tag is None:
                self._value(field.type, values[field.name])
        if not self._message.is_flexible:
            return
        tagged = sorted((f.tag, f) for f in fields if f.tag is not None and f.name in values)
        write_unsigned_varint(self._out, len(tagged))
        for tag, field in tagged:
            part = bytearray()
            _Writer(part, self._message).tagged(field.type, values[field.name])
            write_unsigned_varint(self._out, tag)
            write_unsigned_varint(self._out, len(part))
            self._out += part

    def tagged(self, kind: Type, value: Any) -> None:  # noqa: ANN401 - JSON is any nesting
        if kind.name == "struct" and kind.is_nullable:
            write_unsigned_varint(self._out, int(value is not None))
            if value is not None:
                self.struct(kind.fields, value)
        else:
            self._value(kind, value)

    def _value(self, kind: Type, value: Any) -> None:  # noqa: ANN401 - JSON is any nesting
        if kind.name in NUMBERS:
            self._out += NUMBERS[kind.name].pack(value)
        elif kind.name == "uuid":
            self._out += parse_uuid(value).bytes
        elif kind.name == "struct":
            if kind.is_nullable:
                self._out += b"\xff" if value is None else b"\x01"
            if value is not None:
                self.struct(kind.fields, value)
        elif value is None:
            if not kind.is_nullable:
                raise ValueError("a null where a value is needed")
            self._size(kind, -1)
        elif kind.element is not None:
            self._size(kind, len(value))
            for one in value:
                self._value(kind.element, one)
        else:
            data = base64.b64decode(value) if kind.name == "bytes" else value.encode()
            self._size(kind, len(data))
            self._out += data

    def _size(self, kind: Type, size: int) -> None:
        """Write the length of text, bytes or an array; -1 for null."""
        if self._message.is_flexible:
            write_unsigned_varint(self._out, size + 1)
        else:
            self._value(SIZE_OF_TEXT if kind.name == "string" else SIZE, size)
