"""Reads a message by its table entry.

The bytes are input like any other: sizes are checked against what is left before anything is
allocated. Kafka: the generated ``...Data`` classes, and the ``...JsonConverter`` classes, which
print the same values.
"""

from __future__ import annotations

import base64
import struct
from functools import cache
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tidelog.codec.messages.function_text import INT16, NUMBERS, FunctionText
from tidelog.codec.uuid_text import format_uuid
from tidelog.codec.varint import read_unsigned_varint
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.codec.messages.message_table import Field, Message, Type
    from tidelog.codec.varint import Bytes

    _Function = Callable[[Bytes, int, int], tuple[dict[str, Any], int, int]]

_UNBOUNDED: Final = 1 << 62
_POINTER_BYTES: Final = 8
_VALUE_BYTES: Final = 64
"""About what a number, a text, an id or an array takes, before there is anything in it."""


def read_message(message: Message, data: bytes, *, is_whole: bool = True) -> dict[str, Any]:
    """Return the fields of a message as JSON says them; those with unknown tags are left out.

    Bytes are base64, ids as Kafka prints them. Tagged fields that are not there, because they have
    their defaults, are left out, too. Raises InvalidRecord if the bytes are not such a message, or,
    unless ``is_whole`` is False, if more follows it.
    """
    found, end, _ = _read(reader_of(message, as_json=True), message, data)
    if is_whole and end < len(data):
        raise InvalidRecord(f"{message.name} is followed by {len(data) - end} other bytes")
    return found


def read_values(message: Message, data: Bytes, at: int = 0) -> tuple[dict[str, Any], int]:
    """Return the fields of a message at a position, and where it ends.

    Bytes and records are parts of ``data``, ids are UUIDs. What is not there, and what belongs to
    another version, has its default. Errors as ``read_message``.
    """
    found, end, _ = _read(reader_of(message), message, data, at)
    return found, end


def read_bounded(
    message: Message, data: Bytes, at: int, most_bytes: int
) -> tuple[dict[str, Any], int]:
    """Return the fields of a message, and about how many bytes of memory their arrays take.

    An empty name has one byte in a message, and a hundred times that in memory. Raises
    InvalidRecord before more than ``most_bytes`` are taken, and as ``read_message``.
    """
    found, _, left = _read(reader_of(message), message, data, at, most_bytes)
    return found, most_bytes - left


def _read(
    function: _Function, message: Message, data: Bytes, at: int = 0, most_bytes: int = _UNBOUNDED
) -> tuple[dict[str, Any], int, int]:
    try:
        return function(data, at, most_bytes)
    except (struct.error, IndexError):
        raise InvalidRecord(f"{message.name} is cut short") from None
    except UnicodeDecodeError:
        raise InvalidRecord(f"{message.name} has text that is not UTF-8") from None


def split_version(data: bytes) -> tuple[int, bytes]:
    """Return the int16 that a key or value begins with, and what follows; InvalidRecord if cut."""
    if len(data) < INT16.size:
        raise InvalidRecord("a message is cut short")
    version: int = INT16.unpack_from(data)[0]
    return version, data[INT16.size :]


@cache
def reader_of(message: Message, *, as_json: bool = False) -> _Function:
    """Return the function that reads such messages; it raises IndexError where they are cut."""
    function: _Function = _ReaderText(message, as_json=as_json).function()
    return function


