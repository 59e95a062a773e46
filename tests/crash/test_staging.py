"""Transactions are in the logs once, or not at all, wherever a commit is stopped.

Each kind of commit is stopped before and after each of its writes, renames, deletions and syncs;
what was not synced by then is kept, lost, or kept in part and torn. Each state on the disk that
differs from those before is opened: the journal is finished, or there is none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
from tests.crash.staging_stories import (
    CASES,
    Story,
    TwoDirectories,
    check_pending,
    check_two,
    committed,
    crashed,
    enumerate_states,
    overtaken,
    prepared,
    while_pending,
    with_two,
    without_space,
)
from tests.machinery.scale import scaled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Enumerated

SEEDS: Final = scaled(2)
"""Ways, beside all and nothing, in which unsynced data is kept."""

NOT_COPIES: Final = [name for name in CASES if "copy" not in name]


@pytest.mark.parametrize(("name", "step"), [("append", 9), ("adopt", 9), ("mixed", 23)])
def test_a_commit_that_is_cut_short_is_whole_or_absent(
    name: str, step: int, enumerated: Enumerated
) -> None:
    """At each moment, with what was not synced kept, or lost."""
    make = partial(prepared, name)
    states, crashes = enumerate_states(crashed(make, Story.commit, 0, step=step))

    enumerated("crashes", crashes, at_least=8)
    enumerated("different states", states, at_least=5)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", CASES)
def test_a_commit_of_any_kind_that_is_cut_short_is_whole_or_absent(
    name: str, enumerated: Enumerated
) -> None:
    """At each moment, with what was not synced kept, lost, or kept in part and torn."""
    make = partial(prepared, name)
    states, crashes = enumerate_states(crashed(make, Story.commit, SEEDS))

    enumerated("crashes", crashes, at_least=states)
    enumerated("different states", states, at_least=30)


@pytest.mark.parametrize("name", ["bundles", "adopt"])
def test_a_replay_that_is_cut_short_is_repeated(name: str, enumerated: Enumerated) -> None:
    """A second crash, while the journal of the first is finished, changes nothing."""
    make = partial(committed, name)
    states, crashes = enumerate_states(crashed(make, Story.reopen, 0, step=17))

    enumerated("crashes", crashes, at_least=5)
    enumerated("different states", states, at_least=4)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("act", [Story.reopen, Story.commit])
@pytest.mark.parametrize("name", CASES)
def test_a_replay_of_any_kind_that_is_cut_short_is_repeated(
    name: str, act: Callable[[Story], None], enumerated: Enumerated
) -> None:
    """A second crash at each moment, in many ways; also while the batch itself is repeated."""
    make = partial(committed, name)
    states, crashes = enumerate_states(crashed(make, act, SEEDS))

    enumerated("crashes", crashes, at_least=states)
    enumerated("different states", states, at_least=10)


@pytest.mark.parametrize("name", ["append", "adopt"])
def test_a_disk_that_fills_up_leaves_a_commit_whole_or_absent(
    name: str, enumerated: Enumerated
) -> None:
    """At each operation before and after the commit point."""
    make = partial(prepared, name)
    states, failures = enumerate_states(without_space(make, Story.commit, step=9))

    enumerated("failures", failures, at_least=8)
    enumerated("different states", states, at_least=3)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("act", [Story.commit, Story.reopen])
def test_a_disk_that_fills_up_leaves_a_commit_of_any_kind_whole_or_absent(
    name: str, act: Callable[[Story], None], enumerated: Enumerated
) -> None:
    """At each operation of the commit, and of its replay."""
    make = partial(prepared if act is Story.commit else committed, name)
    states, failures = enumerate_states(without_space(make, act))

    enumerated("failures", failures, at_least=states)
    enumerated("different states", states, at_least=2)


@pytest.mark.parametrize("name", ["append", "adopt"])
def test_what_another_writer_appended_in_between_stays(name: str, enumerated: Enumerated) -> None:
    """The rest of the transaction follows it, as a new journal says; also if that is cut short."""
    make = partial(overtaken, name)
    states, _ = enumerate_states(crashed(make, Story.reopen, 0, step=17))

    enumerated("different states", states, at_least=4)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", NOT_COPIES)
def test_what_another_writer_appended_in_between_stays_in_every_way(
    name: str, enumerated: Enumerated
) -> None:
    """The same at each moment, with what was not synced kept, lost, or torn."""
    make = partial(overtaken, name)
    states, crashes = enumerate_states(crashed(make, Story.reopen, SEEDS))

    enumerated("crashes", crashes, at_least=states)
    enumerated("different states", states, at_least=10)


def test_a_journal_that_is_pending_outlives_what_happens_meanwhile(
    enumerated: Enumerated,
) -> None:
    """The batch is repeated, segments expire, and a topic is deleted."""
    make = partial(committed, "expiring")
    states, _ = enumerate_states(crashed(make, while_pending, 0, step=23), check_pending)

    enumerated("different states", states, at_least=4)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_a_journal_that_is_pending_outlives_it_at_each_moment(enumerated: Enumerated) -> None:
    """The same, with what was not synced kept, lost, or torn."""
    make = partial(committed, "expiring")
    states, crashes = enumerate_states(crashed(make, while_pending, SEEDS), check_pending)

    enumerated("crashes", crashes, at_least=states)
    enumerated("different states", states, at_least=10)


def test_transactions_of_two_directories_are_each_whole_or_absent(enumerated: Enumerated) -> None:
    """One process commits one after the other."""
    make = partial(with_two, "append")
    stories = crashed(make, TwoDirectories.commit, 0, step=29)
    states, _ = enumerate_states(stories, check_two)

    enumerated("different states", states, at_least=4)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", ["append", "adopt"])
def test_transactions_of_two_directories_are_each_whole_or_absent_at_each_moment(
    name: str, enumerated: Enumerated
) -> None:
    """The same, with what was not synced kept, lost, or torn."""
    make = partial(with_two, name)
    states, crashes = enumerate_states(crashed(make, TwoDirectories.commit, SEEDS), check_two)

    enumerated("crashes", crashes, at_least=states)
    enumerated("different states", states, at_least=10)
