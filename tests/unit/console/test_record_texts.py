"""How keys and values are shown: JSON, text, bytes, and what is dangerous in them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis.strategies import (
    binary,
    booleans,
    dictionaries,
    floats,
    integers,
    lists,
    none,
    recursive,
    text,
)

from tidelog.console.record_texts import (
    SHOWN_BYTES,
    folded_json,
    shown_bytes,
    shown_record,
)
from tidelog.explain.printable_text import duration
from tidelog.records.batch import TimestampType
from tidelog.records.record import Record

VALUES = recursive(
    none() | booleans() | integers() | floats(allow_nan=False) | text(),
    lambda inner: lists(inner) | dictionaries(text(), inner),
)


@given(lists(VALUES) | dictionaries(text(), VALUES))
def test_json_is_laid_out_and_otherwise_the_same(value: object) -> None:
    """The lines, put together, are the same JSON; one is as long as what fits on its level."""
    folded = folded_json(json.dumps(value))

    assert folded is not None
    assert json.loads("\n".join(folded)) == value


def test_numbers_and_words_stay_as_they_are_written() -> None:
    """No number is rounded, and no name that stands twice is lost."""
    folded = folded_json('{"a":1.0000000000000000001,"a":[ 1e999 ,{}],"b":"x: [1, 2]"}')

    assert folded == (
        "{",
        '  "a": 1.0000000000000000001,',
        '  "a": [',
        "    1e999,",
        "    {}",
        "  ],",
        '  "b": "x: [1, 2]"',
        "}",
    )


def test_what_is_no_object_or_array_is_text() -> None:
    """A number, a string, and what only begins like JSON; nesting beyond reason."""
    assert [folded_json(one) for one in ("1", '"a"', "{a}", "", "{", "[" * 100_000)] == [None] * 6


@given(binary(max_size=200))
def test_a_line_never_has_what_a_terminal_or_browser_acts_on(data: bytes) -> None:
    """Control characters, and those that turn text around, are escapes."""
    shown = shown_bytes(data)

    assert all(line.isprintable() for line in (shown.line, *shown.lines))
    assert shown.size_bytes == len(data)


def test_each_kind_is_named() -> None:
    """Null and empty differ, and so do text, JSON and bytes."""
    samples = (None, b"", b"high tide", b'{"a": 1}', b"\xff\x00")

    assert [shown_bytes(one).kind for one in samples] == ["null", "empty", "text", "JSON", "bytes"]


def test_bytes_are_a_dump() -> None:
    """Where they are, in hex, and as ASCII."""
    assert shown_bytes(b"\xfe" + b"abcdefghijklmnopq").lines == (
        "00000000  fe 61 62 63 64 65 66 67 68 69 6a 6b 6c 6d 6e 6f  .abcdefghijklmno",
        f"00000010  70 71{' ' * 44}pq",
    )


def test_a_large_value_is_shown_in_part() -> None:
    """And what is left out is counted; a character is not cut in two."""
    shown = shown_bytes("ü".encode() * SHOWN_BYTES)

    assert shown.left_bytes == SHOWN_BYTES
    assert re.fullmatch("ü+", "".join(shown.lines))


def test_deeply_nested_json_takes_no_more_room_than_its_lines() -> None:
    """Indented in full, these 1.8 kB would take 1.6 MB of the page."""
    folded = shown_bytes(b"[" * 900 + b"]" * 900).lines

    assert len("".join(folded).replace(" ", "")) == 1800
    assert max(map(len, folded)) < 100


@pytest.mark.parametrize(
    "headers",
    [[("a" * 5000, b"v")], [("a", b"v" * 5000)], [("a", b"v")] * 5000, [("", b"")] * 5000],
)
def test_headers_are_shown_up_to_a_limit(headers: list[tuple[str, bytes]]) -> None:
    """A page has fifty records, and a record may be nothing but headers."""
    record = Record(0, 0, TimestampType.CREATE_TIME, None, None, tuple(headers))

    shown = shown_record(record)

    assert sum(len(name) + len(value) for name, value in shown.headers) <= 2 * SHOWN_BYTES
    assert len(shown.headers) + shown.left_headers == len(headers)
    assert shown.headers


def test_a_duration_has_one_unit_or_two() -> None:
    """Two where the first is small."""
    found = [duration(ms) for ms in (-5, 999, 5_000, 65_000, 3_600_000, 93_600_000, 86_400_000_000)]

    assert found == ["0 s", "0 s", "5 s", "1 min 5 s", "1 h", "1 d 2 h", "1,000 d"]
