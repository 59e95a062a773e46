"""Copies of short byte ranges inside kernels.

Copying whole vectors is faster, but writes past the range, so it is used only where there is slack
after both ranges. The caller states how many bytes may be read and written.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernels.runtime.intrinsics import copy32, copy_exact
from tidelog.kernels.runtime.jit import inlined

VECTOR_BYTES: Final = 32
SLACK_BYTES: Final = 64
"""Bytes required after the range on both sides for whole vectors to be used."""
LONG_BYTES: Final = 1024
"""From this size on, the exact copy is as fast."""


@inlined
def copy_piece(target: int, target_room: int, source: int, source_room: int, size: int) -> None:
    """Copy ``size`` bytes; may also write up to 31 bytes after them, but never beyond the room.

    The caller has checked that ``size`` does not exceed either room.
    """
    if size <= LONG_BYTES and min(target_room, source_room) - size >= SLACK_BYTES:
        for at in range(0, size, VECTOR_BYTES):
            copy32(target + at, source + at)
    else:
        copy_exact(target, source, size)
