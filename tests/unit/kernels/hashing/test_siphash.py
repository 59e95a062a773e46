"""SipHash-2-4-128 compared with its authors' test vectors."""

from __future__ import annotations

import ctypes

import pytest

from tidelog.kernels.hashing.siphash import siphash128

LOW, HIGH = (int.from_bytes(bytes(range(start, start + 8)), "little") for start in (0, 8))
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}
"""Hashes of the bytes 0, 1, 2 and so on under the key of the bytes 0 to 15."""


@pytest.mark.parametrize("size", VECTORS)
@pytest.mark.parametrize("slack", [0, 100])
def test_the_hash_is_that_of_the_reference(size: int, slack: int) -> None:
    """Bytes after the input, and whether they may be read, do not change the hash."""
    buffer = ctypes.create_string_buffer(bytes(range(size)) + b"\xff" * slack, size + slack)

    words = siphash128(ctypes.addressof(buffer), size, size + slack, LOW, HIGH)

    found = b"".join((word % 2**64).to_bytes(8, "little") for word in words)
    assert VECTORS[size] == found.hex()
