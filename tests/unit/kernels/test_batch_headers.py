"""Headers written in front of record areas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.codec.compression import Codec
from tidelog.kernels import rows
from tidelog.kernels.batch_headers import close_batches
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable

SPEC = BatchSpec(
    base_offset=2**40,
    leader_epoch=5,
    codec=Codec.LZ4,
    producer_id=77,
    producer_epoch=2,
    base_sequence=2**31 - 1,
    transactional=True,
    last_offset=2**40 + 9,
)
DATA = build_batch([(1_000, b"k", b"v", ())]) + build_batch([(-1, b"k", None, ())], SPEC)


def test_headers_and_crcs_are_those_of_the_builder(run: Callable[[Any], Any]) -> None:
    """Every byte of the headers can be rebuilt from the table, including the CRC."""
    table = walk(DATA).batches.array.copy()
    data = np.frombuffer(DATA, np.uint8).copy()
    crcs = table[rows.CRC].tolist()
    for position in table[rows.POSITION]:
        data[position : position + rows.HEADER_BYTES] = 0xEE
    table[rows.CRC] = 0

    status = run(close_batches)(data, table)

    assert (rows.OK, DATA, crcs) == (status, data.tobytes(), table[rows.CRC].tolist())


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (rows.POSITION, -1),
        (rows.POSITION, len(DATA)),
        (rows.SIZE, 60),
        (rows.SIZE, -(2**63)),
        (rows.SIZE, 2**62),
    ],
)
def test_nothing_is_written_when_one_batch_does_not_fit(
    run: Callable[[Any], Any], row: int, value: int
) -> None:
    """A batch outside the buffer leaves the whole buffer unchanged."""
    table = walk(DATA).batches.array.copy()
    data = np.zeros(len(DATA), np.uint8)
    table[row, 1] = value

    status = run(close_batches)(data, table)

    assert (status, int(data.max())) == (rows.BAD_ARGUMENT, 0)
