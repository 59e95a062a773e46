"""The life of a partition: which changes are possible, and what a manager makes of them."""

from __future__ import annotations

from dataclasses import replace
from errno import ENOSPC
from typing import TYPE_CHECKING, cast

import pytest
from tests.machinery.manager_home import Loading, ManagerHome

from tidelog.errors import InvariantError, KafkaStorageError
from tidelog.manager.partition_states import TRANSITIONS, UNKNOWN, Event, Life, State
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log
    from tidelog.manager.partition import Partition

KEY = TopicPartition("t", 0)
ERROR = KafkaStorageError("the disk is full")
LOG = cast("Log", object())
PARTITION = cast("Partition", object())
CHANGES: dict[Event, Callable[[Life], Life]] = {
    Event.LOAD: Life.loading,
    Event.SERVE: lambda life: life.served(PARTITION),
    Event.FAIL: lambda life: life.failed(ERROR),
    Event.COPY: lambda life: life.copied_to(LOG),
    Event.COPY_LEAVES: Life.without_copy,
    Event.LEAVE: Life.left,
}
WAYS: dict[State, tuple[Event, ...]] = {
    State.ABSENT: (),
    State.LOADING: (Event.LOAD,),
    State.FAILED: (Event.LOAD, Event.FAIL),
    State.ONLINE: (Event.LOAD, Event.SERVE),
    State.MOVING: (Event.LOAD, Event.SERVE, Event.COPY),
}


def after(*events: Event) -> Life:
    """Return a life in which all this has happened."""
    life = UNKNOWN
    for event in events:
        life = CHANGES[event](life)
    return life


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_only_what_the_table_has_may_happen(state: State, event: Event) -> None:
    """A change that it lacks is a bug, and raises."""
    life = after(*WAYS[state])
    assert life.state is state
    expected = TRANSITIONS.get((state, event))

    if expected is None:
        with pytest.raises(InvariantError, match=state.value):
            CHANGES[event](life)
    else:
        assert CHANGES[event](life).state is expected


@pytest.mark.parametrize("state", State)
def test_a_state_says_what_there_is(state: State) -> None:
    """A log only where it is served, a copy where it moves, an error where it failed."""
    life = after(*WAYS[state])

    assert (life.partition is not None) == (state in {State.ONLINE, State.MOVING})
    assert (life.copy is not None) == (state is State.MOVING)
    assert (life.error is not None) == (state is State.FAILED)


def test_why_a_log_failed_is_known_while_it_is_tried_again() -> None:
    """The error stays until the log is served."""
    tried = after(Event.LOAD, Event.FAIL, Event.LOAD)

    assert (tried.error, tried.may_be_half_recovered) == (ERROR, True)
    assert tried.served(PARTITION).error is None


def test_a_partition_is_new_until_it_is_served_or_deleted() -> None:
    """Only then may a log of it lie in another directory."""
    new = replace(UNKNOWN, is_new=True).loading()

    assert (new.is_new, new.failed(ERROR).is_new) == (True, True)
    assert (new.served(PARTITION).is_new, new.left().is_new) == (False, False)


@pytest.mark.parametrize("is_uncut", [False, True])
def test_a_copy_that_was_found_before_its_log_is_moved_on(is_uncut: bool) -> None:
    """It is still known whether it was cut to what was flushed."""
    found = after(Event.LOAD, Event.FAIL).copied_to(LOG, is_uncut=is_uncut)

    served = found.loading().served(PARTITION)

    assert (served.state, served.copy, served.is_uncut) == (State.MOVING, LOG, is_uncut)


@pytest.mark.parametrize("state", [State.ABSENT, State.LOADING, State.FAILED])
def test_a_copy_comes_and_goes_beside_a_log_that_is_not_served(state: State) -> None:
    """Nothing else of the partition changes."""
    life = after(*WAYS[state])

    copied = life.copied_to(LOG)

    assert (copied, copied.without_copy()) == (replace(life, copy=LOG), life)


def test_a_copy_outlives_the_loss_of_its_log() -> None:
    """It may be all that is left."""
    assert after(*WAYS[State.MOVING], Event.LEAVE) == Life(copy=LOG)


def test_a_service_takes_a_partition_through_its_life() -> None:
    """Created, moved, deleted; nothing is known of it then."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        registry = manager._registry
        states = [registry.life(KEY).state]
        manager.create_topic("t", path="/a")
        states.append(registry.life(KEY).state)
        manager.move_partition("t", 0, "/b")
        states.append(registry.life(KEY).state)
        home.clock.advance(1)
        states.append(registry.life(KEY).state)
        manager.delete_topic("t")

        assert registry.life(KEY) == UNKNOWN
    assert states == [State.ABSENT, State.ONLINE, State.MOVING, State.ONLINE]


def test_a_log_that_cannot_be_loaded_has_failed_until_it_can() -> None:
    """A short-lived writer tries it at each use; its directory is clean once one has succeeded."""
    home = ManagerHome("/a")
    with home.open() as manager:
        manager.create_topic("t")
    with home.open_as(Loading.FIRST_USE) as manager:
        home.fs.fail("open", f"/a/t-0/{0:020}.log", OSError(ENOSPC, "full"))
        with pytest.raises(KafkaStorageError, match="full"):
            manager.partition("t", 0)
        broken_off = manager._registry.life(KEY)
        manager.partition("t", 0)

        assert broken_off.may_be_half_recovered
        assert manager._registry.life(KEY).state is State.ONLINE
    assert home.is_marked("/a")
