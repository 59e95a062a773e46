"""A process that asks for a command, the other kind of letter beside the commits of waiters.

```text
new, trying ──lock is free──▶ doing ─▶ reported committed
   │ lock is busy   ▲
   ▼                └── sync ◀── taking ◀──not claimed── freed ◀──lock is free──┐
  busy ─▶ offering ─▶ waiting ◀───claimed─────────────────┘                      │
                        ├────────────────────────────────────────────────────────┤
                        │ claimed, then answered                                 │ deadline
                        ├─▶ reported committed or refused                        └─▶ withdrawing
                        └─▶ over: its service has ended                ─▶ reported withdrawn
```

Between its look at the lock and the withdrawal of its letter a service may take both.
The letter has the names of a manifest, see ``staged_state``; ``refused.0`` is the answer, and holds
whether the command was carried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.model.explorer import Step
from tests.machinery.model.staged_state import SERVICE, Holder, Rule, State, manifests

if TYPE_CHECKING:
    from collections.abc import Iterator


class AskerSteps:
    """What a process that asks does as long as it does not hold the lock."""

    def __init__(self, broken: Rule | None) -> None:
        self._broken = broken

    def steps(self, state: State, number: int) -> Iterator[Step[State]]:
        """Return all that it may do next."""
        who = f"waiter {number}"
        match state.phases[number]:
            case "new" | "trying":
                yield self._try(state, number)
            case "busy":
                after = state.changed((f"ready.{number}", True)).with_phase(number, "offering")
                yield Step(who, f"write ready.{number}", after)
            case "offering":
                yield Step(who, "sync directory", state.synced().with_phase(number, "waiting"))
            case "waiting":
                yield from self._wait(state, number)
            case "freed":
                yield self._take(state, number)
            case "taking":
                yield Step(who, "sync directory", state.synced().with_phase(number, "trying"))
            case "withdrawing":
                after = state.synced().with_phase(number, "reported withdrawn")
                yield Step(who, "sync directory", after)
            case "reported committed" | "reported refused":
                if manifests(state, "refused", number):
                    name = f"refused.{number}"
                    yield Step(who, f"delete {name}", state.changed((name, None)))

    @staticmethod
    def _try(state: State, number: int) -> Step[State]:
        who = f"waiter {number}"
        if state.holder is None:
            after = state._replace(holder=Holder(number, "own"))
            return Step(who, "take the lock", after.with_phase(number, "doing"))
        return Step(who, "find the lock taken", state.with_phase(number, "busy"))

    def _wait(self, state: State, number: int) -> Iterator[Step[State]]:
        who, holder = f"waiter {number}", state.holder
        if manifests(state, "ready", number):
            if number in state.late:
                yield self._withdraw(state, number, "withdrawing", "reported withdrawn")
            if holder is None:
                yield Step(who, "see the lock free", state.with_phase(number, "freed"))
        elif manifests(state, "claimed", number):
            if holder is None or holder.owner != SERVICE:
                yield Step(who, "see its service gone", state.with_phase(number, "over"))
        elif manifests(state, "refused", number):
            was_done = state.files[f"refused.{number}"]
            phase = "reported committed" if was_done else "reported refused"
            yield Step(who, "see its answer", state.with_phase(number, phase))
        else:
            yield Step(who, "find no letter", state.with_phase(number, "over"))

    def _take(self, state: State, number: int) -> Step[State]:
        """Take the letter back to do it here, unless a service has claimed it since the look."""
        if manifests(state, "ready", number):
            return self._withdraw(state, number, "taking", "trying")
        return Step(f"waiter {number}", "come too late", state.with_phase(number, "waiting"))

    def _withdraw(self, state: State, number: int, phase: str, unsynced: str) -> Step[State]:
        if self._broken is Rule.WITHDRAWN_FIRST:
            return Step(f"waiter {number}", "give up", state.with_phase(number, unsynced))
        after = state.changed((f"ready.{number}", None))
        if self._broken is Rule.WITHDRAWAL_SYNCED:
            phase = unsynced
        return Step(f"waiter {number}", f"delete ready.{number}", after.with_phase(number, phase))
