"""SipHash-2-4 with 128 bits, the hash of the log cleaner's offset map.

It is keyed, so that nobody can construct colliding keys without knowing the random key. Source:
Aumasson and Bernstein, SipHash; the 128-bit form is that of the authors' reference code.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernels.runtime.intrinsics import add64, shift_left, shift_right
from tidelog.kernels.runtime.jit import called, inlined
from tidelog.kernels.varint_kernel import window

_FIRST: Final = 0x736F6D6570736575
_SECOND: Final = 0x646F72616E646F6D
_THIRD: Final = 0x6C7967656E657261
_FOURTH: Final = 0x7465646279746573
_WIDE: Final = 0xEE
_WIDE_END: Final = 0xDD


@inlined
def _rotate(word: int, bits: int) -> int:
    return shift_left(word, bits) | shift_right(word, 64 - bits)


@inlined
def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    """Mix four words once."""
    a = add64(a, b)
    c = add64(c, d)
    b = _rotate(b, 13) ^ a
    d = _rotate(d, 16) ^ c
    a = _rotate(a, 32)
    c = add64(c, b)
    a = add64(a, d)
    b = _rotate(b, 17) ^ c
    d = _rotate(d, 21) ^ a
    return a, b, _rotate(c, 32), d


@inlined
def _four_rounds(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    return _round(a, b, c, d)


@called
def siphash128(address: int, size: int, room: int, low: int, high: int) -> tuple[int, int]:
    """Return the hash of ``size`` bytes at ``address`` as two words.

    ``room`` bytes, at least ``size``, may be read there; ``low`` and ``high`` are the random key.
    """
    a, b, c, d = low ^ _FIRST, high ^ _SECOND ^ _WIDE, low ^ _THIRD, high ^ _FOURTH
    left = size
    while left >= 8:
        word = window(address, 8)
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        address += 8
        room -= 8
        left -= 8
    word = shift_left(size, 56) | window(address, room) & (shift_left(1, 8 * left) - 1)
    d ^= word
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    a ^= word
    a, b, c, d = _four_rounds(a, b, c ^ _WIDE, d)
    first = a ^ b ^ c ^ d
    a, b, c, d = _four_rounds(a, b ^ _WIDE_END, c, d)
    return first, a ^ b ^ c ^ d
