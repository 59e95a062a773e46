"""JSON strings and decimal numbers as kernels write them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

from tidelog.kernels.json import json_text
from tidelog.kernels.runtime.intrinsics import address_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SIGNS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


def text(data: np.ndarray, size: int, encoding: int, signs: np.ndarray, out: np.ndarray) -> int:
    start = address_of(out)
    end = json_text.write_text(
        start, address_of(data), size, data.size, encoding, address_of(signs)
    )
    return end - start if end else -1


def digits(value: int, out: np.ndarray) -> int:
    return json_text.write_number(address_of(out), value) - address_of(out)


@pytest.fixture(params=["python", "compiled"], scope="module")
def functions(request: pytest.FixtureRequest) -> dict[str, Callable[..., int]]:
    return {f.__name__: f if request.param == "python" else numba.njit(f) for f in (text, digits)}


def written(
    functions: dict[str, Any], data: bytes, encoding: int, behind: bytes = b""
) -> str | None:
    """Return what is written for the bytes, None if they are not valid text."""
    most = len(data) * json_text.MOST_EXPANSION + json_text.SPARE_BYTES
    out = np.zeros(most, np.uint8)
    source = np.frombuffer(data + behind, np.uint8)
    size = functions["text"](source, len(data), encoding, SIGNS, out)
    return None if size < 0 else out[:size].tobytes().decode()


def expected(data: bytes) -> str | None:
    """Return what Python writes for the bytes."""
    try:
        return json.dumps(data.decode(), ensure_ascii=False)[1:-1]
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("behind", [b"", b"\xff" * 9, b'"' * 9])
def test_each_byte_at_each_position_is_written_as_in_python(
    functions: dict[str, Any], behind: bytes
) -> None:
    """Every byte, escaped or not or invalid, at every position of a word."""
    for at in (0, 3, 7, 8, 12):
        for byte in range(256):
            data = b"a" * at + bytes([byte]) + b"b" * 5
            assert expected(data) == written(functions, data, json_text.UTF8, behind), data


def test_text_beyond_ascii_is_written_as_it_is(functions: dict[str, Any]) -> None:
    """The first and last character of each UTF-8 length."""
    signs = "\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
    for source in (signs, signs[::-1], f'"{signs}\n', *signs):
        assert written(functions, source.encode(), json_text.UTF8) == expected(source.encode())


def test_invalid_utf8_is_not_text(functions: dict[str, Any], rng: random.Random) -> None:
    """Overlong, surrogate, too high, cut short, stray: as Python's strict decoder decides."""
    bad = [b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf"]
    bad += [
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\x80",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\xc3",
    ]
    for data in bad:
        assert written(functions, b"ok " + data, json_text.UTF8, b"\xac\x80") is None, data
    leads = (0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4)
    tails = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
    for _ in range(2_000):
        data = bytes([rng.choice(leads), *rng.choices(tails, k=rng.randrange(4))])
        assert written(functions, data, json_text.UTF8) == expected(data), data


@pytest.mark.parametrize("size", [*range(9), 100])
def test_any_bytes_can_be_base64_or_hex(
    functions: dict[str, Any], rng: random.Random, size: int
) -> None:
    """Any bytes are written as Python writes them."""
    data = rng.randbytes(size)

    assert written(functions, data, json_text.BASE64) == base64.b64encode(data).decode()
    assert written(functions, data, json_text.HEX) == data.hex()


@pytest.mark.parametrize(
    "value", [0, 9, 10, 99, 100, 12345, 10**18, 2**63 - 1, -1, -10, -(2**63) + 1]
)
def test_numbers_are_written_in_digits(functions: dict[str, Any], value: int) -> None:
    """Numbers, also negative ones, take at most the documented number of bytes."""
    out = np.zeros(json_text.MOST_DIGITS, np.uint8)

    size = functions["digits"](value, out)

    assert out[:size].tobytes().decode() == str(value)
