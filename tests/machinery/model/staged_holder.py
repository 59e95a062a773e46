"""The holder of the lock: it finishes journals, commits for itself and for others, and sweeps.

```text
opening: finish each journal found, return claimed manifests ─▶ idle (service), own (a waiter)
idle, own: claim a manifest ─▶ check ─▶ flush ─▶ journal ═ commit point ═▶ lines ─▶ place ─▶ show
                                  │                                                         │
                               refuse                  ended ◀─ clean ◀─ finish ◀───────────┘
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.machinery.model.explorer import Step
from tests.machinery.model.staged_state import (
    FOREIGN,
    FULL,
    KAFKA,
    REFUSALS,
    SERVICE,
    Holder,
    Journal,
    Known,
    Move,
    Rule,
    State,
    is_over,
    journaled,
    journals,
    manifests,
)
from tests.machinery.model.staged_waiter import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machinery.model.staged_state import Attempt, Log, Scenario

_LEFT: Final = {
    "reported committed": "claimed",
    "reported refused": "refused",
    "reported withdrawn": "withdrawn",
}
"""The manifest that a waiter may delete under the lock, by what it will report."""
_SYNCED: Final = {
    "reported refused": Rule.REFUSAL_SYNCED,
    "reported withdrawn": Rule.WITHDRAWAL_SYNCED,
}
"""Why the manifest is durably gone before that."""


class HolderSteps:
    """What the process does that holds the lock of the directory."""

    def __init__(self, scenario: Scenario, broken: Rule | None) -> None:
        self._scenario = scenario
        self._attempts = scenario.attempts
        self._broken = broken

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Return all that the holder may do next, or who may take the lock."""
        holder = state.holder
        if holder is None:
            yield Step("service", "take the lock", state._replace(holder=Holder(SERVICE, "idle")))
            if state.left[FOREIGN]:
                after = state._replace(holder=Holder(KAFKA, "appending"))
                mixed = after._replace(is_mixed=state.is_mixed or bool(journals(state)))
                yield Step("kafka", "take the lock", mixed)
            return
        yield from getattr(self, f"_{holder.at}")(state, holder)
        if self._broken is Rule.SWEEP_WAITS and holder.owner == SERVICE:
            yield from self._sweep(state, "service")

    def _sync(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        yield Step(_name(holder), "sync directory", state.synced().at(holder.then, then=""))
        if holder.then == "begin":
            for number, attempt in enumerate(self._attempts):
                if attempt.is_request and manifests(state, "ready", number):
                    yield self._take(state, holder, number)

    def _then(self, state: State, then: str, rule: Rule | None = None) -> State:
        """Return the state with a sync of the directory next, unless that rule is broken."""
        if rule is not None and rule is self._broken:
            return state.at(then)
        return state.at("sync", then=then)

    # Between commits

    def _resting(self, state: State) -> Iterator[Step[State]]:
        """Finish what was found."""
        if self._broken is not Rule.JOURNALS_FIRST:
            for journal in journals(state).values():
                yield self._replay(state, journal)

    def _is_first(self, state: State) -> bool:
        """Whether journals must be finished before a commit: none of them has failed yet."""
        if self._broken is Rule.JOURNALS_FIRST or state.left[FULL] < self._scenario.full:
            return False
        return bool(journals(state))

    def _replay(self, state: State, journal: Journal) -> Step[State]:
        """Begin to apply a journal that was found, or to clean up after it."""
        holder = state.holder
        assert holder is not None
        is_known = self._known(state, self._attempts[journal.attempt]) is not None
        after = state.at("", journal=journal, attempt=None)
        after = self._then(after, "clean" if is_known else "lines", Rule.FOUND_SYNCED)
        return Step(_name(holder), f"read the journal of {journal.attempt}", after)

    def _returned(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        """Make claimed manifests ready again that nobody has decided about.

        Only a service clears the claims of requests.
        """
        for number, attempt in enumerate(self._attempts):
            claimed, ready = f"claimed.{number}", f"ready.{number}"
            if claimed not in state.files or number in journaled(state):
                continue
            if attempt.is_request and holder.owner != SERVICE:
                continue
            if attempt.is_request and self._broken is not Rule.CLAIM_DROPPED:
                yield Step(_name(holder), f"delete {claimed}", state.changed((claimed, None)))
                continue
            if self._known(state, attempt) is not None:
                if attempt.is_named:  # the entry stays known without it
                    yield Step(_name(holder), f"delete {claimed}", state.changed((claimed, None)))
                continue
            if manifests(state, "refused", number) and self._broken is not Rule.REFUSED_STAYS:
                yield Step(_name(holder), f"delete {claimed}", state.changed((claimed, None)))
            else:
                after = state.changed((claimed, None), (ready, True))
                yield Step(_name(holder), f"rename {claimed} to {ready}", after)

    def _idle(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        """A service between commits."""
        yield from self._resting(state)
        yield from self._returned(state, holder)
        for number in range(len(self._attempts)):
            ready = f"ready.{number}"
            if ready not in state.files:
                continue
            if self._attempts[number].is_request:
                yield self._take(state, holder, number)
            elif number not in state.late and not self._is_first(state):
                yield self._claim(state, holder, number)
        yield from self._checkpoint(state, holder)
        yield from self._sweep(state, "service")
        yield Step("service", "close", state.released())

    def _own(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        """A waiter, or one that asks for a command, that has got the lock itself."""
        number = holder.owner
        yield from self._resting(state)
        if self._is_first(state):
            return
        if self._attempts[number].is_request:
            yield from self._do(state, holder._replace(attempt=number))
        elif state.phases[number] == "claiming":
            yield self._settle(state, holder, number)
        else:
            yield self._commit(state, holder, number)

    def _settle(self, state: State, holder: Holder, number: int) -> Step[State]:
        """Take the answer of a holder before it, or commit; nobody else can answer now."""
        who, attempt = _name(holder), self._attempts[number]
        if manifests(state, "ready", number):
            return self._claim(state, holder, number)
        if manifests(state, "refused", number):
            return Step(who, "see it refused", state.at("forget", then="reported refused"))
        if (attempt.txn, attempt.batch) in state.files.get("finished", ()):
            return Step(who, "see it finished", state.at("leaving", then="reported committed"))
        if manifests(state, "withdrawn", number):
            return Step(who, "see it withdrawn", state.at("forget", then="reported withdrawn"))
        # A claim of another process is void: it has ended.
        return self._commit(state, holder, number)

    @staticmethod
    def _commit(state: State, holder: Holder, number: int) -> Step[State]:
        return Step(_name(holder), "commit", state.at("check", attempt=number, journal=None))

    def _claim(self, state: State, holder: Holder, number: int) -> Step[State]:
        after = state.at("check", attempt=number, journal=None)
        if self._broken is Rule.CLAIMED_BY_RENAME:
            return Step(_name(holder), f"read ready.{number}", after)
        ready, claimed = f"ready.{number}", f"claimed.{number}"
        after = after.changed((ready, None), (claimed, True))
        return Step(_name(holder), f"rename {ready} to {claimed}", after)

    def _is_blocked(self, state: State, number: int) -> bool:
        """Whether a journal is pending that shares a partition or the id with an attempt."""
        if self._broken is Rule.JOURNALS_FIRST:
            return False
        attempt = self._attempts[number]
        own = {p for p, size in enumerate(attempt.sizes) if size}
        others = journals(state).values()
        return any(
            attempt.txn == self._attempts[other.attempt].txn
            or own & {move.partition for move in other.moves}
            for other in others
        )

    # Requests

    def _take(self, state: State, holder: Holder, number: int) -> Step[State]:
        """Claim a request; what is claimed in a pass is made durable together, then carried out.

        One past its deadline is only answered.
        """
        ready, claimed = f"ready.{number}", f"claimed.{number}"
        hand = (*holder.hand, (number, "deny" if number in state.late else "do"))
        after = state.changed((ready, None), (claimed, True)).at("", hand=tuple(sorted(hand)))
        after = self._then(after, "begin", Rule.CLAIM_SYNCED)
        return Step(_name(holder), f"rename {ready} to {claimed}", after)

    @staticmethod
    def _begin(state: State, holder: Holder) -> Iterator[Step[State]]:
        """Begin with one of the requests that are claimed, in any order."""
        for one in holder.hand:
            number, what = one
            hand = tuple(other for other in holder.hand if other != one)
            yield Step(_name(holder), f"begin {number}", state.at(what, attempt=number, hand=hand))

    def _do(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        number = _number(holder)
        after = state._replace(done=(*state.done, number))
        if holder.owner == number:
            after = after.at("leaving", then="reported committed")
        else:
            after = after.at("answer")
        yield Step(_name(holder), f"carry out {number}", after)

    def _answer(
        self, state: State, holder: Holder, *, was_done: bool = True
    ) -> Iterator[Step[State]]:
        number = _number(holder)
        after = state.changed((f"refused.{number}", was_done))
        yield Step(_name(holder), f"write refused.{number}", self._then(after, "answered"))

    def _deny(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        yield from self._answer(state, holder, was_done=False)

    @staticmethod
    def _answered(state: State, holder: Holder) -> Iterator[Step[State]]:
        claimed = f"claimed.{_number(holder)}"
        after = state.changed((claimed, None)).at("begin" if holder.hand else "idle", attempt=None)
        yield Step(_name(holder), f"delete {claimed}", after)

    # The commit

    def _known(self, state: State, attempt: Attempt) -> int | None:
        """Return the number of the finished batch, 0 if none is needed; None if not finished."""
        known = dict(state.files.get("finished", ()))
        batch = known.get(attempt.txn)
        return batch if batch is not None and batch >= attempt.batch else None

    def _check(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        number = _number(holder)
        attempt, staged = self._attempts[number], f"staged.{number}"
        known = self._known(state, attempt)
        if known is not None and known > attempt.batch:
            if self._broken is not Rule.BATCHES_ORDERED:
                yield Step(_name(holder), "refuse an old batch", state.at("refuse"))
                return
        elif known is not None and self._broken is not Rule.REPEAT_SKIPPED:
            is_there = staged in state.files
            after = state.changed((staged, None)) if is_there else state
            action = f"delete {staged}" if is_there else "skip a repeat"
            yield Step(_name(holder), action, after.at("ended"))
            return
        if self._is_blocked(state, number):
            yield Step(_name(holder), "see a journal in its way", state.at("refuse"))
            return
        if state.files.get(staged) != DATA:
            yield Step(_name(holder), "miss a staged file", state.at("refuse"))
            return
        if state.left[REFUSALS]:
            after = state.spent(REFUSALS).at("refuse")
            yield Step(_name(holder), "refuse by a setting", after, is_fault=True)
        yield from self._flush(state, holder)

    def _flush(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        number = _number(holder)
        for partition, size in enumerate(self._attempts[number].sizes):
            log = state.logs[partition]
            if size and not log.is_durable and self._broken is not Rule.ENDS_SYNCED:
                yield self._sync_log(state.at("flush"), holder, partition)
                return
        if self._broken is Rule.NAMES_SYNCED:
            yield from self._journal(state, holder)
        else:
            yield Step(_name(holder), "sync directory", state.synced().at("journal"))

    def _journal(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        number = _number(holder)
        attempt = self._attempts[number]
        moves = tuple(
            Move(partition, len(state.logs[partition].batches))
            for partition, size in enumerate(attempt.sizes)
            if size
        )
        journal = Journal(number, moves)
        after = state.changed((f"journal.{attempt.id}", journal)).at("journal", journal=journal)
        after = self._then(after, "lines", Rule.JOURNAL_SYNCED)
        yield Step(_name(holder), f"write journal.{attempt.id}", after)

    def _refuse(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        number = _number(holder)
        claimed, refused = f"claimed.{number}", f"refused.{number}"
        if holder.owner == number:
            yield from self._refuse_own(state, holder, number)
        elif refused not in state.files:
            after = self._then(state.changed((refused, True)), "refuse")
            yield Step(_name(holder), f"write {refused}", after)
        elif claimed in state.files:
            yield Step(_name(holder), f"delete {claimed}", state.changed((claimed, None)))
        else:
            yield Step(_name(holder), "continue", state.at("idle", attempt=None))

    def _refuse_own(self, state: State, holder: Holder, number: int) -> Iterator[Step[State]]:
        who = _name(holder)
        if f"journal.{self._attempts[number].id}" in state.files:
            yield Step(who, "see that it may be committed", state.at("leaving", then="over"))
        elif state.phases[number] != "claiming":
            yield Step(who, "leave", state.at("leaving", then="reported refused"))
        else:
            then = "reported refused"
            yield from self._forget(state.at("forget", then=then), holder._replace(then=then))

    def _forget(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        """Delete its own manifest, durably and before the lock is free, then report."""
        who, claimed = _name(holder), f"claimed.{holder.owner}"
        if self._broken is _SYNCED[holder.then]:
            yield Step(who, "leave", state.at("leaving"))
        elif claimed in state.files:
            yield Step(who, f"delete {claimed}", state.changed((claimed, None)))
        else:
            yield Step(who, "sync directory", state.synced().at("leaving"))

    # Applying a journal

    def _lines(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        journal = _journal(holder)
        marks = list(state.files["watermarks"])
        shown = list(marks)
        for move in journal.moves:
            shown[move.partition] = self._shown(state, move.partition, move)
        if self._broken is Rule.SHOWN_LAST:
            for move in journal.moves:
                size = self._attempts[journal.attempt].sizes[move.partition]
                marks[move.partition] = move.base + size - move.first
        elif shown != marks and self._broken is not Rule.FIRST_LINES:
            marks = shown
        else:
            yield from self._place(state.at("place"), holder)
            return
        after = state.changed(("watermarks", tuple(marks)))
        yield Step(_name(holder), "write watermarks", self._then(after, "place"))

    def _place(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        journal = _journal(holder)
        if state.files.get(f"staged.{journal.attempt}") != DATA:
            return
        for move in journal.moves:
            log = state.logs[move.partition]
            wanted = self._wanted(journal, move)
            found, is_at_end = _found(log, move, wanted)
            if self._broken is Rule.COMPARED and holder.attempt is None:
                found, is_at_end = 0, True
            if found < len(wanted) and not is_at_end:
                yield from self._replace(state, holder, move._replace(first=move.first + found))
                return
            if found < len(wanted):
                yield from self._append(state, holder, move, wanted[found:])
                return
            if not log.is_durable and self._broken is not Rule.PLACED_SYNCED:
                yield self._sync_log(state, holder, move.partition)
                return
        yield from self._show(state, holder)

    def _append(
        self, state: State, holder: Holder, move: Move, left: list[tuple[str, int]]
    ) -> Iterator[Step[State]]:
        """Append the next batch, or find the disk full."""
        partition, journal = move.partition, _journal(holder)
        log = state.logs[partition]
        if self._broken is Rule.COMPARED and holder.attempt is None:
            moves = tuple(one for one in journal.moves if one != move)
            after = state.at("place", journal=journal._replace(moves=moves))
            blind = after.with_log(partition, log.appended(*left).synced())
            yield Step(_name(holder), f"append to log.{partition} blindly", blind)
            return
        after = state.at("place").with_log(partition, log.appended(left[0]))
        yield Step(_name(holder), f"append to log.{partition}", after)
        if state.left[FULL]:
            yield Step(_name(holder), "find the disk full", self._failed(state), is_fault=True)

    def _failed(self, state: State) -> State:
        """Return the state after the disk was full: the journal stays for a later try."""
        holder, after = state.holder, state.spent(FULL)
        assert holder is not None
        if holder.attempt is not None and holder.owner == holder.attempt:
            return after.released().with_phase(holder.owner, "over")
        return after.at(_between(holder), journal=None, attempt=None)

    def _replace(self, state: State, holder: Holder, move: Move) -> Iterator[Step[State]]:
        """Name new places, from the log's end on: others have appended meanwhile."""
        journal, log = _journal(holder), state.logs[move.partition]
        is_blind = self._broken is Rule.REPLACED_FIRST
        if not log.is_durable and not is_blind:
            yield self._sync_log(state, holder, move.partition)
            return
        new = move._replace(base=len(log.batches))
        moves = tuple(new if one.partition == new.partition else one for one in journal.moves)
        placed = state.at("place", journal=Journal(journal.attempt, moves))
        if is_blind:
            yield Step(_name(holder), "choose new places", placed)
            return
        name = f"journal.{self._attempts[journal.attempt].id}"
        after = placed.changed((name, Journal(journal.attempt, moves)))
        yield Step(_name(holder), f"write {name}", self._then(after, "place"))

    def _wanted(self, journal: Journal, move: Move) -> list[tuple[str, int]]:
        """Return the batches of a move, in order."""
        attempt = self._attempts[journal.attempt]
        return [(attempt.id, n) for n in range(move.first, attempt.sizes[move.partition])]

    def _show(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        marks = list(state.files["watermarks"])
        for partition, size in enumerate(self._attempts[_journal(holder).attempt].sizes):
            if size:
                marks[partition] = len(state.logs[partition].batches)
        after = self._then(state.changed(("watermarks", tuple(marks))), "finish")
        yield Step(_name(holder), "write watermarks", after)

    def _finish(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        journal = _journal(holder)
        name = f"journal.{self._attempts[journal.attempt].id}"
        if self._broken is Rule.JOURNAL_LAST and name in state.files:
            yield Step(_name(holder), f"delete {name}", state.changed((name, None)))
            return
        added = self._attempts[journal.attempt]
        known = [one for one in state.files.get("finished", ()) if one.txn != added.txn]
        kept = [one for one in known if not self._is_droppable(state, holder, one)]
        # All of them, if their waiters have seen them since the holder looked for manifests.
        for others in [kept] if kept == known else [kept, known]:
            content = tuple(sorted([*others, Known(added.txn, added.batch)]))
            after = self._then(state.changed(("finished", content)), "clean", Rule.FINISHED_SYNCED)
            yield Step(_name(holder), "write finished", after)

    def _is_droppable(self, state: State, holder: Holder, known: Known) -> bool:
        """Whether nobody can ask for a finished transaction any more."""
        same = {n for n, one in enumerate(self._attempts) if one.txn == known.txn}
        if any(self._attempts[number].is_named for number in same):
            return False
        waiting = {n for n in same if {f"ready.{n}", f"claimed.{n}"} & state.files.keys()}
        if waiting and self._broken is not Rule.ENTRY_AWAITED:
            return False
        # In a commit the directory was synced since the journals found were deleted.
        is_gone = holder.attempt is not None and journaled(state).isdisjoint(same)
        return is_gone or self._broken is Rule.ENTRY_NEEDED

    def _clean(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        number = _journal(holder).attempt
        done, staged = self._attempts[number], f"staged.{number}"
        names = [staged] if staged in state.files else []
        if not names and f"journal.{done.id}" in state.files:
            names.append(f"journal.{done.id}")
        for name in names:
            yield Step(_name(holder), f"delete {name}", state.changed((name, None)))
        if not names:
            yield Step(_name(holder), "end the commit", self._ended_state(state))

    def _ended(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        yield Step(_name(holder), "end the commit", self._ended_state(state))

    @staticmethod
    def _ended_state(state: State) -> State:
        holder = state.holder
        assert holder is not None
        if holder.attempt is None:
            return state.at(_between(holder), journal=None)
        if holder.attempt == holder.owner:
            return state.at("leaving", then="reported committed", journal=None)
        return state.at("idle", attempt=None, journal=None)

    def _leaving(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        """A waiter deletes its manifest, if it can, sweeps, releases the lock and reports."""
        who = _name(holder)
        left = f"{_LEFT.get(holder.then)}.{holder.owner}"
        if left in state.files:
            yield Step(who, f"delete {left}", state.changed((left, None)))
        yield from self._returned(state, holder)
        yield from self._checkpoint(state, holder)
        yield from self._sweep(state, who)
        yield Step(who, "close", state.released().with_phase(holder.owner, holder.then))

    # Others

    def _checkpoint(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        """Show what Kafka has appended that was killed, flushed or not, or take back what was lost.

        Without Kafka, all high watermarks are where they belong.
        """
        marks = state.files["watermarks"]
        held = {move.partition: move for one in journals(state).values() for move in one.moves}
        shown = tuple(
            None if mark is None else self._shown(state, partition, held.get(partition))
            for partition, mark in enumerate(marks)
        )
        if shown != marks:
            yield Step(_name(holder), "write watermarks", state.changed(("watermarks", shown)))

    def _shown(self, state: State, partition: int, move: Move | None) -> int:
        """Return the high watermark of an open log, under the move of a pending journal."""
        end, mark = len(state.logs[partition].batches), state.files["watermarks"][partition] or 0
        shown = end if move is None else min(end, max(move.base, mark))
        return max(shown, mark) if self._broken is Rule.LOST_TAKEN_BACK else shown

    def _sync_log(self, state: State, holder: Holder, partition: int) -> Step[State]:
        after = state.with_log(partition, state.logs[partition].synced())
        return Step(_name(holder), f"sync log.{partition}", after)

    def _sweep(self, state: State, who: str) -> Iterator[Step[State]]:
        """Delete what nobody waits for: its process has ended, or it was not written for days.

        All names are durable by then.
        """
        for number, phase in enumerate(state.phases):
            for name in self._old_files(state, number) if is_over(phase) else ():
                after = state.synced().changed((name, None))
                yield Step(who, f"delete {name}, which is old", after)
        for number in sorted(state.late - journaled(state)):
            if not self._attempts[number].is_request:
                yield from self._expire(state, who, number)

    def _expire(self, state: State, who: str, number: int) -> Iterator[Step[State]]:
        """Withdraw a manifest past its deadline, and delete the staged file."""
        withdrawn, staged = f"withdrawn.{number}", f"staged.{number}"
        is_known = self._known(state, self._attempts[number]) is not None
        for name in (f"ready.{number}", f"claimed.{number}"):
            if name in state.files and not (is_known and name.startswith("claimed")):
                after = state.changed((name, None), (withdrawn, True))
                yield Step(who, f"rename {name} to {withdrawn}", after)
        if withdrawn in state.files and staged in state.files:
            yield Step(who, f"delete {staged}", state.changed((staged, None)))

    def _old_files(self, state: State, number: int) -> list[str]:
        files = state.files
        is_known = self._known(state, self._attempts[number]) is not None
        kinds = ["withdrawn", "claimed", "ready"] if is_known else ["withdrawn"]
        if not manifests(state, "claimed", number):
            kinds.append("refused")
        is_waiting = manifests(state, "ready", number) or manifests(state, "claimed", number)
        is_needed = is_waiting or number in journaled(state)
        if not is_needed or self._broken is Rule.NEEDED_SPARED:
            kinds.append("staged")
        return [f"{kind}.{number}" for kind in kinds if f"{kind}.{number}" in files]

    def _appending(self, state: State, holder: Holder) -> Iterator[Step[State]]:
        """Kafka: it appends, and writes its checkpoint when it is closed."""
        left = state.left[FOREIGN]
        for partition, log in enumerate(state.logs):
            if left:
                after = state.with_log(partition, log.appended(("kafka", left))).spent(FOREIGN)
                yield Step("kafka", f"append to log.{partition}", after)
        for partition, log in enumerate(state.logs):
            if not log.is_durable:
                yield self._sync_log(state, holder, partition)
                return
        marks = tuple(len(log.batches) for log in state.logs)
        after = state.changed(("watermarks", marks)).at("sync", then="closing")
        yield Step("kafka", "write watermarks", after)

    @staticmethod
    def _closing(state: State, _holder: Holder) -> Iterator[Step[State]]:
        yield Step("kafka", "close", state.released())


def _found(log: Log, move: Move, wanted: list[tuple[str, int]]) -> tuple[int, bool]:
    """Return how many batches of a move a log holds, and whether it ends after them."""
    there = log.batches[move.base :]
    found = 0
    while found < min(len(there), len(wanted)) and there[found] == wanted[found]:
        found += 1
    return found, found == len(there)


def _name(holder: Holder) -> str:
    """Return the name of the process that holds the lock."""
    return {SERVICE: "service", KAFKA: "kafka"}.get(holder.owner, f"waiter {holder.owner}")


def _between(holder: Holder) -> str:
    """Return where the holder is when there is nothing to finish."""
    return "idle" if holder.owner == SERVICE else "own"


def _number(holder: Holder) -> int:
    assert holder.attempt is not None
    return holder.attempt


def _journal(holder: Holder) -> Any:  # noqa: ANN401 - a Journal
    return holder.journal
