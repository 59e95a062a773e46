"""A model of the exactly-once protocol, see ``docs/architecture.md``: each order of its steps.

It covers both kinds of letters, commits and requests. Waiters, a service, a short-lived writer (a
service that closes at once) and Kafka share a data directory. Each may be killed between any two
changes of a file, and the power may fail. What is promised is checked in each state.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from tests.machinery.model.directory import Directory
from tests.machinery.model.explorer import Step
from tests.machinery.model.staged_holder import HolderSteps
from tests.machinery.model.staged_state import (
    CUTS,
    KILLS,
    Log,
    Rule,
    State,
    is_over,
    journaled,
    journals,
)
from tests.machinery.model.staged_waiter import DATA, WaiterSteps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machinery.model.staged_state import Scenario

_LASTING = {"finished", "watermarks"}
"""The files that stay when all transactions have ended."""


class ExactlyOnce:
    """The protocol in one scenario; ``broken``: the rule that this model leaves out."""

    def __init__(self, scenario: Scenario, broken: Rule | None = None) -> None:
        self._scenario = scenario
        self._waiters = WaiterSteps(scenario, broken)
        self._holder = HolderSteps(scenario, broken)

    def first(self) -> State:
        """Return a directory with empty logs and no checkpoint of theirs."""
        scenario = self._scenario
        disk = Directory().changed(("watermarks", (None,) * len(scenario.partitions))).synced()
        logs = tuple(Log() for _ in scenario.partitions)
        left = scenario.kills, scenario.cuts, scenario.full, scenario.refusals, scenario.foreign
        return State(disk, logs, ("new",) * len(scenario.attempts), left)

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Return all that may happen next."""
        for step in self._steps(state):
            yield step._replace(state=_canonical(step.state))

    def work(self, state: State) -> Iterator[Step[State]]:
        """Return what processes and the clock may do next."""
        for number in range(len(state.phases)):
            yield from self._waiters.steps(state, number)
        yield from self._holder.steps(state)
        for number in sorted(set(range(len(state.phases))) - state.late):
            if _waits(state, number) or state.phases[number] in {"waiting", "claiming"}:
                after = state._replace(late=state.late | {number})
                yield Step("clock", f"pass the deadline of {number}", after)

    def _steps(self, state: State) -> Iterator[Step[State]]:
        yield from self.work(state)
        if state.left[KILLS]:
            yield from self._kills(state)
        if state.left[CUTS]:
            yield from self._cuts(state)

    def _kills(self, state: State) -> Iterator[Step[State]]:
        holder = state.holder
        if holder is not None and holder.owner < 0:
            yield Step(
                "kill", "the holder of the lock", state.spent(KILLS).released(), is_fault=True
            )
        for number, phase in enumerate(state.phases):
            if phase != "new" and not is_over(phase):
                after = state.spent(KILLS).with_phase(number, "over")
                if holder is not None and holder.owner == number:
                    after = after.released()
                yield Step("kill", f"waiter {number}", after, is_fault=True)

    def _cuts(self, state: State) -> Iterator[Step[State]]:
        for after in self.after_cut(state.spent(CUTS)):
            yield Step("power", f"fail, leaving {_summary(after)}", after, is_fault=True)

    @staticmethod
    def after_cut(state: State) -> Iterator[State]:
        """Return all that a power cut may leave."""
        phases = tuple(
            phase if phase == "new" or is_over(phase) else "over" for phase in state.phases
        )
        # The clock may be behind afterwards, so that a deadline passes once more.
        dark = state.released()._replace(phases=phases, late=frozenset())
        ends = [range(log.durable, len(log.batches) + 1) for log in state.logs]
        for disk in state.disk.after_power_cut():
            for kept in product(*ends):
                logs = tuple(
                    Log(log.batches[:end], end) for log, end in zip(state.logs, kept, strict=True)
                )
                after = dark._replace(disk=disk, logs=logs)
                yield after._replace(committed=after.committed | journaled(after))

    # What is promised

    def is_settled(self, state: State) -> bool:
        """Return whether all attempts have ended, and nothing is left of them but their records."""
        is_quiet = state.holder is None and all(map(is_over, state.phases))
        return is_quiet and set(state.files) <= _LASTING

    def broken_rule(self, state: State) -> str | None:
        """Return the promise that a state breaks."""
        checks = (self._once, self._visible, self._reported, self._needed, self._done)
        for check in checks:
            rule = check(state)
            if rule is not None:
                return rule
        if self.is_settled(state):
            for number in state.committed:
                if not self._is_in(state, number):
                    return "a committed transaction is not in the logs"
        return None

    def _once(self, state: State) -> str | None:
        for log in state.logs:
            if len(set(log.batches)) < len(log.batches):
                return "a record is in a log twice"
            last: dict[str, int] = {}
            for txn, batch in log.batches:
                if txn != "kafka" and batch != last.get(txn, -1) + 1:
                    return "records are out of order"
                last[txn] = batch
        return None

    def _visible(self, state: State) -> str | None:
        attempts = self._scenario.attempts
        committed = {attempts[number].id for number in state.committed} | {"kafka"}
        for partition, log in enumerate(state.logs):
            mark = state.files["watermarks"][partition]
            visible = [txn for txn, _ in (log.batches if mark is None else log.batches[:mark])]
            # What Kafka has not flushed is visible, and may be lost.
            if mark is not None and mark > len(log.batches) and not self._scenario.foreign:
                return "a high watermark is above the end of its log"
            if not committed.issuperset(visible):
                return "a record is visible that is not committed"
            for attempt in attempts:
                seen = visible.count(attempt.id)
                if seen and seen < attempt.sizes[partition] and not state.is_mixed:
                    return "a part of a transaction is visible"
        return None

    def _reported(self, state: State) -> str | None:
        for number, phase in enumerate(state.phases):
            if phase == "reported committed" and not self._is_in(state, number, is_visible=True):
                return "a transaction that was reported as committed is not in the logs"
            is_denied = phase in {"reported withdrawn", "reported refused"}
            if is_denied and number in state.committed and not self._is_old(state, number):
                return "a transaction is committed after it was reported that it is not"
        return None

    def _is_old(self, state: State, number: int) -> bool:
        """Whether a later batch of the stream is finished; this one may have been committed."""
        attempt = self._scenario.attempts[number]
        known: dict[str, int] = dict(state.files.get("finished", ()))
        return known.get(attempt.txn, 0) > attempt.batch

    def _needed(self, state: State) -> str | None:
        known = dict(state.files.get("finished", ()))
        for journal in journals(state).values():
            if isinstance(journal, str):
                return "a journal is torn"
            attempt = self._scenario.attempts[journal.attempt]
            if known.get(attempt.txn, -1) >= attempt.batch:
                continue
            if state.files.get(f"staged.{journal.attempt}") != DATA:
                return "a staged file is gone that a journal needs"
            if any(move.base > len(state.logs[move.partition].batches) for move in journal.moves):
                return "a log ends below the place of a journal"
        return None

    @staticmethod
    def _done(state: State) -> str | None:
        if len(set(state.done)) < len(state.done):
            return "a request is carried out twice"
        for number in state.done:
            if state.phases[number] in {"reported withdrawn", "reported refused"}:
                return "a request is carried out after it was reported that it is not"
        return None

    def _is_in(self, state: State, number: int, *, is_visible: bool = False) -> bool:
        attempt = self._scenario.attempts[number]
        if attempt.is_request:
            return number in state.done
        for partition, size in enumerate(attempt.sizes):
            batches = state.logs[partition].batches
            mark = state.files["watermarks"][partition]
            seen = batches[:mark] if is_visible and mark is not None else batches
            if [batch for txn, batch in seen if txn == attempt.id] != list(range(size)):
                return False
        return True


def _canonical(state: State) -> State:
    """Return the one state that stands for all that differ in nothing that matters any more."""
    state = without_idle_deadlines(state)
    if not state.left[CUTS]:
        names, logs = state.disk.names, tuple(log.synced() for log in state.logs)
        state = state._replace(disk=Directory(names, names), logs=logs)
    return state


def without_idle_deadlines(state: State) -> State:
    """Return the state without deadlines that matter to nobody any more."""
    idle = {n for n in state.late if is_over(state.phases[n]) and not _is_manifest_left(state, n)}
    return state._replace(late=state.late - idle)


def _is_manifest_left(state: State, number: int) -> bool:
    return _waits(state, number) or f"withdrawn.{number}" in state.files


def _waits(state: State, number: int) -> bool:
    return not {f"ready.{number}", f"claimed.{number}"}.isdisjoint(state.files)


def _summary(state: State) -> str:
    """Return the disk in words."""
    names = ", ".join(sorted(set(state.files) - {"watermarks"})) or "no file"
    return f"{names}; records {[len(log.batches) for log in state.logs]}"
