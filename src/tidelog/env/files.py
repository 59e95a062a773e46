"""What tidelog asks of a disk: the protocols of files, locks and file systems.

Owns the promises; ``system_files.py`` keeps them on a real disk and ``tidelog.testing`` in memory,
and one conformance suite runs against both. Must not know any implementation. Paths are absolute
``str``; errors are plain ``OSError`` unless a method says otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]  # Python 3.12 and later
    from typing import Self

OpenMode = Literal["r", "w", "x"]


class FileStat(NamedTuple):
    """What a directory knows about an entry."""

    size_bytes: int
    mtime_ms: int
    is_directory: bool


class NativeReads(NamedTuple):
    """What compiled code reads a file with: the address of C's ``pread``, and the descriptor."""

    pread: int
    descriptor: int


class OpenFile(Protocol):
    """An open file, shared by its holders; the descriptor closes with the last of them.

    Every read and write names its position, so holders on several threads never disturb each
    other. A file stays readable for its holders after it was renamed or deleted. Any use after the
    last ``close`` is an ``OSError``.
    """

    @property
    def path(self) -> str:
        """The path as opened; a later rename does not change it."""

    def hold(self) -> Self:
        """Add one holder and return the file itself."""

    def close(self) -> None:
        """Take one holder away; the last one closes the descriptor."""

    def fileno(self) -> int:
        """Return the descriptor, for ``sendfile``; valid only while it is held."""

    def native_reads(self) -> NativeReads | None:
        """Return what compiled code may read with while it holds the file; None: only Python can.

        Bytes read so are those that ``pread`` gives. Of an error only the fact is known: the
        caller asks ``pread`` for it.
        """

    def size(self) -> int:
        """Return the present size in bytes."""

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes from byte ``position`` on; fewer only at the end of the file."""

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position`` on; return the bytes read, all the file has."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at byte ``position``.

        Raises:
            OSError: not all was written; part of it may be in the file. ENOSPC: the disk is full.
        """

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or extend it to that with zeros."""

    def sync(self) -> None:
        """Make the bytes durable. After an error nothing written before may be taken as so.

        Any failure is EIO, that of a full disk too.
        """

    def map(self) -> memoryview:
        """Return a read-only map of the bytes present now; it outlives ``close``.

        The file must not shrink while it is mapped: a touch beyond its end kills the process.
        """


class FileLock(Protocol):
    """A lock held by this process."""

    def release(self) -> None:
        """Give the lock up; a second call does nothing. The file stays."""


class FileSystem(Protocol):
    """Files by path. Names become durable by ``sync_directory``, bytes by ``OpenFile.sync``."""

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file, with the caller as its first holder.

        Args:
            path: the file.
            mode: "r" an existing file, read-only; "w" read and write, created if missing; "x" read
                and write, FileExistsError if it exists.
        """

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""

    def write(self, path: str, data: Buffer) -> None:
        """Create the file or replace its bytes; neither atomic nor durable."""

    def rename(self, source: str, target: str) -> None:
        """Give ``source`` the name ``target`` in one step, replacing a file of that name."""

    def link(self, source: str, target: str) -> None:
        """Give the file a second name; FileExistsError if that is taken."""

    def delete(self, path: str) -> None:
        """Delete a file; FileNotFoundError if there is none."""

    def delete_directory(self, path: str) -> None:
        """Delete an empty directory."""

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, in no order."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; nothing if it exists."""

    def stat(self, path: str) -> FileStat:
        """Return size, time and kind; FileNotFoundError if there is no such entry."""

    def exists(self, path: str) -> bool:
        """Say whether there is a file or directory of this name."""

    def is_link(self, path: str) -> bool:
        """Say whether this is the name of a symbolic link; every other method follows one.

        ``delete`` and ``rename`` do not: they act on the link itself.
        """

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the time of last change, in milliseconds since the Unix epoch."""

    def lock(self, path: str) -> FileLock:
        """Create the file if missing and lock it for this process, without waiting.

        A lock file must not be opened in any other way while it is locked.

        Raises:
            DirectoryLocked: another process holds it, or this one already does.
        """

    def free_bytes(self, path: str) -> int:
        """Return the bytes this user may still write on the disk of ``path``."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and deletions in this directory durable; EIO if that fails."""


class WholeFiles(ABC):
    """What a file system can do with whole files once it can open them."""

    @abstractmethod
    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file; as ``FileSystem``."""

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        with closing(self.open(path)) as file:
            return file.pread(file.size(), 0)

    def write(self, path: str, data: Buffer) -> None:
        """Create the file or replace its bytes; neither atomic nor durable."""
        with closing(self.open(path, "w")) as file:
            file.truncate(0)
            file.pwrite(data, 0)
