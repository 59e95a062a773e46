"""Which batches get index entries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.kernels import rows
from tidelog.records.batch_columns import BatchColumns
from tidelog.segment.indexing import IndexState, PlannedEntries, plan_entries, plan_few

Batch = tuple[int, int]
"""Size in bytes and maximum timestamp."""


def columns(sizes_and_times: list[Batch], position: int = 0) -> BatchColumns:
    array = np.zeros((rows.BATCH_COLUMNS, len(sizes_and_times)), np.int64)
    sizes = np.array([size for size, _ in sizes_and_times], np.int64)
    array[rows.SIZE] = sizes
    array[rows.POSITION] = position + np.cumsum(sizes) - sizes
    array[rows.LAST_OFFSET] = 10 * np.arange(len(sizes_and_times)) + 9
    array[rows.MAX_TIMESTAMP] = [time for _, time in sizes_and_times]
    return BatchColumns(array)


def one_by_one(
    state: IndexState, batches: list[Batch], position: int, interval_bytes: int
) -> tuple[list[tuple[int, ...]], IndexState]:
    """Apply the rule in its literal form."""
    entries: list[tuple[int, ...]] = []
    since, greatest, offset = state
    for number, (size, time) in enumerate(batches):
        if time > greatest:
            greatest, offset = time, 10 * number + 9
        if since > interval_bytes:
            entries.append((10 * number + 9, position, greatest, offset))
            since = 0
        since += size
        position += size
    return entries, IndexState(since, greatest, offset)


def listed(plan: PlannedEntries) -> tuple[list[tuple[int, ...]], IndexState]:
    return list(zip(*(column.tolist() for column in plan[:4]), strict=True)), plan.after


def test_an_entry_is_due_when_more_than_the_interval_has_passed() -> None:
    """The first batch of a segment never gets one; exactly the interval is not enough."""
    plan = plan_entries(IndexState(), columns([(100, -1)] * 5), 0, 200)

    assert plan.positions.tolist() == [300]
    assert plan.offsets.tolist() == [39]
    assert plan.after.bytes_since_last_entry == 200


def test_every_batch_gets_an_entry_if_all_are_larger_than_the_interval() -> None:
    """The first batch of the segment is the exception."""
    few = plan_entries(IndexState(), columns([(100, -1)] * 5), 0, 99)
    many = plan_entries(IndexState(), columns([(100, -1)] * 50), 0, 99)

    assert few.positions.tolist() == list(range(100, 500, 100))
    assert many.positions.tolist() == list(range(100, 5_000, 100))


def test_the_time_entry_is_the_maximum_so_far_with_its_offset() -> None:
    """The offset is the last one of the first batch with that timestamp."""
    plan = plan_entries(IndexState(), columns([(10, 5), (10, 9), (10, 9), (10, 7)]), 0, 5)

    assert plan.timestamps.tolist() == [9, 9, 9]
    assert plan.timestamp_offsets.tolist() == [19, 19, 19]
    assert plan.after == IndexState(10, 9, 19)


@settings(max_examples=150, deadline=None)
@given(
    batches=st.lists(st.tuples(st.integers(1, 60), st.integers(-1, 40)), min_size=1, max_size=40),
    since=st.integers(0, 150),
    greatest=st.integers(-1, 30),
    position=st.integers(200, 10_000),
    interval_bytes=st.integers(0, 120),
)
def test_whole_appends_are_planned_batch_by_batch(
    batches: list[Batch], since: int, greatest: int, position: int, interval_bytes: int
) -> None:
    """For any number of batches, the entries are those of one batch after another."""
    state = IndexState(since, greatest, 3)

    plan = plan_entries(state, columns(batches, 77), position, interval_bytes)

    expected = one_by_one(state, batches, position, interval_bytes)
    assert listed(plan) == expected
    few = plan_few(state, columns(batches).array.T.tolist(), position, interval_bytes)
    assert ([(*one, *other) for one, other in zip(*few[:2], strict=True)], few.after) == expected
    assert few.has_entries == plan.has_entries == bool(expected[0])
