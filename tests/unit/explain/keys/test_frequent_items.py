"""The items of a stream with the greatest weights, in bounded memory."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import InvalidArgument
from tidelog.explain.keys.frequent_items import FrequentItems

STREAMS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=120)


@pytest.mark.parametrize("capacity", [-1, 0, 1])
def test_a_summary_that_can_track_nothing_is_refused(capacity: int) -> None:
    """Half of the items have to stay when some are removed."""
    with pytest.raises(InvalidArgument, match=f"cannot track {capacity} items"):
        FrequentItems(capacity)


@given(stream=STREAMS, capacity=st.integers(2, 9))
def test_the_true_weight_lies_within_the_bounds(
    stream: list[tuple[int, int]], capacity: int
) -> None:
    """Of each item that is tracked; of the others it is at most ``floor``, which is bounded."""
    summary, true = FrequentItems[int](capacity), Counter[int]()
    for item, weight in stream:
        summary.add(item, weight)
        true[item] += weight
        assert len(summary.tracked) <= capacity

    for item, weight in true.items():
        found = summary.tracked.get(item)
        if found is None:
            assert weight <= summary.floor
        else:
            assert found.lower <= weight <= found.upper
            assert found.error <= summary.floor
    assert summary.floor * (capacity // 2 + 1) <= true.total()


@given(stream=STREAMS)
def test_few_items_are_counted_exactly(stream: list[tuple[int, int]]) -> None:
    """Up to the capacity, nothing is removed, and the other measure is whole as well."""
    summary, true, others = FrequentItems[int](13), Counter[int](), Counter[int]()
    for item, weight in stream:
        assert not summary.add(item, weight, 1)
        true[item] += weight
        others[item] += 1

    assert summary.is_exact
    assert {item: one.lower for item, one in summary.tracked.items()} == true
    assert {item: one.upper for item, one in summary.tracked.items()} == true
    assert {item: one.other for item, one in summary.tracked.items()} == others


def test_an_item_of_a_great_share_is_never_missed() -> None:
    """However many others there are, and in whatever order they come."""
    summary = FrequentItems[int](10)
    for number in range(10_000):
        summary.add(-1 if number % 5 == 0 else number, 1)

    found = summary.tracked[-1]
    assert found.lower == 2_000
    assert not summary.is_exact
