"""``NewRecord``, a record that a program appends to a topic.

Kafka: ``ProducerRecord``, without the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from tidelog.records.record import Header

GivenRecord: TypeAlias = "NewRecord | bytes | tuple[object, ...] | Mapping[str, object]"
"""What ``NewRecord.of`` takes."""


class NewRecord(NamedTuple):
    """A record to append; offset and leader epoch are assigned by the log.

    Attributes:
        key: bytes, or None for no key. A compacted topic requires a key.
        value: bytes, or None for null, which is a tombstone in a compacted topic.
        headers: pairs of name (text) and value (bytes, or None for null), in order; names may
            repeat.
        timestamp: ms since the epoch, -1 for no timestamp; None: the time of the append.
        partition: number of the partition, from 0; None: chosen by the key, as Kafka's producers
            do, and without a key by the writer.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    partition: int | None = None

    @classmethod
    def of(cls, given: object) -> NewRecord:
        """Return a record that was given in a shorter form.

        Bytes are a value; a tuple is key and value, and perhaps headers and timestamp; a mapping
        has members of these names. Raises InvalidArgument for anything else; the types of the parts
        are checked when it is appended.

        >>> tidelog.NewRecord.of((b"key", b"value")) == tidelog.NewRecord(b"key", b"value")
        True
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, (bytes, bytearray, memoryview)):
            return cls(None, bytes(given))
        if isinstance(given, tuple) and 2 <= len(given) <= 4:
            key, value, *rest = given
            return cls(key, value, tuple(rest[0]) if rest else (), *rest[1:])
        if isinstance(given, Mapping):
            unknown = given.keys() - set(cls._fields)
            if unknown or "value" not in given:
                known = ", ".join(cls._fields)
                raise InvalidArgument(f"a record has value, and of {known}; not {sorted(given)}")
            headers = tuple(given.get("headers") or ())
            timestamp, partition = given.get("timestamp"), given.get("partition")
            return cls(given.get("key"), given["value"], headers, timestamp, partition)
        hint = "; encode it: text.encode()" if isinstance(given, str) else ""
        raise InvalidArgument(
            f"a record is bytes, (key, value), a dict or a NewRecord, not {type(given).__name__}"
            + hint
        )
