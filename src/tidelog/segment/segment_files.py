"""The files of one segment: opened, renamed, synced, closed and deleted together.

Kafka: the file handling of ``LogSegment`` and ``FileRecords``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.env.attempts import try_all
from tidelog.env.pooled_file import PooledFile
from tidelog.env.renamed_files import delete_if_there
from tidelog.errors import KafkaStorageError
from tidelog.records.batch import INT32_MAX
from tidelog.segment.filenames import (
    DELETED_SUFFIX,
    current_directory_of_future,
    log_file,
    offset_index_file,
    replace_suffix,
    time_index_file,
    transaction_index_file,
)
from tidelog.segment.offset_index import OffsetIndex
from tidelog.segment.time_index import TimeIndex
from tidelog.segment.txn_index import TransactionIndex
from tidelog.segment.undo import undone_on_error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tidelog.env.files import FileSystem
    from tidelog.segment.index_file import IndexFile

_log = logging.getLogger(__name__)


class SegmentFiles:
    """A .log file with its indexes, each opened on first use.

    They are kept open as long as the file system's ``descriptors`` allow. Renaming closes nothing,
    so slices of the .log file stay readable. ``names`` are the names in the directory, if known;
    otherwise each file is looked up.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        *,
        suffix: str,
        index_bytes: int,
        names: Collection[str] | None = None,
    ) -> None:
        self._fs: Final = fs
        self.log: Final = PooledFile(fs, log_file(directory, base_offset, suffix))
        self.offset_index: Final = OffsetIndex(
            fs, offset_index_file(directory, base_offset, suffix), base_offset, index_bytes
        )
        self.time_index: Final = TimeIndex(
            fs, time_index_file(directory, base_offset, suffix), base_offset, index_bytes
        )
        txn_path = transaction_index_file(directory, base_offset, suffix)
        has_txns = None if names is None else _name_of(txn_path) in names
        self.txn_index: Final = TransactionIndex(fs, txn_path, base_offset, exists=has_txns)
        self.size_at_open = 0

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        *,
        suffix: str,
        index_bytes: int,
        preallocated_bytes: int,
        names: Collection[str] | None = None,
    ) -> SegmentFiles:
        """Open the .log file; a new one is created with ``preallocated_bytes``.

        ``size_at_open`` is the number of bytes that count as records: all of an existing file, none
        of a new one. A file listed in ``names`` is only checked, and opened on first use. Raises
        KafkaStorageError for a file of 2 GiB or more.
        """
        files = cls(fs, directory, base_offset, suffix=suffix, index_bytes=index_bytes, names=names)
        if names is not None and _name_of(files.log_path) in names:
            files.size_at_open = fs.stat(files.log_path).size_bytes
            files._check_size()
            return files
        exists = fs.exists(files.log_path)
        log = files.writable_log()
        with undone_on_error(files.log_path) as undo:
            if not exists:
                # Else a power cut could bring back the name, among the records of another segment.
                undo.callback(fs.sync_directory, directory)
                undo.callback(fs.delete, files.log_path)
            undo.callback(files.close_log)
            if exists:
                files.size_at_open = log.size()
                files._check_size()
            elif preallocated_bytes:
                log.truncate(preallocated_bytes)
        return files

    @property
    def log_path(self) -> str:
        """Current path of the .log file."""
        return self.log.path

    def writable_log(self) -> PooledFile:
        """Return the .log file for writing; the first call creates it if missing."""
        return self.log if self.log.is_writable else self.log.open("w")

    @property
    def is_open(self) -> bool:
        """Whether the .log file currently has a descriptor."""
        return self.log.is_open

    def _check_size(self) -> None:
        if self.size_at_open > INT32_MAX:
            raise KafkaStorageError(
                f"{self.log_path} has {self.size_at_open:,} bytes, and a segment at most"
                f" {INT32_MAX:,}: tidelog verify says where its batches end"
            )

    @property
    def _indexes(self) -> tuple[IndexFile, ...]:
        return self.offset_index, self.time_index, self.txn_index

    @property
    def modified_ms(self) -> int:
        """Time of modification of the .log file, in ms since the epoch."""
        return self._fs.stat(self.log_path).mtime_ms

    def set_modified_ms(self, modified_ms: int) -> None:
        """Set the time of modification of the .log file and its offset and time index."""
        for path in (self.log_path, self.offset_index.path, self.time_index.path):
            if self._fs.exists(path):
                self._fs.set_mtime_ms(path, modified_ms)

    def is_there(self, path: str, names: Collection[str] | None) -> bool:
        """Return whether the file exists; ``names``: the names in its directory, if known."""
        return self._fs.exists(path) if names is None else _name_of(path) in names

    def cut_log(self, size_bytes: int) -> None:
        """Truncate the .log file; if it has this size already, its modification time is kept."""
        if self.log.size() > size_bytes:
            self.writable_log().truncate(size_bytes)

    def sync_indexes(self) -> None:
        """Make the indexes durable; the records that they point to are durable already."""
        self.offset_index.sync()
        self.time_index.sync()
        self.txn_index.sync()

    def close(self, size_bytes: int, *, syncs_indexes: bool = False) -> None:
        """Trim all files, make them durable and close them.

        All four are tried before the first error is raised. Indexes that were not written here are
        synced with ``syncs_indexes`` only.
        """
        try_all(
            [
                *([self.sync_indexes] if syncs_indexes else []),
                self.offset_index.close,
                self.time_index.close,
                lambda: self._close_log(size_bytes),
                self.txn_index.close,
            ]
        )

    def _close_log(self, size_bytes: int) -> None:
        try:
            if self.log.was_opened:
                self.cut_log(size_bytes)
                self.log.sync()
        finally:
            self.close_log()

    def close_log(self) -> None:
        """Close the .log file without writing anything; slices that hold it stay readable."""
        self.log.close()

    def close_handlers(self) -> None:
        """Close the index files without writing anything."""
        for index in self._indexes:
            index.close_handlers()

    def delete(self) -> None:
        """Delete the files that exist. All are tried before the first error is raised."""
        try_all(
            [
                self._delete_log,
                lambda: self._delete_index(self.offset_index),
                lambda: self._delete_index(self.time_index),
                lambda: self._delete_index(self.txn_index),
            ]
        )

    def _delete_log(self) -> None:
        path = self.log_path
        if not delete_if_there(self._fs, path):
            delete_moved(self._fs, path)

    def _delete_index(self, index: IndexFile) -> None:
        # Before: a rename of the directory meanwhile changes it, and the old one says where to.
        path = index.path
        if not index.delete_if_exists():
            delete_moved(self._fs, path)

    def change_suffix(self, old: str, new: str) -> None:
        """Rename all files so that they end in ``new`` instead of ``old``.

        If one cannot be renamed, the others are renamed back and the error is raised, UndoFailed if
        that fails too. Raises InvalidArgument, before any rename, if they do not end in ``old``.
        """
        files: tuple[tuple[Callable[[str], None], str], ...] = (
            (self.log.rename, self.log_path),
            *((index.rename, index.path) for index in self._indexes),
        )
        renames = [(rename, path, replace_suffix(path, old, new)) for rename, path in files]
        with undone_on_error(self.log_path) as undo:
            for rename, path, target in renames:
                rename(target)
                undo.callback(rename, path)

    def moved_to(self, directory: str) -> None:
        """Record that the directory of the files was renamed."""
        self.log.moved_to(_in_directory(directory, self.log_path))
        for index in self._indexes:
            index.moved_to(_in_directory(directory, index.path))


def delete_moved(fs: FileSystem, path: str) -> None:
    """Delete a file, which is not there, in the directory that its future copy has become."""
    directory, _, name = path.rpartition("/")
    current = current_directory_of_future(directory)
    if current is None or not name.endswith(DELETED_SUFFIX):
        return
    if not delete_if_there(fs, f"{current}/{name}"):
        _log.info("file-already-deleted path=%s", path)


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _in_directory(directory: str, path: str) -> str:
    return f"{directory}/{_name_of(path)}"
