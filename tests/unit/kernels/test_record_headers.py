"""Columns of headers encoded as in records."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.record_headers import MOST_LENGTH_BYTES, encode_headers
from tidelog.records.record import scan_record, write_record

if TYPE_CHECKING:
    from collections.abc import Callable

    Pairs = list[tuple[str, bytes | None]]


def columns_of(records: list[Pairs | None]) -> dict[str, Any]:
    pairs = [pair for record in records for pair in record or ()]
    names = [name.encode() for name, _ in pairs]
    values = [value for _, value in pairs]

    def offsets(sizes: list[int]) -> Any:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)

    def flags(present: list[bool]) -> Any:
        return np.array(present, np.uint8)

    return {
        "lists": offsets([len(record or ()) for record in records]),
        "present": flags([record is not None for record in records]),
        "names": np.frombuffer(b"".join(names), np.uint8),
        "name_offsets": offsets([len(name) for name in names]),
        "values": np.frombuffer(b"".join(value or b"" for value in values), np.uint8),
        "value_offsets": offsets([len(value or b"") for value in values]),
        "value_valid": flags([value is not None for value in values]),
    }


def encoded(
    kernel: Callable[..., int], columns: dict[str, Any], spare: int = 0
) -> tuple[int, list[bytes], list[int]]:
    count = len(columns["present"])
    most = MOST_LENGTH_BYTES * len(columns["value_valid"])
    out = np.zeros(columns["names"].size + columns["values"].size + most + spare, np.uint8)
    table = np.zeros((rows.RECORD_COLUMNS, count), np.int64)
    size = kernel(*columns.values(), table, out)
    ends = [*table[rows.HEADERS_AT].tolist(), max(size, 0)]
    chunks = [out[a:b].tobytes() for a, b in pairwise(ends)]
    return size, chunks, table[rows.HEADERS_COUNT].tolist()


RECORDS: list[Pairs | None] = [
    [("a", b"xy"), ("", None)],
    None,
    [],
    [("long" * 100, b"v" * 300), ("é", b"")],
]


def one_at_a_time(headers: Pairs | None) -> bytes:
    """Return what the plain writer puts after the header count."""
    out = bytearray()
    write_record(out, 0, 0, key=None, value=None, headers=headers or ())
    return bytes(out)[scan_record(memoryview(out), 0, len(out)).headers_at :]


@pytest.mark.parametrize("spare", [0, 200])
def test_bytes_are_those_of_one_record_at_a_time(run: Callable[[Any], Any], spare: int) -> None:
    """Each record's bytes are those that the plain writer puts after the header count."""
    size, chunks, counts = encoded(run(encode_headers), columns_of(RECORDS), spare)

    assert [one_at_a_time(headers) for headers in RECORDS] == chunks
    assert (len(b"".join(chunks)), [2, 0, 0, 2]) == (size, counts)


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("lists", 0, -1),
        ("lists", 1, 9),
        ("lists", 4, 5),
        ("name_offsets", 0, -1),
        ("name_offsets", 1, 10_000),
        ("value_offsets", 1, -2),
        ("value_offsets", 4, 2**31 - 1),
    ],
)
def test_offsets_that_do_not_fit_are_refused(
    run: Callable[[Any], Any], name: str, index: int, value: int
) -> None:
    """Offsets that decrease or are outside their buffer are rejected."""
    columns = columns_of(RECORDS)
    columns[name][index] = value

    assert encoded(run(encode_headers), columns)[0] == rows.BAD_ARGUMENT


def test_a_buffer_too_small_is_not_overrun(run: Callable[[Any], Any]) -> None:
    """A buffer without room for the longest form of a header gives a status."""
    assert encoded(run(encode_headers), columns_of(RECORDS), spare=-30)[0] == rows.BAD_ARGUMENT


def test_arrays_of_different_lengths_are_refused(run: Callable[[Any], Any]) -> None:
    """Every record needs a flag, and every header its offsets."""
    for name in ("present", "name_offsets", "value_offsets"):
        columns = columns_of(RECORDS)
        columns[name] = columns[name][:-1].copy()

        assert encoded(run(encode_headers), columns)[0] == rows.BAD_ARGUMENT
