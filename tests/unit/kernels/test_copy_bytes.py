"""Copies of short ranges never touch a byte beyond their room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

from tidelog.kernels.copy_bytes import copy_piece
from tidelog.kernels.runtime.intrinsics import address_of

if TYPE_CHECKING:
    from collections.abc import Callable


def copied(out: np.ndarray, room: int, source: np.ndarray, size: int) -> None:
    copy_piece(address_of(out), room, address_of(source), source.size, size)


@pytest.mark.parametrize("copier", [copied, numba.njit(copied)], ids=["python", "compiled"])
@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 100, 1024, 1025])
@pytest.mark.parametrize("spare", [0, 1, 63, 64, 200])
def test_a_copy_is_whole_and_stays_in_its_room(
    copier: Callable[..., Any], size: int, spare: int
) -> None:
    """All bytes are copied; nothing changes after the room, whether or not vectors are used."""
    source = np.arange(size + spare, dtype=np.uint8)
    out = np.full(size + spare + 64, 0xEE, np.uint8)

    copier(out, size + spare, source, size)

    assert out[:size].tobytes() == source[:size].tobytes()
    assert set(out[size + spare :]) == {0xEE}
