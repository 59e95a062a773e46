"""Checks every state that a model of a protocol can reach, breadth first.

A model is a set of first states and a function that lists what may happen next, all processes and
faults included. A rule that is broken is reported with one of the shortest ways to it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

S = TypeVar("S", bound="Hashable")


class Step(NamedTuple, Generic[S]):
    """What one process does next, and the state after it.

    ``is_fault``: a crash or an error, which need not ever happen.
    """

    process: str
    action: str
    state: S
    is_fault: bool = False

    def __str__(self) -> str:
        return f"{self.process}: {self.action}"


class Model(Protocol[S]):
    """A protocol whose states are values that can be hashed and compared."""

    def first(self) -> S:
        """Return the state in which everything begins."""

    def steps(self, state: S) -> Iterable[Step[S]]:
        """Return all that may happen next."""

    def broken_rule(self, state: S) -> str | None:
        """Return the rule that a state breaks, None if it is a good one."""

    def is_settled(self, state: S) -> bool:
        """Return whether everything has come to an end, so that nothing is owed to anyone."""


class Violation(NamedTuple):
    """A rule that does not hold, and how to get there."""

    rule: str
    trace: list[str]

    def __str__(self) -> str:
        steps = "\n".join(f"{number:3} {step}" for number, step in enumerate(self.trace, 1))
        return f"{self.rule}, after:\n{steps}"


class Exploration(NamedTuple):
    """What was found, and how much was looked at. ``depth``: steps to the farthest state."""

    states: int
    transitions: int
    depth: int
    violation: Violation | None


def explore(model: Model[S], *, max_states: int = 5_000_000) -> Exploration:
    """Visit all states of a model; stop at the first one, by distance, that breaks a rule.

    Besides the model's own rules, from every state some way without further faults must lead to a
    settled one: nothing waits or blocks for ever.

    Raises ValueError if there are more than ``max_states``.
    """
    return _Explorer(model, max_states).run()


class _Explorer(Generic[S]):
    """The states by number, in the order in which they were found."""

    def __init__(self, model: Model[S], max_states: int) -> None:
        self._model = model
        self._max_states = max_states
        self._states: list[S] = []
        self._numbers: dict[S, int] = {}
        self._reached_by: list[tuple[int, str]] = []
        """The state before, and the step from it, on a shortest way."""
        self._depths: list[int] = []
        self._before: list[list[int]] = []
        """The states that lead to each by a step that is not a fault."""
        self._transitions = 0

    def run(self) -> Exploration:
        """Visit all states; return what was found."""
        self._add(self._model.first(), -1, "")
        number = 0
        while number < len(self._states):
            rule = self._model.broken_rule(self._states[number])
            if rule is not None:
                return self._found(Violation(rule, self._trace(number)))
            self._visit(number)
            number += 1
        return self._found(self._stuck())

    def _visit(self, number: int) -> None:
        for step in self._model.steps(self._states[number]):
            self._transitions += 1
            after = self._numbers.get(step.state)
            if after is None:
                after = self._add(step.state, number, str(step))
            if not step.is_fault:
                self._before[after].append(number)

    def _add(self, state: S, before: int, step: str) -> int:
        number = len(self._states)
        if number >= self._max_states:
            raise ValueError(f"more than {self._max_states:,} states")
        self._numbers[state] = number
        self._states.append(state)
        self._reached_by.append((before, step))
        self._depths.append(self._depths[before] + 1 if number else 0)
        self._before.append([])
        return number

    def _stuck(self) -> Violation | None:
        """Find a state from which no settled one is reached."""
        is_settled = self._model.is_settled
        waiting = deque(n for n, state in enumerate(self._states) if is_settled(state))
        good = set(waiting)
        while waiting:
            for before in self._before[waiting.popleft()]:
                if before not in good:
                    good.add(before)
                    waiting.append(before)
        stuck = next((n for n in range(len(self._states)) if n not in good), None)
        if stuck is None:
            return None
        return Violation("something waits for ever", self._trace(stuck))

    def _trace(self, number: int) -> list[str]:
        return list(self._backwards(number))[::-1]

    def _backwards(self, number: int) -> Iterator[str]:
        while number:
            number, step = self._reached_by[number]
            yield step

    def _found(self, violation: Violation | None) -> Exploration:
        depth = self._depths[-1]
        return Exploration(len(self._states), self._transitions, depth, violation)
