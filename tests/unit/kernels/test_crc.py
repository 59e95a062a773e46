"""CRC-32C in kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

from tidelog.codec.crc32c import crc32c as reference
from tidelog.kernels import crc
from tidelog.kernels.columns import BAD_ARGUMENT

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SIZES = (0, 1, 7, 8, 9, 767, 768, 769, 6143, 6144, 6145, 16_001)
"""Around the ends of words, short streams and long ones."""


@pytest.mark.parametrize("size", SIZES)
def test_the_kernel_agrees_with_the_package(
    run: Callable[[Any], Any], rng: random.Random, size: int
) -> None:
    """Any slice has the CRC that the crc32c package gives it."""
    data = rng.randbytes(size + 5)

    found = run(crc.crc32c)(np.frombuffer(data, np.uint8), 3, 3 + size)

    assert reference(data[3 : 3 + size]) == found


@pytest.mark.parametrize("size", SIZES)
def test_tables_give_what_the_instruction_gives(rng: random.Random, size: int) -> None:
    """A CPU without the instruction gets the same CRC, from tables."""
    data = np.frombuffer(rng.randbytes(size), np.uint8)
    address = crc.address_of(data)

    assert reference(data.tobytes()) == crc._crc_by_tables(address, address + size)


def test_compiled_tables_give_what_plain_ones_give(rng: random.Random) -> None:
    """The fallback compiles, to the same result."""
    by_tables = crc._crc_by_tables
    address_of = crc.address_of

    @numba.njit
    def compiled(data: np.ndarray) -> int:
        return by_tables(address_of(data), address_of(data) + data.size)

    data = np.frombuffer(rng.randbytes(1000), np.uint8)

    assert reference(data.tobytes()) == compiled(data)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, 11)])
def test_a_slice_outside_the_data_is_refused(
    run: Callable[[Any], Any], start: int, end: int
) -> None:
    """Bounds that do not lie in the data give a status, not a read."""
    assert run(crc.crc32c)(np.zeros(10, np.uint8), start, end) == BAD_ARGUMENT
