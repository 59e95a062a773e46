"""What an archive holds: the operations of its versions, carried out one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.archive.test_chain import CLAIM, NONCE, entry

from tidelog.archive.chain_state import ChainState
from tidelog.archive.deltas import (
    DELETED_BEFORE,
    NOT_ON_DISK,
    Add,
    Delta,
    Drop,
    Remove,
    Skip,
    Start,
    Truncate,
)
from tidelog.errors import CorruptArchive

if TYPE_CHECKING:
    from tidelog.archive.deltas import Operation


def state_of(*versions: tuple[Operation, ...]) -> ChainState:
    """Return the state of an archive of these versions, after one that claims it."""
    state = ChainState()
    for operations in ((CLAIM,), *versions):
        state.apply(Delta(state.version + 1, NONCE, 1, operations))
    return state


def test_nothing_is_known_of_an_archive_that_is_empty() -> None:
    """Offsets begin at 0, and nothing was cleaned."""
    state = state_of()

    assert (state.start, state.end, state.whole_start, state.cleaned_end) == (0, 0, 0, 0)
    assert (state.entries, state.log_cleaned) == ([], 0)


def test_each_offset_is_in_one_segment_or_in_none() -> None:
    """Below the first one, between two and at the end there is none."""
    one, two = entry(5, 10), entry(12, 20, number=2)
    state = state_of((Start(5, "time"), Add(one), Skip(10, 12, NOT_ON_DISK), Add(two)))

    found = [state.entry_at(offset) for offset in (0, 4, 5, 9, 10, 11, 12, 19, 20)]

    assert found == [None, None, one, one, None, None, two, two, None]
    assert state_of().entry_at(0) is None


def test_what_the_owner_had_deleted_lies_below_the_log() -> None:
    """If it is below all segments; what was deleted between them is not."""
    one, two = entry(5, 10), entry(12, 20, number=2)
    operations = (Skip(0, 5, DELETED_BEFORE), Add(one), Skip(10, 12, DELETED_BEFORE), Add(two))

    assert state_of(operations).whole_start == 5


def test_a_version_that_removes_a_segment_is_noted() -> None:
    """Its object may be deleted once readers of the versions before have come to their end."""
    one, two = entry(0, 10), entry(10, 20, number=2)
    state = state_of((Add(one), Add(two)), (Start(10, "time"), Remove(one.name)), (Truncate(10),))

    assert state.removed == {one.name: one, two.name: two}
    assert state.removed_in == {one.name: 3, two.name: 4}
    assert state.truncated == {two.name}
    state.apply(Delta(5, NONCE, 1, (Drop(one.name),)))
    assert (set(state.removed), set(state.removed_in)) == ({two.name}, {two.name})


def test_a_segment_is_not_truncated_in_its_middle() -> None:
    """Neither the first nor the last: its object holds all of it."""
    segments = (Add(entry(0, 10)), Add(entry(10, 20, number=2)))

    for offset in (5, 15):
        with pytest.raises(CorruptArchive, match=f"truncated to {offset}, in the middle"):
            state_of(segments, (Truncate(offset),))
    assert state_of(segments, (Truncate(10),)).entries == [entry(0, 10)]


def test_the_next_segment_begins_at_the_end_or_around_the_start() -> None:
    """The second only where nothing that is archived reaches from its begin to the start."""
    archived = state_of((Add(entry(0, 10)),))
    raised = state_of((Start(15, "time"),))
    both = state_of((Add(entry(0, 10)), Start(15, "time")))

    assert archived.can_add(10, 20)
    assert not archived.can_add(0, 20)
    assert not archived.can_add(11, 20)
    assert raised.can_add(15, 20)
    assert raised.can_add(12, 16)
    assert not raised.can_add(12, 15)
    assert not raised.can_add(16, 20)
    assert both.can_add(10, 20)
    assert not both.can_add(9, 20)


def test_a_truncation_leaves_what_lies_below_it() -> None:
    """Segments, and gaps that end there; at the end it changes nothing."""
    one = entry(0, 10)
    operations = (Add(one), Skip(10, 12, NOT_ON_DISK), Skip(12, 15, NOT_ON_DISK))

    for offset, ends in ((15, [12, 15]), (12, [12]), (10, [])):
        state = state_of(operations, (Truncate(offset),))
        assert ([skip.end for skip in state.skips], state.end) == (ends, offset)
        assert state.entries == [one]


def test_the_start_of_a_log_may_be_said_again() -> None:
    """Why it is there may have changed; it never falls."""
    state = state_of((Start(10, "time"),), (Start(10, "size"),))

    assert (state.start, state.start_why) == (10, "size")
    with pytest.raises(CorruptArchive, match="the start falls to 9"):
        state_of((Start(10, "time"),), (Start(9, "time"),))


def test_where_the_log_was_cleaned_is_kept_by_versions_that_do_not_say() -> None:
    """A release that knows nothing of it writes such."""
    state = state_of((Add(entry(0, 10)),))
    for cleaned, expected in ((7, 7), (0, 7), (9, 9)):
        state.apply(Delta(state.version + 1, NONCE, 1, (), cleaned))
        assert state.log_cleaned == expected
