"""How keys and values are shown: JSON folded, text as it is, anything else as bytes in hex.

Nothing is changed on the way: JSON is laid out between its own words and numbers.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.explain.printable_text import printable
from tidelog.records.json.json_record import Encoding, bytes_as_text, headers_as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.records.record import Record

SHOWN_BYTES: Final = 4096
"""This much of a key or a value is shown in a list; a page of its own shows more."""
WHOLE_BYTES: Final = 256 << 10
_LINE_CHARACTERS: Final = 120
_HEX_BYTES: Final = 16
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+|[{}\[\],:]')
_INDENT: Final = "  "
_MOST_INDENTED: Final = 20
"""Deeper levels are indented no further: brackets alone would make pages of many megabytes."""


class ShownBytes(NamedTuple):
    """A key or a value: in one line and, where that is not all, in several.

    ``kind`` is null, empty, text, JSON or bytes. ``left_bytes`` are at the end and not shown.
    """

    kind: str
    line: str
    lines: tuple[str, ...]
    size_bytes: int
    left_bytes: int = 0


class ShownRecord(NamedTuple):
    """A record in a list."""

    offset: int
    timestamp: int
    key: ShownBytes
    value: ShownBytes
    headers: list[tuple[str, str]]
    left_headers: int
    """How many are not shown."""


def shown_record(record: Record, most: int = SHOWN_BYTES) -> ShownRecord:
    """Return a record as it is shown; ``most`` bytes of its key, its value, and its headers."""
    headers = list[tuple[str, str]]()
    left = most
    for name, value, *_ in headers_as_text(record, Encoding.UTF8):
        if left <= 0:
            break
        pair = _cut(name or "", left), _cut("null" if value is None else value, left)
        headers.append(pair)
        left -= max(len(pair[0]) + len(pair[1]), 1)
    return ShownRecord(
        record.offset,
        record.timestamp,
        shown_bytes(record.key, most),
        shown_bytes(record.value, most),
        headers,
        len(record.headers) - len(headers),
    )


def shown_bytes(data: bytes | None, most: int = SHOWN_BYTES) -> ShownBytes:
    """Return a key or a value as it is shown."""
    if data is None:
        return ShownBytes("null", "null", (), 0)
    if not data:
        return ShownBytes("empty", "empty", (), 0)
    text, used = bytes_as_text(data, Encoding.UTF8)
    if used is not Encoding.UTF8 or text is None:
        return _hex(data, most)
    if len(data) > most:
        part = data[:most].decode(errors="ignore")
        return ShownBytes("text", _one_line(part), _lines(part), len(data), len(data) - most)
    folded = folded_json(text)
    if folded is not None:
        return ShownBytes("JSON", _one_line(text), folded, len(data))
    line = _one_line(text)
    lines = _lines(text) if line != text else ()
    return ShownBytes("text", line, lines, len(data))


def folded_json(text: str) -> tuple[str, ...] | None:
    """Return the lines of a JSON object or array; None if it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple(map(printable, _laid_out(text)))


def _laid_out(text: str) -> Iterator[str]:
    """Yield the lines of JSON, each word and number as it is written."""
    depth, line, before = 0, "", ""
    for word in _WORD.findall(text):
        is_end = word in {"}", "]"}
        depth -= is_end
        # An empty object or array stays in its line.
        if before == "," or (before in {"{", "["}) != is_end:
            yield line
            line = _INDENT * min(depth, _MOST_INDENTED)
        line += ": " if word == ":" else word
        depth += word in {"{", "["}
        before = word
    yield line


def _one_line(text: str) -> str:
    return _cut(printable(text), _LINE_CHARACTERS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _lines(text: str) -> tuple[str, ...]:
    return tuple(printable(line) for line in text.splitlines())


def _hex(data: bytes, most: int) -> ShownBytes:
    """Return bytes as a dump: where, in hex, and what of it is ASCII."""
    shown = data[:most]
    lines = []
    for at in range(0, len(shown), _HEX_BYTES):
        part = shown[at : at + _HEX_BYTES]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{3 * _HEX_BYTES - 1}}  {plain}")
    return ShownBytes(
        "bytes", _one_line(data[:64].hex(" ")), tuple(lines), len(data), len(data) - len(shown)
    )
