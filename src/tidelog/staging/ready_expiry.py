"""What becomes of a manifest, for the process that holds its data directory.

A claim of another process is void: that has ended, since this one holds the lock.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.env.signals import has_ended
from tidelog.errors import CommitPending, CorruptFile, KafkaStorageError
from tidelog.mailbox.letter import State
from tidelog.staging.commit import delete_staged
from tidelog.staging.finished import finished_by, read_finished
from tidelog.staging.journal import has_journal
from tidelog.staging.manifest_names import MANIFESTS, PENDING
from tidelog.staging.ready import ReadyFiles, pending

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.files import FileSystem
    from tidelog.staging.commit import Transaction
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.ready import ReadyManifest

_log = logging.getLogger(__name__)

LEFTOVER_MS: Final = 3_600_000
"""Time in ms for which the answer to a waiter is kept, in case that it still waits."""


def settle(
    files: ReadyFiles,
    states: set[State],
    now_ms: int,
    on_unreadable: Callable[[State, KafkaStorageError], object],
) -> ReadyManifest | None:
    """Bring a manifest on whose transaction was decided to its end; return one that waits.

    A manifest past its deadline is withdrawn, and one that is only claimed waits again.
    ``on_unreadable`` is called with the state and the error of one that cannot be read. Raises
    OSError, and KafkaStorageError if the finished transactions cannot be read.
    """
    if State.ANSWERED in states:
        files.delete(*PENDING)  # its claimant ended before it did so
    if states.isdisjoint(PENDING) or State.ANSWERED in states:
        return None
    state = State.CLAIMED if State.CLAIMED in states else State.WAITING
    try:
        manifest = files.manifest(state)
    except KafkaStorageError as error:
        on_unreadable(state, error)
        return None
    is_late, txn = now_ms >= manifest.deadline_ms, manifest.transaction.txn
    if state is State.WAITING and not is_late:
        return manifest
    # A journal may need the staged files, and it is the answer once it is applied.
    if has_journal(files.fs, files.data_dir, txn):
        return None
    # Of a stream the last batch alone is known: an earlier one would pass for one that expires.
    known = read_finished(files.fs, files.data_dir)
    done = finished_by(known, txn, manifest.transaction.stream)
    if done is not None:
        if done.is_named and state is State.CLAIMED:
            files.delete(state)
        else:
            _delete_unseen(files, state, manifest, now_ms)
    elif not is_late:
        files.change(State.CLAIMED, State.WAITING)
    elif withdraw(files, state, manifest):
        text = "commit-expired directory=%s txn=%s deadline_ms=%d"
        _log.warning(text, files.data_dir, txn, manifest.deadline_ms)
    return None


def _delete_unseen(files: ReadyFiles, state: State, manifest: ReadyManifest, now_ms: int) -> None:
    """Delete the manifest of a transaction that was committed, if nobody waits for it.

    Without a name it stays known as long as its manifest is there, for the waiter to see.
    """
    if now_ms >= manifest.deadline_ms + LEFTOVER_MS or has_ended(manifest.mark):
        # Who wrote the table may have ended before its sync: a power cut that takes the table back
        # must not find the manifest gone, too.
        files.fs.sync_directory(files.data_dir)
        files.delete(state)


def withdraw(files: ReadyFiles, state: State, manifest: ReadyManifest) -> bool:
    """Let a transaction never be committed; return whether its manifest was in ``state``."""
    if not files.change(state, State.WITHDRAWN):
        return False
    # A deletion may survive a power cut that brings the manifest back: it is then refused.
    delete_staged(files.fs, files.data_dir, manifest.transaction)
    return True


def is_expiry_new(fs: FileSystem, path: str, now_ms: int) -> bool:
    """Return whether the waiter of a manifest that expired may still look for it.

    The file is as old as the wait, which may be long. Raises OSError.
    """
    data_dir, name = os.path.split(path)
    found = MANIFESTS.find([name])
    if {State.WITHDRAWN} not in found.values():
        return False
    (stem,) = found
    try:
        manifest = ReadyFiles(fs, data_dir, stem).manifest(State.WITHDRAWN)
    except KafkaStorageError:
        return False
    return 0 <= now_ms - manifest.deadline_ms < LEFTOVER_MS


def applied(fs: FileSystem, data_dir: str, transaction: Transaction) -> CommittedTransaction | None:
    """Return what is in the logs of a transaction, None if it is not, or not all of it.

    Raises KafkaStorageError if the finished transactions cannot be read.
    """
    if has_journal(fs, data_dir, transaction.txn):
        return None
    return read_finished(fs, data_dir).get(transaction.txn)


def sweep_all(fs: FileSystem, data_dir: str, now_ms: int) -> None:
    """Settle the manifests of a directory that this process holds; errors as ``settle``."""
    for stem, states in sorted(MANIFESTS.find(fs.list(data_dir)).items()):
        with suppress(FileNotFoundError):  # its waiter has taken it back
            sweep(ReadyFiles(fs, data_dir, stem), states, now_ms)


def drop_waiting(fs: FileSystem, data_dir: str, txn: str) -> bool:
    """Withdraw a transaction that waits, durably; return whether there was one.

    The directory was swept. Raises CommitPending if it is in the logs, for its waiter to see.
    """
    dropped = False
    for files, state in pending(fs, data_dir, txn):
        try:
            manifest = files.manifest(state)
        except FileNotFoundError:  # its waiter has taken it back
            continue
        if applied(fs, data_dir, manifest.transaction) is not None:
            raise CommitPending(
                f"transaction {txn!r} is in the logs, and a process may still wait for its"
                " outcome; nothing was dropped, and nothing has to be"
            )
        dropped |= withdraw(files, state, manifest)
    if dropped:
        fs.sync_directory(data_dir)
    return dropped


def sweep(files: ReadyFiles, states: set[State], now_ms: int) -> None:
    """Settle a manifest, for a process that commits for nobody; errors as ``settle``.

    A malformed one is deleted once it is old: before that, its holder may be refusing it.
    """

    def delete_old(state: State, error: KafkaStorageError) -> None:
        path = files.path(state)
        if not isinstance(error, CorruptFile):
            _log.info("ready-manifest-ignored path=%s reason=%s", path, error)
        elif now_ms - files.fs.stat(path).mtime_ms >= LEFTOVER_MS:
            files.delete(state)
            _log.warning("old-file-deleted path=%s age_ms=%d", path, LEFTOVER_MS)

    settle(files, states, now_ms, delete_old)
