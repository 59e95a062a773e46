"""Variable-length integers, as in Kafka's ByteUtils."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.codec import varint
from tidelog.errors import InvalidArgument, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable


INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (300, "d804"),
        (INT32[1], "feffffff0f"),
        (INT32[0], "ffffffff0f"),
    ],
)
def test_a_varint_is_zigzag_in_groups_of_seven_bits(value: int, written: str) -> None:
    """Small numbers of either sign take few bytes; the lowest seven bits come first."""
    out = bytearray()

    varint.write_varint(out, value)

    assert written == out.hex()
    assert (value, len(out)) == varint.read_varint(out, 0)


@pytest.mark.parametrize(
    ("value", "written"),
    [(INT64[1], "feffffffffffffffff01"), (INT64[0], "ffffffffffffffffff01"), (-1, "01")],
)
def test_a_varlong_takes_up_to_ten_bytes(value: int, written: str) -> None:
    """The whole 64-bit range fits in ten bytes."""
    out = bytearray()

    varint.write_varlong(out, value)

    assert written == out.hex()
    assert (value, len(out)) == varint.read_varlong(out, 0)


def test_an_unsigned_varint_has_no_sign_bit() -> None:
    """The unsigned form covers the whole range of its width."""
    out = bytearray()

    varint.write_unsigned_varint(out, 2**32 - 1)

    assert out.hex() == "ffffffff0f"
    assert varint.read_unsigned_varint(out, 0) == (2**32 - 1, 5)


def test_reading_starts_anywhere_and_returns_the_end() -> None:
    """The position after a number is where the next one starts."""
    data = memoryview(bytes.fromhex("ffd80401ff"))

    assert varint.read_varint(data, 1) == (300, 3)
    assert varint.read_varint(data, 3) == (-1, 4)


def test_a_longer_form_than_needed_is_read() -> None:
    """As in Kafka, the encoding need not be the shortest one."""
    assert varint.read_varint(bytes.fromhex("8080808000"), 0) == (0, 5)


def test_bits_beyond_the_width_are_dropped() -> None:
    """As in Kafka, the last byte's upper bits are shifted out of the integer."""
    assert varint.read_varint(bytes.fromhex("ffffffff7f"), 0) == (-(2**31), 5)
    assert varint.read_unsigned_varint(bytes.fromhex("ffffffff7f"), 0) == (2**32 - 1, 5)
    assert varint.read_varlong(bytes.fromhex("ff" * 9 + "7f"), 0) == (-(2**63), 10)


@pytest.mark.parametrize(
    ("read", "max_bytes"),
    [
        (varint.read_varint, 5),
        (varint.read_unsigned_varint, 5),
        (varint.read_varlong, 10),
    ],
)
def test_a_number_with_too_many_bytes_is_invalid(
    read: Callable[..., tuple[int, int]], max_bytes: int
) -> None:
    """A fifth byte (tenth for 64 bits) with the continuation bit makes the record invalid."""
    with pytest.raises(InvalidRecord, match=f"more than {max_bytes} bytes at byte 1"):
        read(b"\x00" + b"\x80" * max_bytes + b"\x00", 1)


@pytest.mark.parametrize("read", [varint.read_varint, varint.read_varlong])
@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x80\x80\x80"])
def test_a_truncated_number_is_invalid(read: Callable[..., tuple[int, int]], data: bytes) -> None:
    """Data that ends inside a number makes the record invalid."""
    with pytest.raises(InvalidRecord, match="ends inside a varint"):
        read(data, 0)


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (varint.write_varint, 2**31),
        (varint.write_varint, -(2**31) - 1),
        (varint.write_varlong, 2**63),
        (varint.write_unsigned_varint, -1),
        (varint.write_unsigned_varint, 2**32),
    ],
)
def test_a_value_that_does_not_fit_is_rejected(
    write: Callable[[bytearray, int], object], value: int
) -> None:
    """Nothing is written for a value beyond the width."""
    out = bytearray()

    with pytest.raises(InvalidArgument):
        write(out, value)

    assert out == b""
