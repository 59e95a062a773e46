"""The commit of a transaction into a data directory that another process may hold.

The process that wants the commit tries to hold the directory itself, and meanwhile leaves a
manifest for the process that does; see ``ready``. Whatever happens, the records are in the logs
once, or an error reports that they are not there and never will be, or that it is not known.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.datadir.deletion_marks import read_catalogue_in_force
from tidelog.errors import (
    CommitOutcomeUnknown,
    CommitTimeout,
    CommitUnfinished,
    DirectoryLocked,
    KafkaError,
    KafkaStorageError,
    TidelogError,
)
from tidelog.mailbox.letter import State
from tidelog.mailbox.wait import Wait
from tidelog.staging.commit import delete_staged, skip_repeat
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import has_journal, is_committed
from tidelog.staging.manifest_names import new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.staging.staged_file import attempt_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from uuid import UUID

    from tidelog.mailbox.wait import Desk
    from tidelog.staging.commit import Transaction
    from tidelog.staging.finished import CommittedTransaction

    Commit = Callable[[Transaction], CommittedTransaction]
    """Commits a transaction into a directory that this process holds."""
    OpenHere = Callable[[], AbstractContextManager[Commit]]
    """Holds the directory for the length of a ``with``; DirectoryLocked if another does."""

_log = logging.getLogger(__name__)

POLL_MS: Final = 200
"""Time in ms between two looks at the answer, and two tries of the lock."""


class CommitWait(Wait[ReadyFiles, "CommittedTransaction"]):
    """Commits one transaction whose files are staged; ``run`` is called once.

    Args:
        data_dir: the directory of the staged files.
        transaction: what to commit.
        open_here: holds the directory and commits, unless another process holds it.
        timeout_ms: how long to wait for that process, and once more if it has begun.
        desk: disk, time and the rest of this process.
    """

    poll_ms = POLL_MS

    def __init__(
        self,
        data_dir: str,
        transaction: Transaction,
        open_here: OpenHere,
        *,
        timeout_ms: int,
        desk: Desk,
    ) -> None:
        files = ReadyFiles(desk.fs, data_dir, new_stem(transaction.txn, desk.rng))
        super().__init__(desk, files, timeout_ms)
        self._fs = desk.fs
        self._data_dir = data_dir
        self._transaction = transaction
        self._open_here = open_here

    def run(self) -> CommittedTransaction:
        """Commit, or let the holder of the directory commit; return what was committed.

        The staged files are deleted if it fails, except by CommitUnfinished.

        Raises:
            CommitTimeout: the directory stayed in use; nothing was written, and nothing will be.
            CommitOutcomeUnknown: the holder has not reported whether it committed.
            CommitUnfinished: it is committed, but not all is in place yet.
            TidelogError: refused, as by ``staging.commit``, here or by the holder.
        """
        try:
            done = self._finished()
            return self.ask() if done is None else self._skip(done)
        except CommitUnfinished:
            raise
        except BaseException as error:
            kept = self._may_be_committed()
            if not kept:
                delete_staged(self._fs, self._data_dir, self._transaction)
            if isinstance(error, OSError):
                raise self._not_committed(error, may_be=kept) from error
            raise

    def _not_committed(self, error: OSError, *, may_be: bool) -> KafkaStorageError:
        """Return the error of a disk that failed, or is full, with the way on."""
        txn = self._transaction.txn
        end = "it may be committed" if may_be else "nothing was committed"
        where = f"committing transaction {txn!r} in {self._data_dir} failed: {error}"
        return KafkaStorageError(f"{where}; {end}, repeat it with the same id")

    def _skip(self, done: CommittedTransaction) -> CommittedTransaction:
        """Skip a repeat; also clean up after the first run if that was killed before it did so."""
        if self._has_journal():
            with suppress(TidelogError, OSError):  # the next process that opens it cleans up
                return self.do_here()
        return skip_repeat(self._fs, self._data_dir, self._transaction, done, self._topic_ids())

    def check_holder(self, busy: DirectoryLocked) -> None:
        """Raise the error of the lock if it is not to be waited for, or is the answer."""
        if self.timeout_ms <= 0 or isinstance(busy, CommitTimeout):
            raise busy

    def content(self, deadline_ms: int) -> bytes:
        """Return the content of the manifest."""
        return ReadyManifest(self._transaction, deadline_ms, self.desk.mark()).encoded()

    def leave(self) -> None:
        """Leave the manifest, durably; the names of its staged files are durable, too."""
        super().leave()
        text = "commit-waits directory=%s txn=%s holder_pid=%d timeout_ms=%d"
        _log.info(text, self._data_dir, self._transaction.txn, self.busy.pid, self.timeout_ms)

    def is_hopeless(self) -> bool:
        """Return whether the holder, which may be on another host, has had as long again."""
        return self.waited_ms() >= 2 * self.timeout_ms

    # Committing in this process

    def do_here(self) -> CommittedTransaction:
        """Commit in this process; raise DirectoryLocked while another holds the directory."""
        done: CommittedTransaction | CommitUnfinished | None = None
        try:
            with self._open_here() as commit:
                try:
                    done = self._settle(commit)
                except CommitUnfinished as error:
                    done = error
        except (KafkaError, OSError) as error:
            if done is None:
                raise
            # What was committed is durable, whatever fails at the end.
            text = "directory-not-closed directory=%s reason=%s"
            _log.warning(text, self._data_dir, error)
        if isinstance(done, CommitUnfinished):
            raise done
        return done

    def _settle(self, commit: Commit) -> CommittedTransaction:
        """Commit, unless an earlier holder of the directory has answered; nobody else can now."""
        if self.is_left:
            done = self.answer()
            if done is not None:
                return done
            # A claim of another process is void: it has ended, and there is no journal.
            self.letter.change(State.WAITING, State.CLAIMED)
        try:
            done = commit(self._transaction)
        except CommitUnfinished:
            raise
        except BaseException as error:  # such as an interrupt, at any moment of the commit
            if not self._has_journal():
                self._forget()
            elif isinstance(error, (TidelogError, OSError)):
                raise self.unknown() from error
            raise
        self._delete_claimed()
        return done

    # What the holder of the directory does

    def answer(self) -> CommittedTransaction | None:
        """Return what the holder committed, None if it has not answered; raise its refusal."""
        files = self.letter
        if files.is_in(State.WAITING):
            return None
        refusal = files.refusal()
        if refusal is not None:
            self._forget()
            raise refusal
        done = self._finished()
        if done is not None:
            self._delete_claimed()
            return done
        if files.is_in(State.WITHDRAWN):  # by a holder whose clock is ahead
            self._forget()
            raise self.timed_out()
        return None

    def _finished(self) -> CommittedTransaction | None:
        """Return what was committed under the transaction's id, None if it was not."""
        one = self._transaction
        known = read_finished(self._fs, self._data_dir)
        done = one.find_in(known)
        if done is not None:
            done.check_topics(one.topics, self._topic_ids())
        return done

    def _topic_ids(self) -> dict[str, UUID | None]:
        """Return the ids of topics now; None for those that only the holder of the lock knows."""
        listed = read_catalogue_in_force(self._fs, self._data_dir).topics
        ids: dict[str, UUID | None] = dict.fromkeys(self._transaction.topic_ids)
        return ids | {name: topic.topic_id for name, topic in listed.items()}

    def _has_journal(self) -> bool:
        """Return whether the transaction is committed and not applied yet; True if in doubt."""
        return has_journal(self._fs, self._data_dir, self._transaction.txn)

    def _delete_claimed(self) -> None:
        """Delete the manifest of a transaction that is finished; else a later sweep deletes it."""
        if self.is_left:
            with suppress(OSError):
                self.letter.delete(State.CLAIMED)

    def _may_be_committed(self) -> bool:
        """Return whether the staged files may be needed; True if in doubt."""
        one = self._transaction
        attempts = {attempt_of(run.name) for run in one.runs}
        return self.is_left or is_committed(self._fs, self._data_dir, one.txn, attempts)

    # Giving up

    def _forget(self) -> None:
        """Delete what another process might take for a transaction to be committed, durably.

        After an OSError a power cut might bring the manifest back: the outcome is not known.
        """
        if self.is_left:
            self.letter.forget()
            self.is_left = False

    def give_up(self, error: BaseException) -> None:
        """Withdraw after an error of this process, unless it says that all is committed."""
        if not isinstance(error, CommitUnfinished):
            super().give_up(error)

    def report_left(self, error: BaseException) -> None:
        """Raise CommitOutcomeUnknown instead of an error, but not of an interrupt.

        A manifest that is not WAITING may have been committed, or may be WAITING again soon.
        """
        if isinstance(error, (TidelogError, OSError)):
            raise self.unknown() from error

    def timed_out(self) -> CommitTimeout:
        """Return the error of a wait in vain: nothing was written, and nothing will be."""
        busy, txn = self.busy, self._transaction.txn
        program = self.desk.program_of(busy.pid) if busy.pid else ""
        return CommitTimeout(busy.path, busy.pid, txn, self.timeout_ms, program)

    def unknown(self) -> CommitUnfinished:
        """Return the error of a commit that may have been made, or has been."""
        txn = self._transaction.txn
        if self._has_journal():
            return CommitUnfinished(
                f"transaction {txn!r} is committed, do not repeat it under another id; its records"
                " are not all in place yet"
            )
        return CommitOutcomeUnknown(
            f"the process that holds {self._data_dir} was to commit transaction {txn!r}, and has"
            " not reported whether it did; repeat it with the same id"
        )
