"""Single operations that Python cannot express: words at an address, vector copies, CRC steps.

Each has its LLVM code and, beside it, a plain-Python equivalent. Every number is an int64; a CRC is
one whose upper half is zero. No operation checks bounds: kernels do that before the call. Words are
little-endian unless the name ends in ``be`` (big-endian, as in Kafka's files).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernels.runtime.jit import (
    call_address,
    call_llvm,
    cpu_has,
    llvm_constant,
    llvm_type,
    llvm_vector,
    llvm_void,
    native,
)

if TYPE_CHECKING:
    import numpy.typing as npt

SIGN: Final = 1 << 63
MASK64: Final = (1 << 64) - 1
CRC32C_POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's polynomial, bit-reversed."""


def _signed(value: int) -> int:
    """Return the int64 with the low 64 bits of ``value``."""
    return ((value & MASK64) ^ SIGN) - SIGN


def _plain_address_of(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


@native("int64", _plain_address_of)
def address_of(builder: Any, data: Any) -> Any:
    """Return the address of an array's first byte."""
    return builder.ptrtoint(data, llvm_type(64))


def _plain_number(value: int) -> int:
    return value


@native("int64", _plain_number)
def number(_builder: Any, value: Any) -> Any:
    """Convert an array element of any integer type to an int64."""
    return value


def _plain_add(a: int, b: int) -> int:
    return _signed(a + b)


@native("int64", _plain_add)
def add64(builder: Any, a: Any, b: Any) -> Any:
    """Add with wrap-around, like Java's long; numba's ``+`` leaves overflow undefined."""
    return builder.add(a, b)


def _plain_subtract(a: int, b: int) -> int:
    return _signed(a - b)


@native("int64", _plain_subtract)
def subtract64(builder: Any, a: Any, b: Any) -> Any:
    """Subtract with wrap-around, like Java's long; numba's ``-`` leaves overflow undefined."""
    return builder.sub(a, b)


def _plain_multiply(a: int, b: int) -> int:
    return _signed(a * b)


@native("int64", _plain_multiply)
def multiply64(builder: Any, a: Any, b: Any) -> Any:
    """Multiply with wrap-around; numba's ``*`` leaves overflow undefined."""
    return builder.mul(a, b)


def _plain_shift_left(a: int, bits: int) -> int:
    return _signed(a << bits)


@native("int64", _plain_shift_left)
def shift_left(builder: Any, a: Any, bits: Any) -> Any:
    """Shift left by 0 to 63 bits; bits shifted out are dropped."""
    return builder.shl(a, bits)


def _plain_shift_right(a: int, bits: int) -> int:
    return _signed((a & MASK64) >> bits)


@native("int64", _plain_shift_right)
def shift_right(builder: Any, a: Any, bits: Any) -> Any:
    """Shift right by 0 to 63 bits, filling with zeros."""
    return builder.lshr(a, bits)


def _plain_leading_zeros(a: int) -> int:
    return 64 - (a & MASK64).bit_length()


@native("int64", _plain_leading_zeros)
def leading_zeros(builder: Any, a: Any) -> Any:
    """Return the number of zero bits above the highest one; 64 for zero."""
    return call_llvm(builder, "llvm.ctlz.i64", llvm_type(64), [a, llvm_constant(1, 0)])


def _load(builder: Any, address: Any, bits: int) -> Any:
    """Emit the load of a word at an unaligned address."""
    pointer = builder.inttoptr(address, llvm_type(bits).as_pointer())
    return builder.load(pointer, align=1)


def _store(builder: Any, address: Any, value: Any) -> None:
    """Emit the store of a word at an unaligned address."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def _plain_load8(address: int) -> int:
    return ctypes.c_uint8.from_address(address).value


@native("int64", _plain_load8)
def load8(builder: Any, address: Any) -> Any:
    """Read one byte, 0 to 255."""
    return builder.zext(_load(builder, address, 8), llvm_type(64))


def _plain_load32(address: int) -> int:
    return ctypes.c_uint32.from_address(address).value


@native("int64", _plain_load32)
def load32(builder: Any, address: Any) -> Any:
    """Read four bytes, 0 to 2**32 - 1."""
    return builder.zext(_load(builder, address, 32), llvm_type(64))


def _plain_load64(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


@native("int64", _plain_load64)
def load64(builder: Any, address: Any) -> Any:
    """Read eight bytes."""
    return _load(builder, address, 64)


def _plain_load16_be(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 2), "big", signed=True)


@native("int64", _plain_load16_be)
def load16_be(builder: Any, address: Any) -> Any:
    """Read a signed big-endian number of two bytes."""
    return builder.sext(builder.bswap(_load(builder, address, 16)), llvm_type(64))


def _plain_load32_be(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 4), "big", signed=True)


@native("int64", _plain_load32_be)
def load32_be(builder: Any, address: Any) -> Any:
    """Read a signed big-endian number of four bytes."""
    return builder.sext(builder.bswap(_load(builder, address, 32)), llvm_type(64))


def _plain_load64_be(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 8), "big", signed=True)


@native("int64", _plain_load64_be)
def load64_be(builder: Any, address: Any) -> Any:
    """Read a signed big-endian number of eight bytes."""
    return builder.bswap(_load(builder, address, 64))


def _plain_store8(address: int, value: int) -> None:
    ctypes.c_uint8.from_address(address).value = value & 0xFF


@native("void", _plain_store8)
def store8(builder: Any, address: Any, value: Any) -> None:
    """Write the low byte of ``value``."""
    _store(builder, address, builder.trunc(value, llvm_type(8)))


def _plain_store64(address: int, value: int) -> None:
    ctypes.c_int64.from_address(address).value = value


@native("void", _plain_store64)
def store64(builder: Any, address: Any, value: Any) -> None:
    """Write eight bytes."""
    _store(builder, address, value)


def _plain_store16_be(address: int, value: int) -> None:
    ctypes.memmove(address, (value & 0xFFFF).to_bytes(2, "big"), 2)


@native("void", _plain_store16_be)
def store16_be(builder: Any, address: Any, value: Any) -> None:
    """Write the low two bytes of ``value``, big-endian."""
    _store(builder, address, builder.bswap(builder.trunc(value, llvm_type(16))))


def _plain_store32_be(address: int, value: int) -> None:
    ctypes.memmove(address, (value & 0xFFFF_FFFF).to_bytes(4, "big"), 4)


@native("void", _plain_store32_be)
def store32_be(builder: Any, address: Any, value: Any) -> None:
    """Write the low four bytes of ``value``, big-endian."""
    _store(builder, address, builder.bswap(builder.trunc(value, llvm_type(32))))


def _plain_store64_be(address: int, value: int) -> None:
    ctypes.memmove(address, (value & MASK64).to_bytes(8, "big"), 8)


@native("void", _plain_store64_be)
def store64_be(builder: Any, address: Any, value: Any) -> None:
    """Write ``value`` as eight bytes, big-endian."""
    _store(builder, address, builder.bswap(value))


def _plain_copy32(target: int, source: int) -> None:
    ctypes.memmove(target, source, 32)


@native("void", _plain_copy32)
def copy32(builder: Any, target: Any, source: Any) -> None:
    """Copy 32 bytes."""
    vector = llvm_vector(32).as_pointer()
    word = builder.load(builder.inttoptr(source, vector), align=1)
    builder.store(word, builder.inttoptr(target, vector), align=1)


def _plain_copy(target: int, source: int, size: int) -> None:
    ctypes.memmove(target, source, size)


@native("void", _plain_copy)
def copy_exact(builder: Any, target: Any, source: Any, size: Any) -> None:
    """Copy exactly ``size`` bytes; the two ranges must not overlap."""
    pointer = llvm_type(8).as_pointer()
    memcpy = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, llvm_type(64)])
    to, from_ = builder.inttoptr(target, pointer), builder.inttoptr(source, pointer)
    builder.call(memcpy, [to, from_, size, llvm_constant(1, 0)])


def _plain_pread(function: int, descriptor: int, target: int, size: int, position: int) -> int:
    words = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
    pread = ctypes.CFUNCTYPE(ctypes.c_ssize_t, *words)(function)
    return int(pread(descriptor, target, size, position))


@native("int64", _plain_pread)
def call_pread(
    builder: Any, function: Any, descriptor: Any, target: Any, size: Any, position: Any
) -> Any:
    """Call C's ``pread`` at the address ``function``; return the number of bytes read, or -1."""
    values = [builder.trunc(descriptor, llvm_type(32)), target, size, position]
    return call_address(builder, function, llvm_type(64), values)


def _plain_prefetch(address: int) -> None:
    del address


@native("void", _plain_prefetch)
def prefetch(builder: Any, address: Any) -> Any:
    """Prefetch the cache line at ``address``, which may be invalid."""
    pointer = builder.inttoptr(address, llvm_type(8).as_pointer())
    hints = [
        llvm_constant(32, number) for number in (0, 3, 1)
    ]  # for reading, high locality, data cache
    call_llvm(builder, "llvm.prefetch.p0", llvm_void(), [pointer, *hints])


HAVE_X86_CRC: Final = cpu_has("crc32")  # LLVM's name for it; part of SSE4.2
HAVE_ARM_CRC: Final = cpu_has("crc")
HAVE_CRC_INSTRUCTION: Final = HAVE_X86_CRC or HAVE_ARM_CRC
"""Whether ``crc_word`` and ``crc_byte`` are one instruction; if not, kernels use tables."""


def _plain_crc_byte(crc: int, byte: int) -> int:
    crc ^= byte & 0xFF
    for _ in range(8):
        crc = crc >> 1 ^ (CRC32C_POLYNOMIAL if crc & 1 else 0)
    return crc


def _plain_crc_word(crc: int, word: int) -> int:
    for byte in (word & MASK64).to_bytes(8, "little"):
        crc = _plain_crc_byte(crc, byte)
    return crc


def _arm_crc(builder: Any, name: str, crc: Any, value: Any) -> Any:
    """Emit ARM's CRC-32C step."""
    word = llvm_type(32)
    stepped = call_llvm(builder, f"llvm.aarch64.{name}", word, [builder.trunc(crc, word), value])
    return builder.zext(stepped, llvm_type(64))


@native("int64", _plain_crc_word)
def crc_word(builder: Any, crc: Any, word: Any) -> Any:
    """Update a CRC-32C, without initial and final inversion, with eight bytes."""
    if HAVE_ARM_CRC:
        return _arm_crc(builder, "crc32cx", crc, word)
    return call_llvm(builder, "llvm.x86.sse42.crc32.64.64", llvm_type(64), [crc, word])


@native("int64", _plain_crc_byte)
def crc_byte(builder: Any, crc: Any, byte: Any) -> Any:
    """Update such a CRC with one byte."""
    if HAVE_ARM_CRC:
        return _arm_crc(builder, "crc32cb", crc, builder.trunc(byte, llvm_type(32)))
    low = [builder.trunc(crc, llvm_type(32)), builder.trunc(byte, llvm_type(8))]
    stepped = call_llvm(builder, "llvm.x86.sse42.crc32.32.8", llvm_type(32), low)
    return builder.zext(stepped, llvm_type(64))
