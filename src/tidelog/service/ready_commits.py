"""Commits that a running service makes for other processes, which wait for its data directory."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from tidelog.errors import (
    CommitUnfinished,
    CorruptFile,
    KafkaStorageError,
    TidelogError,
)
from tidelog.log.directory_guard import NO_RESOURCES, NO_SPACE, PASSING
from tidelog.staging.finished import read_finished
from tidelog.staging.manifest_names import State, find_manifests
from tidelog.staging.ready import ReadyFiles
from tidelog.staging.ready_expiry import withdraw_expired
from tidelog.staging.staged_file import transaction_hash

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.staged_commits import StagedCommits
    from tidelog.staging.ready import ReadyManifest

_log = logging.getLogger(__name__)


class ReadyCommits:
    """Commits the transactions of READY manifests; used by one thread at a time.

    A claim that this process did not make is void, since it holds the lock: the manifest becomes
    READY again, unless its transaction is committed. ``should_stop`` is called before each.
    """

    def __init__(self, staged: StagedCommits, should_stop: Callable[[], bool]) -> None:
        self._staged: Final = staged
        self._should_stop: Final = should_stop
        self._done: set[str] = set()
        """Manifests that are answered, and stay until their waiters delete them."""
        self._ignored: set[str] = set()
        """Manifests of a newer release, or whose files cannot be read or answered."""

    def commit_all(self) -> None:
        """Commit what waits in each directory; one listing of it, if nothing does."""
        seen: set[str] = set()
        for log_dir in list(self._staged.log_dirs):
            try:
                found = find_manifests(self._staged.machine.fs.list(log_dir.path))
            except OSError as error:
                self._check_disk(log_dir, error)
                continue
            for stem, states in sorted(found.items()):
                path = os.path.join(log_dir.path, stem)
                seen.add(path)
                if path not in self._done | self._ignored and not self._should_stop():
                    self._look_safely(log_dir, stem, states)
        self._done &= seen
        self._ignored &= seen

    def _look_safely(self, log_dir: LogDir, stem: str, states: set[State]) -> None:
        """Answer one manifest; an error of its file says nothing about the disk.

        The next pass tries again after a full disk or a lack of descriptors, and after no other.
        """
        files = ReadyFiles(self._staged.machine.fs, log_dir.path, stem)
        try:
            with self._staged.registry.change_lock:
                if not self._staged.registry.is_closed:
                    self._look(log_dir, files, states)
        except (OSError, KafkaStorageError) as error:
            path = os.path.join(log_dir.path, stem)
            if isinstance(error, OSError) and error.errno in NO_SPACE | NO_RESOURCES:
                _log.warning("ready-manifest-delayed path=%s reason=%s", path, error)
                return
            _log.warning("ready-manifest-ignored path=%s reason=%s", path, error)
            self._ignored.add(path)
        except Exception as error:  # noqa: BLE001 - no manifest may stop those after it
            path = os.path.join(log_dir.path, stem)
            _log.error("ready-manifest-ignored path=%s reason=%r", path, error)
            self._ignored.add(path)

    def _look(self, log_dir: LogDir, files: ReadyFiles, states: set[State]) -> None:
        if State.REFUSED in states:
            files.delete(State.READY, State.CLAIMED)  # its claimant ended before it did so
            self._note_done(files)
        elif State.CLAIMED in states:
            self._free_claimed(files)
        elif State.READY in states:
            self._commit(log_dir, files)

    def _free_claimed(self, files: ReadyFiles) -> None:
        """Let a manifest be committed whose claimant has ended before the commit point."""
        pending = {transaction_hash(txn) for path, txn in self._staged.pending}
        if files.txn_hash in pending:
            return
        finished = read_finished(files.fs, files.data_dir)
        done = [one for txn, one in finished.items() if transaction_hash(txn) == files.txn_hash]
        if done:
            self._note_finished(files, is_named=done[0].is_named)
        else:
            files.change(State.CLAIMED, State.READY)

    def _commit(self, log_dir: LogDir, files: ReadyFiles) -> None:
        try:
            manifest = files.read(State.READY)
        except FileNotFoundError:
            return  # withdrawn meanwhile
        except CorruptFile as error:
            if files.change(State.READY, State.CLAIMED):
                self._refuse(files, error)
            return
        if self._staged.machine.clock.now_ms() >= manifest.deadline_ms:
            withdraw_expired(files, State.READY, manifest)
        elif files.change(State.READY, State.CLAIMED):
            self._commit_claimed(log_dir, files, manifest)

    def _commit_claimed(self, log_dir: LogDir, files: ReadyFiles, manifest: ReadyManifest) -> None:
        counters, path = self._staged.registry.counters, log_dir.path
        try:
            done = self._staged.commit(path, manifest.transaction)
        except CommitUnfinished:
            return  # its journal is applied later, and then its waiter is answered
        except TidelogError as error:
            if self._staged.log_dirs.get(path) is not None:
                self._refuse(files, error)
            return
        except Exception as error:
            if (path, manifest.transaction.txn) in self._staged.pending:
                raise
            # A fault of the program before the commit point: the waiter need not time out.
            self._refuse(files, KafkaStorageError(f"the commit failed unexpectedly: {error!r}"))
            return
        counters.committed_for_others(refused=False)
        self._note_finished(files, is_named=done.is_named)
        text = "commit-made-for-waiter directory=%s txn=%s records=%d"
        _log.info(text, path, done.txn, done.total)

    def _refuse(self, files: ReadyFiles, error: TidelogError) -> None:
        try:
            files.refuse(error)
        except OSError:
            files.change(State.CLAIMED, State.READY)  # to be answered later, until its deadline
            raise
        self._staged.registry.counters.committed_for_others(refused=True)
        self._note_done(files)
        text = "commit-refused directory=%s manifest=%s reason=%s"
        _log.warning(text, files.data_dir, files.stem, error)

    def _note_finished(self, files: ReadyFiles, *, is_named: bool) -> None:
        """Delete the manifest of a finished transaction; its waiter reads the finished table.

        That keeps a transaction without a name of the user's only as long as its manifest is there.
        """
        if is_named:
            files.delete(State.CLAIMED)
        else:
            self._note_done(files)

    def _note_done(self, files: ReadyFiles) -> None:
        self._done.add(os.path.join(files.data_dir, files.stem))

    def _check_disk(self, log_dir: LogDir, error: OSError) -> None:
        if error.errno not in PASSING:
            self._staged.log_dirs.take_offline(log_dir.path, error)
