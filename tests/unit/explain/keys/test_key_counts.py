"""Records and bytes of the keys of a log."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.explain.keys.key_counts import SHOWN_BYTES, Bounds, KeyCounts
from tidelog.records.builder import build_batch
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk

if TYPE_CHECKING:
    Record = tuple[bytes | None, bytes | None]

KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"c", b"d", b"e", b"\xff"])
RECORDS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=20)), max_size=40)


def counted(
    batches: list[list[Record]], *, with_kernels: bool, capacity: int = 20_000
) -> KeyCounts:
    """Return what is counted of some batches."""
    counts, offset = KeyCounts(Random(0), with_kernels=with_kernels, capacity=capacity), 0
    for batch in batches:
        if batch:
            data = build_batch([(0, *one, ()) for one in batch], base_offset=offset)
            counts.add(decode(data, walk(data).batches))
            offset += len(batch)
    return counts


def size_of(record: Record) -> int:
    return sum(len(part or b"") for part in record)


@pytest.mark.parametrize("with_kernels", [True, False])
@given(batches=st.lists(RECORDS, max_size=4), capacity=st.sampled_from([2, 4, 20_000]))
def test_the_truth_lies_within_the_bounds(
    batches: list[list[Record]], capacity: int, with_kernels: bool
) -> None:
    """Of every key that is listed, with any room; with enough of it, all numbers are exact."""
    true = defaultdict[bytes, list[tuple[int, int]]](list)
    every = [record for batch in batches for record in batch]
    for offset, record in enumerate(every):
        if record[0] is not None:
            true[record[0]].append((offset, size_of(record)))

    counts = counted(batches, with_kernels=with_kernels, capacity=capacity)

    found = list(counts.top(100))
    for one in found:
        assert one.key is not None
        records = true[one.key]
        size = sum(size for _, size in records)
        assert one.records.least <= len(records) <= one.records.most
        assert one.sizes.least <= size <= one.sizes.most
        assert one.superseded_records <= len(records) - 1
        assert one.superseded_bytes <= size - records[-1][1]
        assert (one.last_offset, one.key_size) == (records[-1][0], len(one.key))
        if one.is_exact:
            assert one.superseded_records == len(records) - 1
            assert one.superseded_bytes == size - records[-1][1]
    if capacity > len(true):
        assert {one.key for one in found} == true.keys()
        assert all(one.is_exact for one in found)
    total = counts.total
    assert total.records == Bounds(len(every), len(every))
    superseded = sum(len(records) - 1 for records in true.values())
    assert total.superseded_records <= superseded
    assert not total.is_exact or total.superseded_records == superseded
    without = [record for record in every if record[0] is None]
    keyless = counts.keyless
    assert len(without) == (0 if keyless is None else keyless.records.least)


@pytest.mark.parametrize("with_kernels", [True, False])
def test_ranks_are_by_records_and_by_bytes(with_kernels: bool) -> None:
    """A key may be among the first by one of them only; equal ones are ranked by their keys."""
    many: list[Record] = [(b"many", b"")] * 3
    batch: list[Record] = [*many, (b"large", b"x" * 50), (b"b", b"xx"), (b"a", b"xx")]

    found = list(counted([batch], with_kernels=with_kernels).top(2))

    assert [(one.key, one.rank_by_bytes, one.rank_by_records) for one in found] == [
        (b"large", 1, None),
        (b"many", 2, 1),
        (b"a", None, 2),
    ]


@pytest.mark.parametrize("with_kernels", [True, False])
def test_long_keys_are_distinguished_and_shown_in_part(with_kernels: bool) -> None:
    """Only as much of a key is kept as is shown; the rest is in its hash."""
    long = [b"x" * SHOWN_BYTES + end for end in (b"1", b"2")]

    batch: list[Record] = [(key, b"v") for key in long]

    found = list(counted([batch], with_kernels=with_kernels).top(5))

    assert [(one.key, one.key_size, one.records.most) for one in found] == [
        (b"x" * SHOWN_BYTES, SHOWN_BYTES + 1, 1)
    ] * 2


def test_memory_is_bounded_and_a_frequent_key_is_found() -> None:
    """Of any number of keys, as many are followed as there is room for."""
    batches: list[list[Record]] = [
        [(b"hot" if n % 10 == 0 else b"%d-%d" % (at, n), b"v") for n in range(1000)]
        for at in range(20)
    ]

    counts = counted(batches, with_kernels=False, capacity=100)

    (first,) = counts.top(1)
    assert len(counts._seen) <= 200
    assert (first.key, first.records.least) == (b"hot", 2000)
    assert not counts.total.is_exact
    assert counts.total.superseded_records == 1999
