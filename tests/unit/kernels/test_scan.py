"""The walk over batch headers, against the plain one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import columns as rows
from tidelog.kernels.scan import walk_batches
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import BatchSpec, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = (1_000, b"key", b"value", ())


def batch(base_offset: int = 0, count: int = 2, **fields: Any) -> bytes:
    return build_batch([RECORD] * count, BatchSpec(base_offset=base_offset, **fields))


def walked(
    walk: Callable[..., Any],
    data: bytes,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    capacity: int = 4,
) -> tuple[list[list[int]], int, int]:
    out = np.full((rows.BATCH_COLUMNS, capacity), -99, np.int64)
    stop = len(data) if end is None else end
    array = np.frombuffer(data, np.uint8)
    count, position, status = walk(array, start, stop, check_crc, out)
    assert (out[:, count:] == -99).all()
    return out[:, :count].T.tolist(), position, status


def test_every_field_of_a_header_has_its_row(run: Callable[[Any], Any]) -> None:
    """Each row holds the header's field of that name, with its sign."""
    data = batch(
        2**40,
        leader_epoch=7,
        producer_id=2**50,
        producer_epoch=3,
        base_sequence=2**31 - 5,
        transactional=True,
    )
    header = BATCH_HEADER.unpack(data)

    found, position, status = walked(run(walk_batches), b"pad" + data, start=3)

    assert (len(data) + 3, rows.OK) == (position, status)
    expected = [0] * rows.BATCH_COLUMNS
    expected[rows.POSITION], expected[rows.SIZE] = 3, len(data)
    expected[rows.BASE_OFFSET], expected[rows.LAST_OFFSET] = 2**40, 2**40 + 1
    expected[rows.LEADER_EPOCH], expected[rows.MAGIC] = 7, 2
    expected[rows.ATTRIBUTES], expected[rows.CRC] = header.attributes, header.crc
    expected[rows.BASE_TIMESTAMP], expected[rows.MAX_TIMESTAMP] = 1_000, 1_000
    expected[rows.PRODUCER_ID], expected[rows.PRODUCER_EPOCH] = 2**50, 3
    expected[rows.BASE_SEQUENCE], expected[rows.RECORDS_COUNT] = 2**31 - 5, 2
    assert found == [expected]


def test_absent_numbers_are_minus_one(run: Callable[[Any], Any]) -> None:
    """Fields of 16, 32 and 64 bits that say none come out as -1."""
    found, _, _ = walked(run(walk_batches), batch())

    fields = (rows.LEADER_EPOCH, rows.PRODUCER_ID, rows.PRODUCER_EPOCH, rows.BASE_SEQUENCE)
    assert [found[0][field] for field in fields] == [-1, -1, -1, -1]


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 16, 17, 60, 61, 80])
def test_a_batch_cut_short_ends_the_walk(run: Callable[[Any], Any], cut: int) -> None:
    """Too few bytes for a whole batch are no error: the walk says where they begin."""
    whole = batch()

    found, position, status = walked(run(walk_batches), whole + batch(2)[:cut])

    assert (1, len(whole), rows.OK) == (len(found), position, status)


@pytest.mark.parametrize(
    ("at", "bytes_", "status"),
    [
        (8, (13).to_bytes(4, "big"), rows.BAD_LENGTH),
        (8, (-1).to_bytes(4, "big", signed=True), rows.BAD_LENGTH),
        (8, (48).to_bytes(4, "big"), rows.BAD_LENGTH),
        (16, b"\x03", rows.BAD_MAGIC),
        (16, b"\xff", rows.BAD_MAGIC),
        (16, b"\x00", rows.LEGACY),
        (16, b"\x01", rows.LEGACY),
        (30, b"\xaa", rows.BAD_CRC),
        (17, b"\xaa", rows.BAD_CRC),
    ],
)
def test_a_bad_batch_stops_the_walk_before_it(
    run: Callable[[Any], Any], at: int, bytes_: bytes, status: int
) -> None:
    """Lengths, magics and CRCs that do not hold give a status and the batch's position."""
    good, bad = batch(), bytearray(batch(2))
    bad[at : at + len(bytes_)] = bytes_

    found, position, got = walked(run(walk_batches), good + bytes(bad) + batch(4))

    assert (1, len(good), status) == (len(found), position, got)


def test_the_crc_is_looked_at_only_if_asked(run: Callable[[Any], Any]) -> None:
    """Without the check a batch with a wrong CRC is taken."""
    bad = bytearray(batch())
    bad[-1] ^= 1

    found, _, status = walked(run(walk_batches), bytes(bad), check_crc=False)

    assert (len(found), status) == (1, rows.OK)


def test_a_full_array_stops_the_walk_to_go_on_from_there(run: Callable[[Any], Any]) -> None:
    """FULL comes with the position of the first batch that found no column."""
    data = b"".join(batch(2 * i) for i in range(5))
    size = len(batch())

    first, position, status = walked(run(walk_batches), data)
    rest, _, last = walked(run(walk_batches), data, start=position)

    assert (4, 4 * size, rows.FULL) == (len(first), position, status)
    assert ([row[rows.BASE_OFFSET] for row in rest], last) == ([8], rows.OK)


def test_bytes_behind_the_end_are_not_looked_at(run: Callable[[Any], Any]) -> None:
    """The end given counts, not that of the buffer."""
    data = batch() + batch(2)

    found, position, _ = walked(run(walk_batches), data, end=len(data) - 1)

    assert (1, len(data) // 2) == (len(found), position)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (6, 5), (0, 1_000)])
def test_bounds_outside_the_data_are_refused(
    run: Callable[[Any], Any], start: int, end: int
) -> None:
    """Positions that do not lie in the data give BAD_ARGUMENT."""
    found = walked(run(walk_batches), batch(), start=start, end=end)

    assert ([], start, rows.BAD_ARGUMENT) == found


def test_an_array_with_too_few_rows_is_refused(run: Callable[[Any], Any]) -> None:
    """The output must have every row."""
    data = np.frombuffer(batch(), np.uint8)

    found = run(walk_batches)(data, 0, data.size, True, np.zeros((13, 4), np.int64))

    assert found == (0, 0, rows.BAD_ARGUMENT)
