"""A record as JSON: the one form that every command prints and reads.

Kafka has no equivalent.
"""

from __future__ import annotations

import base64
import json
import reprlib
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, overload

from tidelog.env.moments import time_ms
from tidelog.errors import InvalidArgument
from tidelog.records.batch import INT32_MAX, INT64_MAX, NO_TIMESTAMP
from tidelog.records.new_record import NewRecord

if TYPE_CHECKING:
    from tidelog.records.record import Header, Record

MARKS: Final = ("keyEncoding", "valueEncoding")
"""The members that say how key and value are written, if they are not plain text."""
INPUT_MEMBERS: Final = frozenset({"key", "value", "headers", "timestamp", "partition", *MARKS})
PRINTED_MEMBERS: Final = frozenset({"topic", "offset", "timestampType", "leaderEpoch"})
"""What a printed record has besides; an append accepts them and sets its own."""


class Encoding(StrEnum):
    """How bytes are written as text."""

    UTF8 = "utf8"
    BASE64 = "base64"
    HEX = "hex"


def record_as_json(topic: str, partition: int, record: Record, encoding: Encoding) -> str:
    """Return one line of JSON, without the newline."""
    key_and_value = parts_as_text(record, encoding)
    marks = {name: key_and_value.pop(name) for name in MARKS if name in key_and_value}
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": record.timestamp_type.kafka_name,
            **key_and_value,
            "headers": headers_as_text(record, encoding),
            "leaderEpoch": record.leader_epoch,
            **marks,
        },
        ensure_ascii=False,
    )


def parts_as_text(record: Record, encoding: Encoding) -> dict[str, str | None]:
    """Return key and value by name, then, of each that is not plain text, its encoding."""
    key, of_key = bytes_as_text(record.key, encoding)
    value, of_value = bytes_as_text(record.value, encoding)
    found = zip(MARKS, (of_key, of_value), strict=True)
    marks = {name: str(used) for name, used in found if used is not Encoding.UTF8}
    return {"key": key, "value": value, **marks}


def headers_as_text(record: Record, encoding: Encoding) -> list[list[str | None]]:
    """Return the headers, each a list of name and text, and of the encoding if it is not UTF-8."""
    headers = []
    for name, value in record.headers:
        text, used = bytes_as_text(value, encoding)
        is_plain = used is Encoding.UTF8 or value is None
        headers.append([name, text] if is_plain else [name, text, str(used)])
    return headers


def bytes_as_text(data: bytes | None, encoding: Encoding) -> tuple[str | None, Encoding]:
    """Return bytes as text, None for None, and the encoding: base64 for what is not UTF-8."""
    if encoding is Encoding.HEX:
        return None if data is None else data.hex(), encoding
    if encoding is Encoding.UTF8:
        try:
            return None if data is None else data.decode(), encoding
        except UnicodeDecodeError:
            pass
    return None if data is None else base64.b64encode(data).decode(), Encoding.BASE64


def record_from_json(line: str | bytes, encoding: Encoding) -> NewRecord:
    """Read one line of JSON as a record to append; omitted members are null, empty or the default.

    A line of ``record_as_json`` is one too: topic, offset, leader epoch and the type of its
    timestamp are set by the log that it is appended to. ``encoding`` is that of texts of which the
    line does not say it.

    Raises:
        InvalidArgument: the line is not such a record; the text gives the reason.
    """
    content = _object_of(line)
    unknown = content.keys() - INPUT_MEMBERS - PRINTED_MEMBERS
    if unknown:
        raise InvalidArgument(f"unknown member {', '.join(sorted(unknown))}")
    key_encoding = _encoding(content.get("keyEncoding"), encoding)
    value_encoding = _encoding(content.get("valueEncoding"), encoding)
    return NewRecord(
        key=bytes_from_text(content.get("key"), key_encoding, "key"),
        value=bytes_from_text(content.get("value"), value_encoding, "value"),
        headers=_headers(content.get("headers"), encoding),
        timestamp=_timestamp(content.get("timestamp")),
        partition=_partition(content.get("partition")),
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
        if not isinstance(pair, list) or len(pair) not in {2, 3} or not isinstance(pair[0], str):
            raise InvalidArgument("a header is not a list of name and value, and perhaps encoding")
        name, value, *marks = pair
        bytes_from_text(name, Encoding.UTF8, "name of a header")
        used = _encoding(marks[0] if marks else None, encoding)
        headers.append((name, bytes_from_text(value, used, f"header {name!r}")))
    return tuple(headers)


def _encoding(mark: object, default: Encoding) -> Encoding:
    """Return the encoding that a member of a record names; None: the default."""
    try:
        return default if mark is None else Encoding(str(mark))
    except ValueError:
        known = ", ".join(Encoding)
        raise InvalidArgument(f"encoding {reprlib.repr(mark)} is not one of {known}") from None


def _timestamp(given: object) -> int | None:
    """Return ms since the epoch, given as a number or as an ISO 8601 date and time."""
    if isinstance(given, str):
        given = time_ms(given)
    return _integer("timestamp", given, NO_TIMESTAMP, INT64_MAX)


def _partition(given: object) -> int | None:
    return _integer("partition", given, 0, INT32_MAX)


def _integer(name: str, number: object, least: int, most: int) -> int | None:
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
