"""Limits of one micro-batch."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.stored_log import BATCHES, SIZE, home_with, index, name_of

from tidelog.segment.filenames import TopicPartition
from tidelog.spark.options.source_options import TriggerLimits
from tidelog.spark.read.read_limits import RateLimit, limit_bytes, limit_offsets
from tidelog.spark.read.stream_offsets import StreamOffset
from tidelog.testing.manual_time import ManualClock

A, B, C = (TopicPartition("t", number) for number in range(3))
RANGES = st.dictionaries(
    st.sampled_from([A, B, C]), st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1
)


def test_a_limit_is_shared_in_proportion() -> None:
    """Each partition gets its share of the limit, and at least one offset."""
    begins, ends = {A: 0, B: 100, C: 5}, {A: 900, B: 199, C: 6}

    assert limit_offsets(begins, ends, 100) == {A: 90, B: 109, C: 6}


@settings(max_examples=100, deadline=None)
@given(ranges=RANGES, limit=st.integers(1, 500))
def test_a_limit_is_kept_and_no_partition_starves(
    ranges: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    """The shares add up to the limit, plus one offset at most for each share below one."""
    begins = {partition: begin for partition, (begin, _) in ranges.items()}
    ends = {partition: begin + size for partition, (begin, size) in ranges.items()}

    limited = limit_offsets(begins, ends, limit)

    counts = {partition: limited[partition] - begins[partition] for partition in ranges}
    growing = [partition for partition in ranges if ends[partition] > begins[partition]]
    assert sum(counts.values()) <= limit + len(ranges)
    assert all(counts[partition] > 0 for partition in growing)
    assert all(limited[partition] <= ends[partition] for partition in ranges)


def test_a_limit_of_bytes_splits_at_index_entries() -> None:
    """A batch ends at the first index entry at or beyond the limit."""
    home = home_with(BATCHES)
    home.write(name_of(0, ".index"), index(*((at, at * SIZE) for at in range(1, 6))))
    log = home.read_only("t-0")

    assert limit_bytes({A: 0}, {A: 6}, 3 * SIZE, {A: log}) == {A: 4}
    assert limit_bytes({A: 3}, {A: 6}, 1, {A: log}) == {A: 4}
    assert limit_bytes({A: 0}, {A: 6}, 100 * SIZE, {A: log}) == {A: 6}


def test_a_batch_is_delayed_until_there_are_enough_offsets_or_time_is_up() -> None:
    """A batch after the first is delayed until the minimum is available or the delay is over."""
    clock = ManualClock()
    limit = RateLimit(TriggerLimits(min_offsets=10, max_delay_ms=1000), clock)
    begin = StreamOffset({A: 5})

    first = limit.delay_batch(begin, StreamOffset({A: 6}))
    soon = limit.delay_batch(begin, StreamOffset({A: 14}))
    enough = limit.delay_batch(begin, StreamOffset({A: 10, B: 5}))
    clock.advance(999)
    before = limit.delay_batch(begin, StreamOffset({A: 6}))
    clock.advance(1)
    late = limit.delay_batch(begin, StreamOffset({A: 6}))

    assert (first, soon, enough, before, late) == (False, True, False, True, False)
