"""``NewRecord``, a record that a program appends to a topic.

Kafka: ``ProducerRecord``, without the topic.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tidelog.codec.json_value import pack_json
from tidelog.codec.one_line import record_line
from tidelog.env.moments import time_ms
from tidelog.errors import InvalidArgument
from tidelog.records.batch import INT64_MAX, NO_TIMESTAMP

if TYPE_CHECKING:
    from tidelog.env.moments import Moment
    from tidelog.records.record import Header

BYTES_LIKE: Final = (bytes, bytearray, memoryview)
_ENCODE: Final = "; encode it: text.encode()"
_JSON: Final = "; as JSON: json.dumps(value).encode(), or json=value of append"

GivenRecord: TypeAlias = (
    "NewRecord | bytes | bytearray | memoryview | tuple[object, ...] | Mapping[str, object]"
)
"""What ``NewRecord.of`` takes."""


class NotGiven(Enum):
    """Stands for an argument that was not given, where None means something."""

    ARGUMENT = "not given"


NOT_GIVEN: Final = NotGiven.ARGUMENT


def content_of(value: object, json: object) -> object:
    """Return a record's value, of which only one is given: itself, or what it is as JSON.

    Raises InvalidArgument if both are given or neither is, and as ``pack_json``.
    """
    if (value is NOT_GIVEN) == (json is NOT_GIVEN):
        raise InvalidArgument("a record has a value, given as value or as json, and not as both")
    return value if json is NOT_GIVEN else pack_json(json)


class NewRecord(NamedTuple):
    """A record to append; offset and leader epoch are assigned by the log.

    Attributes:
        key: bytes, or None for no key. A compacted topic requires a key.
        value: bytes, or None for null, which is a tombstone in a compacted topic.
        headers: pairs of name (text) and value (bytes, or None for null), in order; names may
            repeat.
        timestamp: ms since the epoch, -1 for no timestamp, or a ``datetime``, which without a zone
            is in local time; None: the time of the append.
        partition: number of the partition, from 0; None: chosen by the key, as Kafka's producers
            do, and without a key by the writer.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: Moment | None = None
    partition: int | None = None

    def __repr__(self) -> str:
        return record_line(self, self._fields)

    @classmethod
    def of(cls, given: object) -> NewRecord:
        """Return a record that was given in a shorter form.

        Bytes are a value; a tuple is key and value, and perhaps headers and timestamp; a mapping
        has members of these names, or ``json`` in place of ``value``. Raises InvalidArgument for
        anything else; the types of the parts are checked when it is appended.

        >>> tidelog.NewRecord.of((b"key", b"value")) == tidelog.NewRecord(b"key", b"value")
        True
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, BYTES_LIKE):
            return cls(None, bytes(given))
        if isinstance(given, tuple) and 2 <= len(given) <= 4:
            key, value, *rest = given
            return cls(key, value, header_tuple(rest[0]) if rest else (), *rest[1:])
        if isinstance(given, Mapping):
            unknown = given.keys() - {*cls._fields, "json"}
            if unknown or ("value" in given) == ("json" in given):
                known = ", ".join(name for name in cls._fields if name != "value")
                has = ", ".join(map(str, given)) or "nothing"
                text = f"a dict has value or json, and perhaps {known}; this one has {has}"
                raise InvalidArgument(text)
            value = content_of(given.get("value", NOT_GIVEN), given.get("json", NOT_GIVEN))
            headers = header_tuple(given.get("headers"))
            timestamp, partition = given.get("timestamp"), given.get("partition")
            return cls(given.get("key"), value, headers, timestamp, partition)  # type: ignore[arg-type]  # checked later
        hint = _ENCODE if isinstance(given, str) else ""
        if isinstance(given, tuple):  # such as one that was read
            hint = f" of {len(given)} parts; pass (key, value, headers, timestamp), or fewer"
        if given is None:
            hint = '; a record without a value is {"value": None}'
        raise InvalidArgument(
            f"a record is bytes, (key, value), a dict or a NewRecord, not {type(given).__name__}"
            + hint
        )

    def checked(self) -> NewRecord:
        """Return this record with bytes of its own, so that its buffers can be used again.

        Raises InvalidArgument for a part that is of a wrong type or that no record can hold.
        """
        key, value, headers, timestamp, partition = self
        is_usual = type(value) is bytes and (key is None or type(key) is bytes)
        if is_usual and type(headers) is tuple and not headers and timestamp is None:
            return self
        if timestamp is not None:
            timestamp = self.timestamp_or(NO_TIMESTAMP)
            if not NO_TIMESTAMP <= timestamp <= INT64_MAX:
                raise InvalidArgument(f"timestamp {timestamp} is outside [-1, {INT64_MAX}]")
        owned = tuple(map(_owned_header, header_tuple(headers)))
        return NewRecord(_owned(key, "key"), _owned(value, "value"), owned, timestamp, partition)

    def timestamp_or(self, now_ms: int) -> int:
        """Return the timestamp in ms, ``now_ms`` if there is none; raise InvalidArgument."""
        if self.timestamp is None:
            return now_ms
        return self.timestamp if type(self.timestamp) is int else time_ms(self.timestamp)

    def fields(self, now_ms: int) -> tuple[int, bytes | None, bytes | None, tuple[Header, ...]]:
        """Return the record as batches take it, from ``now_ms`` if it has no timestamp."""
        return self.timestamp_or(now_ms), self.key, self.value, self.headers


def header_tuple(headers: object) -> tuple[Header, ...]:
    """Return headers, not checked yet, as a tuple; None: no headers.

    Raises InvalidArgument for what cannot be iterated, and for a mapping that holds some.
    """
    if headers is None:
        return ()
    if isinstance(headers, Mapping) and headers:
        text = "headers are pairs of name and value, as a name may come twice: pass"
        raise InvalidArgument(f"{text} a list of pairs: list(headers.items())")
    if not isinstance(headers, Iterable):
        raise InvalidArgument(f"headers are pairs of name and value, not {headers!r}")
    return tuple(headers)


def _owned(part: object, what: str) -> bytes | None:
    if part is None or type(part) is bytes:
        return part
    if isinstance(part, BYTES_LIKE):
        return bytes(part)
    raise InvalidArgument(not_bytes(part, what))


def not_bytes(part: object, what: str) -> str:
    """Return what an error says of a key or value that is not bytes."""
    hint = _ENCODE if isinstance(part, str) else ""
    if what == "value" and isinstance(part, (dict, list)):
        hint = _JSON
    return f"a record's {what} is bytes or None, not {type(part).__name__}{hint}"


def check_several(records: object) -> None:
    """Raise InvalidArgument for one record where several are meant: it could be iterated, too."""
    if isinstance(records, (*BYTES_LIKE, str, Mapping, NewRecord)) or not (
        isinstance(records, (Iterable, AsyncIterable))
    ):
        kind = type(records).__name__
        raise InvalidArgument(f"give an iterable of records, such as [record], not {kind}")


def _owned_header(header: object) -> Header:
    match header:
        case (str() as name, None | bytes() | bytearray() | memoryview() as value):
            try:
                name.encode()
            except UnicodeEncodeError:
                raise InvalidArgument(f"a header's name {name!r} is not valid Unicode") from None
            return name, None if value is None else bytes(value)
    raise InvalidArgument(f"a header is a name (str) and bytes or None, not {header!r}")
