"""A record of an internal topic: its key says which message it is, its value the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.codec.messages.message_reader import read_values, split_version
from tidelog.codec.messages.message_table import KEY, messages_of
from tidelog.codec.messages.message_writer import with_version, write_values
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class KeyedMessage(NamedTuple):
    """A message by its number, with the fields of its key and value; None: it was taken back."""

    number: int
    key: dict[str, Any]
    value: dict[str, Any] | None


def read_keyed(
    family: str,
    numbers: Collection[int],
    key: bytes | None,
    value: bytes | None,
    *,
    value_number: int | None = None,
) -> KeyedMessage | None:
    """Return the message that a record of a topic holds; None for one of other ``numbers``.

    ``family`` is as for ``messages_of``; ``value_number`` is that of the values, if keys of several
    numbers share them. Raises InvalidRecord for a record without a key, one that is malformed, or a
    version that is not known.
    """
    if key is None:
        raise InvalidRecord("a record of an internal topic has no key")
    number, data = split_version(key)
    if number not in numbers:
        return None
    fields, _ = read_values(messages_of(family)[number, KEY], data)
    if value is None:
        return KeyedMessage(number, fields, None)
    version, data = split_version(value)
    message = messages_of(family).get((number if value_number is None else value_number, version))
    if message is None:
        raise InvalidRecord(f"a {family} record has version {version}, which is not known")
    return KeyedMessage(number, fields, read_values(message, data)[0])


def write_key(family: str, number: int, values: Mapping[str, Any]) -> bytes:
    """Return the key of the record of a message."""
    return with_version(number, b"".join(write_values(messages_of(family)[number, KEY], values)))


def write_value(family: str, number: int, version: int, values: Mapping[str, Any]) -> bytes:
    """Return the value of the record of a message, in a version."""
    message = messages_of(family)[number, version]
    return with_version(version, b"".join(write_values(message, values)))
