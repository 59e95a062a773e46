"""Draws the states of a partition's cleaning in docs/architecture.md, from the table itself.

``--check`` writes nothing and fails when the picture is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cleaner.states import IDLE, TRANSITIONS, CleaningState, Event, Phase
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- written by tools/states_doc.py; `make docs` does it anew -->\n"
END = "<!-- end of what tools/states_doc.py wrote -->\n"
MOST_PAUSES = 2


class Arrow(NamedTuple):
    """A transition that happens: ``pauses`` are those of the state it leads to."""

    source: Phase
    event: Event
    target: Phase
    pauses: int


def arrows() -> list[Arrow]:
    """Return every transition that can be reached from idle, in the order of the table."""
    found = {arrow for state in reachable() for arrow in arrows_from(state)}
    order = list(TRANSITIONS)
    return sorted(found, key=lambda one: (order.index((one.source, one.event)), one.pauses))


def reachable() -> list[CleaningState]:
    """Return the states that can be reached from idle with at most so many pauses."""
    states = [IDLE]
    for state in states:  # grows on the way
        for event in Event:
            after = try_event(state, event)
            if after is not None and after.pauses <= MOST_PAUSES and after not in states:
                states.append(after)
    return states


def arrows_from(state: CleaningState) -> Iterator[Arrow]:
    """Yield the transitions out of one state."""
    for event in Event:
        after = try_event(state, event)
        if after is not None:
            yield Arrow(state.phase, event, after.phase, min(after.pauses, 1))


def try_event(state: CleaningState, event: Event) -> CleaningState | None:
    """Return the state after an event, None if that is refused."""
    try:
        return state.after(event)
    except InvalidArgument:
        return None


def render() -> str:
    """Return the picture as a Mermaid diagram, between the two marks."""
    drawn = arrows()
    targets = Counter((arrow.source, arrow.event) for arrow in drawn)
    lines = [f"    {name(phase)} : {phase.value}" for phase in Phase]
    lines.append(f"    [*] --> {name(IDLE.phase)}")
    for arrow in drawn:
        # One event with two targets: the last one of several pauses is undone, or one before it.
        is_last = targets[arrow.source, arrow.event] > 1 and not arrow.pauses
        label = f"{arrow.event.value} (the last pause)" if is_last else arrow.event.value
        lines.append(f"    {name(arrow.source)} --> {name(arrow.target)} : {label}")
    return "".join([BEGIN, "```mermaid\nstateDiagram-v2\n", "\n".join(lines), "\n```\n", END])


def name(phase: Phase) -> str:
    """Return a phase's name as Mermaid takes it."""
    return phase.name.lower()


def with_picture(page: str) -> str:
    """Return the page with the picture drawn anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + render() + after


def main() -> int:
    """Write the picture, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    page = PAGE.read_text("utf-8")
    if parser.parse_args().check:
        return int(with_picture(page) != page)
    PAGE.write_text(with_picture(page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
