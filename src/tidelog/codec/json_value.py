"""A record's value as JSON: the one rule of what is JSON, and of how it is written.

Kafka Connect: ``JsonConverter`` without schemas.
"""

from __future__ import annotations

import json
from decimal import Decimal
from math import isinf
from typing import Final, NoReturn

from tidelog.errors import InvalidArgument

_MEMBER: Final = '"value": null'
_MEMBER_WITH: Final = '"value": {}'
_ONE_LINE: Final = str.maketrans("\r\n\t", "   ")
"""A text within JSON has no such sign unescaped: they only separate."""


def pack_json(value: object) -> bytes | None:
    """Return a value as JSON: UTF-8, without blanks; None stays None, which is a tombstone.

    A ``Decimal`` is a number. Raises InvalidArgument for what JSON cannot express: another type,
    NaN and infinity, a ``Decimal`` of more digits than a float has, text that is not valid Unicode,
    a value that contains itself or is nested too deeply.
    """
    if value is None:
        return None
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_number
        )
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the value cannot be written as JSON: {error}") from error


def unpack_json(data: bytes) -> object:
    """Return the value that bytes are the JSON of, in UTF-8; ``null`` is None.

    Raises InvalidArgument, with the reason, for bytes that are not JSON. NaN and Infinity, which
    Python's own parser takes, are not JSON, and a number that no float holds is refused with them.
    """
    try:
        return json.loads(data.decode(), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(str(error)) from error


def json_text(data: bytes | None) -> str | None:
    """Return the JSON that a value is, on one line and else unchanged; None if it is not JSON.

    ``null`` is None, too: as a member of a line it would read as a tombstone.
    """
    try:
        if data is None or unpack_json(data) is None:
            return None
    except InvalidArgument:
        return None
    return data.decode().strip().translate(_ONE_LINE)


def exact_number(value: Decimal) -> int | float | None:
    """Return a number of the same value; None: a float would round it, as readers of JSON do."""
    if value.is_finite() and value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else None


def embedded(line: str, text: str) -> str:
    """Return a line of JSON with ``text`` in place of null as its member ``value``."""
    # A quote within a text is escaped, so only the member itself reads so.
    return line.replace(_MEMBER, _MEMBER_WITH.format(text), 1)


def _number(value: object) -> int | float:
    if not isinstance(value, Decimal):
        raise TypeError(f"JSON has no {type(value).__name__}")
    number = exact_number(value)
    if number is None:
        raise ValueError(f"{value} has more digits than a number of 64 bits: make it a text")
    return number


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} does not fit a number of 64 bits")
    return number
