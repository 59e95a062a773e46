"""A record's value as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.codec.json_value import embedded, json_text, pack_json, unpack_json
from tidelog.errors import InvalidArgument

LOOP: list[Any] = []
LOOP.append(LOOP)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(st.none() | inner) | st.dictionaries(TEXTS, st.none() | inner),
    max_leaves=8,
)


def nested(depth: int) -> list[Any]:
    """Return a list within a list, and so on."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [
        *(b"bytes", {1}, object(), math.nan, [math.inf], {"a": -math.inf}, {(1, 2): 3}),
        *("\ud800", LOOP, nested(100_000)),
    ],
)
def test_what_is_no_json_value_is_refused(value: object) -> None:
    """By one error, which gives the reason, whatever the value is."""
    with pytest.raises(InvalidArgument, match="the value cannot be written as JSON: "):
        pack_json(value)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" ", b"oops", b"{", b"{}{}", b"[1,]", b"'a'", b"NaN", b"-Infinity", b"[1e999]"),
        *(b"\xff", '"a"'.encode("utf-16"), b"\xef\xbb\xbf{}", b"[" * 100_000, b"1" * 5_000),
        b'"\t"',
    ],
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    """Other encodings than UTF-8, NaN, and a number that would become infinite, among them."""
    with pytest.raises(InvalidArgument) as caught:
        unpack_json(data)

    assert str(caught.value)
    assert json_text(data) is None


def test_none_is_a_tombstone_and_the_text_null_is_none() -> None:
    """What is written for None has no bytes; the bytes ``null`` read as None, and stay text."""
    assert pack_json(None) is None
    assert unpack_json(b" null ") is None
    assert (json_text(b"null"), json_text(None)) == (None, None)


@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: object) -> None:
    """In UTF-8, without blanks."""
    data = pack_json(value)

    assert data is not None
    assert unpack_json(data) == value
    assert json_text(data) == data.decode()


def test_json_is_shown_as_it_stands_on_one_line() -> None:
    """Numbers keep their digits and members their order; line ends between signs are blanks."""
    data = b'\r\n{"b":\t1.50,\n"a": "x\\ny", "b": 10000000000000000000000}\n'

    text = '{"b": 1.50, "a": "x\\ny", "b": 10000000000000000000000}'
    assert json_text(data) == text


def test_only_the_member_is_replaced() -> None:
    """A key may have the same text."""
    line = json.dumps({"key": '"value": null', "value": None, "headers": [["value", None]]})

    found = json.loads(embedded(line, "[1]"))

    assert found == {"key": '"value": null', "value": [1], "headers": [["value", None]]}
