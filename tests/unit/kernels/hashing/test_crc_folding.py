"""The compiled vector operation does the same as its plain-Python equivalent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np
import pytest

from tidelog.kernels.hashing.crc_folding import BLOCK, HAVE_FOLDING, crc_blocks
from tidelog.kernels.runtime.intrinsics import address_of

if TYPE_CHECKING:
    import random


def carried(crc: int, data: np.ndarray, start: int, end: int) -> int:
    return crc_blocks(crc, address_of(data) + start, address_of(data) + end)


@pytest.mark.skipif(not HAVE_FOLDING, reason="this CPU has no such instruction")
@pytest.mark.parametrize("crc", [0, 1, 2**31, 2**32 - 1])
def test_blocks_update_any_crc(rng: random.Random, crc: int) -> None:
    """One block or several, at any address, from any initial CRC."""
    compiled = numba.njit(carried)

    for blocks in (1, 2, 3, 7):
        data = np.frombuffer(rng.randbytes(blocks * BLOCK + 5), np.uint8)
        for start in (0, 1, 5):
            end = start + blocks * BLOCK
            assert carried(crc, data, start, end) == compiled(crc, data, start, end)
