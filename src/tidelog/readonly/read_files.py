"""A file system that only reads, and whose errors are tidelog's.

Everything that looks without a lock goes through it, so that an error of the disk reaches callers
as ``KafkaStorageError``, and nothing can be changed by mistake. Only ``FileNotFoundError`` passes:
beside a writer a missing file is an answer, which each look treats where it happens.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from tidelog.env.read_only_file import ReadOnlyFile
from tidelog.errors import InvariantError, KafkaStorageError, text_or_kind

if TYPE_CHECKING:
    from collections.abc import Buffer, Iterator  # type: ignore[attr-defined]  # Buffer: 3.12+

    from tidelog.env.descriptors import DescriptorBudget
    from tidelog.env.files import (
        FileLock,
        FileStat,
        FileSystem,
        NativeReads,
        OpenFile,
        OpenMode,
    )


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Raise every OSError of the body but FileNotFoundError as KafkaStorageError.

    ``path`` is named where the error names no file.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or text_or_kind(error)
        raise KafkaStorageError(f"{error.filename or path}: {reason}") from error


def reading(fs: FileSystem) -> ReadFiles:
    """Return ``fs`` to be read only; itself if it is already."""
    return fs if isinstance(fs, ReadFiles) else ReadFiles(fs)


class ReadFiles:
    """Reads ``below``; whatever would change it raises InvariantError."""

    def __init__(self, below: FileSystem) -> None:
        self._below: Final = below

    @property
    def descriptors(self) -> DescriptorBudget:
        """The budget of the file system below."""
        return self._below.descriptors

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file, with the caller as its first holder."""
        if mode != "r":
            self._refuse(path)
        with storage_errors(path):
            return ReadFile(self._below.open(path))

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        with storage_errors(path):
            return self._below.read(path)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, in no order."""
        with storage_errors(path):
            return self._below.list(path)

    def stat(self, path: str) -> FileStat:
        """Return size, time and kind; FileNotFoundError if there is no such entry."""
        with storage_errors(path):
            return self._below.stat(path)

    def exists(self, path: str) -> bool:
        """Say whether there is a file or directory of this name."""
        with storage_errors(path):
            return self._below.exists(path)

    def is_link(self, path: str) -> bool:
        """Say whether this is the name of a symbolic link."""
        with storage_errors(path):
            return self._below.is_link(path)

    def real_path(self, path: str) -> str:
        """Return the path without symbolic links, as far as its directories exist."""
        with storage_errors(path):
            return self._below.real_path(path)

    def free_bytes(self, path: str) -> int:
        """Return the bytes this user may still write on the disk of ``path``."""
        with storage_errors(path):
            return self._below.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        """Return the bytes that the disk of ``path`` can hold, used or free."""
        with storage_errors(path):
            return self._below.total_bytes(path)

    def write(self, path: str, data: Buffer) -> None:
        """Refuse."""
        self._refuse(path, data)

    def rename(self, source: str, target: str) -> None:
        """Refuse."""
        self._refuse(source, target)

    def link(self, source: str, target: str) -> None:
        """Refuse."""
        self._refuse(source, target)

    def delete(self, path: str) -> None:
        """Refuse."""
        self._refuse(path)

    def delete_directory(self, path: str) -> None:
        """Refuse."""
        self._refuse(path)

    def make_directory(self, path: str) -> None:
        """Refuse."""
        self._refuse(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Refuse."""
        self._refuse(path, mtime_ms)

    def lock(self, path: str) -> FileLock:
        """Refuse."""
        self._refuse(path)

    def sync_directory(self, path: str) -> None:
        """Refuse."""
        self._refuse(path)

    def _refuse(self, path: str, *_: object) -> NoReturn:
        raise InvariantError(f"{path} was opened to be read only")


class ReadFile(ReadOnlyFile):
    """An open file that is only read; as ``OpenFile``, with the errors of ``ReadFiles``."""

    def __init__(self, below: OpenFile) -> None:
        self._below: Final = below

    @property
    def path(self) -> str:
        """The path as opened."""
        return self._below.path

    @property
    def holders(self) -> int:
        """Number of references."""
        return self._below.holders

    def hold(self) -> ReadFile:
        """Add a reference and return the file to use and close."""
        with storage_errors(self.path):
            held = self._below.hold()
        return self if held is self._below else ReadFile(held)

    def close(self) -> None:
        """Take one holder away; the last one closes the descriptor."""
        with storage_errors(self.path):
            self._below.close()

    def fileno(self) -> int:
        """Return the descriptor."""
        with storage_errors(self.path):
            return self._below.fileno()

    def native_reads(self) -> NativeReads | None:
        """Return None: reads by compiled code would pass by what is checked here."""

    def size(self) -> int:
        """Return the present size in bytes."""
        with storage_errors(self.path):
            return self._below.size()

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes from byte ``position`` on; fewer only at the end of the file."""
        with storage_errors(self.path):
            return self._below.pread(size, position)

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position`` on; return the bytes read."""
        with storage_errors(self.path):
            return self._below.pread_into(buffer, position)

    def map(self) -> memoryview:
        """Return the bytes present now; not a map, since a writer may cut the file."""
        return memoryview(self.pread(self.size(), 0))
