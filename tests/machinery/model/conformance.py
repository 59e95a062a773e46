"""Checks that a run of the code is a run of the model of the exactly-once protocol.

What a run shows is compared after each operation on the disk: the files, which of them would
survive a power cut, the logs, and who holds the lock. What processes think is not seen, so all
states of the model are kept that they may be in; once none is left, the code has done what the
model does not allow.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tests.machinery.model.exactly_once import ExactlyOnce, without_idle_deadlines
from tests.machinery.model.staged_state import KAFKA, SERVICE, Log, Scenario, State, is_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.machinery.model.directory import Directory, Names
    from tests.machinery.model.explorer import Step

_MOST_STEPS = 4
"""Visible steps of the model that one operation of the code may take, as an append of batches."""


class Seen(NamedTuple):
    """What can be seen of a state: the fields of ``Directory`` and ``State`` of these names.

    ``holder``: the process that holds the lock, an attempt's number, SERVICE or KAFKA. ``done`` are
    the requests that were carried out, ever.
    """

    holder: int | None
    names: Names
    durable: Names
    unsynced: frozenset[str]
    logs: tuple[Log, ...]
    done: frozenset[int] = frozenset()

    def differences(self, other: Seen) -> str:
        """Say in which fields another observation differs, and how."""
        pairs = zip(self._fields, self, other, strict=True)
        return "; ".join(f"{name}: {_change(a, b)}" for name, a, b in pairs if a != b)


def _change(before: object, after: object) -> str:
    if isinstance(before, frozenset) and isinstance(after, frozenset):
        return f"-{sorted(before - after)} +{sorted(after - before)}"
    return f"{before} -> {after}"


def seen_of(state: State) -> Seen:
    """Return what can be seen of a state of the model."""
    disk, holder = state.disk, state.holder
    owner = None if holder is None else holder.owner
    done = frozenset(state.done)
    return Seen(owner, disk.names, disk.durable, disk.unsynced, state.logs, done)


class Disallowed(Exception):
    """The code has done what the model does not allow."""


class Conformance:
    """Follows one run of the code in the model.

    ``taken`` counts the steps of the model that explain the run, by process and action.
    """

    def __init__(self, scenario: Scenario, first: State) -> None:
        self._model = ExactlyOnce(scenario)
        self._states = {first}
        self._seen = seen_of(first)
        self.taken: Counter[str] = Counter()

    @property
    def states(self) -> frozenset[State]:
        """The states of the model in which the run may be."""
        return frozenset(self._states)

    def changed(self, process: int, seen: Seen) -> None:
        """A process has done one operation; nothing to check if nothing is to be seen of it."""
        if seen == self._seen:
            return
        name = _name(process)
        front = self._quiet(self._states)
        reached = {one for state in front for one in _written_back(state, seen)}
        for _ in range(_MOST_STEPS):
            if reached:
                break
            after: dict[State, list[Step[State]]] = {}
            for state in front:
                for step in self._work(state):
                    if step.process == name:
                        after.setdefault(step.state, []).append(step)
            for state, steps in after.items():
                found = set(_written_back(state, seen))
                if found:
                    reached |= found
                    self.taken.update(map(str, steps))
            front = self._quiet(after)
        self._become(reached, seen, f"{name} has changed")

    def killed(self, process: int, seen: Seen) -> None:
        """A process has ended without a further operation; its lock is free."""
        reached = set()
        for state in self._quiet(self._states):
            after = state
            # Another service may have been killed than the one that holds the lock.
            if state.holder is not None and process == state.holder.owner != seen.holder:
                after = after.released()
            if process >= 0 and not is_over(state.phases[process]):
                after = after.with_phase(process, "over")
            reached.add(after)
        self._become(reached, seen, f"{_name(process)} was killed")

    def cut(self, ended: Iterable[int], seen: Seen) -> None:
        """The power has failed, which has ended all processes, also the attempts ``ended``."""
        reached = set()
        for state in self._quiet(self._states):
            if all(map(_may_be_left, state.logs, seen.logs)):
                left = state._replace(logs=seen.logs)
                for number in ended:
                    if not is_over(left.phases[number]):
                        left = left.with_phase(number, "over")
                reached |= {one for one in self._model.after_cut(left) if seen_of(one) == seen}
        self._become(reached, seen, "the power has failed")

    def reported(self, number: int, outcome: str) -> None:
        """An attempt has ended with an outcome, a phase of ``staged_waiter``."""
        states = self._quiet(self._states)
        reached = {state for state in states if state.phases[number] == outcome}
        phases = sorted({state.phases[number] for state in states})
        self._become(reached, self._seen, f"waiter {number} has {outcome}, and may be {phases}")

    def _quiet(self, states: Iterable[State]) -> set[State]:
        """Return the states that are reached by steps of which nothing is to be seen."""
        found = set(states)
        waiting = list(found)
        while waiting:
            state = waiting.pop()
            seen = seen_of(state)
            for step in self._work(state):
                if step.state not in found and seen_of(step.state) == seen:
                    found.add(step.state)
                    waiting.append(step.state)
        return found

    def _work(self, state: State) -> Iterator[Step[State]]:
        for step in self._model.work(state):
            yield step._replace(state=without_idle_deadlines(step.state))

    def _become(self, states: set[State], seen: Seen, what: str) -> None:
        states = {state for state in states if seen_of(state) == seen}
        if not states:
            changes = self._seen.differences(seen)
            raise Disallowed(f"{what}: {changes}\n{self._explained()}")
        for state in states:
            rule = self._model.broken_rule(state)
            if rule is not None:
                raise Disallowed(f"{what}: {rule}")
        self._states, self._seen = states, seen

    def _explained(self) -> str:
        """Return what the model would allow instead."""
        lines = []
        for state in self._quiet(self._states):
            lines.append(f"  in {state.phases} {state.holder}: late {sorted(state.late)}")
            lines += [f"    {step}" for step in self._model.work(state)]
        return "\n".join(lines[:60])


def _written_back(state: State, seen: Seen) -> Iterator[State]:
    """Yield a state in which the system has made more durable than the protocol asked for."""
    disk = state.disk
    if disk.names != seen.names:
        return
    choices: list[Callable[[Directory], Directory]] = [
        lambda one: one,
        lambda one: one.synced(),
        lambda one: _with_staged_names(one, seen),
    ]
    logs = tuple(
        log.synced() if log.batches == other.batches and other.is_durable else log
        for log, other in zip(state.logs, seen.logs, strict=True)
    )
    for name in disk.unsynced - seen.unsynced:
        disk = disk.file_synced(name)
    for choice in choices:
        after = state._replace(disk=choice(disk), logs=logs)
        if choice is choices[1]:
            after = after._replace(committed=state.synced().committed)
        if seen_of(after) == seen:
            yield after


def _with_staged_names(disk: Directory, seen: Seen) -> Directory:
    """Return the directory with names durable that a sync has met before their bytes were there."""
    early = {one for one in disk.names & seen.durable - disk.durable if one[0] in disk.unsynced}
    pending = tuple(change for change in disk.pending if early.isdisjoint(change))
    return disk._replace(durable=disk.durable | early, pending=pending)


def _may_be_left(log: Log, left: Log) -> bool:
    """Return whether a power cut may leave this of a log."""
    count = len(left.batches)
    return log.durable <= count and log.batches[:count] == left.batches


def _name(process: int) -> str:
    return {SERVICE: "service", KAFKA: "kafka"}.get(process, f"waiter {process}")
