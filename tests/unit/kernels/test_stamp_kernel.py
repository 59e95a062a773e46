"""Offsets and leader epoch written in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.stamp_kernel import stamp_batches
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = (1_000, b"key", b"value", ())
SIZES = (3, 1, 2)


def batches(*, last_gap: int = 0) -> tuple[Any, Any]:
    spec = BatchSpec(last_offset=SIZES[-1] - 1 + last_gap)
    made = [build_batch([RECORD] * size) for size in SIZES[:-1]]
    made.append(build_batch([RECORD] * SIZES[-1], spec))
    data = np.frombuffer(b"".join(made), np.uint8).copy()
    return data, walk(data).batches.array.copy()


def test_offsets_run_on_and_crcs_still_hold(run: Callable[[Any], Any]) -> None:
    """Each batch begins where the previous one ends; headers, rows and CRCs agree."""
    data, table = batches(last_gap=4)

    next_offset = run(stamp_batches)(data, table, 2**33, 9)

    again = walk(data, check_crc=True)
    assert again.error is None
    assert again.batches.array.tolist() == table.tolist()
    assert table[rows.BASE_OFFSET].tolist() == [2**33, 2**33 + 3, 2**33 + 4]
    assert set(table[rows.LEADER_EPOCH]) == {9}
    assert next_offset == 2**33 + 10


def test_only_twelve_bytes_of_a_batch_change(run: Callable[[Any], Any]) -> None:
    """Base offset and leader epoch change, nothing else."""
    data, table = batches()
    before = data.copy()

    run(stamp_batches)(data, table, -1 & 2**40, 2**31 - 1)

    for position in table[rows.POSITION]:
        data[position : position + 8] = before[position : position + 8]
        data[position + 12 : position + 16] = before[position + 12 : position + 16]
    assert before.tobytes() == data.tobytes()
    assert BATCH_HEADER.unpack(data).leader_epoch == -1


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (rows.POSITION, -1),
        (rows.POSITION, 10**6),
        (rows.LAST_OFFSET, -1),
        (rows.LAST_OFFSET, 2**31),
        (rows.LAST_OFFSET, -(2**63)),
    ],
)
def test_nothing_is_written_when_one_batch_does_not_fit(
    run: Callable[[Any], Any], row: int, value: int
) -> None:
    """A position outside the data, or an impossible delta, leaves all batches unchanged."""
    data, table = batches()
    before = data.copy()
    table[row, 2] = value

    found = run(stamp_batches)(data, table, 5, 1)

    assert (rows.BAD_ARGUMENT, before.tobytes()) == (found, data.tobytes())


def test_read_only_data_is_refused() -> None:
    """The compiled kernel does not accept a read-only array."""
    data, table = batches()
    data.flags.writeable = False

    with pytest.raises(TypeError):
        stamp_batches(data, table, 0, 0)
