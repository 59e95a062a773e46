"""Each compiled operation does the same as its plain-Python equivalent."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels.runtime import intrinsics
from tidelog.kernels.runtime.intrinsics import (
    add64,
    address_of,
    call_pread,
    copy32,
    copy_exact,
    crc_byte,
    crc_word,
    leading_zeros,
    load8,
    load16_be,
    load32,
    load32_be,
    load64,
    load64_be,
    multiply64,
    number,
    shift_left,
    shift_right,
    store8,
    store16_be,
    store32_be,
    store64,
    store64_be,
    subtract64,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INT64S = (0, 1, -1, 7, 127, 128, 2**31, -(2**31), 2**63 - 1, -(2**63), -(2**63) + 1)


def numbers(a: int, b: int, bits: int, small: np.uint32) -> tuple[int, ...]:
    return (
        add64(a, b),
        subtract64(a, b),
        multiply64(a, b),
        shift_left(a, bits),
        shift_right(a, bits),
        leading_zeros(a),
        number(int(small)),
    )


def loads(data: np.ndarray) -> tuple[int, ...]:
    at = address_of(data) + 1
    return (
        load8(at),
        load32(at),
        load64(at),
        load16_be(at),
        load32_be(at),
        load64_be(at),
    )


def stores(out: np.ndarray, source: np.ndarray, value: int) -> None:
    at = address_of(out) + 1
    store8(at, value)
    store64(at + 1, value)
    store16_be(at + 9, value)
    store32_be(at + 11, value)
    store64_be(at + 15, value)
    copy32(at + 23, address_of(source) + 3)
    copy_exact(at + 55, address_of(source) + 1, 5)


def crcs(crc: int, value: int) -> tuple[int, int]:
    return crc_word(crc, value), crc_byte(crc, value & 0xFF)


def reads(pread: int, descriptor: int, out: np.ndarray, position: int) -> int:
    return call_pread(pread, descriptor, address_of(out) + 1, 4, position)


@pytest.fixture(scope="module")
def compiled() -> dict[str, Callable[..., Any]]:
    return {f.__name__: numba.njit(f) for f in (numbers, loads, stores, crcs, reads)}


def test_arithmetic_wraps_as_java_does(compiled: dict[str, Callable[..., Any]]) -> None:
    """Sums, differences, products and shifts keep their low 64 bits, signed."""
    cases = [
        (a, b, bits, np.uint32(2**32 - 1)) for a in INT64S for b in INT64S for bits in (0, 1, 63)
    ]

    assert [numbers(*case) for case in cases] == [compiled["numbers"](*case) for case in cases]
    assert numbers(2**63 - 1, 1, 1, np.uint32(5))[0] == -(2**63)


@pytest.mark.parametrize("first", [0, 0x7F, 0x80, 0xFF])
def test_loads_take_any_address_and_sign(
    compiled: dict[str, Callable[..., Any]], first: int
) -> None:
    """A word is read from an odd address; big-endian words are signed."""
    data = np.array([9, first, 2, 3, 4, 5, 6, 7, 255], np.uint8)

    assert loads(data) == compiled["loads"](data)
    assert loads(data)[4] == int.from_bytes(data[1:5].tobytes(), "big", signed=True)


@pytest.mark.parametrize("value", INT64S)
def test_stores_write_their_bytes_and_no_more(
    compiled: dict[str, Callable[..., Any]], value: int
) -> None:
    """Stores and copies change exactly their own bytes."""
    source = np.arange(64, dtype=np.uint8)
    plain, native = np.full(80, 0xAA, np.uint8), np.full(80, 0xAA, np.uint8)

    stores(plain, source, value)
    compiled["stores"](native, source, value)

    assert plain.tobytes() == native.tobytes()
    assert plain[0] == 0xAA
    assert set(plain[61:]) == {0xAA}


@pytest.mark.skipif(not intrinsics.HAVE_CRC_INSTRUCTION, reason="this CPU has no such instruction")
@pytest.mark.parametrize("value", INT64S)
def test_crc_steps_are_the_instruction(compiled: dict[str, Callable[..., Any]], value: int) -> None:
    """The plain CRC steps compute the same as the CPU's instruction."""
    assert [crcs(c, value) for c in (0, 1, 2**32 - 1)] == [
        compiled["crcs"](c, value) for c in (0, 1, 2**32 - 1)
    ]


@pytest.mark.parametrize(
    ("position", "count", "found"), [(0, 4, b"\0abcd\0"), (3, 2, b"\0de\0\0\0")]
)
def test_a_call_of_pread_reads_from_a_position(
    compiled: dict[str, Callable[..., Any]], tmp_path: Path, position: int, count: int, found: bytes
) -> None:
    """The bytes at a position are read into the target, and their count is returned."""
    path = tmp_path / "file"
    path.write_bytes(b"abcde")
    with closing(SYSTEM_FILES.open(str(path))) as file:
        native = file.native_reads()
        assert native is not None
        for read in (reads, compiled["reads"]):
            out = np.zeros(6, np.uint8)
            assert read(*native, out, position) == count
            assert out.tobytes() == found


def test_a_call_of_pread_that_fails_gives_minus_one(
    compiled: dict[str, Callable[..., Any]],
) -> None:
    """As in C: a descriptor of -1 is never open."""
    with closing(SYSTEM_FILES.open(__file__)) as file:
        native = file.native_reads()
    assert native is not None
    for read in (reads, compiled["reads"]):
        assert read(native.pread, -1, np.zeros(6, np.uint8), 0) == -1
