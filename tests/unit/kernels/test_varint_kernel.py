"""Varints in kernels, compared with those of the codec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

from tidelog.codec import varint as codec
from tidelog.errors import InvalidRecord
from tidelog.kernels import varint_kernel
from tidelog.kernels.runtime.intrinsics import address_of

if TYPE_CHECKING:
    from collections.abc import Callable


INT32S = (0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**20, -(2**27), 2**31 - 1, -(2**31))
INT64S = (*INT32S, 2**31, 2**55, -(2**55), 2**62, 2**63 - 1, -(2**63))


def read_int(data: np.ndarray, room: int) -> tuple[int, int]:
    return varint_kernel.read_varint(address_of(data), room)


def read_long(data: np.ndarray, room: int) -> tuple[int, int]:
    return varint_kernel.read_varlong(address_of(data), room)


def write(out: np.ndarray, value: int) -> tuple[int, int]:
    address = address_of(out)
    return varint_kernel.write_varint(address, value) - address, varint_kernel.varint_bytes(value)


@pytest.fixture(params=["python", "compiled"], scope="module")
def functions(request: pytest.FixtureRequest) -> dict[str, Callable[..., Any]]:
    made = (read_int, read_long, write)
    return {f.__name__: f if request.param == "python" else numba.njit(f) for f in made}


@pytest.mark.parametrize("spare", [0, 20])
@pytest.mark.parametrize("value", INT64S)
def test_a_number_is_read_back(
    functions: dict[str, Callable[..., Any]], value: int, spare: int
) -> None:
    """Every number reads as written, with and without bytes after it."""
    data = bytearray()
    codec.write_varlong(data, value)
    size = len(data)
    array = np.frombuffer(bytes(data) + b"\x81" * spare, np.uint8)

    assert functions["read_long"](array, size + spare) == (value, size)
    if value in INT32S:
        assert functions["read_int"](array, size + spare) == (value, size)


@pytest.mark.parametrize("value", INT64S)
def test_a_number_is_written_as_the_codec_does(
    functions: dict[str, Callable[..., Any]], value: int
) -> None:
    """The bytes and their number are those of the codec; the next byte is unchanged."""
    expected = bytearray()
    codec.write_varlong(expected, value)
    out = np.full(12, 0x55, np.uint8)

    assert functions["write"](out, value) == (len(expected), len(expected))
    assert out.tobytes() == bytes(expected).ljust(12, b"\x55")


@pytest.mark.parametrize("size", range(12))
@pytest.mark.parametrize("last", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_long_and_cut_numbers_are_rejected_alike(
    functions: dict[str, Callable[..., Any]], size: int, last: int
) -> None:
    """A varint that the codec rejects, too long or cut short, has size 0; others read the same."""
    data = b"\xff" * size + bytes([last])
    array = np.frombuffer(data, np.uint8)
    for room in range(size + 2):
        for name, reader in (("read_int", codec.read_varint), ("read_long", codec.read_varlong)):
            try:
                expected = reader(memoryview(data)[:room], 0)
            except InvalidRecord:
                assert functions[name](array, room)[1] == 0
            else:
                assert functions[name](array, room) == expected
