"""How much one micro-batch takes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.segment.filenames import TopicPartition
from tidelog.spark.options.source_options import TriggerLimits
from tidelog.spark.read.read_limits import RateLimit, limit_bytes, limit_offsets
from tidelog.spark.read.stream_offsets import StreamOffset
from tidelog.testing.manual_time import ManualClock
from tidelog.testing.stored_log import BATCHES, SIZE, home_with, index, name_of

A, B, C = (TopicPartition("t", number) for number in range(3))
PLACES = st.dictionaries(
    st.sampled_from([A, B, C]), st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1
)


def test_a_limit_is_shared_in_proportion() -> None:
    """Each partition gets on by its share of what is there; the smallest by one at least."""
    begins, ends = {A: 0, B: 100, C: 5}, {A: 900, B: 199, C: 6}

    assert limit_offsets(begins, ends, 100) == {A: 90, B: 109, C: 6}


@settings(max_examples=100, deadline=None)
@given(places=PLACES, most=st.integers(1, 500))
def test_a_limit_is_kept_and_nobody_starves(
    places: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    """All shares together are within the limit, save one offset for each that has less than one."""
    begins = {place: begin for place, (begin, _) in places.items()}
    ends = {place: begin + size for place, (begin, size) in places.items()}

    limited = limit_offsets(begins, ends, most)

    taken = {place: limited[place] - begins[place] for place in places}
    assert sum(taken.values()) <= most + len(places)
    assert all(taken[place] > 0 for place in places if ends[place] > begins[place])
    assert all(limited[place] <= ends[place] for place in places)


def test_a_limit_of_bytes_cuts_at_index_entries() -> None:
    """A batch of so many bytes ends at the first index entry that reaches them."""
    home = home_with(BATCHES)
    home.write(name_of(0, ".index"), index(*((at, at * SIZE) for at in range(1, 6))))
    log = home.read_only("t-0")

    assert limit_bytes({A: 0}, {A: 6}, 3 * SIZE, {A: log}) == {A: 4}
    assert limit_bytes({A: 3}, {A: 6}, 1, {A: log}) == {A: 4}
    assert limit_bytes({A: 0}, {A: 6}, 100 * SIZE, {A: log}) == {A: 6}


def test_a_batch_waits_for_enough_offsets_but_not_for_ever() -> None:
    """After the first, a batch is put off until the least is there or the delay is over."""
    clock = ManualClock()
    limit = RateLimit(TriggerLimits(min_offsets=10, max_delay_ms=1000), clock)
    begin = StreamOffset({A: 5})

    first = limit.is_to_wait(begin, StreamOffset({A: 6}))
    soon = limit.is_to_wait(begin, StreamOffset({A: 14}))
    enough = limit.is_to_wait(begin, StreamOffset({A: 10, B: 5}))
    clock.advance(999)
    before = limit.is_to_wait(begin, StreamOffset({A: 6}))
    clock.advance(1)
    late = limit.is_to_wait(begin, StreamOffset({A: 6}))

    assert (first, soon, enough, before, late) == (False, True, False, True, False)
