"""CRC-32C in kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

from tidelog.codec.crc32c import crc32c as reference
from tidelog.kernels.hashing import crc
from tidelog.kernels.hashing.crc_folding import HAVE_FOLDING
from tidelog.kernels.rows import BAD_ARGUMENT
from tidelog.kernels.runtime.intrinsics import HAVE_CRC_INSTRUCTION, address_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SIZES = (0, 1, 7, 8, 9, 255, 256, 257, 767, 768, 769, 6143, 6144, 6145, 16_001)
"""Sizes around multiples of words, blocks, short streams and long ones."""


@pytest.mark.parametrize("size", SIZES)
def test_the_kernel_agrees_with_the_package(
    run: Callable[[Any], Any], rng: random.Random, size: int
) -> None:
    """Any slice has the CRC that the crc32c package computes."""
    data = rng.randbytes(size + 5)

    found = run(crc.crc32c)(np.frombuffer(data, np.uint8), 3, 3 + size)

    assert reference(data[3 : 3 + size]) == found


WAYS = {
    crc._crc_by_folding: HAVE_FOLDING,
    crc._crc_by_instruction: HAVE_CRC_INSTRUCTION,
    crc._crc_by_tables: True,
}
"""An implementation that the CPU does not support runs as Python, but does not compile."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_each_way_gives_the_same(
    rng: random.Random, way: Callable[[int, int], int], size: int
) -> None:
    """All implementations give the same CRC, whichever one suits the CPU."""
    data = np.frombuffer(rng.randbytes(size), np.uint8)
    address = address_of(data)

    assert reference(data.tobytes()) == way(address, address + size)


@pytest.mark.parametrize("way", [way for way, is_for_here in WAYS.items() if is_for_here])
def test_each_way_compiles(rng: random.Random, way: Callable[[int, int], int]) -> None:
    """Implementations that this CPU does not need compile too, with the same result."""

    @numba.njit
    def compiled(data: np.ndarray) -> int:
        return way(address_of(data), address_of(data) + data.size)

    for size in SIZES:
        data = np.frombuffer(rng.randbytes(size), np.uint8)
        assert reference(data.tobytes()) == compiled(data)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, 11)])
def test_a_slice_outside_the_data_is_refused(
    run: Callable[[Any], Any], start: int, end: int
) -> None:
    """Bounds outside the data give a status, and nothing is read."""
    assert run(crc.crc32c)(np.zeros(10, np.uint8), start, end) == BAD_ARGUMENT
