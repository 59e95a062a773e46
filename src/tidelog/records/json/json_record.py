"""A record as JSON: the one form that every command prints and reads.

Kafka has no equivalent.
"""

from __future__ import annotations

import base64
import json
import reprlib
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, overload

from tidelog.errors import InvalidArgument
from tidelog.records.batch import INT32_MAX, INT64_MAX, NO_TIMESTAMP
from tidelog.records.new_record import NewRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.records.record import Header, Record

INPUT_MEMBERS: Final = frozenset({"key", "value", "headers", "timestamp", "partition"})
PRINTED_MEMBERS: Final = frozenset({"topic", "offset", "timestampType", "leaderEpoch"})
"""What a printed record has besides; an append accepts them and sets its own."""


class Encoding(StrEnum):
    """How bytes are written as text."""

    UTF8 = "utf8"
    BASE64 = "base64"
    HEX = "hex"


class NotText(InvalidArgument):
    """A key, value or header is not valid UTF-8; nothing of the record was printed."""

    def __init__(self, offset: int, part: str) -> None:
        super().__init__(offset, part)
        self.offset = offset
        self.part = part

    def __str__(self) -> str:
        where = f"the {self.part} at offset {self.offset}"
        return f"{where} is not valid UTF-8; use --encoding base64 or hex"


def record_as_json(topic: str, partition: int, record: Record, encoding: Encoding) -> str:
    """Return one line of JSON, without the newline.

    Raises:
        NotText: with ``Encoding.UTF8``, bytes are not valid UTF-8; they are never altered.
    """
    offset = record.offset
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": record.timestamp,
            "timestampType": record.timestamp_type.kafka_name,
            "key": bytes_as_text(record.key, encoding, offset, "key"),
            "value": bytes_as_text(record.value, encoding, offset, "value"),
            "headers": headers_as_text(record, encoding),
            "leaderEpoch": record.leader_epoch,
        },
        ensure_ascii=False,
    )


def headers_as_text(record: Record, encoding: Encoding) -> list[list[str | None]]:
    """Return the headers as pairs of name and text; errors are those of ``record_as_json``."""
    return [
        [name, bytes_as_text(value, encoding, record.offset, f"header {name!r}")]
        for name, value in record.headers
    ]


def bytes_as_text(data: bytes | None, encoding: Encoding, offset: int, part: str) -> str | None:
    """Return bytes as text; None stays None. NotText names ``offset`` and ``part``."""
    if data is None:
        return None
    if encoding is Encoding.BASE64:
        return base64.b64encode(data).decode()
    if encoding is Encoding.HEX:
        return data.hex()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotText(offset, part) from None


def record_from_json(line: str | bytes, encoding: Encoding) -> NewRecord:
    """Read one line of JSON as a record to append; omitted members are null, empty or the default.

    A line of ``record_as_json`` is one too: topic, offset, leader epoch and the type of its
    timestamp are set by the log that it is appended to.

    Raises:
        InvalidArgument: the line is not such a record; the text gives the reason.
    """
    content = _object_of(line)
    unknown = content.keys() - INPUT_MEMBERS - PRINTED_MEMBERS
    if unknown:
        raise InvalidArgument(f"unknown member {', '.join(sorted(unknown))}")
    return NewRecord(
        key=bytes_from_text(content.get("key"), encoding, "key"),
        value=bytes_from_text(content.get("value"), encoding, "value"),
        headers=_headers(content.get("headers"), encoding),
        timestamp=_integer(content, "timestamp", NO_TIMESTAMP, INT64_MAX),
        partition=_integer(content, "partition", 0, INT32_MAX),
    )


def has_members_of_a_record(line: str | bytes) -> bool:
    """Return whether a line is a JSON object with members of a record, and no others.

    The values are not checked; ``record_from_json`` reports what is wrong with them.
    """
    try:
        members = _object_of(line).keys()
    except InvalidArgument:
        return False
    return bool(members) and members <= INPUT_MEMBERS | PRINTED_MEMBERS


def _object_of(line: str | bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InvalidArgument("not a JSON object")
    return content


def _headers(content: object, encoding: Encoding) -> tuple[Header, ...]:
    pairs = [] if content is None else content
    if not isinstance(pairs, list):
        raise InvalidArgument("headers is not a list")
    headers = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidArgument("a header is not a list of name and value")
        name, value = pair
        bytes_from_text(name, Encoding.UTF8, "name of a header")
        headers.append((name, bytes_from_text(value, encoding, f"header {name!r}")))
    return tuple(headers)


def _integer(content: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    number = content.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        shown = reprlib.repr(number)
        raise InvalidArgument(f"{name} {shown} is not an integer from {least} to {most}")
    return number


@overload
def bytes_from_text(text: str, encoding: Encoding, part: str) -> bytes: ...
@overload
def bytes_from_text(text: object, encoding: Encoding, part: str) -> bytes | None: ...
def bytes_from_text(text: object, encoding: Encoding, part: str) -> bytes | None:
    """Return the bytes that a text represents; None stays None.

    Raises:
        InvalidArgument: ``part``, which the text names, is not a string or null, or not validly
            encoded.
    """
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidArgument(f"the {part} is not a string or null")
    try:
        if encoding is Encoding.BASE64:
            return base64.b64decode(text, validate=True)
        return bytes.fromhex(text) if encoding is Encoding.HEX else text.encode()
    except ValueError as error:
        raise InvalidArgument(f"the {part} is not valid {encoding}: {error}") from error
