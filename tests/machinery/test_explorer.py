"""The explorer visits every state once, and shows the way to one that breaks a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.model.explorer import Step, explore

if TYPE_CHECKING:
    from collections.abc import Iterator


class Counter:
    """Two processes that each count to a limit; ``is_leaky``: one may stop for ever."""

    def __init__(self, *, forbidden: int | None = None, is_leaky: bool = False) -> None:
        self._forbidden = forbidden
        self._is_leaky = is_leaky

    def first(self) -> tuple[int, int]:
        """Return two zeros."""
        return 0, 0

    def steps(self, state: tuple[int, int]) -> Iterator[Step[tuple[int, int]]]:
        """Count on in either process."""
        left, right = state
        if left == 9:
            return
        if left < 3:
            yield Step("left", "count", (left + 1, right))
        if right < 3:
            yield Step("right", "count", (left, right + 1))
        if self._is_leaky:
            yield Step("left", "stop", (9, right), is_fault=True)

    def broken_rule(self, state: tuple[int, int]) -> str | None:
        """Forbid one sum."""
        return "forbidden" if sum(state) == self._forbidden else None

    def is_settled(self, state: tuple[int, int]) -> bool:
        """Return whether both have counted to the end."""
        return state == (3, 3)


def test_every_state_is_visited_once() -> None:
    """States, transitions and the longest of the shortest ways are counted."""
    assert explore(Counter()) == (16, 24, 6, None)


def test_a_broken_rule_is_shown_with_a_shortest_way() -> None:
    """The trace has one line a step, from the first state on."""
    violation = explore(Counter(forbidden=2)).violation

    assert violation is not None
    assert violation.rule == "forbidden"
    assert violation.trace == ["left: count", "left: count"]
    assert str(violation).splitlines()[1:] == ["  1 left: count", "  2 left: count"]


def test_a_state_that_no_settled_one_follows_is_a_violation() -> None:
    """Something that waits for ever is found, also if only a fault leads there."""
    violation = explore(Counter(is_leaky=True)).violation

    assert violation == ("something waits for ever", ["left: stop"])


def test_too_many_states_are_an_error() -> None:
    """An exploration that cannot end does not pass for one that has."""
    with pytest.raises(ValueError, match="more than 5 states"):
        explore(Counter(), max_states=5)
