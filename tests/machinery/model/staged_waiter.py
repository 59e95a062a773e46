"""A waiter: one attempt of a user to commit a transaction, in a process of its own.

```text
new ─▶ written ─▶ staged ──lock is free──▶ committing ─▶ reported committed or refused
                    │  └─── a repeat ───▶ skipping, denying ─▶ the same
                    │ lock is busy
                  busy ─▶ offering ─▶ waiting ──lock is free──▶ claiming ─▶ the same, or withdrawn
                                     │ deadline
                          ready ◀────┴────▶ claimed by another
                            │                  │
                      withdrawing           reported committed, refused or unknown
                            │
                      reported withdrawn
```

It tries the lock before it looks at its deadline, so that it may commit after that, or find under
the lock that a holder before it has withdrawn its manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.model.explorer import Step
from tests.machinery.model.request_asker import AskerSteps
from tests.machinery.model.staged_state import Holder, Rule, State, is_over, manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machinery.model.staged_state import Scenario

DATA = "data"
_MANIFESTS = ("claimed", "ready")
_EVERYTHING = ("refused", "claimed", "ready", "staged", "withdrawn")


class WaiterSteps:
    """What an attempt does as long as it does not hold the lock."""

    def __init__(self, scenario: Scenario, broken: Rule | None) -> None:
        self._scenario = scenario
        self._broken = broken
        self._requests = AskerSteps(broken)

    def steps(self, state: State, number: int) -> Iterator[Step[State]]:
        """Return all that an attempt may do next."""
        if self._scenario.attempts[number].is_request:
            yield from self._requests.steps(state, number)
            return
        who = f"waiter {number}"
        match state.phases[number]:
            case "new" if self._may_begin(state, number):
                after = state.changed((f"staged.{number}", DATA), is_synced=False)
                is_synced = self._broken is not Rule.STAGED_SYNCED
                phase = "written" if is_synced else "staged"
                yield Step(who, f"create staged.{number}", after.with_phase(number, phase))
            case "written":
                name = f"staged.{number}"
                after = state._replace(disk=state.disk.file_synced(name))
                yield Step(who, f"sync {name}", after.with_phase(number, "staged"))
            case "staged":
                yield from self._begin(state, number)
            case "skipping" | "denying":
                yield self._end_early(state, number)
            case "busy":
                after = state.changed((f"ready.{number}", True)).with_phase(number, "offering")
                yield Step(who, f"write ready.{number}", after)
            case "offering":
                yield Step(who, "sync directory", state.synced().with_phase(number, "waiting"))
            case phase:
                yield from self._after_offer(state, number, phase)

    def _after_offer(self, state: State, number: int, phase: str) -> Iterator[Step[State]]:
        who = f"waiter {number}"
        match phase:
            case "waiting":
                yield from self._wait(state, number)
            case "withdrawing":
                after = state.synced().with_phase(number, "reported withdrawn")
                yield Step(who, "sync directory", after)
            case "refused":
                yield self._forget(state, number)
            case "reported committed":
                # The entry that it saw may not be durable: the journal may need the rest.
                is_careful = self._broken is not Rule.STAGED_KEPT
                yield from self._clean(state, number, _MANIFESTS if is_careful else _EVERYTHING)
            case "reported withdrawn" | "reported refused":
                yield from self._clean(state, number, _EVERYTHING)

    def _may_begin(self, state: State, number: int) -> bool:
        after = self._scenario.attempts[number].after
        return after is None or is_over(state.phases[after])

    def _begin(self, state: State, number: int) -> Iterator[Step[State]]:
        """Look whether it is a repeat, and whether the lock is free."""
        who, attempt = f"waiter {number}", self._scenario.attempts[number]
        known = dict(state.files.get("finished", ())).get(attempt.txn, -1)
        if known == attempt.batch:
            yield Step(who, "see a repeat", state.with_phase(number, "skipping"))
        elif known > attempt.batch:
            yield Step(who, "see an old batch", state.with_phase(number, "denying"))
        if state.holder is None:
            yield self._lock(state, number, "committing")
        elif self._scenario.has_manifests:
            yield Step(who, "find the lock taken", state.with_phase(number, "busy"))

    @staticmethod
    def _end_early(state: State, number: int) -> Step[State]:
        """Delete its own files, which nobody knows of, and report without the lock."""
        is_denied = state.phases[number] == "denying"
        after = state.changed((f"staged.{number}", None))
        phase = "reported refused" if is_denied else "reported committed"
        return Step(f"waiter {number}", f"delete staged.{number}", after.with_phase(number, phase))

    @staticmethod
    def _lock(state: State, number: int, phase: str) -> Step[State]:
        after = state._replace(holder=Holder(number, "own")).with_phase(number, phase)
        return Step(f"waiter {number}", "take the lock", after)

    def _wait(self, state: State, number: int) -> Iterator[Step[State]]:
        who = f"waiter {number}"
        yield from self._look(state, number)
        if state.holder is None:
            yield self._lock(state, number, "claiming")
        if number not in state.late:
            return
        if manifests(state, "ready", number) or self._broken is Rule.WITHDRAWN_FIRST:
            yield self._withdraw(state, number)
        elif manifests(state, "withdrawn", number):
            yield Step(who, "see it withdrawn", state.with_phase(number, "withdrawing"))
        elif manifests(state, "claimed", number):
            yield Step(who, "wait no longer", state.with_phase(number, "over"))
        else:
            yield Step(who, "find no manifest", state.with_phase(number, "over"))

    def _withdraw(self, state: State, number: int) -> Step[State]:
        who, is_synced = f"waiter {number}", self._broken is not Rule.WITHDRAWAL_SYNCED
        if self._broken is Rule.WITHDRAWN_FIRST:
            return Step(who, "give up", state.with_phase(number, "reported withdrawn"))
        after = state.changed((f"ready.{number}", None))
        phase = "withdrawing" if is_synced else "reported withdrawn"
        return Step(who, f"delete ready.{number}", after.with_phase(number, phase))

    def _look(self, state: State, number: int) -> Iterator[Step[State]]:
        """Look for an answer of the process that has claimed the manifest."""
        who, attempt = f"waiter {number}", self._scenario.attempts[number]
        if (attempt.txn, attempt.batch) in state.files.get("finished", ()):
            yield Step(who, "see it finished", state.with_phase(number, "reported committed"))
        elif manifests(state, "refused", number):
            is_synced = self._broken is not Rule.REFUSAL_SYNCED
            phase = "refused" if is_synced else "reported refused"
            yield Step(who, "see it refused", state.with_phase(number, phase))

    # After the answer

    @staticmethod
    def _clean(state: State, number: int, kinds: tuple[str, ...]) -> Iterator[Step[State]]:
        names = [f"{kind}.{number}" for kind in kinds]
        for name in [name for name in names if name in state.files]:
            yield Step(f"waiter {number}", f"delete {name}", state.changed((name, None)))

    def _forget(self, state: State, number: int) -> Step[State]:
        """Make sure that a refused manifest cannot come back, before the refusal is reported."""
        who, claimed = f"waiter {number}", f"claimed.{number}"
        if claimed in state.files:
            return Step(who, f"delete {claimed}", state.changed((claimed, None)))
        return Step(who, "sync directory", state.synced().with_phase(number, "reported refused"))
