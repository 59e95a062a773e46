"""One record of a v2 batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.errors import InvalidRecord
from tidelog.records.batch import wrap_int64
from tidelog.records.record import (
    MIN_RECORD_BYTES,
    advance_sequence,
    read_headers,
    scan_record,
    slice_or_none,
    text_as_java,
    write_record,
)

if TYPE_CHECKING:
    from tidelog.records.record import Header


HEADERS = (("name", b"value"), ("name", None), ("", b""), ("\u00e9\u4e2d", b"x"))


def written(
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: tuple[Header, ...] = HEADERS,
) -> memoryview:
    out = bytearray()
    write_record(out, -5, 3, key=key, value=value, headers=headers)
    return memoryview(bytes(out))


@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 300])
@pytest.mark.parametrize("value", [None, b"", b"value", b"v" * 70_000])
def test_a_record_reads_as_it_was_written(key: bytes | None, value: bytes | None) -> None:
    """Key, value and headers are restored; null and empty are distinct."""
    data = written(key, value)

    span = scan_record(data, 0, len(data))

    assert (-5, 3, len(data)) == (span.timestamp_delta, span.offset_delta, span.next_position)
    assert key == slice_or_none(data, span.key_at, span.key_size)
    assert value == slice_or_none(data, span.value_at, span.value_size)
    assert read_headers(data, span.headers_at, span.headers_count) == HEADERS


def test_the_smallest_record_has_seven_bytes() -> None:
    """No record is smaller than MIN_RECORD_BYTES, which bounds the number of records."""
    out = bytearray()
    write_record(out, 0, 0, key=None, value=None)

    assert len(out) == MIN_RECORD_BYTES


@pytest.mark.parametrize(
    "body",
    [
        "00 00 00 03 01 00",  # length ends before the key
        "0e 00 00 00 01 01 00",  # length passes the end
        "01 00 00 00 01 01 00",  # negative length
        "0c 00 00 00 01 01 01",  # negative number of headers
        "0c 00 00 00 01 01 c8 01",  # more headers than bytes
        "10 00 00 00 01 01 02 01 00",  # header without a name
        "0c 00 80 80 80 80 80 80 80 80 80 80 01",  # varlong of eleven bytes
        "0c 00 00 80 80 80 80 80 01",  # varint of six bytes
        "0c 00 00 00 fe ff ff ff 0f",  # key of 2**31 - 1 bytes
        "10 00 00 00 01 01 00 00 00",  # bytes left over inside the record
    ],
)
def test_a_malformed_record_is_invalid(body: str) -> None:
    """Any inconsistent length, number or count makes the record invalid."""
    data = memoryview(bytes.fromhex(body))

    with pytest.raises(InvalidRecord):
        scan_record(data, 0, len(data))


def test_every_cut_record_is_invalid() -> None:
    """A record that is cut anywhere is invalid, whether the buffer or only the area ends there."""
    data = written()

    assert len(data) > 20
    for end in range(len(data)):
        with pytest.raises(InvalidRecord):
            scan_record(data[:end], 0, end)
        with pytest.raises(InvalidRecord):
            scan_record(data, 0, end)


def test_an_invalid_header_name_is_replaced() -> None:
    """Invalid bytes of a header name become U+FFFD, as in Java's decoder."""
    data = memoryview(bytes.fromhex("04 61 ff 01"))

    assert read_headers(data, 0, 1) == (("a\ufffd", None),)


def test_numbers_wrap_as_java_longs_do() -> None:
    """Offsets and timestamps are 64-bit sums that wrap around."""
    assert wrap_int64(2**63) == -(2**63)
    assert wrap_int64(-(2**63) - 1) == 2**63 - 1


@pytest.mark.parametrize(
    ("base", "delta", "expected"),
    [(0, 5, 5), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2), (-1, 5, -1)],
)
def test_sequences_wrap_to_zero(base: int, delta: int, expected: int) -> None:
    """0 follows sequence 2**31 - 1; without a sequence the result is -1."""
    assert expected == advance_sequence(base, delta)


def test_bad_text_is_replaced_as_java_does() -> None:
    """An invalid byte becomes U+FFFD; the bytes of a lone surrogate become a single one."""
    assert text_as_java(b"a\xff\xed\xa0\x80\xed\xa0b\xe0\x80") == "a���b��"
