"""Draws the life of a partition, and its cleaning, in docs/architecture.md, from their tables.

``--check`` writes nothing and fails if the picture is stale.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pages import between, write_or_check

from tidelog.cleaner.states import IDLE, TRANSITIONS, CleaningState, Event, Phase
from tidelog.errors import InvalidArgument
from tidelog.manager import partition_states

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- written by tools/states_doc.py; `make docs` does it again -->\n"
END = "<!-- end of what tools/states_doc.py wrote -->\n"
BEGIN_LIFE = "<!-- a life, written by tools/states_doc.py; `make docs` does it again -->\n"
END_LIFE = "<!-- end of the life that tools/states_doc.py wrote -->\n"
MAX_PAUSES = 2


class Arrow(NamedTuple):
    """A possible transition; ``pauses`` is 1 if the target state has any pauses, else 0."""

    source: Phase
    event: Event
    target: Phase
    pauses: int


def arrows() -> list[Arrow]:
    """Return every transition that is reachable from idle, in the order of the table."""
    found = {arrow for state in reachable() for arrow in arrows_from(state)}
    order = list(TRANSITIONS)
    return sorted(found, key=lambda arrow: (order.index((arrow.source, arrow.event)), arrow.pauses))


def reachable() -> list[CleaningState]:
    """Return the states that are reachable from idle with at most ``MAX_PAUSES`` pauses."""
    states = [IDLE]
    for state in states:  # grows during the loop
        for event in Event:
            after = try_event(state, event)
            if after is not None and after.pauses <= MAX_PAUSES and after not in states:
                states.append(after)
    return states


def arrows_from(state: CleaningState) -> Iterator[Arrow]:
    """Yield the transitions out of one state."""
    for event in Event:
        after = try_event(state, event)
        if after is not None:
            yield Arrow(state.phase, event, after.phase, min(after.pauses, 1))


def try_event(state: CleaningState, event: Event) -> CleaningState | None:
    """Return the state after an event; None if the state does not allow it."""
    try:
        return state.after(event)
    except InvalidArgument:
        return None


def render() -> str:
    """Return the states of a cleaning as a Mermaid diagram, between the two markers."""
    drawn = arrows()
    targets = Counter((arrow.source, arrow.event) for arrow in drawn)
    lines = [f"    {name(phase)} : {phase.value}" for phase in Phase]
    lines.append(f"    [*] --> {name(IDLE.phase)}")
    for arrow in drawn:
        # An event with two targets ends either the last pause or one of several.
        is_last = targets[arrow.source, arrow.event] > 1 and not arrow.pauses
        label = f"{arrow.event.value} (the last pause)" if is_last else arrow.event.value
        lines.append(f"    {name(arrow.source)} --> {name(arrow.target)} : {label}")
    return diagram(BEGIN, lines, END)


def render_life() -> str:
    """Return the life of a partition as a Mermaid diagram, between the two markers."""
    lines = ["    [*] --> absent"]
    for (state, event), after in partition_states.TRANSITIONS.items():
        lines.append(f"    {state.value} --> {after.value} : {event.value}")
    return diagram(BEGIN_LIFE, lines, END_LIFE)


def diagram(begin: str, lines: list[str], end: str) -> str:
    """Return a diagram of states, of these lines, between two markers."""
    return "".join([begin, "```mermaid\nstateDiagram-v2\n", "\n".join(lines), "\n```\n", end])


def name(phase: Phase) -> str:
    """Return a phase's name for Mermaid."""
    return phase.name.lower()


def with_picture(page: str) -> str:
    """Return the page with new pictures."""
    return between(between(page, BEGIN, END, render()), BEGIN_LIFE, END_LIFE, render_life())


def main() -> int:
    """Write the picture, or check it."""
    return write_or_check(__doc__, {PAGE: with_picture(PAGE.read_text("utf-8"))})


if __name__ == "__main__":
    sys.exit(main())
