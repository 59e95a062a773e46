"""Records cut into batches and written, compared with the builder of single batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.encode_kernel import cut_batches, write_batches
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.records.builder import RecordFields

RECORDS: list[RecordFields] = [
    (1_000, b"key", b"value", ()),
    (990, None, b"", (("h", b"x"), ("", None))),
    (-1, b"", None, ()),
    (2**40, b"k" * 63, b"v" * 64, ()),
    (1_001, b"k" * 100, b"v" * 300, (("name", b"n" * 90),)),
    (1_002, b"k", b"v" * 9_000, ()),
    (1_003, b"k", b"v", ()),
]
ALL = np.arange(len(RECORDS))
HEADER_BYTES = rows.HEADER_BYTES


def table_of(records: list[RecordFields]) -> tuple[Any, Any]:
    batch = build_batch(records)
    return np.frombuffer(batch, np.uint8), decode(batch, walk(batch).batches).array


def encoded(
    run: Callable[[Any], Any],
    chosen: Any,
    batch_bytes: int,
    *,
    base_offset: int = 0,
    spare: int = 0,
) -> tuple[bytes, Any]:
    data, table = table_of(RECORDS)
    batches = np.full((rows.BATCH_COLUMNS, len(chosen)), -99, np.int64)
    count, size, status, done = run(cut_batches)(
        data, table, chosen, batch_bytes, base_offset, batches
    )
    assert (status, done) == (rows.OK, len(chosen))
    batches = batches[:, :count].copy()
    out = np.full(size + spare, 0xEE, np.uint8)
    found = run(write_batches)(data, data, data, table, chosen, batches, True, out)
    assert found == (rows.OK, len(chosen))
    assert set(out[size:]) <= {0xEE}
    return out[:size].tobytes(), batches


@pytest.mark.parametrize("spare", [0, 100])
def test_one_batch_is_that_of_the_builder(run: Callable[[Any], Any], spare: int) -> None:
    """The bytes are the same as those of a batch built one record at a time."""
    data, table = encoded(run, ALL, 2**31 - 1, base_offset=500, spare=spare)

    assert build_batch(RECORDS, BatchSpec(base_offset=500)) == data
    assert walk(data).batches.array.tolist() == table.tolist()


@pytest.mark.parametrize("batch_bytes", [0, 62, 80, 200, 500, 700, 9_100, 10_000])
def test_batches_keep_to_the_limit(run: Callable[[Any], Any], batch_bytes: int) -> None:
    """No batch exceeds the limit unless it holds one record; none could hold one more."""
    data, table = encoded(run, ALL, batch_bytes)

    chunks, first = [], 0
    for size, count in table[[rows.SIZE, rows.RECORDS_COUNT]].T.tolist():
        records = RECORDS[first : first + count]
        chunks.append(build_batch(records, BatchSpec(base_offset=first)))
        assert size <= batch_bytes or count == 1
        one_more = build_batch(RECORDS[first : first + count + 1])
        assert len(one_more) > batch_bytes or first + count == len(RECORDS)
        first += count
    assert (len(RECORDS), b"".join(chunks)) == (first, data)


def test_chosen_rows_come_in_the_order_given(run: Callable[[Any], Any]) -> None:
    """Rows may be omitted, repeated and reversed."""
    chosen = np.array([3, 0, 0, 6])

    data, _ = encoded(run, chosen, 2**31 - 1)

    assert build_batch([RECORDS[row] for row in chosen]) == data


def test_record_areas_alone_leave_the_headers_free(run: Callable[[Any], Any]) -> None:
    """Without ``close``, the 61 bytes in front of each area are not written."""
    data, table = table_of(RECORDS)
    batches = np.zeros((rows.BATCH_COLUMNS, 1), np.int64)
    _, size, _, _ = run(cut_batches)(data, table, ALL, 2**31 - 1, 0, batches)
    out = np.full(size, 0xEE, np.uint8)

    run(write_batches)(data, data, data, table, ALL, batches, False, out)

    assert set(out[:HEADER_BYTES]) == {0xEE}
    assert out[HEADER_BYTES:].tobytes() == build_batch(RECORDS)[HEADER_BYTES:]
    assert batches[rows.CRC].tolist() == [0]


def test_a_full_table_returns_where_to_continue(run: Callable[[Any], Any]) -> None:
    """FULL comes with whole batches and the number of records in them."""
    data, table = table_of(RECORDS)
    batches = np.zeros((rows.BATCH_COLUMNS, 2), np.int64)

    count, size, status, done = run(cut_batches)(data, table, ALL, 0, 7, batches)

    assert (count, status, done) == (2, rows.FULL, 2)
    assert size == int(batches[rows.SIZE].sum())
    assert batches[rows.LAST_OFFSET].tolist() == [7, 8]


@pytest.mark.parametrize(
    ("row", "value", "status"),
    [
        (rows.TIMESTAMP, -2, rows.BAD_TIMESTAMP),
        (rows.KEY_SIZE, -2, rows.BAD_ARGUMENT),
        (rows.VALUE_SIZE, -(2**63), rows.BAD_ARGUMENT),
        (rows.VALUE_SIZE, 2**31 - 1, rows.TOO_LONG),
        (rows.KEY_SIZE, 2**62, rows.TOO_LONG),
        (rows.HEADERS_COUNT, -1, rows.BAD_HEADER),
        (rows.HEADERS_COUNT, 100, rows.BAD_HEADER),
    ],
)
def test_a_record_that_no_batch_takes_is_named(
    run: Callable[[Any], Any], row: int, value: int, status: int
) -> None:
    """Cutting stops at an invalid record with its status; the records before it are cut."""
    data, table = table_of(RECORDS)
    table[row, 4] = value
    batches = np.zeros((rows.BATCH_COLUMNS, 4), np.int64)

    count, _, found, done = run(cut_batches)(data, table, ALL, 2**31 - 1, 0, batches)

    assert (status, 4, 1) == (found, done, count)


@pytest.mark.parametrize("bad", [-1, len(RECORDS), 2**62])
def test_rows_that_do_not_exist_are_refused(run: Callable[[Any], Any], bad: int) -> None:
    """Row numbers are checked in both steps."""
    data, table = table_of(RECORDS)
    chosen = np.array([0, bad])
    batches = np.zeros((rows.BATCH_COLUMNS, 1), np.int64)
    _, size, _, _ = run(cut_batches)(data, table, ALL[:2], 2**31 - 1, 0, batches)
    out = np.zeros(size, np.uint8)

    written = run(write_batches)(data, data, data, table, chosen, batches, True, out)
    _, _, status, done = run(cut_batches)(data, table, chosen, 2**31 - 1, 0, batches)

    assert written == (rows.BAD_ARGUMENT, 1)
    assert (status, done) == (rows.BAD_ARGUMENT, 1)


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (rows.POSITION, -1),
        (rows.POSITION, 2),
        (rows.SIZE, 60),
        (rows.SIZE, 2**62),
        (rows.RECORDS_COUNT, 8),
        (rows.RECORDS_COUNT, 6),
        (rows.BASE_TIMESTAMP, 2**60),
    ],
)
def test_a_table_that_does_not_fit_the_records_is_refused(
    run: Callable[[Any], Any], row: int, value: int
) -> None:
    """A batch is written only within the buffer, and only if its size is exactly as planned."""
    data, table = table_of(RECORDS)
    batches = np.zeros((rows.BATCH_COLUMNS, 1), np.int64)
    _, size, _, _ = run(cut_batches)(data, table, ALL, 2**31 - 1, 0, batches)
    batches[row] = value
    out = np.zeros(size + 1, np.uint8)

    found, _ = run(write_batches)(data, data, data, table, ALL, batches, True, out)

    assert (found, out[-1]) == (rows.BAD_ARGUMENT, 0)


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (rows.KEY_AT, -1),
        (rows.KEY_AT, 10**6),
        (rows.VALUE_AT, -(2**63)),
        (rows.VALUE_AT, 2**63 - 1),
        (rows.HEADERS_AT, -1),
        (rows.HEADERS_AT, 10**6),
    ],
)
def test_fields_outside_their_buffers_are_never_copied(
    run: Callable[[Any], Any], row: int, value: int
) -> None:
    """A key, value or headers outside their buffer are rejected."""
    data, table = table_of(RECORDS)
    batches = np.zeros((rows.BATCH_COLUMNS, 1), np.int64)
    _, size, _, _ = run(cut_batches)(data, table, ALL, 2**31 - 1, 0, batches)
    table[row, 4] = value

    found, done = run(write_batches)(
        data, data, data, table, ALL, batches, True, np.zeros(size, np.uint8)
    )

    assert (found, done) == (rows.BAD_ARGUMENT, 4)
