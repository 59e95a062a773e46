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


def test_fields_lie_one_after_another_without_gaps() -> None:
    """Sizes and positions come from the declaration alone, and there is no padding."""
    assert (PAIR.size, PAIR.offsets, PAIR.name) == (10, {"first": 0, "second": 2}, "Pair")


def test_numbers_are_big_endian() -> None:
    """The most significant byte comes first."""
    assert bytes.fromhex("0001fffffffffffffffe") == PAIR.pack(Pair(1, -2))


def test_a_structure_is_read_and_written_at_any_position() -> None:
    """What lies before and after stays as it is."""
    buffer = bytearray(b"\xaa" * 12)

    PAIR.pack_into(Pair(-1, 5), buffer, 1)

    assert (bytes(buffer[:1]), bytes(buffer[11:])) == (b"\xaa", b"\xaa")
    assert Pair(-1, 5) == PAIR.unpack(buffer, 1)


def test_a_view_shows_any_buffer_as_bytes_in_place() -> None:
    """Nothing is copied: what is written through the array is seen through the view."""
    array = np.zeros(4, np.uint8)
    view = byte_view(array)

    array[2] = 7

    assert view.tolist() == [0, 0, 7, 0]


def test_a_view_needs_bytes_without_gaps() -> None:
    """Every second byte of an array is no place in memory that can be read as one."""
    with pytest.raises(TypeError):
        byte_view(np.zeros(4, np.uint8)[::2])


def test_a_number_larger_than_its_field_is_refused() -> None:
    """However the bytes are written."""
    with pytest.raises(InvalidArgument, match="a Pair does not fit"):
        PAIR.pack(Pair(2**15, 0))
    with pytest.raises(InvalidArgument, match="a Pair does not fit"):
        PAIR.pack_into(Pair(0, 2**63), bytearray(10), 0)
