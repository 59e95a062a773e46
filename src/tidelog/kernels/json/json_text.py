"""JSON strings and decimal numbers, written inside kernels.

Functions take and return addresses. A writer returns the address after its output, or 0 if the
bytes are not valid text. The caller provides room for the longest possible output plus
``SPARE_BYTES``.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernels.runtime.intrinsics import (
    leading_zeros,
    load8,
    shift_left,
    store8,
    store64,
    subtract64,
)
from tidelog.kernels.runtime.jit import called, inlined
from tidelog.kernels.varint_kernel import window

UTF8: Final = 0
BASE64: Final = 1
HEX: Final = 2

MOST_EXPANSION: Final = 6
"""Greatest number of bytes written for one byte: a control character becomes six."""
SPARE_BYTES: Final = 8
"""Bytes that may be written after a text."""
MOST_DIGITS: Final = 20

_EACH: Final = 0x0101010101010101
_HIGH: Final = -0x7F7F7F7F7F7F7F80
"""The top bit of each byte of a word."""
_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_SPACE: Final = 0x20
_FILLER: Final = 0x61


@inlined
def _zero_bytes(word: int) -> int:
    """Return a word with the top bit of its first zero byte set, and possibly of later bytes."""
    return subtract64(word, _EACH) & ~word & _HIGH


@inlined
def _special_bytes(word: int) -> int:
    """Flag, as ``_zero_bytes`` does, bytes that must be escaped or are not ASCII."""
    below_space = subtract64(word, _SPACE * _EACH) & ~word
    quoted = _zero_bytes(word ^ _QUOTE * _EACH) | _zero_bytes(word ^ _BACKSLASH * _EACH)
    return (word | below_space) & _HIGH | quoted


@inlined
def _first_flagged(flags: int) -> int:
    """Return the index of the lowest flagged byte; there must be one."""
    return (63 - leading_zeros(flags & subtract64(0, flags))) >> 3


@inlined
def _short_escape(byte: int) -> int:
    """Return the letter that follows the backslash in a byte's short escape, 0 if it has none."""
    if byte in (_QUOTE, _BACKSLASH):
        return byte
    if byte == 0x0A:
        return 0x6E
    if byte == 0x0D:
        return 0x72
    if byte == 0x09:
        return 0x74
    if byte == 0x08:
        return 0x62
    return 0x66 if byte == 0x0C else 0


@inlined
def _hex_digit(value: int) -> int:
    return value + 0x30 if value < 10 else value + 0x57


@called
def _write_escape(target: int, byte: int) -> int:
    """Write the escape sequence of an ASCII byte."""
    store8(target, _BACKSLASH)
    letter = _short_escape(byte)
    if letter:
        store8(target + 1, letter)
        return target + 2
    store8(target + 1, 0x75)
    store8(target + 2, 0x30)
    store8(target + 3, 0x30)
    store8(target + 4, _hex_digit(byte >> 4))
    store8(target + 5, _hex_digit(byte & 15))
    return target + 6


@inlined
def _sequence_bytes(first: int) -> int:
    """Return the length of a UTF-8 sequence by its first byte, 0 if that is not valid."""
    if 0xC2 <= first <= 0xDF:
        return 2
    if 0xE0 <= first <= 0xEF:
        return 3
    return 4 if 0xF0 <= first <= 0xF4 else 0


@inlined
def _is_second(first: int, second: int) -> bool:
    """Return whether ``second`` may follow: not overlong, not a surrogate, at most U+10FFFF."""
    least = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    most = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    return least <= second <= most


@called
def _copy_sequence(target: int, source: int, size: int) -> int:
    """Copy one non-ASCII UTF-8 sequence; return its length, 0 if it is not valid."""
    first = load8(source)
    count = _sequence_bytes(first)
    if count == 0 or count > size:
        return 0
    second = load8(source + 1)
    if not _is_second(first, second):
        return 0
    store8(target, first)
    store8(target + 1, second)
    for index in range(2, count):
        byte = load8(source + index)
        if byte & 0xC0 != 0x80:
            return 0
        store8(target + index, byte)
    return count


@called
def write_utf8(target: int, source: int, size: int, room: int) -> int:
    """Write ``size`` bytes, escaped; ``room`` bytes, at least ``size``, may be read."""
    while size > 0:
        word = window(source, room)
        if size < 8:
            kept = shift_left(1, 8 * size) - 1
            word = word & kept | _FILLER * _EACH & ~kept
        flags = _special_bytes(word)
        store64(target, word)
        plain = min(size, 8) if flags == 0 else _first_flagged(flags)
        target += plain
        source += plain
        size -= plain
        room -= plain
        if flags == 0:
            continue
        byte = load8(source)
        used = 1
        if byte < 0x80:
            target = _write_escape(target, byte)
        else:
            used = _copy_sequence(target, source, size)
            if used == 0:
                return 0
            target += used
        source += used
        size -= used
        room -= used
    return target


@called
def _write_base64(target: int, source: int, size: int, signs: int) -> int:
    while size >= 3:
        bits = load8(source) << 16 | load8(source + 1) << 8 | load8(source + 2)
        for index in range(4):
            store8(target + index, load8(signs + (bits >> 18 - 6 * index & 63)))
        target += 4
        source += 3
        size -= 3
    if size == 0:
        return target
    bits = load8(source) << 16
    if size == 2:
        bits |= load8(source + 1) << 8
    store8(target, load8(signs + (bits >> 18)))
    store8(target + 1, load8(signs + (bits >> 12 & 63)))
    store8(target + 2, load8(signs + (bits >> 6 & 63)) if size == 2 else 0x3D)
    store8(target + 3, 0x3D)
    return target + 4


@called
def _write_hex(target: int, source: int, size: int) -> int:
    for index in range(size):
        byte = load8(source + index)
        store8(target + 2 * index, _hex_digit(byte >> 4))
        store8(target + 2 * index + 1, _hex_digit(byte & 15))
    return target + 2 * size


@called
def write_text(target: int, source: int, size: int, room: int, encoding: int, signs: int) -> int:
    """Write bytes in an encoding; ``signs`` is the address of base64's 64 characters."""
    if encoding == BASE64:
        return _write_base64(target, source, size, signs)
    if encoding == HEX:
        return _write_hex(target, source, size)
    return write_utf8(target, source, size, room)


@called
def write_number(target: int, value: int) -> int:
    """Write a decimal number of at most ``MOST_DIGITS`` bytes; the least int64 is not supported."""
    if value < 0:
        value = subtract64(0, value)
        store8(target, 0x2D)
        target += 1
    count = 1
    left = value // 10
    while left > 0:
        left //= 10
        count += 1
    for index in range(count - 1, -1, -1):
        store8(target + index, 0x30 + value % 10)
        value //= 10
    return target + count
