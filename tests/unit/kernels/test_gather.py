"""Slices of a buffer made contiguous, and the positions of headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.gather import gather, header_positions

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

DATA = np.frombuffer(b"abcdefghij", np.uint8)


def gathered(
    kernel: Callable[..., int],
    data: Any,
    slices: list[tuple[int, int]],
    room: int | None = None,
) -> tuple[int, list[int], bytes, list[int]]:
    at, size = (np.array(part, np.int64) for part in zip(*slices, strict=True))
    wanted = int(np.maximum(size, 0).sum())
    offsets = np.zeros(len(slices) + 1, np.int32)
    out = np.zeros(wanted if room is None else room, np.uint8)
    valid = np.full(len(slices), 9, np.uint8)
    nulls = kernel(data, at, size, offsets, out, valid)
    return nulls, offsets.tolist(), out[:wanted].tobytes(), valid.tolist()


def test_slices_are_contiguous(run: Callable[[Any], Any]) -> None:
    """Bytes, offsets, nulls and flags have Arrow's layout."""
    slices = [(2, 3), (0, -1), (9, 1), (4, 0), (0, 2)]

    found = gathered(run(gather), DATA, slices)

    assert found == (1, [0, 3, 3, 4, 4, 6], b"cdejab", [1, 0, 1, 1, 1])


@pytest.mark.parametrize("room", [0, 1, 40, 1_000])
def test_many_sizes_arrive_whole(run: Callable[[Any], Any], rng: random.Random, room: int) -> None:
    """Slices of every size are copied, with and without spare room after them."""
    data = rng.randbytes(5_000)
    slices = [(rng.randrange(3_000), size) for size in (0, 1, 31, 32, 33, 500, 1_024, 1_025, 2_000)]
    expected = b"".join(data[at : at + size] for at, size in slices)

    _, _, found, _ = gathered(
        run(gather), np.frombuffer(data, np.uint8), slices, len(expected) + room
    )

    assert expected == found


@pytest.mark.parametrize("bad", [(-1, 1), (9, 2), (11, 0), (0, 11), (2**62, 1), (-(2**63), 1)])
def test_a_slice_outside_the_data_is_refused(
    run: Callable[[Any], Any], bad: tuple[int, int]
) -> None:
    """No byte outside the data is copied."""
    nulls, *_ = gathered(run(gather), DATA, [(0, 1), bad], room=64)

    assert nulls == rows.BAD_ARGUMENT


def test_a_buffer_too_small_is_not_overrun(run: Callable[[Any], Any]) -> None:
    """An output too small for the slices gives a status."""
    nulls, *_ = gathered(run(gather), DATA, [(0, 4), (0, 4)], room=7)

    assert nulls == rows.BAD_ARGUMENT


def test_more_bytes_than_an_offset_reaches_are_refused(run: Callable[[Any], Any]) -> None:
    """More than 2**31 - 1 bytes exceed int32 offsets: BAD_LENGTH, and nothing is copied."""
    data = np.zeros(2**31, np.uint8)  # never touched, so it takes no memory
    at, size = np.zeros(1, np.int64), np.array([2**31], np.int64)
    out, valid = np.zeros(1, np.uint8), np.zeros(1, np.uint8)

    assert run(gather)(data, at, size, np.zeros(2, np.int32), out, valid) == -1


def test_arrays_of_different_lengths_are_refused(run: Callable[[Any], Any]) -> None:
    """Offsets and flags must have room for every slice."""
    at = np.zeros(3, np.int64)
    out = np.zeros(1, np.uint8)

    short_offsets = run(gather)(DATA, at, at, np.zeros(3, np.int32), out, np.zeros(3, np.uint8))
    short_valid = run(gather)(DATA, at, at, np.zeros(4, np.int32), out, np.zeros(2, np.uint8))

    assert (short_offsets, short_valid) == (rows.BAD_ARGUMENT, rows.BAD_ARGUMENT)


HEADERS = b"\x02a\x04xy\x00\x01" + b"\x06abc\x00"
"""a: xy; an empty name: null; abc: an empty value."""


def positions_of(
    kernel: Callable[..., int], data: bytes, at: list[int], counts: list[int], columns: int
) -> tuple[int, list[int], list[list[int]]]:
    offsets = np.zeros(len(at) + 1, np.int32)
    out = np.full((rows.HEADER_COLUMNS, columns), -99, np.int64)
    found = kernel(
        np.frombuffer(data, np.uint8),
        np.array(at, np.int64),
        np.array(counts, np.int64),
        offsets,
        out,
    )
    return found, offsets.tolist(), out.T.tolist()


def test_each_header_has_its_positions(run: Callable[[Any], Any]) -> None:
    """Names and values are found record by record; a null value has size -1."""
    found = positions_of(run(header_positions), HEADERS, [0, 0, 7], [2, 0, 1], 3)

    positions = [[1, 1, 3, 2], [6, 0, 7, -1], [8, 3, 12, 0]]
    assert found == (3, [0, 2, 2, 3], positions)


@pytest.mark.parametrize(
    ("data", "at", "count", "status"),
    [
        (b"\x01\x01", 0, 1, rows.BAD_HEADER),
        (b"\x04a", 0, 1, rows.BAD_HEADER),
        (b"\x02a\x04x", 0, 1, rows.BAD_HEADER),
        (b"\x02a", 0, 1, rows.BAD_HEADER),
        (HEADERS, 99, 1, rows.BAD_HEADER),
        (HEADERS, -1, 1, rows.BAD_ARGUMENT),
        (HEADERS, 0, -1, rows.BAD_ARGUMENT),
        (HEADERS, 0, 4, rows.BAD_ARGUMENT),
    ],
)
def test_malformed_headers_are_refused(
    run: Callable[[Any], Any], data: bytes, at: int, count: int, status: int
) -> None:
    """Malformed headers, and counts that do not match the arrays, give a status."""
    found, *_ = positions_of(run(header_positions), data, [at], [count], 3)

    assert status == found
