"""Transactions that wait for the process that holds their data directory to commit them.

A durable manifest, ``tidelog.<hash of txn>.<128 random bits>.ready``, holds what a commit needs: it
is a ``Letter``. A commit is answered by the entry in the finished table, and only a refusal by a
file. The claim of a transaction that has no name of the user's stays until its waiter has seen that
entry, which is kept as long, or has ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tidelog.datadir.versioned_file import whole
from tidelog.errors import CorruptFile, KafkaStorageError, TidelogError
from tidelog.mailbox.answer import VERSION, Answer
from tidelog.mailbox.letter import Letter, State
from tidelog.staging.commit import Transaction
from tidelog.staging.journal import check_pieces
from tidelog.staging.manifest_names import HASH, MANIFESTS, PENDING
from tidelog.staging.staged_file import attempt_of, transaction_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tidelog.env.files import FileSystem

READY_VERSION: Final = 4
"""The newest form of a manifest: 4 has steps of groups, 3 new topics, with birth values, 2 numbers
of partitions. One without any is written as 1."""


@dataclass(frozen=True, slots=True)
class ReadyManifest:
    """A transaction whose files are staged, to be committed until ``deadline_ms``, exclusive.

    ``mark`` is that of the process that waits, empty if it is not known.
    """

    transaction: Transaction
    deadline_ms: int
    mark: str = ""

    def encoded(self) -> bytes:
        """Return the content of the file; errors as ``check_pieces``."""
        content: dict[str, Any] = {
            "version": _version_of(self.transaction),
            "deadlineMs": self.deadline_ms,
            "transaction": self.transaction.as_json(),
        }
        if self.mark:
            content["process"] = self.mark
        data = (json.dumps(content) + "\n").encode()
        check_pieces(data, self.transaction.txn, len(self.transaction.runs))
        return data


@dataclass(frozen=True, slots=True)
class ReadyFiles(Letter):
    """The files of one manifest."""

    names: ClassVar = MANIFESTS

    @property
    def txn_hash(self) -> str:
        """The hash of the transaction's id."""
        return self.stem[HASH]

    def manifest(self, state: State) -> ReadyManifest:
        """Read the manifest.

        Raises:
            CorruptFile: it is malformed, too large, or for files of another transaction.
            KafkaStorageError: a newer version of tidelog wrote it.
            OSError: it cannot be read; FileNotFoundError if it is not in this state.
        """
        manifest = self.read(state, READY_VERSION, _manifest_of)
        txn = manifest.transaction.txn
        if transaction_hash(txn) != self.txn_hash:
            raise CorruptFile(f"{self.path(state)} is for another transaction, {txn!r}")
        return manifest

    def refuse(self, error: TidelogError) -> None:
        """Answer a claimed manifest, durably, with the reason why it is not committed."""
        self.answer(Answer.of_error(error)._replace(args=error.args).encoded())

    def refusal(self) -> TidelogError | None:
        """Return the error with which the manifest was refused, None if it was not."""
        try:
            return self.read(State.ANSWERED, VERSION, Answer.parsed).typed_error()
        except FileNotFoundError:
            return None
        except KafkaStorageError as error:
            return KafkaStorageError(f"refused, for a reason that cannot be read: {error}")


def _version_of(transaction: Transaction) -> int:
    """Return the oldest version whose readers take all of a transaction into account."""
    if transaction.steps:
        return READY_VERSION
    if transaction.new_topics:
        return 3
    return 2 if transaction.partitions else 1


def _manifest_of(content: Any) -> ReadyManifest:  # noqa: ANN401 - whatever a file may hold
    deadline_ms = whole(content["deadlineMs"], "a time in ms")
    transaction = Transaction.from_json(content["transaction"])
    return ReadyManifest(transaction, deadline_ms, str(content.get("process", "")))


def pending(
    fs: FileSystem, data_dir: str, txn: str | None = None
) -> Iterator[tuple[ReadyFiles, State]]:
    """Yield the manifests, or those of ``txn``, that are waiting or claimed, each with its state.

    It may be renamed at any time.
    """
    for stem, states in sorted(MANIFESTS.find(fs.list(data_dir)).items()):
        files = ReadyFiles(fs, data_dir, stem)
        if txn is None or files.txn_hash == transaction_hash(txn):
            for state in states.intersection(PENDING):
                yield files, state


def waiting(
    fs: FileSystem, data_dir: str, txn: str | None = None
) -> Iterator[ReadyManifest | None]:
    """Yield the manifests, or those of ``txn``, whose waiter has not seen an outcome.

    None stands for one that was renamed meanwhile, or cannot be read.
    """
    for files, state in pending(fs, data_dir, txn):
        try:
            yield files.manifest(state)
        except (OSError, KafkaStorageError):
            yield None


def is_waiting(fs: FileSystem, data_dir: str, txn: str, attempts: Collection[str]) -> bool:
    """Return whether a manifest of ``txn`` waits that names files of one of these attempts.

    True if in doubt.
    """
    try:
        return any(
            one is None or any(attempt_of(run.name) in attempts for run in one.transaction.runs)
            for one in waiting(fs, data_dir, txn)
        )
    except OSError:
        return True
