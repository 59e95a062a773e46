"""Draws the cleaning states of a partition in docs/architecture.md, from the transition table.

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

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- written by tools/states_doc.py; `make docs` does it again -->\n"
END = "<!-- end of what tools/states_doc.py wrote -->\n"
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
    """Return the picture as a Mermaid diagram, between the two markers."""
    drawn = arrows()
    targets = Counter((arrow.source, arrow.event) for arrow in drawn)
    lines = [f"    {name(phase)} : {phase.value}" for phase in Phase]
    lines.append(f"    [*] --> {name(IDLE.phase)}")
    for arrow in drawn:
        # An event with two targets ends either the last pause or one of several.
        is_last = targets[arrow.source, arrow.event] > 1 and not arrow.pauses
        label = f"{arrow.event.value} (the last pause)" if is_last else arrow.event.value
        lines.append(f"    {name(arrow.source)} --> {name(arrow.target)} : {label}")
    return "".join([BEGIN, "```mermaid\nstateDiagram-v2\n", "\n".join(lines), "\n```\n", END])


def name(phase: Phase) -> str:
    """Return a phase's name for Mermaid."""
    return phase.name.lower()


def with_picture(page: str) -> str:
    """Return the page with a new picture."""
    return between(page, BEGIN, END, render())


def main() -> int:
    """Write the picture, or check it."""
    return write_or_check(__doc__, {PAGE: with_picture(PAGE.read_text("utf-8"))})


if __name__ == "__main__":
    sys.exit(main())
