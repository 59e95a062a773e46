"""What becomes of the manifests that a process finds: committed, free again, expired, or left."""

from __future__ import annotations

import errno
from itertools import product
from random import Random
from uuid import UUID

import pytest
from tests.machinery.staging import leave, stage

from tidelog.env.signals import process_mark
from tidelog.errors import CommitPending
from tidelog.mailbox.letter import State
from tidelog.staging.finished import CommittedTransaction, write_finished
from tidelog.staging.journal import journal_name
from tidelog.staging.manifest_names import MANIFESTS, PENDING, new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.staging.ready_expiry import (
    drop_waiting,
    is_expiry_new,
    settle,
    sweep_all,
    withdraw,
)
from tidelog.staging.staged_file import is_staged_name
from tidelog.testing import CrashFileSystem, ManualClock

DEADLINE_MS = 10_000_000
HOUR_MS = 3_600_000


def disk(clock: ManualClock | None = None) -> CrashFileSystem:
    """Return a disk with a data directory."""
    fs = CrashFileSystem(clock=clock)
    fs.make_directory("/data")
    fs.sync_directory("/")
    return fs


def left(
    fs: CrashFileSystem, state: State, *, is_named: bool = True, mark: str = "", seed: int = 1
) -> ReadyFiles:
    """Leave a manifest of transaction ``x`` with its staged file, and bring it into a state."""
    rng = Random(seed)
    transaction = stage(
        *(fs, "/data", "x", {("t", 0): [b"a"]}),
        rng=rng,
        topic_ids={"t": UUID(int=3)},
        is_named=is_named,
    )
    files = ReadyFiles(fs, "/data", new_stem("x", rng))
    leave(files, ReadyManifest(transaction, DEADLINE_MS, mark))
    files.change(State.WAITING, state)
    return files


def there(fs: CrashFileSystem) -> tuple[list[set[State]], int]:
    """Return the states of the manifests, and the number of staged files."""
    names = fs.list("/data")
    return [*MANIFESTS.find(names).values()], sum(map(is_staged_name, names))


def commit(fs: CrashFileSystem, *, is_named: bool = True) -> None:
    """Note that transaction ``x`` was committed."""
    write_finished(fs, "/data", {}, CommittedTransaction("x", 1, {"t": 1}, is_named))


def outcome(
    state: State, late_ms: int, *, is_named: bool, is_done: bool, is_journal: bool, has_ended: bool
) -> State | None:
    """Return the state of a manifest once it was settled, None: it is deleted."""
    if is_journal or (state is State.WAITING and late_ms < 0):
        return state
    if is_done:
        is_known_without = is_named and state is State.CLAIMED
        return None if is_known_without or has_ended or late_ms >= HOUR_MS else state
    return State.WAITING if late_ms < 0 else State.WITHDRAWN


@pytest.mark.parametrize("state", PENDING)
@pytest.mark.parametrize("late_ms", [-1, 0, HOUR_MS - 1, HOUR_MS])
def test_what_was_decided_is_the_end_of_a_manifest(state: State, late_ms: int) -> None:
    """One that is done is kept for who waits for it, for an hour; a journal needs the files.

    Only a manifest that expires, undecided, takes its staged files along.
    """
    place = process_mark().rpartition(" ")[0]
    found, expected = {}, {}
    for facts in product((False, True), repeat=4):
        is_named, is_done, is_journal, has_ended = facts
        fs = disk()
        mark = f"{place} {2**31 - 1}" if has_ended else process_mark()
        left(fs, state, is_named=is_named, mark=mark)
        if is_done:
            commit(fs, is_named=is_named)
        if is_journal:
            fs.write(f"/data/{journal_name('x')}", b"")

        sweep_all(fs, "/data", DEADLINE_MS + late_ms)

        end = outcome(
            *(state, late_ms),
            is_named=is_named,
            is_done=is_done,
            is_journal=is_journal,
            has_ended=has_ended and bool(place),
        )
        found[facts] = there(fs)
        expected[facts] = [] if end is None else [{end}], int(end is not State.WITHDRAWN)

    assert found == expected


@pytest.mark.parametrize("state", [State.ANSWERED, State.WITHDRAWN])
def test_a_manifest_that_was_answered_or_withdrawn_is_its_waiters(state: State) -> None:
    """What its claimant has not deleted is; nothing is read."""
    fs = disk()
    files = left(fs, state)
    states = {state}
    if state is State.ANSWERED:
        fs.write(files.path(State.CLAIMED), b"{")
        states.add(State.CLAIMED)
    unreadable: list[State] = []

    assert settle(files, states, DEADLINE_MS, lambda one, _: unreadable.append(one)) is None
    assert unreadable == []
    assert there(fs)[0] == [{state}]


def test_a_malformed_manifest_is_deleted_once_it_is_an_hour_old() -> None:
    """Before that, the holder of the directory may be refusing it."""
    clock = ManualClock()
    fs = disk(clock)
    files = left(fs, State.WAITING)
    fs.write(files.path(State.WAITING), b"{")
    written_ms = clock.now_ms()

    sweep_all(fs, "/data", written_ms + HOUR_MS - 1)
    before = there(fs)
    sweep_all(fs, "/data", written_ms + HOUR_MS)

    assert (before, there(fs)) == (([{State.WAITING}], 1), ([], 1))


@pytest.mark.parametrize(
    ("state", "late_ms", "is_new"),
    [
        (State.WITHDRAWN, -1, False),
        (State.WITHDRAWN, 0, True),
        (State.WITHDRAWN, HOUR_MS - 1, True),
        (State.WITHDRAWN, HOUR_MS, False),
        (State.ANSWERED, 0, False),
    ],
)
def test_an_expiry_is_new_for_an_hour_after_the_deadline(
    state: State, late_ms: int, *, is_new: bool
) -> None:
    """The file is as old as the wait. One whose deadline is to come was not left by an expiry."""
    fs = disk()
    path = left(fs, state).path(state)

    assert is_expiry_new(fs, path, DEADLINE_MS + late_ms) == is_new


def test_a_withdrawal_comes_too_late_for_a_manifest_in_another_state() -> None:
    """Its staged files are needed."""
    fs = disk()
    files = left(fs, State.CLAIMED)
    manifest = files.manifest(State.CLAIMED)

    assert not withdraw(files, State.WAITING, manifest)
    assert there(fs) == ([{State.CLAIMED}], 1)
    assert withdraw(files, State.CLAIMED, manifest)
    assert there(fs) == ([{State.WITHDRAWN}], 0)


def test_all_manifests_of_a_transaction_are_dropped() -> None:
    """Except one that its waiter takes back at that moment; durably, so that none comes back."""
    fs = disk()
    for seed in range(3):
        left(fs, State.WAITING, seed=seed)
    fs.fail("open", ".ready", FileNotFoundError(errno.ENOENT, "it is gone"))

    assert drop_waiting(fs, "/data", "x")
    fs.power_cut("none")

    states, staged = there(fs)
    assert (states.count({State.WAITING}), states.count({State.WITHDRAWN}), staged) == (1, 2, 1)
    assert not drop_waiting(fs, "/data", "y")


def test_a_transaction_that_is_in_the_logs_is_not_dropped() -> None:
    """Unless its journal says that it is not all there yet."""
    fs = disk()
    left(fs, State.WAITING)
    commit(fs)
    with pytest.raises(CommitPending, match="is in the logs"):
        drop_waiting(fs, "/data", "x")
    assert there(fs) == ([{State.WAITING}], 1)

    fs.write(f"/data/{journal_name('x')}", b"")
    assert drop_waiting(fs, "/data", "x")
