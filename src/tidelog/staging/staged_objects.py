"""Staged files on an object store, made by tasks that do not see the data directory.

The driver, which sees it, downloads them into the data directory: a commit knows of files only, and
the store has no part in what it decides.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.errors import DirectoryNotShared, KafkaStorageError, ObjectNotFound, StoreError
from tidelog.staging.staged_file import attempt_of, is_staged_name, transaction_hash
from tidelog.staging.staged_folder import LocalFile
from tidelog.store.object_store import ObjectStore
from tidelog.store.side_by_side import ask_each
from tidelog.store.store_uri import parse_store_uri

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem
    from tidelog.staging.staged_run import StagedRun
    from tidelog.store.objects import ObjectInfo, Objects

_log = logging.getLogger(__name__)

MAX_OBJECT_BYTES: Final = 64 << 20
"""A task and the driver hold a whole object in memory."""
_DOWNLOADS_AT_ONCE: Final = 4
_DELETIONS_AT_ONCE: Final = 8
_FOLDER: Final = "staged"


def staged_uri(uri: str, directory_id: UUID, txn: str) -> str:
    """Return where the staged objects of a transaction of a data directory are.

    Raises InvalidArgument for a URI that is not that of a store.
    """
    return f"{_of_directory(uri, directory_id)}/{transaction_hash(txn)}"


def _of_directory(uri: str, directory_id: UUID) -> str:
    return f"{parse_store_uri(uri)}/{_FOLDER}/{directory_id}"


class StagedObjects:
    """The staged objects of one transaction, at a URI that ``staged_uri`` returned.

    Methods raise StoreUnavailable and StoreError as ``ObjectStore`` does.
    """

    max_bytes: int | None = MAX_OBJECT_BYTES

    def __init__(self, uri: str, store: Objects | None = None) -> None:
        self.name = uri
        self._store: Final[Objects] = ObjectStore(uri) if store is None else store

    def new_file(self, name: str) -> NewObject:
        """Return an object that is to be put."""
        return NewObject(self._store, name)

    def make_marker(self, name: str) -> ObjectInfo:
        """Put the object by which a task finds out that it sees the store of the driver."""
        return self._store.put(name, [b"."], 1)

    def has(self, name: str) -> bool:
        """Return whether there is an object of this name."""
        return self._store.head(name) is not None

    def download(self, fs: FileSystem, data_dir: str, runs: Sequence[StagedRun]) -> None:
        """Make the files of the runs in a data directory, durably.

        Whether they are what tasks put is for the commit to check, which knows the digests.

        Raises KafkaStorageError if the disk fails.
        """
        names = sorted({run.name for run in runs})
        ask_each(partial(self._download, fs, data_dir), names, _DOWNLOADS_AT_ONCE)

    def _download(self, fs: FileSystem, data_dir: str, name: str) -> None:
        data = self._store.get(name)
        file = LocalFile(fs, os.path.join(data_dir, name))
        try:
            file.create()
            file.write(data)
            file.finish()
        except BaseException as error:
            with suppress(OSError):  # the abort of the write tries it again
                file.abandon()
            if isinstance(error, OSError):
                raise KafkaStorageError(f"staging in {data_dir} failed: {error}") from error
            raise

    def delete(self, markers: Collection[str]) -> None:
        """Delete all that the attempts of ``markers`` have staged; a sweep deletes what stays."""
        attempts = {attempt_of(name) for name in markers}
        try:
            for name in markers:  # first, for a task that is still at work, as with files
                self._store.delete(name)
            found = [one.name for one in self._store.list() if attempt_of(one.name) in attempts]
            ask_each(self._store.delete, found, _DELETIONS_AT_ONCE)
        except StoreError as error:
            _log.warning("staged-objects-not-deleted path=%s reason=%s", self.name, error)


class StoreVisits:
    """The visits of one task to the marker of its job; see ``MarkerVisits``."""

    def __init__(self, at: StagedObjects, marker: str) -> None:
        self._at = at
        self._marker = marker
        self._is_first = True
        self.visit()

    def visit_if_due(self) -> None:
        """Do nothing: a sweep goes by the objects that a job puts."""

    def visit(self) -> None:
        """Raise DirectoryNotShared if the marker is not there, or not any more."""
        if self._at.has(self._marker):
            self._is_first = False
            return
        text = f"the driver has ended the write of this task: {self._at.name} has no marker"
        if self._is_first:
            text = (
                f"{self._at.name} is not the store that the driver sees: every executor must find"
                f" it with the same endpoint ({self._marker} is missing)"
            )
        raise DirectoryNotShared(text)


class NewObject:
    """A staged object, which is put when it is finished."""

    def __init__(self, store: Objects, name: str) -> None:
        self.name = name
        self.size_bytes = 0
        self._store: Final = store
        self._parts: list[bytes] = []
        self._is_put = False

    def create(self) -> None:
        """Do nothing: its name is random."""

    def write(self, data: Buffer) -> None:
        """Keep a copy of what belongs to the end."""
        self._parts.append(bytes(data))
        self.size_bytes += len(self._parts[-1])

    def finish(self) -> None:
        """Put the object; StoreError if that fails."""
        self._is_put = True
        self._store.put(self.name, self._parts, self.size_bytes)
        self._parts = []

    def abandon(self) -> None:
        """Delete the object if it may be there."""
        self._parts = []
        if self._is_put:
            with suppress(StoreError):  # a sweep deletes it later
                self._store.delete(self.name)


def sweep_staged(
    uri: str, directory_id: UUID, retention_ms: int, now_ms: int, store: Objects | None = None
) -> list[str]:
    """Delete staged objects of a data directory whose attempts have put nothing for a while.

    Args:
        uri: the option ``stagingUri``.
        directory_id: that of the data directory.
        retention_ms: how long an attempt that puts nothing is kept.
        now_ms: the time now, by the store's clock.
        store: the store of the data directory's objects, None: as ``uri`` says.

    Returns:
        The names that were deleted, below the data directory's part of the store.
    """
    at = ObjectStore(_of_directory(uri, directory_id)) if store is None else store
    try:
        found = list(at.list())
    except ObjectNotFound:
        return []
    newest: dict[str, int] = {}
    for one in found:
        attempt = _attempt(one.name)
        newest[attempt] = max(newest.get(attempt, 0), one.modified_ms)
    due = [
        one.name
        for one in found
        if is_staged_name(os.path.basename(one.name))
        and newest[_attempt(one.name)] < now_ms - retention_ms
    ]
    ask_each(at.delete, due, _DELETIONS_AT_ONCE)
    return due


def _attempt(name: str) -> str:
    """Return the transaction and the attempt of an object; a name of no form is its own."""
    folder, _, last = name.rpartition("/")
    return f"{folder}/{attempt_of(last)}" if is_staged_name(last) else name
