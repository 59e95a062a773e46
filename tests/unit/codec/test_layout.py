"""Fixed-size structures declared once."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import pytest

from tidelog.codec.layout import Layout, Wire, byte_view
from tidelog.errors import InvalidArgument


class Pair(NamedTuple):
    """An example."""

    first: Annotated[int, Wire("h", "Two bytes.")]
    second: Annotated[int, Wire("q", "Eight bytes.")]


PAIR = Layout(Pair)


def test_fields_follow_each_other_without_padding() -> None:
    """Sizes and positions come from the declaration alone."""
    assert (PAIR.size, PAIR.offsets, PAIR.name) == (10, {"first": 0, "second": 2}, "Pair")


def test_numbers_are_big_endian() -> None:
    """The most significant byte comes first."""
    assert bytes.fromhex("0001fffffffffffffffe") == PAIR.pack(Pair(1, -2))


def test_a_structure_is_read_and_written_at_any_position() -> None:
    """Bytes before and after the structure are not touched."""
    buffer = bytearray(b"\xaa" * 12)

    PAIR.pack_into(Pair(-1, 5), buffer, 1)

    assert (bytes(buffer[:1]), bytes(buffer[11:])) == (b"\xaa", b"\xaa")
    assert Pair(-1, 5) == PAIR.unpack(buffer, 1)


def test_a_view_shows_any_buffer_as_bytes_without_a_copy() -> None:
    """Bytes written through the array are visible in the view."""
    array = np.zeros(4, np.uint8)
    view = byte_view(array)

    array[2] = 7

    assert view.tolist() == [0, 0, 7, 0]


def test_a_view_needs_contiguous_bytes() -> None:
    """Every second byte of an array is not contiguous memory."""
    with pytest.raises(TypeError):
        byte_view(np.zeros(4, np.uint8)[::2])


def test_a_number_larger_than_its_field_is_rejected() -> None:
    """``pack``, ``pack_into`` and ``pack_field`` raise InvalidArgument."""
    with pytest.raises(InvalidArgument, match="Pair has a value out of range"):
        PAIR.pack(Pair(2**15, 0))
    with pytest.raises(InvalidArgument, match="Pair has a value out of range"):
        PAIR.pack_into(Pair(0, 2**63), bytearray(10), 0)
    with pytest.raises(InvalidArgument, match=r"Pair\.second is out of range"):
        PAIR.pack_field("second", 2**63, bytearray(10))


def test_one_field_is_written_in_its_place() -> None:
    """The rest stays as it is."""
    written = bytearray(PAIR.pack(Pair(1, 2)) * 2)

    PAIR.pack_field("second", 3, written, PAIR.size)

    assert bytes(written) == PAIR.pack(Pair(1, 2)) + PAIR.pack(Pair(1, 3))
