"""CRC-32C of whole blocks by carry-less multiplication, 64 bytes per instruction.

On CPUs that multiply 512-bit vectors this is twice as fast as the CRC instruction.

Four vectors hold the polynomial of the bytes so far. Each step multiplies them by the power of x
that corresponds to 256 bytes, modulo CRC-32C's polynomial, and adds the next 256 bytes. At the end
the four vectors have the same CRC as all the bytes. Source: V. Gopal and others, "Fast CRC
Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Final, TypeAlias

from tidelog.kernels.runtime.intrinsics import (
    CRC32C_POLYNOMIAL,
    HAVE_X86_CRC,
    crc_word,
    load64,
)
from tidelog.kernels.runtime.jit import (
    call_llvm,
    cpu_has,
    llvm_constant,
    llvm_type,
    llvm_words,
    native,
)

Llvm: TypeAlias = Any
"""A builder or value of llvmlite, which is untyped."""

HAVE_FOLDING: Final = HAVE_X86_CRC and cpu_has("avx512f") and cpu_has("vpclmulqdq")

_VECTORS: Final = 4
_WORDS: Final = 8
_VECTOR: Final = 8 * _WORDS
BLOCK: Final = _VECTORS * _VECTOR
"""Bytes of a block."""


def _power(exponent: int) -> int:
    """Return x to the power ``exponent`` modulo the polynomial, bit-reversed like the CRC."""
    power = 1 << 31
    for _ in range(exponent):
        power = power >> 1 ^ (CRC32C_POLYNOMIAL if power & 1 else 0)
    return power


def _factors(distance: int) -> list[int]:
    """Return what advances a vector's words over ``distance`` bytes, lower of a pair first.

    The product of bit-reversed numbers is shifted by one bit, and the factors have 32 bits where
    words have 64: hence the 31 more and 33 less.
    """
    return [_power(8 * distance + 31), _power(8 * distance - 33)] * (_WORDS // 2)


_BY_BLOCK: Final = _factors(BLOCK)
_BY_VECTOR: Final = _factors(_VECTOR)


def _load(builder: Llvm, address: Llvm, number: int) -> Llvm:
    """Emit the load of one vector of a block."""
    at = builder.add(address, llvm_constant(64, number * _VECTOR))
    return builder.load(builder.inttoptr(at, llvm_words(_WORDS).as_pointer()), align=1)


def _carry(builder: Llvm, vector: Llvm, factors: list[int]) -> Llvm:
    """Emit the multiplication of a vector's 128-bit lanes."""
    kind = llvm_words(_WORDS)
    lower, upper = (
        call_llvm(builder, "llvm.x86.pclmulqdq.512", kind, [vector, kind(factors), halves])
        for halves in (llvm_constant(8, 0x00), llvm_constant(8, 0x11))
    )
    return builder.xor(lower, upper)


def _crc_of(builder: Llvm, vectors: list[Llvm]) -> Llvm:
    """Emit the reduction of the four vectors to a CRC."""
    last = reduce(lambda a, b: builder.xor(_carry(builder, a, _BY_VECTOR), b), vectors)
    crc = llvm_constant(64, 0)
    for number in range(_WORDS):
        word = builder.extract_element(last, llvm_constant(32, number))
        crc = call_llvm(builder, "llvm.x86.sse42.crc32.64.64", llvm_type(64), [crc, word])
    return crc


def _plain_crc_blocks(crc: int, address: int, end: int) -> int:
    for at in range(address, end, 8):
        crc = crc_word(crc, load64(at))
    return crc


@native("int64", _plain_crc_blocks)
def crc_blocks(builder: Llvm, crc: Llvm, address: Llvm, end: Llvm) -> Llvm:
    """Update a CRC, as ``crc_word`` does, with one or more blocks from ``address`` to ``end``."""
    vectors = [_load(builder, address, number) for number in range(_VECTORS)]
    vectors[0] = builder.xor(
        vectors[0],
        builder.insert_element(llvm_words(_WORDS)([0] * _WORDS), crc, llvm_constant(32, 0)),
    )
    second = builder.add(address, llvm_constant(64, BLOCK))
    before = builder.block
    test, body, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(test)
    builder.position_at_end(test)
    at = builder.phi(llvm_type(64))
    held = [builder.phi(llvm_words(_WORDS)) for _ in vectors]
    builder.cbranch(builder.icmp_signed("<", at, end), body, after)
    builder.position_at_end(body)
    added = [
        builder.xor(_carry(builder, vector, _BY_BLOCK), _load(builder, at, number))
        for number, vector in enumerate(held)
    ]
    following = builder.add(at, llvm_constant(64, BLOCK))
    builder.branch(test)
    for phi, first, later in zip([at, *held], [second, *vectors], [following, *added], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, body)
    builder.position_at_end(after)
    return _crc_of(builder, held)