class _ReaderText(FunctionText):
    """Writes the function: ``data`` is read from ``at`` on; arrays may take ``left`` bytes."""

    def __init__(self, message: Message, *, as_json: bool) -> None:
        def null() -> InvalidRecord:
            return InvalidRecord(f"{message.name} has a null where a value is needed")

        def many() -> InvalidRecord:
            return InvalidRecord(f"{message.name} has more elements than there is memory for them")

        super().__init__(
            message,
            unpack_from=struct.unpack_from,
            int16=INT16.unpack_from,
            int32=struct.Struct(">i").unpack_from,
            varint=read_unsigned_varint,
            UUID=UUID,
            base64=base64.b64encode,
            format_uuid=format_uuid,
            null=null,
            many=many,
        )
        self._as_json = as_json

    def function(self) -> Any:  # noqa: ANN401 - as ``compiled``
        self.add("end = len(data)")
        found = self._struct(self.message.fields)
        self.add(f"return {found}, at, left")
        return self.compiled("data, at, left")

    def _struct(self, fields: tuple[Field, ...]) -> str:
        """Add what reads a structure; return the name that it has then."""
        values: dict[str, str] = {}
        if not self._as_json:
            values = {field.name: self.default_of(field) for field in fields}
        for run in self.runs(fields):
            if run[0].type.name in NUMBERS:
                values |= self._numbers(run)
            else:
                values[run[0].name] = self._value(run[0].type)
        found = self.new_name()
        parts = (f"{name!r}: {value}" for name, value in values.items())
        self.add(f"{found} = {{{', '.join(parts)}}}")
        if self.message.is_flexible:
            self._tags(found, self.tagged(fields))
        return found

    def _numbers(self, run: list[Field]) -> dict[str, str]:
        layout = struct.Struct(">" + "".join(NUMBERS[field.type.name] for field in run))
        names = {field.name: self.new_name() for field in run}
        unpack = self.named(layout.unpack_from)
        self.add(f"{', '.join(names.values())}, = {unpack}(data, at)")
        self.add(f"at += {layout.size}")
        return names

    def _tags(self, found: str, fields: list[Field]) -> None:
        """Add what reads tagged fields; mostly there are none."""
        self.add("if not data[at]: at += 1")
        with self.block("else:"):
            self._given_tags(found, fields)

    def _given_tags(self, found: str, fields: list[Field]) -> None:
        count, tag, size, after = (self.new_name() for _ in range(4))
        self._varint(count)
        with self.block(f"for _ in range({count}):"):
            self._varint(tag)
            self._varint(size)
            self.add(f"{after} = at + {size}")
            self.add(f"if {after} > end: raise IndexError")
            for field in fields:
                with self.block(f"if {tag} == {field.tag}:"):
                    self.add(f"{found}[{field.name!r}] = {self._tagged(field.type)}")
                    # What a field states of itself is not read from what follows it.
                    self.add(f"if at > {after}: raise IndexError")
            self.add(f"at = {after}")

    def _tagged(self, kind: Type) -> str:
        """Add what reads a tagged field; a structure that may be null has a varint before it."""
        if kind.name != "struct" or not self.may_be_null(kind):
            return self._value(kind)
        value, is_there = self.new_name(), self.new_name()
        self._varint(is_there)
        self.add(f"{value} = None")
        with self.block(f"if {is_there}:"):
            self.add(f"{value} = {self._struct(kind.fields)}")
        return value

    def _value(self, kind: Type) -> str:
        """Add what reads a value; return its name."""
        if kind.name in NUMBERS:
            value = self.new_name()
            self.add(f"{value}, = unpack_from('>{NUMBERS[kind.name]}', data, at)")
            self.add(f"at += {struct.calcsize('>' + NUMBERS[kind.name])}")
            return value
        if kind.name == "uuid":
            return self._uuid()
        if kind.name == "struct":
            return self._struct_or_null(kind)
        return self._sized(kind)

    def _uuid(self) -> str:
        value = self.new_name()
        self.add("if end - at < 16: raise IndexError")
        read = "UUID(bytes=bytes(data[at:at + 16]))"
        self.add(f"{value} = {f'format_uuid({read})' if self._as_json else read}")
        self.add("at += 16")
        return value

    def _struct_or_null(self, kind: Type) -> str:
        """Add what reads a structure; one that may be null has a byte before it, -1 for null."""
        if not self.may_be_null(kind):
            return self._struct(kind.fields)
        value = self.new_name()
        self.add(f"{value} = None")
        self.add("at += 1")
        with self.block("if data[at - 1] != 255:"):
            self.add(f"{value} = {self._struct(kind.fields)}")
        return value

    def _sized(self, kind: Type) -> str:
        """Add what reads text, bytes or an array."""
        value, size = self.new_name(), self.new_name()
        if self.message.is_flexible:
            self._varint(size, more=1)
        else:
            self.add(f"{size}, = {'int16' if kind.name == 'string' else 'int32'}(data, at)")
            self.add(f"at += {2 if kind.name == 'string' else 4}")
        with self.block(f"if {size} < 0:"):
            self.add(f"{value} = None" if self.may_be_null(kind) else "raise null()")
        with self.block("else:"):
            if kind.element is None:
                self._bytes(kind, value, size)
            else:
                self._array(kind.element, value, size)
        return value

    def _bytes(self, kind: Type, value: str, size: str) -> None:
        self.add(f"if {size} > end - at: raise IndexError")
        part = f"data[at:at + {size}]"
        if kind.name == "string":
            part = f"str({part}, 'utf-8')"
        elif self._as_json:
            part = f"base64({part}).decode()"
        elif kind.name == "bytes":
            part = f"bytes({part})"
        self.add(f"{value} = {part}")
        self.add(f"at += {size}")

    def _array(self, element: Type, value: str, size: str) -> None:
        self.add(f"if {size} * {self._least_bytes(element)} > end - at: raise IndexError")
        self.add(f"left -= {size} * {_POINTER_BYTES + self._memory_of(element)}")
        self.add("if left < 0: raise many()")
        if element.name in NUMBERS:
            sign = NUMBERS[element.name]
            self.add(f"{value} = list(unpack_from(f'>{{{size}}}{sign}', data, at))")
            self.add(f"at += {size} * {struct.calcsize('>' + sign)}")
            return
        self.add(f"{value} = []")
        with self.block(f"for _ in range({size}):"):
            self.add(f"{value}.append({self._value(element)})")

    def _memory_of(self, kind: Type) -> int:
        """Return about how much memory a value takes, without the text and elements in it."""
        if kind.name != "struct":
            return _VALUE_BYTES
        names = {field.name for field in kind.fields}
        present = (one for run in self.runs(kind.fields) for one in run)
        return getsizeof(dict.fromkeys(names)) + sum(self._memory_of(one.type) for one in present)

    def _least_bytes(self, kind: Type) -> int:
        """Return the size below which no value of a type is, at least 1."""
        if kind.name in NUMBERS:
            return struct.calcsize(">" + NUMBERS[kind.name])
        if kind.name == "uuid":
            return 16
        if kind.name == "struct" and not self.may_be_null(kind):
            fields = (one for run in self.runs(kind.fields) for one in run)
            return max(sum(self._least_bytes(one.type) for one in fields), 1)
        return 1

    def _varint(self, name: str, more: int = 0) -> None:
        """Add what reads an unsigned varint, written ``more`` than it is; most have one byte."""
        less = f" - {more}" if more else ""
        self.add(f"{name} = data[at]{less}")
        self.add(f"if {name} < {128 - more}: at += 1")
        with self.block("else:"):
            self.add(f"{name}, at = varint(data, at)")
            if more:
                self.add(f"{name} -= {more}")
