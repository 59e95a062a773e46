"""A record as JSON: the one form that every command prints and reads.

Kafka has no equivalent.
"""

from __future__ import annotations

import base64
import json
import reprlib
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, overload

from tidelog.codec.json_value import embedded, json_text, pack_json
from tidelog.env.moments import time_ms
from tidelog.errors import InvalidArgument
from tidelog.records.batch import INT32_MAX, INT64_MAX, NO_TIMESTAMP
from tidelog.records.new_record import NewRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.records.record import Header, Record

MARKS: Final = ("keyEncoding", "valueEncoding")
"""The members that say how key and value are written, if they are not plain text."""
INPUT_MEMBERS: Final = frozenset({"key", "value", "headers", "timestamp", "partition", *MARKS})
PRINTED_MEMBERS: Final = frozenset({"topic", "offset", "timestampType", "leaderEpoch"})
"""What a printed record has besides; an append accepts them and sets its own."""


class Encoding(StrEnum):
    """How bytes are written as text; ``JSON``: values as JSON, the rest as with ``UTF8``."""

    UTF8 = "utf8"
    BASE64 = "base64"
    HEX = "hex"
    JSON = "json"

    @property
    def of_texts(self) -> Encoding:
        """The encoding of keys and headers, and of values that are not JSON."""
        return Encoding.UTF8 if self is Encoding.JSON else self


TEXT_ENCODINGS: Final = (Encoding.UTF8, Encoding.BASE64, Encoding.HEX)
"""How keys and headers may be written."""


def record_as_json(topic: str, partition: int, record: Record, encoding: Encoding) -> str:
    """Return one line of JSON, without the newline."""
    text = json_text(record.value) if encoding is Encoding.JSON else None
    given = record if text is None else record._replace(value=None)
    key_and_value = parts_as_text(given, encoding)
    if text is not None:
        key_and_value["valueEncoding"] = Encoding.JSON.value
    marks = {name: key_and_value.pop(name) for name in MARKS if name in key_and_value}
    line = json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": record.timestamp_type.kafka_name,
            **key_and_value,
            "headers": headers_as_text(record, encoding.of_texts),
            "leaderEpoch": record.leader_epoch,
            **marks,
        },
        ensure_ascii=False,
    )
    return line if text is None else embedded(line, text)


def parts_as_text(record: Record, encoding: Encoding) -> dict[str, str | None]:
    """Return key and value by name, then, of each that is not plain text, its encoding.

    With ``JSON`` a value that is plain text has its encoding, too: it is not to be taken as JSON.
    """
    key, of_key = bytes_as_text(record.key, encoding.of_texts)
    value, of_value = bytes_as_text(record.value, encoding.of_texts)
    found = zip(MARKS, (of_key, of_value), strict=True)
    marks = {name: str(used) for name, used in found if used is not Encoding.UTF8}
    if encoding is Encoding.JSON and value is not None:
        marks[MARKS[1]] = str(of_value)
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
        raise InvalidArgument(
            f"unknown member {', '.join(sorted(unknown))}; a record has key, value, headers,"
            " timestamp and partition; to append each line as a value, use --format text"
        )
    key_encoding = _encoding(content.get("keyEncoding"), encoding.of_texts)
    return NewRecord(
        key=bytes_from_text(content.get("key"), key_encoding, "key"),
        value=_value(content, encoding),
        headers=_headers(content.get("headers"), encoding.of_texts),
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


def _value(content: Mapping[str, Any], encoding: Encoding) -> bytes | None:
    value, mark = content.get("value"), content.get("valueEncoding")
    if mark == Encoding.JSON or (mark is None and encoding is Encoding.JSON):
        return pack_json(value)
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(
            "the value is not a string or null; with --encoding json it may be any JSON"
        )
    return bytes_from_text(value, _encoding(mark, encoding, *Encoding), "value")


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


def _encoding(mark: object, default: Encoding, *known: Encoding) -> Encoding:
    """Return the encoding that a member of a record names; None: the default.

    ``known`` are those that it may name; by default, those of texts.
    """
    allowed = known or TEXT_ENCODINGS
    if mark is None:
        return default
    if isinstance(mark, str) and mark in allowed:
        return Encoding(mark)
    names = ", ".join(allowed)
    raise InvalidArgument(f"encoding {reprlib.repr(mark)} is not one of {names}")


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
