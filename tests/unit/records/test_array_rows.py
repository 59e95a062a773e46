"""Named rows of an array."""

from __future__ import annotations

import numpy as np

from tidelog.records.array_rows import Row, as_bytes


class Pair:
    """Two rows, the second of which has a name."""

    second = Row(1, "The second row.")

    def __init__(self) -> None:
        self.array = np.arange(6).reshape(2, 3)


def test_a_named_row_is_a_view() -> None:
    """Writing through the name changes the table."""
    pair = Pair()

    pair.second[0] = 77

    assert pair.array[1].tolist() == [77, 4, 5]


def test_bytes_are_not_copied() -> None:
    """An array over a bytearray shares its memory."""
    data = bytearray(3)

    as_bytes(data)[1] = 9

    assert data == b"\0\x09\0"
