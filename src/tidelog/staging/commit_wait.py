"""The commit of a transaction into a data directory that another process may hold.

The process that wants the commit tries to hold the directory itself, and meanwhile leaves a
manifest for the process that does; see ``ready``. Whatever happens, the records are in the logs
once, or an error reports that they are not there and never will be, or that it is not known.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from enum import Enum
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
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import has_journal, is_committed
from tidelog.staging.manifest_names import State, new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.staging.staged_file import attempt_of
from tidelog.staging.transaction import delete_staged, skip_repeat

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from random import Random
    from uuid import UUID

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.transaction import Transaction

    Commit = Callable[[Transaction], CommittedTransaction]
    """Commits a transaction into a directory that this process holds."""
    OpenHere = Callable[[], AbstractContextManager[Commit]]
    """Holds the directory for the length of a ``with``; DirectoryLocked if another does."""

_log = logging.getLogger(__name__)

POLL_MS: Final = 200
"""Time in ms between two looks at the answer, and two tries of the lock."""
NS_PER_MS: Final = 1_000_000


class WaitPoint(Enum):
    """A moment of a wait; tests cut the power here."""

    READY = "the manifest is durable"
    CLAIMED = "this process holds the directory and has claimed the manifest"
    COMMITTED = "this process has committed the transaction"
    WITHDRAWN = "the manifest is withdrawn, durably"
    ANSWERED = "the answer of the process that holds the directory has been read"


class CommitWait:
    """Commits one transaction whose files are staged; ``run`` is called once.

    Args:
        data_dir: the directory of the staged files.
        transaction: what to commit.
        open_here: holds the directory and commits, unless another process holds it.
        timeout_ms: how long to wait for that process, and once more if it has begun.
        fs: the disk.
        clock: for the wait, and for the deadline in the manifest.
        rng: for the manifest's name.
        sleep_ms: sleeps.
        program_of: names the program that a process runs.
        on_point: called with each moment that the wait reaches.
    """

    def __init__(
        self,
        data_dir: str,
        transaction: Transaction,
        open_here: OpenHere,
        *,
        timeout_ms: int,
        fs: FileSystem,
        clock: Clock,
        rng: Random,
        sleep_ms: Callable[[int], None],
        program_of: Callable[[int], str] = lambda _: "",
        on_point: Callable[[WaitPoint], None] = lambda _: None,
    ) -> None:
        self._fs = fs
        self._data_dir = data_dir
        self._transaction = transaction
        self._open_here = open_here
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._sleep_ms = sleep_ms
        self._program_of = program_of
        self._on_point = on_point
        self._files = ReadyFiles(fs, data_dir, new_stem(transaction.txn, rng))
        self._has_manifest = False
        self._is_void = False
        """Whether the manifest is withdrawn or refused, durably, so that nothing is committed."""
        self._busy = DirectoryLocked(data_dir)

    def run(self) -> CommittedTransaction:
        """Commit, or let the holder of the directory commit; return what was committed.

        If it fails, but for CommitUnfinished, the staged files are deleted.

        Raises:
            CommitTimeout: the directory stayed in use; nothing was written, and nothing will be.
            CommitOutcomeUnknown: the holder has not reported whether it committed.
            CommitUnfinished: it is committed, but not all is in place yet.
            TidelogError: refused, as by ``staging.commit``, here or by the holder.
        """
        try:
            return self._run()
        except CommitUnfinished:
            raise
        except BaseException as error:
            if not self._may_be_committed():
                delete_staged(self._fs, self._data_dir, self._transaction)
            if isinstance(error, OSError):
                raise KafkaStorageError(f"committing in {self._data_dir}: {error}") from error
            raise

    def _run(self) -> CommittedTransaction:
        done = self._finished()
        if done is not None:
            return self._skip(done)
        try:
            return self._commit_here()
        except DirectoryLocked as busy:
            if self._timeout_ms <= 0:
                raise
            self._busy = busy
        try:
            self._write_manifest()
            return self._wait()
        except (CommitTimeout, CommitUnfinished):
            raise
        except BaseException as error:
            self._give_up(error)
            raise

    def _skip(self, done: CommittedTransaction) -> CommittedTransaction:
        """Skip a repeat; also clean up after the first run if that was killed before it did so."""
        if self._has_journal():
            with suppress(TidelogError, OSError):  # the next process that opens it cleans up
                return self._commit_here()
        return skip_repeat(self._fs, self._data_dir, self._transaction, done, self._topic_ids())

    def _write_manifest(self) -> None:
        deadline_ms = self._clock.now_ms() + self._timeout_ms
        self._files.prepare(ReadyManifest(self._transaction, deadline_ms))
        self._files.place()
        self._has_manifest = True
        self._fs.sync_directory(self._data_dir)
        text = "commit-waits directory=%s txn=%s holder_pid=%d timeout_ms=%d"
        _log.info(text, self._data_dir, self._transaction.txn, self._busy.pid, self._timeout_ms)
        self._on_point(WaitPoint.READY)

    def _wait(self) -> CommittedTransaction:
        begun_ns = self._clock.monotonic_ns()
        while True:
            done = self._answer()
            if done is not None:
                return done
            try:
                return self._commit_here()
            except DirectoryLocked as busy:
                self._busy = busy
            waited_ms = (self._clock.monotonic_ns() - begun_ns) // NS_PER_MS
            if waited_ms >= self._timeout_ms and self._withdraw():
                raise self._timed_out()
            if waited_ms >= 2 * self._timeout_ms:
                done = self._answer()  # it may have come since the last look
                if done is not None:
                    return done
                raise self._unknown()
            self._sleep_ms(POLL_MS)

    # Committing in this process

    def _commit_here(self) -> CommittedTransaction:
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
        if self._has_manifest:
            done = self._answer()
            if done is not None:
                return done
            # A claim of another process is void: it has ended, and there is no journal.
            self._files.change(State.READY, State.CLAIMED)
            self._on_point(WaitPoint.CLAIMED)
        try:
            done = commit(self._transaction)
        except CommitUnfinished:
            raise
        except BaseException as error:  # such as an interrupt, at any moment of the commit
            if not self._has_journal():
                self._forget()
            elif isinstance(error, (TidelogError, OSError)):
                raise self._unknown() from error
            raise
        self._on_point(WaitPoint.COMMITTED)
        self._delete_claimed()
        return done

    # What the holder of the directory does

    def _answer(self) -> CommittedTransaction | None:
        """Return what the holder committed, None if it has not answered; raise its refusal."""
        files = self._files
        if files.is_in(State.READY):
            return None
        refusal = files.refusal()
        if refusal is not None:
            self._forget()
            self._on_point(WaitPoint.ANSWERED)
            raise refusal
        done = self._finished()
        if done is not None:
            self._delete_claimed()
            self._on_point(WaitPoint.ANSWERED)
            return done
        if files.is_in(State.WITHDRAWN):  # by a holder whose clock is ahead
            self._forget()
            raise self._timed_out()
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
        with suppress(OSError):
            self._files.delete(State.CLAIMED)

    def _may_be_committed(self) -> bool:
        """Return whether the staged files may be needed; True if in doubt."""
        one = self._transaction
        attempts = {attempt_of(run.name) for run in one.runs}
        if is_committed(self._fs, self._data_dir, one.txn, attempts):
            return True
        try:
            return any(self._files.is_in(one) for one in (State.READY, State.CLAIMED))
        except OSError:
            return True

    # Giving up

    def _withdraw(self) -> bool:
        """Withdraw the manifest unless it was claimed; from then on nothing will be written."""
        if not self._files.change(State.READY, State.WITHDRAWN):
            return False
        self._forget()
        self._on_point(WaitPoint.WITHDRAWN)
        return True

    def _forget(self) -> None:
        """Delete what another process might take for a transaction to be committed, durably.

        Raises CommitOutcomeUnknown if that fails: a power cut might bring the manifest back.
        """
        if not self._has_manifest:
            return
        try:
            self._files.delete(State.READY, State.CLAIMED)
            self._fs.sync_directory(self._data_dir)
        except OSError as error:
            raise self._unknown() from error
        self._is_void = True
        with suppress(OSError):  # else a later sweep deletes them
            self._files.delete(State.WITHDRAWN, State.REFUSED)

    def _give_up(self, error: BaseException) -> None:
        """Withdraw after an error of this process; raise CommitOutcomeUnknown if it is too late.

        A manifest that is not READY may have been committed, or may be READY again soon.
        """
        if not self._has_manifest or self._is_void:
            return
        with suppress(OSError):
            if self._withdraw():
                return
        if isinstance(error, (TidelogError, OSError)):
            raise self._unknown() from error

    def _timed_out(self) -> CommitTimeout:
        busy, txn = self._busy, self._transaction.txn
        program = self._program_of(busy.pid) if busy.pid else ""
        return CommitTimeout(busy.path, busy.pid, txn, self._timeout_ms, program)

    def _unknown(self) -> CommitUnfinished:
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
