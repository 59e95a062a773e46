"""The state of the exactly-once protocol: disk, logs, waiters and the holder of the lock.

The files of the data directory, by the names they have here; ``0`` is the number of an attempt:

| Name | Content |
|---|---|
| ``staged.0`` | ``"data"``: every batch of the attempt |
| ``ready.0``, ``claimed.0``, ``withdrawn.0``, ``refused.0`` | the letter of a waiter |
| ``journal.A`` | a ``Journal``: what is to be applied, and where |
| ``watermarks`` | for each partition, the offset below which readers see records; None: no line |
| ``finished`` | the transactions that are known as committed, oldest first |
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.machinery.model.directory import Directory

SERVICE: Final = -1
KAFKA: Final = -2

KILLS, CUTS, FULL, REFUSALS, FOREIGN = range(5)
"""Where ``State.left`` counts each kind of fault."""


class Rule(Enum):
    """What the protocol relies on. A model without one of them must do damage."""

    STAGED_SYNCED = "the bytes of a staged file are durable before anything names it"
    NAMES_SYNCED = "the names of staged files are durable before the journal's"
    ENDS_SYNCED = "base offsets are taken from durable log ends"
    JOURNAL_SYNCED = "the journal is durable before a byte is appended"
    REPEAT_SKIPPED = "a commit looks for its id among the finished ones"
    JOURNALS_FIRST = "journals that are found are finished before anything else is committed"
    FOUND_SYNCED = "what a killed process has left is made durable before a journal is applied"
    COMPARED = "a replay compares the log with the batches before it appends"
    REPLACED_FIRST = "new places stand in a durable journal before a byte is appended there"
    FIRST_LINES = "a partition has a durable high-watermark line before a byte is appended"
    LOST_TAKEN_BACK = "that line is durably not above the log's end, which a power cut may have cut"
    PLACED_SYNCED = "a log is durable before its high watermark moves"
    SHOWN_LAST = "a high watermark moves when everything is in place"
    FINISHED_SYNCED = "the entry of a finished transaction is durable before files are deleted"
    JOURNAL_LAST = "the journal is deleted after the transaction is known as finished"
    ENTRY_AWAITED = "a finished transaction stays known while a manifest of it waits"
    ENTRY_NEEDED = "a finished transaction stays known until its journal is durably gone"
    CLAIMED_BY_RENAME = "a process that commits for a waiter renames its manifest first"
    WITHDRAWN_FIRST = "a waiter that gives up deletes its manifest first, unless it was claimed"
    WITHDRAWAL_SYNCED = "a withdrawal is durable before it is reported"
    REFUSAL_SYNCED = "a refused manifest is durably gone before the refusal is reported"
    REFUSED_STAYS = "a refused manifest never becomes ready again"
    STAGED_KEPT = "a waiter that sees its transaction finished leaves the staged files alone"
    SWEEP_WAITS = "the sweep waits while the same process commits"
    NEEDED_SPARED = "the sweep spares the files that a journal or a manifest names"
    CLAIM_SYNCED = "the claim of a request is durable before it is carried out"
    CLAIM_DROPPED = "a request that was claimed is never taken up again"
    BATCHES_ORDERED = "a stream's batch below the last finished one is refused"


class Attempt(NamedTuple):
    """One try of a user to write a transaction, or to have a command carried out.

    ``batch``: its number in a stream, 0 if ``txn`` is not one. ``is_named``: the id is the user's,
    who may repeat it. ``after``: it begins only once that attempt is over. ``sizes`` are the
    numbers of batches by partition. ``is_request``: it is a command, which nobody may do twice.
    """

    txn: str
    sizes: tuple[int, ...]
    batch: int = 0
    is_named: bool = True
    after: int | None = None
    is_request: bool = False

    @property
    def id(self) -> str:
        """The id of the transaction."""
        return f"{self.txn}{self.batch or ''}"


class Scenario(NamedTuple):
    """What happens at most: attempts and their number of partitions, crashes and errors.

    ``kills`` end a process, ``cuts`` end all of them and may take what is not durable. ``full``
    counts how often the disk is full while a journal is applied, ``refusals`` how often a setting
    refuses a transaction, ``foreign`` the batches that Kafka appends. ``has_manifests``: attempts
    do not just wait until the lock is free.
    """

    attempts: tuple[Attempt, ...]
    kills: int = 1
    cuts: int = 1
    full: int = 0
    refusals: int = 0
    foreign: int = 0
    has_manifests: bool = True

    @property
    def partitions(self) -> range:
        """The partitions by number."""
        return range(len(self.attempts[0].sizes))


class Move(NamedTuple):
    """The batches of one partition, from ``first`` on, and the offset of the first of them."""

    partition: int
    base: int
    first: int = 0


class Journal(NamedTuple):
    """A committed attempt that may not be in the logs yet."""

    attempt: int
    moves: tuple[Move, ...]


class Log(NamedTuple):
    """The batches of a partition, each of one record; the first ``durable`` survive a power cut."""

    batches: tuple[tuple[str, int], ...] = ()
    durable: int = 0

    @property
    def is_durable(self) -> bool:
        """Whether all of it is."""
        return self.durable == len(self.batches)

    def appended(self, *batches: tuple[str, int]) -> Log:
        """Return the log with batches at its end."""
        return Log((*self.batches, *batches), self.durable)

    def synced(self) -> Log:
        """Return the log with all of it durable."""
        return Log(self.batches, len(self.batches))


class Known(NamedTuple):
    """A finished transaction, or the last finished batch of a stream."""

    txn: str
    batch: int


class Holder(NamedTuple):
    """The process that holds the lock of the directory, and how far it is.

    ``owner``: an attempt's number, SERVICE or KAFKA. ``at`` is what it does next; after a sync of
    the directory, ``then``. ``journal`` is the one that it applies, ``attempt`` what it commits.
    ``hand``: the requests that it has claimed, each with what it does about it.
    """

    owner: int
    at: str
    then: str = ""
    attempt: int | None = None
    journal: Journal | None = None
    hand: tuple[tuple[int, str], ...] = ()


class State(NamedTuple):
    """Everything. ``phases`` are those of the attempts, see ``staged_waiter``.

    ``committed`` are the attempts whose journal became durable, ever. ``late``: their deadline has
    passed. ``is_mixed``: Kafka had the directory while a journal was in it. ``left`` counts what
    may still go wrong, in the order of ``Scenario``. ``done`` are the requests that were carried
    out, each time.
    """

    disk: Directory
    logs: tuple[Log, ...]
    phases: tuple[str, ...]
    left: tuple[int, int, int, int, int]
    holder: Holder | None = None
    committed: frozenset[int] = frozenset()
    late: frozenset[int] = frozenset()
    is_mixed: bool = False
    done: tuple[int, ...] = ()

    def with_phase(self, number: int, phase: str) -> State:
        """Return the state with an attempt in another phase."""
        phases = (*self.phases[:number], phase, *self.phases[number + 1 :])
        return self._replace(phases=phases)

    def with_log(self, partition: int, log: Log) -> State:
        """Return the state with another log."""
        return self._replace(logs=(*self.logs[:partition], log, *self.logs[partition + 1 :]))

    def changed(self, *changes: tuple[str, Any], is_synced: bool = True) -> State:
        """Return the state with names in the directory changed."""
        return self._replace(disk=self.disk.changed(*changes, is_synced=is_synced))

    def synced(self) -> State:
        """Return the state with all names durable."""
        return self._replace(disk=self.disk.synced(), committed=self.committed | journaled(self))

    @property
    def files(self) -> Mapping[str, Any]:
        """The content of each file, as programs see it."""
        return self.disk.files

    def released(self) -> State:
        """Return the state with the lock of the directory free."""
        return self._replace(holder=None)

    def at(self, at: str, **others: Any) -> State:  # noqa: ANN401 - fields of Holder
        """Return the state with the holder of the lock further on."""
        assert self.holder is not None
        return self._replace(holder=self.holder._replace(at=at, **others))

    def spent(self, kind: int) -> State:
        """Return the state with one fault less to come."""
        left = list(self.left)
        left[kind] -= 1
        return self._replace(left=(left[0], left[1], left[2], left[3], left[4]))


def journals(state: State) -> dict[str, Journal]:
    """Return the journals in the directory by name, sorted."""
    found = state.files
    return {name: found[name] for name in sorted(found) if name.startswith("journal.")}


def journaled(state: State) -> frozenset[int]:
    """Return the attempts whose journals are in the directory."""
    return frozenset(one.attempt for one in journals(state).values() if isinstance(one, Journal))


def manifests(state: State, kind: str, number: int) -> bool:
    """Return whether there is a manifest of this kind of an attempt."""
    return f"{kind}.{number}" in state.files


def is_over(phase: str) -> bool:
    """Return whether an attempt has ended, with or without an answer."""
    return phase == "over" or phase.startswith("reported")
