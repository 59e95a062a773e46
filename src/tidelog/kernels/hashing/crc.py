"""CRC-32C of a byte range.

The implementation depends on the CPU: carry-less multiplication of vectors where it is available,
else three interleaved streams of the CRC instruction, else lookup tables. Kafka: ``Crc32C``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.kernels.hashing.crc_folding import BLOCK, HAVE_FOLDING, crc_blocks
from tidelog.kernels.rows import BAD_ARGUMENT
from tidelog.kernels.runtime.intrinsics import (
    CRC32C_POLYNOMIAL,
    HAVE_CRC_INSTRUCTION,
    address_of,
    crc_byte,
    crc_word,
    load8,
    load64,
    number,
    prefetch,
)
from tidelog.kernels.runtime.jit import BYTES, called, inlined, kernel

if TYPE_CHECKING:
    import numpy.typing as npt

LONG: Final = 2048
"""Bytes of each of the three streams that run side by side over a long range."""
SHORT: Final = 256
"""The same, for what remains of a long range."""
LINE: Final = 64
"""Bytes of a cache line; both lengths above are multiples of it."""
AHEAD: Final = 3 * LONG
"""Bytes that lines are prefetched ahead, which doubles the speed for data that is not cached."""
assert LONG % LINE == SHORT % LINE == 0

_ALL_ONES: Final = 0xFFFF_FFFF


def _byte_tables() -> npt.NDArray[np.uint32]:
    """Return eight tables of 256: the effect of a byte on a CRC 0 to 7 bytes later."""
    tables = np.zeros((8, 256), np.uint32)
    row: npt.NDArray[np.uint32] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = (row >> 1 ^ (row & 1) * CRC32C_POLYNOMIAL).astype(np.uint32)
    tables[0] = row
    for later in range(1, 8):
        row = row >> 8 ^ tables[0][row & 0xFF]
        tables[later] = row
    return tables


def _carried(crcs: npt.NDArray[np.uint32], table: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return ``crcs`` advanced over the zero bytes of ``table`` (four rows of 256, flat)."""
    a, b, c, d = (table[256 * lane + (crcs >> 8 * lane & 0xFF)] for lane in range(4))
    carried: npt.NDArray[np.uint32] = a ^ b ^ c ^ d
    return carried


def _zero_tables(size: int) -> npt.NDArray[np.uint32]:
    """Return the table that advances a CRC over ``size`` zero bytes, a power of two."""
    singles = np.array([byte << 8 * lane for lane in range(4) for byte in range(256)], np.uint32)
    table: npt.NDArray[np.uint32] = singles >> 8 ^ _TABLES[singles & 0xFF]
    for _ in range(size.bit_length() - 1):
        table = _carried(table, table)
    return table


_TABLES: Final = _byte_tables().reshape(-1)
_AFTER_LONG: Final = _zero_tables(LONG)
_AFTER_SHORT: Final = _zero_tables(SHORT)


@inlined
def _after_long(crc: int) -> int:
    """Return ``crc`` advanced over ``LONG`` zero bytes."""
    return (
        number(_AFTER_LONG[crc & 0xFF])
        ^ number(_AFTER_LONG[256 + (crc >> 8 & 0xFF)])
        ^ number(_AFTER_LONG[512 + (crc >> 16 & 0xFF)])
        ^ number(_AFTER_LONG[768 + (crc >> 24 & 0xFF)])
    )


@inlined
def _after_short(crc: int) -> int:
    """Return ``crc`` advanced over ``SHORT`` zero bytes."""
    return (
        number(_AFTER_SHORT[crc & 0xFF])
        ^ number(_AFTER_SHORT[256 + (crc >> 8 & 0xFF)])
        ^ number(_AFTER_SHORT[512 + (crc >> 16 & 0xFF)])
        ^ number(_AFTER_SHORT[768 + (crc >> 24 & 0xFF)])
    )


@inlined
def _three_streams(address: int, crc: int, size: int) -> tuple[int, int, int]:
    """Return the CRCs of three adjacent ranges of ``size`` bytes; the first continues ``crc``."""
    second = third = 0
    for line in range(address, address + size, LINE):
        for stream in range(3):
            prefetch(line + stream * size + AHEAD)
        for at in range(line, line + LINE, 8):
            crc = crc_word(crc, load64(at))
            second = crc_word(second, load64(at + size))
            third = crc_word(third, load64(at + 2 * size))
    return crc, second, third


@called
def _crc_by_instruction(address: int, end: int) -> int:
    """Return the CRC-32C of the bytes from ``address`` up to ``end``."""
    crc = _ALL_ONES
    while end - address >= 3 * LONG:
        crc, second, third = _three_streams(address, crc, LONG)
        crc = _after_long(_after_long(crc) ^ second) ^ third
        address += 3 * LONG
    while end - address >= 3 * SHORT:
        crc, second, third = _three_streams(address, crc, SHORT)
        crc = _after_short(_after_short(crc) ^ second) ^ third
        address += 3 * SHORT
    return _word_by_word(crc, address, end) ^ _ALL_ONES


@inlined
def _word_by_word(crc: int, address: int, end: int) -> int:
    """Return ``crc`` updated with the bytes from ``address`` up to ``end``; for short ranges."""
    while end - address >= 8:
        crc = crc_word(crc, load64(address))
        address += 8
    while address < end:
        crc = crc_byte(crc, load8(address))
        address += 1
    return crc


@called
def _crc_by_folding(address: int, end: int) -> int:
    """Return the CRC-32C of the bytes from ``address`` up to ``end``; needs ``HAVE_FOLDING``."""
    crc = _ALL_ONES
    blocks = end - (end - address) % BLOCK
    if address < blocks:
        crc = crc_blocks(crc, address, blocks)
    return _word_by_word(crc, blocks, end) ^ _ALL_ONES


@inlined
def _table(later: int, byte: int) -> int:
    """Return the effect of the low byte of ``byte`` on a CRC ``later`` bytes later."""
    return number(_TABLES[256 * later + (byte & 0xFF)])


@inlined
def _word_by_tables(word: int) -> int:
    """Return the CRC after eight bytes; ``word`` has the CRC before them mixed in."""
    return (
        _table(7, word)
        ^ _table(6, word >> 8)
        ^ _table(5, word >> 16)
        ^ _table(4, word >> 24)
        ^ _table(3, word >> 32)
        ^ _table(2, word >> 40)
        ^ _table(1, word >> 48)
        ^ _table(0, word >> 56)
    )


@called
def _crc_by_tables(address: int, end: int) -> int:
    """Return the CRC-32C of the bytes from ``address`` up to ``end``; needs no CPU instruction."""
    crc = _ALL_ONES
    while end - address >= 8:
        crc = _word_by_tables(load64(address) ^ crc)
        address += 8
    while address < end:
        crc = _table(0, crc ^ load8(address)) ^ (crc >> 8)
        address += 1
    return crc ^ _ALL_ONES


if HAVE_FOLDING:
    crc_between = _crc_by_folding
else:
    crc_between = _crc_by_instruction if HAVE_CRC_INSTRUCTION else _crc_by_tables
"""For kernels: the CRC-32C of the bytes between two addresses, the end exclusive."""


@kernel(f"int64({BYTES}, int64, int64)")
def crc32c(data: npt.NDArray[np.uint8], start: int, end: int) -> int:
    """Return the CRC-32C (unsigned) of ``data[start:end]``; a negative status for bad bounds."""
    if start < 0 or end < start or end > data.size:
        return BAD_ARGUMENT
    address = address_of(data)
    return crc_between(address + start, address + end)
