"""Commits that a running service makes for other processes, which wait for its data directory."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.env.signals import has_ended
from tidelog.errors import (
    CommitUnfinished,
    CorruptFile,
    KafkaStorageError,
    TidelogError,
)
from tidelog.mailbox.letter import State
from tidelog.mailbox.look import Look
from tidelog.manager.manager_part import ManagerPart
from tidelog.staging.ready import ReadyFiles
from tidelog.staging.ready_expiry import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tidelog.manager.staged_commits import StagedCommits
    from tidelog.staging.ready import ReadyManifest

_log = logging.getLogger(__name__)


class ReadyCommits(ManagerPart):
    """Commits the transactions of waiting manifests; used by one thread at a time.

    A claim that this process did not make is void, since it holds the lock: the manifest waits
    again, unless its transaction is committed. ``should_stop`` is called before each.
    """

    def __init__(self, staged: StagedCommits, should_stop: Callable[[], bool]) -> None:
        super().__init__(staged.shared)
        self._staged: Final = staged
        self._should_stop: Final = should_stop
        self._look: Final = Look(self._machine.fs, ReadyFiles, self._meet)
        self._unseen: Final[dict[str, dict[str, tuple[ReadyFiles, str]]]] = {}
        """Claims that their waiters are to delete, with the marks of these, by directory."""

    def commit_all(self) -> None:
        """Commit what waits in each directory; one listing of it, if nothing does."""
        for path, names in self._log_dirs.listed():
            self._find_unseen(path, names)
            self._look.look(path, names)

    def _find_unseen(self, data_dir: str, names: Collection[str]) -> None:
        """Look again at the manifests that nobody will delete: their waiters have ended."""
        unseen = self._unseen.get(data_dir, {})
        for name, (files, mark) in list(unseen.items()):
            if name not in names or has_ended(mark):
                del unseen[name]
                self._look.look_again(files)

    def _meet(self, files: ReadyFiles, states: set[State]) -> None:
        with self._registry.change_lock:
            if self._should_stop() or self._registry.is_closed:
                return
            now_ms = self._machine.clock.now_ms()
            refuse = partial(self._refuse_malformed, files)
            manifest = settle(files, states, now_ms, refuse)
            if State.ANSWERED in states:
                self._look.settle(files)
            elif manifest is not None and files.change(State.WAITING, State.CLAIMED):
                self._commit_claimed(files, manifest)

    def _commit_claimed(self, files: ReadyFiles, manifest: ReadyManifest) -> None:
        path, transaction = files.data_dir, manifest.transaction
        try:
            done = self._staged.commit(path, transaction)
        except CommitUnfinished:
            return  # its journal is applied later, and then its waiter is answered
        except TidelogError as error:
            if self._log_dirs.get(path) is not None:
                self._refuse(files, error)
            return
        except Exception as error:
            if (path, transaction.txn) in self._staged.pending:
                raise
            # A fault of the program before the commit point: the waiter need not time out.
            self._refuse(files, KafkaStorageError(f"the commit failed unexpectedly: {error!r}"))
            return
        self._registry.counters.committed_for_others(refused=False)
        if done.is_named:
            files.delete(State.CLAIMED)
        else:
            # Its waiter deletes it: the transaction stays known only as long as it is there.
            self._look.settle(files)
            if manifest.mark:
                claim = os.path.basename(files.path(State.CLAIMED))
                self._unseen.setdefault(path, {})[claim] = files, manifest.mark
        text = "commit-made-for-waiter directory=%s txn=%s records=%d"
        _log.debug(text, path, done.txn, done.total)

    def _refuse_malformed(self, files: ReadyFiles, state: State, error: KafkaStorageError) -> None:
        if not isinstance(error, CorruptFile):
            raise error
        if state is State.CLAIMED or files.change(State.WAITING, State.CLAIMED):
            self._refuse(files, error)

    def _refuse(self, files: ReadyFiles, error: TidelogError) -> None:
        try:
            files.refuse(error)
        except OSError:
            files.change(State.CLAIMED, State.WAITING)  # to be answered later, until its deadline
            raise
        self._registry.counters.committed_for_others(refused=True)
        self._look.settle(files)
        text = "commit-refused directory=%s manifest=%s reason=%s"
        _log.warning(text, files.data_dir, files.stem, error)
