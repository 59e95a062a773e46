"""What becomes of a manifest, for the process that holds its data directory.

A claim of another process is void: that has ended, since this one holds the lock.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.errors import CorruptFile, KafkaStorageError
from tidelog.mailbox.letter import State
from tidelog.staging.commit import delete_staged
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import has_journal
from tidelog.staging.manifest_names import PENDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.staging.ready import ReadyFiles, ReadyManifest

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
    done = read_finished(files.fs, files.data_dir).get(txn)
    if done is not None:
        # Without a name it stays known as long as its manifest is there, for the waiter to see.
        is_seen = done.is_named and state is State.CLAIMED
        if is_seen or now_ms >= manifest.deadline_ms + LEFTOVER_MS:
            files.delete(state)
    elif not is_late:
        files.change(State.CLAIMED, State.WAITING)
    elif files.change(state, State.WITHDRAWN):
        # A deletion may survive a power cut that brings the manifest back: it is then refused.
        delete_staged(files.fs, files.data_dir, manifest.transaction)
        text = "commit-expired directory=%s txn=%s deadline_ms=%d"
        _log.warning(text, files.data_dir, txn, manifest.deadline_ms)
    return None


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
