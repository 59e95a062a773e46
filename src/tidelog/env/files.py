"""The interfaces to the disk: protocols for files, locks and file systems.

``system_files.py`` implements them on a real disk and ``tidelog.testing`` in memory; both pass the
same conformance suite. Paths are absolute ``str``; errors are plain ``OSError`` unless a method
documents another.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from tidelog.env.descriptors import DescriptorBudget

Buffer: TypeAlias = Any
"""An object with the buffer protocol. (``collections.abc.Buffer`` needs Python 3.12; for earlier
ones, type checkers do not count NumPy's arrays as buffers.)"""

OpenMode = Literal["r", "r+", "w", "x"]

WRONG_KIND: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EOPNOTSUPP})
"""Errors of an entry that is not of the kind expected: a directory, a link, or neither a file nor a
directory. They say nothing about the disk."""


class FileStat(NamedTuple):
    """The metadata of a directory entry; a copy has another ``inode``, 0 where there is none."""

    size_bytes: int
    mtime_ms: int
    is_directory: bool
    inode: int = 0


class NativeReads(NamedTuple):
    """What compiled code needs to read a file: the address of C's ``pread``, and the descriptor."""

    pread: int
    descriptor: int


class OpenFile(Protocol):
    """An open file with a reference count; the last holder's ``close`` closes the descriptor.

    Every read and write takes a position, so holders on several threads never disturb each other. A
    file stays readable for its holders after it was renamed or deleted. Any use after the last
    ``close`` raises OSError.
    """

    @property
    def path(self) -> str:
        """The path the file was opened with; a later rename does not change it."""

    @property
    def holders(self) -> int:
        """Number of references; ``hold`` adds one and ``close`` drops one."""

    def hold(self) -> OpenFile:
        """Add a reference and return the file to use and close, normally the file itself."""

    def close(self) -> None:
        """Drop a reference; the last one closes the descriptor."""

    def fileno(self) -> int:
        """Return the descriptor, for ``sendfile``; valid only while the file is held."""

    def native_reads(self) -> NativeReads | None:
        """Return what compiled code needs to read the file while it holds it; None: not supported.

        Such reads return the same bytes as ``pread``. They report only that an error occurred; the
        caller repeats the read with ``pread`` to get the error itself.
        """

    def size(self) -> int:
        """Return the current size in bytes."""

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes at byte ``position``; fewer only at the end of the file."""

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position``; return the bytes read, fewer only at the end."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at byte ``position``.

        Raises:
            OSError: not all was written; part of it may be in the file. ENOSPC if the disk is full.
        """

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes, or extend it to that size with zeros."""

    def start_writeback(self, size: int, position: int) -> None:
        """Ask the system to begin to write bytes to the disk, so that ``sync`` has less to do.

        It does not wait, and makes nothing durable; an error is reported by ``sync``.
        """

    def sync(self) -> None:
        """Make the bytes durable. After an error, no earlier unsynced write can be assumed durable.

        Every failure is reported as EIO, even a full disk.
        """


class FileLock(Protocol):
    """A file lock held by this process."""

    def release(self) -> None:
        """Release the lock; a second call does nothing. The file is not deleted."""


class FileSystem(Protocol):
    """Files by path. ``OpenFile.sync`` makes bytes durable, ``sync_directory`` names."""

    @property
    def descriptors(self) -> DescriptorBudget:
        """The budget shared by all files that stay open; see ``PooledFile``."""

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file, with the caller as its first holder.

        Only regular files are opened, and links are followed only to read: any other entry is an
        OSError with an error number of ``WRONG_KIND``. Opening never waits.

        Args:
            path: the file.
            mode: "r" opens an existing file read-only; "r+" an existing file for reading and
                writing; "w" for reading and writing, created if missing; "x" for reading and
                writing, FileExistsError if it exists.
        """

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""

    def write(self, path: str, data: Buffer) -> None:
        """Create the file or replace its content; neither atomic nor durable."""

    def rename(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target`` atomically, replacing a file of that name."""

    def link(self, source: str, target: str) -> None:
        """Give the file a second name; FileExistsError if the name is taken."""

    def delete(self, path: str) -> None:
        """Delete a file; FileNotFoundError if it does not exist."""

    def delete_directory(self, path: str) -> None:
        """Delete an empty directory."""

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, in no particular order."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; does nothing if it exists."""

    def stat(self, path: str) -> FileStat:
        """Return size, time of modification and kind; FileNotFoundError if there is no entry."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of this name exists; a link to nothing does not.

        Raises OSError if that cannot be found out, as on a failing disk; see ``is_gone``.
        """

    def is_link(self, path: str) -> bool:
        """Return whether this path is a symbolic link; all other methods follow links.

        The exceptions are ``delete`` and ``rename``, which act on the link itself, and ``open`` for
        writing, which refuses it.
        """

    def real_path(self, path: str) -> str:
        """Return the path without symbolic links, as far as its directories exist."""

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the time of modification, in milliseconds since the Unix epoch."""

    def lock(self, path: str) -> FileLock:
        """Create the file if missing and lock it for this process, without waiting.

        While it is locked, the file must not be opened in any other way.

        Raises:
            DirectoryLocked: another process holds the lock, or this one already does.
        """

    def free_bytes(self, path: str) -> int:
        """Return the free bytes available to this user on the disk of ``path``."""

    def total_bytes(self, path: str) -> int:
        """Return the bytes that the disk of ``path`` can hold, used or free."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and deletions in this directory durable; EIO on failure.

        But EMFILE or ENFILE if there is no descriptor to open it with: nothing was synced.
        """


def is_gone(fs: FileSystem, path: str) -> bool:
    """Return whether there is no file or directory of this name for certain; False if in doubt."""
    try:
        return not fs.exists(path)
    except (OSError, KafkaStorageError):
        return False


def os_error(code: int, path: str) -> OSError:
    """Return the error that the operating system has for ``code``."""
    return OSError(code, os.strerror(code), path)


def link_error(path: str) -> OSError:
    """Return the error of writing through a symbolic link, which nothing does."""
    reason = "Nothing is written through a link: put the file itself in its place"
    return OSError(errno.ELOOP, reason, path)


def check_regular(path: str, mode: int) -> None:
    """Raise an OSError of ``WRONG_KIND`` unless ``mode``, as from ``stat``, is a regular file's."""
    if stat.S_ISDIR(mode):
        raise os_error(errno.EISDIR, path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EOPNOTSUPP, "Not a regular file", path)


class WholeFiles(ABC):
    """Whole-file operations for a file system that can open files."""

    @abstractmethod
    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file; see ``FileSystem.open``."""

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        with closing(self.open(path)) as file:
            return file.pread(file.size(), 0)

    def write(self, path: str, data: Buffer) -> None:
        """Create the file or replace its content; neither atomic nor durable."""
        with closing(self.open(path, "w")) as file:
            file.truncate(0)
            file.pwrite(data, 0)
