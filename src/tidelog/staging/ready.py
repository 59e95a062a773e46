"""Transactions that wait for the process that holds their data directory to commit them.

A durable manifest, ``tidelog.<hash of txn>.<128 random bits>.ready``, holds what a commit needs.
The suffix is its state, which only a rename changes: the rename that succeeds decides between the
process that wants to commit it and the one that waits for it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidelog import errors
from tidelog.codec.checkpoint_file import TEMPORARY_SUFFIX, read_small_file, replace_file
from tidelog.datadir.renamed_files import delete_if_there, rename_if_there
from tidelog.errors import (
    CorruptFile,
    KafkaStorageError,
    TidelogError,
)
from tidelog.staging.manifest_names import HASH, State, find_manifests
from tidelog.staging.staged_file import attempt_of, transaction_hash
from tidelog.staging.transaction import Transaction
from tidelog.staging.versioned_file import read_versioned

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidelog.env.files import FileSystem

READY_VERSION: Final = 4
"""The newest form of a manifest: 4 has steps of groups, 3 new topics, with birth values, 2 numbers
of partitions. One without any is written as 1, and so is every refusal."""


@dataclass(frozen=True, slots=True)
class ReadyManifest:
    """A transaction whose files are staged, to be committed until ``deadline_ms``, exclusive."""

    transaction: Transaction
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class ReadyFiles:
    """The files of one manifest in a data directory; ``stem`` is their name without a suffix."""

    fs: FileSystem
    data_dir: str
    stem: str

    @property
    def txn_hash(self) -> str:
        """The hash of the transaction's id."""
        return self.stem[HASH]

    def path(self, state: State) -> str:
        """Return the path of the file in a state."""
        return os.path.join(self.data_dir, f"{self.stem}.{state.value}")

    def is_in(self, state: State) -> bool:
        """Return whether there is a file in this state; raises OSError."""
        return self.fs.exists(self.path(state))

    def write(self, manifest: ReadyManifest) -> None:
        """Write the manifest as READY, durably; the names of its staged files are durable, too."""
        self.prepare(manifest)
        self.place()
        self.fs.sync_directory(self.data_dir)

    def prepare(self, manifest: ReadyManifest) -> None:
        """Write the manifest, durably, under a name that nobody looks for."""
        transaction = manifest.transaction
        content = {
            "version": _version_of(transaction),
            "deadlineMs": manifest.deadline_ms,
            "transaction": transaction.as_json(),
        }
        replace_file(self.fs, self._draft, (json.dumps(content) + "\n").encode())

    def place(self) -> None:
        """Make what was prepared READY, not durably yet; after an OSError it is not."""
        self.fs.rename(self._draft, self.path(State.READY))

    @property
    def _draft(self) -> str:
        return self.path(State.READY) + TEMPORARY_SUFFIX

    def read(self, state: State) -> ReadyManifest:
        """Read the manifest.

        Raises:
            CorruptFile: it is malformed, too large, or for files of another transaction.
            KafkaStorageError: a newer version of tidelog wrote it.
            OSError: it cannot be read; FileNotFoundError if it is not in this state.
        """
        path = self.path(state)
        manifest = read_versioned(self.fs, path, READY_VERSION, _manifest_of)
        transaction = manifest.transaction
        if transaction_hash(transaction.txn) != self.txn_hash:
            raise CorruptFile(f"{path} is for another transaction, {transaction.txn!r}")
        return manifest

    def change(self, source: State, target: State) -> bool:
        """Rename the manifest; return whether it was in ``source`` until now. Not durable yet."""
        return rename_if_there(self.fs, self.path(source), self.path(target))

    def refuse(self, error: TidelogError) -> None:
        """Answer a claimed manifest, durably, with the reason why it is not committed."""
        args = [list(one) if isinstance(one, tuple) else one for one in error.args]
        content = {
            "version": 1,
            "error": type(error).__name__,
            "args": args,
            "reason": str(error),
        }
        text = json.dumps(content, default=str) + "\n"
        replace_file(self.fs, self.path(State.REFUSED), text.encode())
        self.delete(State.CLAIMED)

    def refusal(self) -> TidelogError | None:
        """Return the error with which the manifest was refused, None if it was not.

        It has the class that the commit raised, if that is one of ``tidelog.errors``.
        """
        path = self.path(State.REFUSED)
        try:
            content = json.loads(read_small_file(self.fs, path))
            return _error_of(content)
        except FileNotFoundError:
            return None
        except (KafkaStorageError, ValueError, KeyError, TypeError, RecursionError) as error:
            return KafkaStorageError(f"refused, for a reason that cannot be read: {error}")

    def delete(self, *states: State) -> None:
        """Delete the files in these states, those that are there. Not durable yet."""
        for state in states:
            delete_if_there(self.fs, self.path(state))


def _version_of(transaction: Transaction) -> int:
    """Return the oldest version whose readers take all of a transaction into account."""
    if transaction.steps:
        return READY_VERSION
    if transaction.new_topics:
        return 3
    return 2 if transaction.partitions else 1


def _manifest_of(content: Any) -> ReadyManifest:  # noqa: ANN401 - whatever a file may hold
    transaction = Transaction.from_json(content["transaction"])
    return ReadyManifest(transaction, _time(content["deadlineMs"]))


def _error_of(content: dict[str, Any]) -> TidelogError:
    """Return the error that a refusal holds; KafkaStorageError for one that is not known here."""
    reason = str(content["reason"])
    found = getattr(errors, str(content["error"]), None)
    if isinstance(found, type) and issubclass(found, TidelogError):
        args = [_tuple(one) for one in content["args"]]
        try:
            error = found(*args)
            if str(error) == reason:
                return error
        except Exception:  # noqa: BLE001, S110 - arguments of another version
            pass
    return KafkaStorageError(reason)


def is_waiting(fs: FileSystem, data_dir: str, txn: str, attempts: Collection[str]) -> bool:
    """Return whether a manifest of ``txn`` waits that names files of one of these attempts.

    True if in doubt: it was renamed meanwhile, or cannot be read.
    """
    for stem, states in find_manifests(fs.list(data_dir)).items():
        files = ReadyFiles(fs, data_dir, stem)
        for state in states & {State.READY, State.CLAIMED}:
            if files.txn_hash != transaction_hash(txn):
                continue
            try:
                runs = files.read(state).transaction.runs
            except (OSError, KafkaStorageError):
                return True
            if any(attempt_of(run.name) in attempts for run in runs):
                return True
    return False


def waiting_transactions(fs: FileSystem, data_dir: str) -> list[Transaction]:
    """Return the transactions that wait to be committed; those that can be read."""
    found = []
    for stem, states in sorted(find_manifests(fs.list(data_dir)).items()):
        for state in states & {State.READY, State.CLAIMED}:
            with suppress(OSError, KafkaStorageError):
                found.append(ReadyFiles(fs, data_dir, stem).read(state).transaction)
    return found


def _time(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a time in ms")
    return value


def _tuple(value: object) -> object:
    return tuple(_tuple(one) for one in value) if isinstance(value, list) else value
