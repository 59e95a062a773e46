"""The states of a partition's cleaning and their transitions."""

from __future__ import annotations

import pytest

from tidelog.cleaner.states import IDLE, TRANSITIONS, CleaningState, Event, Phase
from tidelog.errors import InvalidArgument


def after(*events: Event) -> CleaningState:
    state = IDLE
    for event in events:
        state = state.after(event)
    return state


def test_a_cleaning_begins_and_ends() -> None:
    """An idle partition is in progress until its cleaning ends."""
    assert after(Event.BEGIN).phase is Phase.IN_PROGRESS
    assert after(Event.BEGIN, Event.END) == IDLE


def test_an_aborted_cleaning_ends_paused() -> None:
    """A pause while in progress is an abort; when the cleaning ends, the partition is paused."""
    assert after(Event.BEGIN, Event.PAUSE).phase is Phase.ABORTED
    assert after(Event.BEGIN, Event.PAUSE, Event.END) == CleaningState(Phase.PAUSED, 1)


def test_a_second_abort_waits_for_the_end_of_the_first() -> None:
    """Both callers have paused the partition then, and both have to resume it."""
    twice = after(Event.BEGIN, Event.PAUSE, Event.PAUSE)

    assert twice.phase is Phase.ABORTED
    assert twice.after(Event.END) == CleaningState(Phase.PAUSED, 2)
    assert twice.after(Event.END).after(Event.RESUME).after(Event.RESUME) == IDLE


def test_a_pause_of_a_cleaning_that_has_not_ended_can_be_withdrawn() -> None:
    """The cleaning still stops; the partition is idle then, and nothing is left to undo."""
    withdrawn = after(Event.BEGIN, Event.PAUSE, Event.RESUME)

    assert withdrawn.phase is Phase.ABORTED
    assert withdrawn.after(Event.END) == IDLE
    with pytest.raises(InvalidArgument, match="resume"):
        withdrawn.after(Event.RESUME)


def test_pauses_are_counted() -> None:
    """A partition is idle again only after each pause has been undone."""
    twice = after(Event.PAUSE, Event.PAUSE)

    assert (twice.pauses, str(twice)) == (2, "paused (2)")
    assert twice.after(Event.RESUME) == CleaningState(Phase.PAUSED, 1)
    assert str(twice.after(Event.RESUME)) == "paused"
    assert twice.after(Event.RESUME).after(Event.RESUME) == IDLE


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", Event)
def test_what_the_table_does_not_name_is_refused(phase: Phase, event: Event) -> None:
    """Every pair of phase and event that is not in the table is refused."""
    state = CleaningState(phase, 1 if phase in {Phase.PAUSED, Phase.ABORTED} else 0)

    if (phase, event) in TRANSITIONS:
        state.after(event)
    else:
        with pytest.raises(InvalidArgument, match=event.value):
            state.after(event)
