"""Sample records and batches for benchmarks: 16-byte keys, text-like values, from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.kernels import rows
from tidelog.kernels.encode_kernel import cut_batches, write_batches
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.decoding.record_areas import areas_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BYTES = 16
FIRST_TIMESTAMP = 1_700_000_000_000
LETTERS = np.frombuffer(b"etaoin shrdlucmfwypvbgkjqxz 0123456789", np.uint8)


class Records(NamedTuple):
    """Records in the form of the kernels' arguments, with keys and values in one buffer."""

    data: NDArray[np.uint8]
    table: NDArray[np.int64]
    order: NDArray[np.int64]

    @property
    def record_count(self) -> int:
        """The number of records."""
        return len(self.order)


class Batches(NamedTuple):
    """Batches in one buffer, with their columns and record areas."""

    data: NDArray[np.uint8]
    columns: BatchColumns
    areas: NDArray[np.int64]

    @property
    def records(self) -> int:
        """The number of records in all batches."""
        return int(self.areas[rows.AREA_COUNT].sum())


def make_records(total_bytes: int, value_bytes: int, seed: int) -> Records:
    """Make records of about ``total_bytes`` in all, a millisecond apart."""
    count = max(total_bytes // (KEY_BYTES + value_bytes), 1)
    rng = np.random.default_rng(seed)
    data = LETTERS[rng.integers(0, len(LETTERS), count * (KEY_BYTES + value_bytes), np.uint8)]
    order = np.arange(count)
    table = np.zeros((rows.RECORD_COLUMNS, count), np.int64)
    table[rows.TIMESTAMP] = FIRST_TIMESTAMP + order
    table[rows.KEY_AT] = order * (KEY_BYTES + value_bytes)
    table[rows.KEY_SIZE] = KEY_BYTES
    table[rows.VALUE_AT] = table[rows.KEY_AT] + KEY_BYTES
    table[rows.VALUE_SIZE] = value_bytes
    return Records(data, table, order)


def encode(records: Records, batch_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of the batches, and the table of their columns."""
    data, table, order = records
    cut = np.empty((rows.BATCH_COLUMNS, records.record_count), np.int64)
    count, size, *_ = cut_batches(data, table, order, batch_bytes, 0, cut)
    batches = cut[:, :count].copy()
    out = np.empty(size, np.uint8)
    write_batches(data, data, data, table, order, batches, True, out)
    return out, batches


def make_batches(total_bytes: int, value_bytes: int, seed: int, batch_bytes: int) -> Batches:
    """Make batches of at most ``batch_bytes`` with about ``total_bytes`` in all."""
    data, table = encode(make_records(total_bytes, value_bytes, seed), batch_bytes)
    columns = BatchColumns(table)
    return Batches(data, columns, areas_of(columns))
