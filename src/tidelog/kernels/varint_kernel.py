"""Zigzag varints inside kernels.

A number is decoded from a window, the eight bytes at its address as one word, so that short numbers
need no loop. Kafka: ``ByteUtils``.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernels.runtime.intrinsics import (
    leading_zeros,
    load8,
    load64,
    shift_left,
    shift_right,
    store8,
)
from tidelog.kernels.runtime.jit import called, inlined

MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10


@called
def _short_window(address: int, room: int) -> int:
    """Return up to seven bytes at ``address`` as a word, padded with zeros above them."""
    word = 0
    for index in range(room):
        word |= load8(address + index) << 8 * index
    return word


@inlined
def window(address: int, room: int) -> int:
    """Return the eight bytes at ``address`` as a word, or the ``room`` bytes there are."""
    return load64(address) if room >= 8 else _short_window(address, room)


@called
def _long_unsigned(address: int, room: int, most_bytes: int) -> tuple[int, int]:
    """Return the unsigned number at ``address`` and its size; size 0 if malformed or cut short."""
    value = 0
    for index in range(min(room, most_bytes)):
        byte = load8(address + index)
        value |= shift_left(byte & 0x7F, 7 * index)
        if byte < 0x80:
            return value, index + 1
    return 0, 0


@inlined
def _unsigned(word: int, address: int, room: int, most_bytes: int) -> tuple[int, int]:
    """Return the unsigned number at ``address``, whose window is ``word``, and its size."""
    if word & 0x80 == 0:
        return word & 0x7F, 1
    if word & 0x8000 == 0:
        return word & 0x7F | word >> 1 & 0x3F80, 2
    if word & 0x80_0000 == 0:
        return word & 0x7F | word >> 1 & 0x3F80 | word >> 2 & 0x1F_C000, 3
    return _long_unsigned(address, room, most_bytes)


@inlined
def read_varint(address: int, room: int) -> tuple[int, int]:
    """Return the int32 at ``address`` and its size; size 0 if malformed or larger than ``room``."""
    raw, size = _unsigned(window(address, room), address, room, MAX_VARINT_BYTES)
    raw &= 0xFFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), size if size <= room else 0


@inlined
def read_varlong(address: int, room: int) -> tuple[int, int]:
    """Return the int64 at ``address`` and its size; size 0 if malformed or larger than ``room``."""
    raw, size = _unsigned(window(address, room), address, room, MAX_VARLONG_BYTES)
    return shift_right(raw, 1) ^ -(raw & 1), size if size <= room else 0


@inlined
def zigzag(value: int) -> int:
    """Return the zigzag encoding of ``value``: an unsigned word, small for numbers near zero."""
    return shift_left(value, 1) ^ (value >> 63)


@inlined
def unsigned_bytes(word: int) -> int:
    """Return the size of ``word`` as an unsigned varint, 1 to 10 bytes."""
    return (70 - leading_zeros(word | 1)) * 9363 >> 16  # division by 7


@inlined
def varint_bytes(value: int) -> int:
    """Return the size in bytes of ``value`` as a varint or, equally, as a varlong."""
    return unsigned_bytes(zigzag(value))


@called
def _write_long(address: int, word: int) -> int:
    """Write an unsigned varint of any size; return the address after it."""
    while word & ~0x7F:
        store8(address, word | 0x80)
        word = shift_right(word, 7)
        address += 1
    store8(address, word)
    return address + 1


@inlined
def write_varint(address: int, value: int) -> int:
    """Write ``value`` as a zigzag varint; return the address after it. Does not check the room."""
    word = zigzag(value)
    if word & ~0x7F == 0:
        store8(address, word)
        return address + 1
    if word & ~0x3FFF == 0:
        store8(address, word | 0x80)
        store8(address + 1, word >> 7)
        return address + 2
    return _write_long(address, word)
