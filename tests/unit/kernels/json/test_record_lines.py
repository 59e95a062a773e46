"""Records as lines of JSON in the kernel; the content of a line is tested under records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.json import record_lines
from tidelog.kernels.json.json_text import HEX, UTF8
from tidelog.kernels.json.record_lines import NOT_PLAIN, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = [
    b"<",
    b";",
    b"C",
    b"L",
    b"N",
    b",",
    b"[",
    b"]",
    b">\n",
    b"K\n",
    b"V\n",
    b"B\n",
    b"?",
    b"!",
    b"+" * 64,
]
DATA = b"key\xffvalue\x02h\x04v1"


def table(*records: dict[int, int]) -> Any:
    made = np.zeros((rows.RECORD_COLUMNS, len(records)), np.int64)
    made[rows.KEY_SIZE] = made[rows.VALUE_SIZE] = -1
    for number, record in enumerate(records):
        for row, value in record.items():
            made[row, number] = value
    return made


def lines(
    run: Callable[[Any], Any],
    records: Any,
    *,
    first: int = 0,
    room: int = 2_000,
    encoding: int = UTF8,
    types: bytes = bytes(9),
    ends: Any = None,
    data: bytes = DATA,
) -> tuple[int, int, bytes]:
    out = np.zeros(room, np.uint8)
    ends_array = np.cumsum([0, *map(len, WORDS)]) if ends is None else np.array(ends)
    status, row, size = run(write_lines)(
        np.frombuffer(data, np.uint8),
        records,
        np.frombuffer(types, np.uint8),
        np.array([5, -1]),
        np.frombuffer(b"".join(WORDS), np.uint8),
        ends_array,
        encoding,
        first,
        out,
    )
    return status, row, out[:size].tobytes()


def test_template_and_values_alternate(run: Callable[[Any], Any]) -> None:
    """Template and values alternate: digits, quoted strings, null if absent, header pairs."""
    whole = {
        rows.OFFSET: 12,
        rows.TIMESTAMP: -1,
        rows.KEY_SIZE: 3,
        rows.VALUE_AT: 4,
        rows.VALUE_SIZE: 5,
        rows.HEADERS_AT: 9,
        rows.HEADERS_COUNT: 1,
    }

    found = lines(run, table(whole, {rows.AREA: 1}, {}), types=b"\x01\x00\xff")

    assert found == (
        rows.OK,
        3,
        b'<12;-1L"key","value"[["h", "v1"?]]5>\n<0;0Cnull,null[]null>\n<0;0Nnull,null[]5>\n',
    )


def test_what_is_not_utf8_is_written_in_base64(run: Callable[[Any], Any]) -> None:
    """Key, value or both, with another end of the line; a header's value with a mark."""
    key, value = {rows.KEY_SIZE: 4}, {rows.VALUE_AT: 3, rows.VALUE_SIZE: 1}
    header = {rows.HEADERS_AT: 12, rows.HEADERS_COUNT: 1}
    data = b"key\xffvalue\0\0\0\x02h\x02\xff"

    found = lines(run, table({}, key, value, key | value, header), types=bytes(5), data=data)

    assert found[:2] == (rows.OK, 5)
    assert found[2].splitlines() == [
        b"<0;0Cnull,null[]5>",
        b'<0;0C"++++++==",null[]5K',
        b'<0;0Cnull,"++=="[]5V',
        b'<0;0C"++++++==","++=="[]5B',
        b'<0;0Cnull,null[["h", "++=="!]]5>',
    ]
    assert lines(run, table(key), encoding=HEX)[2] == b'<0;0C"6b6579ff",null[]5>\n'


def test_a_name_that_is_not_utf8_is_left_to_plain_code(run: Callable[[Any], Any]) -> None:
    """The kernel stops before that record and can be resumed after it."""
    records = table({}, {rows.HEADERS_AT: 0, rows.HEADERS_COUNT: 1}, {})

    assert lines(run, records, data=b"\x02\xff\x01") == (NOT_PLAIN, 1, b"<0;0Cnull,null[]5>\n")
    assert lines(run, records, first=2) == (rows.OK, 3, b"<0;0Cnull,null[]5>\n")


def test_the_least_int64_is_left_to_plain_code(run: Callable[[Any], Any]) -> None:
    """The least int64, which cannot be negated, is the only number the kernel does not write."""
    assert lines(run, table({rows.TIMESTAMP: -(2**63)}))[0] == NOT_PLAIN


def test_a_short_buffer_ends_before_a_record(run: Callable[[Any], Any]) -> None:
    """FULL comes with whole lines; the caller continues from the next record."""
    status, row, found = lines(run, table(*[{}] * 9), room=290)

    assert (status, found) == (rows.FULL, b"<0;0Cnull,null[]5>\n" * row)
    assert 0 < row < 9


@pytest.mark.parametrize(
    "bad",
    [
        {rows.KEY_AT: -1, rows.KEY_SIZE: 1},
        {rows.KEY_AT: 1, rows.KEY_SIZE: 2**62},
        {rows.VALUE_AT: 2**62, rows.VALUE_SIZE: 1},
        {rows.VALUE_AT: 13, rows.VALUE_SIZE: 2},
        {rows.HEADERS_AT: 9, rows.HEADERS_COUNT: 2},
        {rows.HEADERS_AT: -1, rows.HEADERS_COUNT: 1},
        {rows.HEADERS_COUNT: -1},
        {rows.AREA: 2},
        {rows.AREA: -1},
    ],
)
def test_positions_outside_the_data_are_refused(
    run: Callable[[Any], Any], bad: dict[int, int]
) -> None:
    """No byte outside the data is read."""
    status, row, _ = lines(run, table({}, bad))

    assert (status, row) == (rows.BAD_ARGUMENT, 1)


@pytest.mark.parametrize("ends", [[0], [1, *range(2, 17)], [0] * 15 + [10**9], [0] * 16])
def test_a_malformed_template_is_rejected(run: Callable[[Any], Any], ends: list[int]) -> None:
    """A template that lacks pieces, base64's letters, or bytes in its buffer is rejected."""
    assert lines(run, table({}), ends=ends)[0] == rows.BAD_ARGUMENT
    assert len(WORDS) == record_lines.PIECES
