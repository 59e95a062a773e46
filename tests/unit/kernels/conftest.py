"""Fixtures that run kernels compiled, or as the Python functions they are written as."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.codec.varint import write_varint, write_varlong
from tidelog.kernels import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@pytest.fixture(params=["compiled", "python"])
def run(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Return a kernel as compiled, or as plain Python throughout."""
    is_python = request.param == "python"
    return lambda kernel: getattr(kernel, "py_func", kernel) if is_python else kernel


@pytest.fixture
def rng() -> random.Random:
    """Random numbers with a fixed seed."""
    return random.Random(20130101)


@pytest.fixture
def record() -> Callable[..., bytes]:
    """Make one record's bytes from raw numbers, valid or not."""

    def make(
        timestamp_delta: int = 0,
        offset_delta: int = 0,
        key: bytes | None = b"k",
        value: bytes | None = b"v",
        headers: bytes = b"\x00",
        length_error: int = 0,
    ) -> bytes:
        body = bytearray(1)
        write_varlong(body, timestamp_delta)
        write_varint(body, offset_delta)
        for part in (key, value):
            write_varint(body, -1 if part is None else len(part))
            body += part or b""
        body += headers
        framed = bytearray()
        write_varint(framed, len(body) + length_error)
        return bytes(framed + body)

    return make


@pytest.fixture
def areas_of() -> Callable[..., tuple[Any, Any]]:
    """Put record areas into one buffer; return it and the table of the areas."""

    def make(
        areas: Iterable[tuple[int, bytes]],
        *,
        base_offset: int = 0,
        base_timestamp: int = 0,
        max_timestamp: int = 0,
        attributes: int = 0,
    ) -> tuple[Any, Any]:
        found, data = [], bytearray()
        for count, area in areas:
            start = len(data)
            data += area
            numbers = (start, len(data), count, base_offset, base_timestamp, max_timestamp)
            found.append((*numbers, attributes))
        table = np.array(found, np.int64).reshape(-1, rows.AREA_COLUMNS).T.copy()
        return np.frombuffer(bytes(data), np.uint8), table

    return make
