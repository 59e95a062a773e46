"""Variable-length numbers inside kernels.

Owns the decoding and encoding of zigzag varints from and to words. Must not know arrays. A number
is read from a window, the eight bytes at its address as one word, so the common short ones cost
no loop. Kafka: ``ByteUtils``.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernels.intrinsics import load8, load64, shift_left, shift_right
from tidelog.kernels.jit import inlined, kernel

MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10


@kernel(None)
def _short_window(address: int, room: int) -> int:
    """Return up to seven bytes at ``address`` as a word, zeros above them."""
    word = 0
    for index in range(room):
        word |= load8(address + index) << 8 * index
    return word


@inlined
def window(address: int, room: int) -> int:
    """Return the eight bytes at ``address`` as a word, or as many as ``room`` says there are."""
    return load64(address) if room >= 8 else _short_window(address, room)


@kernel(None)
def _long_unsigned(address: int, room: int, most_bytes: int) -> tuple[int, int]:
    """Return the unsigned number at ``address`` and its bytes; 0 bytes if illegal or cut short."""
    value = 0
    for index in range(min(room, most_bytes)):
        byte = load8(address + index)
        value |= shift_left(byte & 0x7F, 7 * index)
        if byte < 0x80:
            return value, index + 1
    return 0, 0


@inlined
def _unsigned(word: int, address: int, room: int, most_bytes: int) -> tuple[int, int]:
    """Return the unsigned number at ``address``, whose window is ``word``, and its bytes."""
    if word & 0x80 == 0:
        return word & 0x7F, 1
    if word & 0x8000 == 0:
        return word & 0x7F | word >> 1 & 0x3F80, 2
    if word & 0x80_0000 == 0:
        return word & 0x7F | word >> 1 & 0x3F80 | word >> 2 & 0x1F_C000, 3
    return _long_unsigned(address, room, most_bytes)


@inlined
def read_varint(address: int, room: int) -> tuple[int, int]:
    """Return the int32 at ``address`` and its bytes: 0 when illegal or more than ``room``."""
    raw, size = _unsigned(window(address, room), address, room, MAX_VARINT_BYTES)
    raw &= 0xFFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), size if size <= room else 0


@inlined
def read_varlong(address: int, room: int) -> tuple[int, int]:
    """Return the int64 at ``address`` and its bytes: 0 when illegal or more than ``room``."""
    raw, size = _unsigned(window(address, room), address, room, MAX_VARLONG_BYTES)
    return shift_right(raw, 1) ^ -(raw & 1), size if size <= room else 0
