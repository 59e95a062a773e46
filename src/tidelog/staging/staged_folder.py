"""Where the tasks of a write make their staged files: a data directory, or a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.codec.layout import byte_view
from tidelog.datadir.renamed_files import delete_if_there
from tidelog.env.pooled_file import PooledFile

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem

WRITEBACK_BYTES: Final = 8 << 20
"""Bytes of a file after which the disk begins to write them, while the task prepares the next."""


class NewFile(Protocol):
    """A staged file that is being written; ``size_bytes`` are in it."""

    name: str
    size_bytes: int

    def create(self) -> None:
        """Create the file; FileExistsError if there is one."""

    def write(self, data: Buffer) -> None:
        """Write at the end."""

    def finish(self) -> None:
        """Make the bytes durable and close the file."""

    def abandon(self) -> None:
        """Close and remove the file, if it is there."""


class StagedFolder(Protocol):
    """Makes staged files.

    ``name`` says where, for errors. ``max_bytes`` is the size that a file should not exceed; a
    batch that is larger is still whole. None: as large as the task has it.
    """

    name: str
    max_bytes: int | None

    def new_file(self, name: str) -> NewFile:
        """Return a file that is to be created."""


class LocalFolder:
    """A data directory."""

    max_bytes: int | None = None

    def __init__(self, fs: FileSystem, data_dir: str) -> None:
        self.name = data_dir
        self._fs: Final = fs

    def new_file(self, name: str) -> LocalFile:
        """Return a file in the directory."""
        return LocalFile(self._fs, os.path.join(self.name, name))


class LocalFile:
    """A staged file in a data directory."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.name = os.path.basename(path)
        self.size_bytes = 0
        self._fs: Final = fs
        self._file: Final = PooledFile(fs, path)
        self._started_bytes = 0

    def create(self) -> None:
        """Create the file, which must not exist."""
        self._file.open("x")

    def write(self, data: Buffer) -> None:
        """Write at the end."""
        self._file.pwrite(data, self.size_bytes)
        self.size_bytes += len(byte_view(data))
        waiting_bytes = self.size_bytes - self._started_bytes
        if waiting_bytes >= WRITEBACK_BYTES:
            self._file.start_writeback(waiting_bytes, self._started_bytes)
            self._started_bytes = self.size_bytes

    def finish(self) -> None:
        """Make the bytes durable and close the file."""
        # A commit only writes a journal that names this file: its bytes must be there by then.
        self._file.sync()
        self._file.close()

    def abandon(self) -> None:
        """Close and remove the file, if it is there."""
        try:
            self._file.close()
        finally:
            delete_if_there(self._fs, self._file.path)
