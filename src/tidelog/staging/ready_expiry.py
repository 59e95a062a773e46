"""Manifests whose waiter has ended: nobody commits them after their deadline, and they are deleted.

For the holder of a data directory: a claim of another process is void, since that has ended.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.errors import CorruptFile, KafkaStorageError
from tidelog.mailbox.letter import State
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import list_journals
from tidelog.staging.manifest_names import HASH, MANIFESTS, PENDING
from tidelog.staging.ready import ReadyFiles
from tidelog.staging.staged_file import transaction_hash
from tidelog.staging.transaction import delete_staged

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.staging.ready import ReadyManifest

_log = logging.getLogger(__name__)

LEFTOVER_MS: Final = 3_600_000
"""Time in ms for which the answer to a waiter is kept, in case that it still waits."""


def withdraw_expired(files: ReadyFiles, state: State, manifest: ReadyManifest) -> bool:
    """Withdraw a manifest past its deadline, and delete its staged files; return whether it was.

    It was not if its waiter, or another process, has renamed it meanwhile.
    """
    if not files.change(state, State.WITHDRAWN):
        return False
    # A deletion may survive a power cut that brings the manifest back: it is then refused.
    delete_staged(files.fs, files.data_dir, manifest.transaction)
    text = "commit-expired directory=%s txn=%s deadline_ms=%d"
    _log.warning(text, files.data_dir, manifest.transaction.txn, manifest.deadline_ms)
    return True


def sweep_manifests(fs: FileSystem, data_dir: str, now_ms: int) -> None:
    """Withdraw the manifests past their deadline; delete the claimed ones that were answered.

    Those with a journal stay, and those of a newer version. OSError if the directory fails,
    KafkaStorageError if the finished transactions cannot be read.
    """
    found = MANIFESTS.find(fs.list(data_dir))
    if not found:
        return
    committed = {name[HASH] for name in list_journals(fs, data_dir)}
    finished: set[str] | None = None
    for stem, states in sorted(found.items()):
        files = ReadyFiles(fs, data_dir, stem)
        for state in states.intersection(PENDING):
            if files.txn_hash in committed:
                continue
            with suppress(FileNotFoundError):
                if State.ANSWERED in states:
                    files.delete(state)
                    continue
                manifest = _read(files, state, now_ms)
                if manifest is None or now_ms < manifest.deadline_ms:
                    continue
                if finished is None:
                    finished = {transaction_hash(txn) for txn in read_finished(fs, data_dir)}
                if files.txn_hash not in finished:
                    withdraw_expired(files, state, manifest)
                elif now_ms >= manifest.deadline_ms + LEFTOVER_MS:
                    files.delete(state)


def _read(files: ReadyFiles, state: State, now_ms: int) -> ReadyManifest | None:
    """Read a manifest; None for one of a newer version, and for a malformed one, which is deleted.

    The latter only when it is old: the process that holds the directory may be refusing it.
    """
    try:
        return files.manifest(state)
    except CorruptFile:
        path = files.path(state)
        if now_ms - files.fs.stat(path).mtime_ms >= LEFTOVER_MS:
            files.delete(state)
            _log.warning("old-file-deleted path=%s age_ms=%d", path, LEFTOVER_MS)
    except KafkaStorageError as error:
        text = "ready-manifest-ignored path=%s reason=%s"
        _log.info(text, os.path.join(files.data_dir, files.stem), error)
    return None
