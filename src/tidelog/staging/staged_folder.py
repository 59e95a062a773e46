"""Staged files in a data directory; ``staged_objects`` has the same in a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.codec.layout import byte_view
from tidelog.env.pooled_file import PooledFile
from tidelog.env.renamed_files import delete_if_there

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem

WRITEBACK_BYTES: Final = 8 << 20
"""Bytes of a file after which the disk begins to write them, while the task prepares the next."""


class LocalFolder:
    """A data directory, which makes staged files; ``name`` says where, for errors."""

    max_bytes: int | None = None
    """The size that a file should not exceed; a batch that is larger is still whole."""

    def __init__(self, fs: FileSystem, data_dir: str) -> None:
        self.name = data_dir
        self._fs: Final = fs

    def new_file(self, name: str) -> LocalFile:
        """Return a file in the directory, which is to be created."""
        return LocalFile(self._fs, os.path.join(self.name, name))


class LocalFile:
    """A staged file in a data directory; ``size_bytes`` are in it."""

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
