"""The operating system's file system; every file call of tidelog is made here.

Platforms without POSIX locks, fsync and rename (Windows) are read-only: everything else raises
``UnsupportedPlatform``.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import warnings
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Final

from tidelog.env.descriptors import PROCESS_DESCRIPTORS
from tidelog.env.files import FileStat, NativeReads, WholeFiles, check_regular, link_error, os_error
from tidelog.env.forks import call_after_fork, close_inherited
from tidelog.env.locks import HAVE_LOCKS, ProcessLock, keep_if_locked
from tidelog.errors import ForkedProcess, UnsupportedPlatform

if TYPE_CHECKING:
    from collections.abc import Callable
    from shutil import _ntuple_diskusage
    from typing import Self

    from tidelog.env.descriptors import DescriptorBudget
    from tidelog.env.files import Buffer, FileLock, FileSystem, OpenFile, OpenMode

if sys.platform != "win32":
    import fcntl

_HAVE_PREAD: Final = hasattr(os, "pread")
_HAVE_PREADV: Final = hasattr(os, "preadv")
# Without O_NONBLOCK, opening a FIFO waits for its other end.
_ANY: Final = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
# What is written must lie where its name says: a link could lead out of the data directory.
_WRITE: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | _ANY
_FLAGS: Final = {
    "r": os.O_RDONLY | _ANY,
    "r+": _WRITE,
    "w": _WRITE | os.O_CREAT,
    "x": _WRITE | os.O_CREAT | os.O_EXCL,
}
_START_WRITEBACK: Final = 2
"""SYNC_FILE_RANGE_WRITE of Linux."""
# Errors of looking for a name after which nothing can lie there.
_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
# Errors of F_FULLFSYNC on a disk that does not support it.
_NO_FULL_SYNC: Final = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL)


class SystemFile:
    """An open file of the operating system. ``_lock`` guards the number of holders."""

    _descriptor = -1  # until there is one: an interrupt may come before

    def __init__(self, path: str, descriptor: int = -1) -> None:
        self.path: Final = path
        self._descriptor = descriptor
        self.holders = 1
        """Number of references."""
        self._lock = threading.Lock()
        self._owner_pid = 0
        call_after_fork(self)

    def after_fork(self, _parent: int) -> None:
        """Replace the lock in a forked child: another thread of the parent may have held it."""
        self._lock = threading.Lock()

    def drop(self, parent: int) -> None:
        """Close it in a forked child of ``parent``, which owns the file, held or not."""
        descriptor = self.take()
        if descriptor >= 0:
            self._owner_pid = parent
            close_inherited([descriptor])

    def open_by(self, flags: int) -> None:
        """Open the file, which has no descriptor yet."""
        # All in one call of compiled code: an interrupt comes before it or after it, when the
        # descriptor is the file's, and is closed with it.
        opened = map(os.open, (self.path,), (flags,), (0o666,))
        deque(map(setattr, (self,), ("_descriptor",), opened), maxlen=0)

    def take(self) -> int:
        """Return the descriptor, which another has to close from now on."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def hold(self) -> Self:
        """Add a reference and return the file itself."""
        with self._lock:
            if not self.holders:
                self._check_open()
            self.holders += 1
        return self

    def close(self) -> None:
        """Drop a reference; the last one closes the descriptor."""
        with self._lock:
            if not self.holders:
                self._check_open()
            self.holders -= 1
            if self.holders:
                return
            descriptor = self.take()
        if descriptor >= 0:  # else a forked child has closed it
            os.close(descriptor)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            warnings.warn(f"unclosed file {self.path}", ResourceWarning, stacklevel=2, source=self)
            os.close(self._descriptor)

    def __repr__(self) -> str:
        return f"SystemFile({self.path!r})"

    def fileno(self) -> int:
        """Return the descriptor; valid only while the file is held."""
        self._check_open()
        return self._descriptor

    def native_reads(self) -> NativeReads | None:
        """Return what compiled code needs to read the file while it holds it; None: unsupported."""
        pread = _address_of_pread()
        return NativeReads(pread, self.fileno()) if pread else None

    def size(self) -> int:
        """Return the current size in bytes."""
        return os.fstat(self._descriptor).st_size

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes at byte ``position``; fewer only at the end of the file."""
        data = self._read_at(size, position)
        if len(data) == size or not data:
            return data
        pieces = [data]
        left = size - len(data)
        while left and (data := self._read_at(left, position + size - left)):
            pieces.append(data)
            left -= len(data)
        return b"".join(pieces)

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position``; return the bytes read."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            count = self._read_into(view[done:], position + done)
            if count == 0:
                break
            done += count
        return done

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at byte ``position``; ENOSPC if the disk is full."""
        left = memoryview(data).cast("B")
        while left:
            count = os.pwrite(self._descriptor, left, position)
            if count == len(left):
                return
            if count == 0:
                raise os_error(errno.ENOSPC, self.path)
            left, position = left[count:], position + count

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes, or extend it to that size with zeros."""
        os.ftruncate(self.fileno(), size)

    def start_writeback(self, size: int, position: int) -> None:
        """Ask the system to begin to write bytes to the disk; nothing but Linux takes the hint."""
        descriptor, start = self.fileno(), _sync_file_range()
        if start is not None:
            start(descriptor, position, size, _START_WRITEBACK)

    def sync(self) -> None:
        """Make the bytes durable; on macOS this flushes the disk's own cache too."""
        _sync(self.fileno())

    def _check_open(self) -> None:
        if self._owner_pid:
            raise ForkedProcess("file", self._owner_pid)
        if self._descriptor < 0:
            raise OSError(errno.EBADF, "file is closed", self.path)

    def _check_still(self, descriptor: int) -> None:
        """Raise EBADF if the file was closed meanwhile: its descriptor may have been reused."""
        if self._descriptor != descriptor:
            self._check_open()

    def _read_at(self, size: int, position: int) -> bytes:
        descriptor = self._descriptor
        try:
            data = os.pread(descriptor, size, position)
        except MemoryError:  # a damaged batch may claim to be as large as its file
            raise os_error(errno.ENOMEM, self.path) from None
        except OSError:
            self._check_open()
            raise
        self._check_still(descriptor)
        return data

    def _read_into(self, view: memoryview, position: int) -> int:
        if _HAVE_PREADV:
            descriptor = self._descriptor
            try:
                count = os.preadv(descriptor, [view], position)
            except OSError:
                self._check_open()
                raise
            self._check_still(descriptor)
            return count
        data = self._read_at(len(view), position)
        view[: len(data)] = data
        return len(data)


class SeekingFile(SystemFile):
    """A file on a platform without ``pread``: ``_seek_lock`` makes seek and read atomic."""

    def __init__(self, path: str, descriptor: int = -1) -> None:
        super().__init__(path, descriptor)
        self._seek_lock = threading.Lock()

    def native_reads(self) -> None:
        """Return None: reads move the file's only position."""

    def _read_at(self, size: int, position: int) -> bytes:
        with self._seek_lock:
            before = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            os.lseek(self._descriptor, position, os.SEEK_SET)
            try:
                return os.read(self._descriptor, size)
            finally:
                os.lseek(self._descriptor, before, os.SEEK_SET)

    def _read_into(self, view: memoryview, position: int) -> int:
        data = self._read_at(len(view), position)
        view[: len(data)] = data
        return len(data)


class SystemFiles(WholeFiles):
    """The operating system's file system.

    With ``has_posix`` False it behaves as on Windows: reads only, else ``UnsupportedPlatform``. An
    operation that finds no free descriptor closes files of ``descriptors`` and is tried again; if
    no file can be closed, it raises OSError with EMFILE or ENFILE.
    """

    def __init__(
        self, *, has_posix: bool, descriptors: DescriptorBudget = PROCESS_DESCRIPTORS
    ) -> None:
        self.descriptors: Final = descriptors
        self._has_posix = has_posix
        self._file = SystemFile if has_posix and _HAVE_PREAD else SeekingFile

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file, with the caller as its first holder."""
        if mode != "r":
            self._need_posix("writing a file")
        file = self._file(path)
        try:
            self.descriptors.retry(lambda: file.open_by(_FLAGS[mode]))
        except OSError as error:
            if error.errno == errno.ENXIO:  # a socket cannot be opened
                check_regular(path, os.stat(path).st_mode)
            _check_target(path, error)
            if mode != "r" and error.errno == errno.ELOOP and os.path.islink(path):
                raise link_error(path) from error
            raise
        found = os.fstat(file.fileno())
        if keep_if_locked(file.take, found):
            raise OSError(errno.EBUSY, "closing a file that this process locked unlocks it", path)
        try:
            check_regular(path, found.st_mode)
        except OSError:
            file.close()
            raise
        return file

    def rename(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target`` atomically, replacing a file of that name."""
        self._need_posix("renaming a file")
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        """Give the file a second name."""
        self._need_posix("linking a file")
        os.link(source, target)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._need_posix("deleting a file")
        os.unlink(path)

    def delete_directory(self, path: str) -> None:
        """Delete an empty directory."""
        self._need_posix("deleting a directory")
        os.rmdir(path)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, in no particular order."""
        return self.descriptors.retry(lambda: os.listdir(path))

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; does nothing if it exists."""
        self._need_posix("making a directory")
        os.makedirs(path, exist_ok=True)

    def stat(self, path: str) -> FileStat:
        """Return size, time of modification and kind."""
        try:
            found = os.stat(path)
        except FileNotFoundError as error:
            _check_target(path, error)
            raise
        mtime_ms = found.st_mtime_ns // 1_000_000
        is_directory = stat.S_ISDIR(found.st_mode)
        return FileStat(found.st_size, mtime_ms, is_directory, found.st_ino)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of this name exists."""
        try:
            os.stat(path)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return False
            raise
        except ValueError:  # no name can hold a zero byte
            return False
        return True

    def is_link(self, path: str) -> bool:
        """Return whether this path is a symbolic link."""
        return os.path.islink(path)

    def real_path(self, path: str) -> str:
        """Return the path without symbolic links, as far as its directories exist."""
        return os.path.realpath(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the time of modification, in milliseconds since the Unix epoch."""
        self._need_posix("changing a file")
        follows = os.utime not in os.supports_follow_symlinks
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000), follow_symlinks=follows)

    def lock(self, path: str) -> FileLock:
        """Create the file if missing and lock it for this process, without waiting."""
        self._need_posix("locking a file")
        return self.descriptors.retry(lambda: ProcessLock(path))

    def free_bytes(self, path: str) -> int:
        """Return the free bytes available to this user on the disk of ``path``."""
        return _disk_usage(path).free

    def total_bytes(self, path: str) -> int:
        """Return the bytes that the disk of ``path`` can hold, used or free."""
        return _disk_usage(path).total

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and deletions in this directory durable."""
        self._need_posix("syncing a directory")
        flags = os.O_RDONLY | os.O_DIRECTORY
        descriptor = self.descriptors.retry(lambda: os.open(path, flags))
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)

    def _need_posix(self, what: str) -> None:
        if not self._has_posix:
            raise UnsupportedPlatform(f"{what} needs Linux or macOS; tidelog is read-only here")


def _check_target(path: str, error: OSError) -> None:
    """Raise an OSError of ``WRONG_KIND`` if it is a link's target that is missing, not the entry.

    A name that was listed and cannot be found would otherwise seem to vanish at each look.
    """
    if error.errno == errno.ENOENT and os.path.islink(path):
        raise OSError(errno.ELOOP, "Link to a missing file", path) from error


def _disk_usage(path: str) -> _ntuple_diskusage:
    import shutil  # noqa: PLC0415 - loads three compressors

    return shutil.disk_usage(path)


@cache
def _address_of_pread() -> int:
    """Return the address of C's ``pread`` with a 64-bit position; 0 if there is none."""
    if not _HAVE_PREAD or sys.maxsize < 1 << 32:
        return 0
    import ctypes  # noqa: PLC0415 - for kernels, which few commands use

    pread = getattr(ctypes.CDLL(None), "pread", None)
    return 0 if pread is None else ctypes.cast(pread, ctypes.c_void_p).value or 0


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return C's ``sync_file_range`` with 64-bit positions; None if there is none."""
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return None
    import ctypes  # noqa: PLC0415 - for writers

    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
    return found


def _sync(descriptor: int) -> None:
    """Sync; raise any error as EIO, since after a failed sync the disk's content is unknown."""
    try:
        _sync_fully(descriptor)
    except OSError as error:
        if error.errno in {errno.EBADF, None}:
            # This process closed the file meanwhile, or a handler of a signal has raised the error
            # (a TimeoutError has no number): neither says anything of the disk.
            raise
        raise OSError(errno.EIO, f"sync failed: {error.strerror}") from error


def _sync_fully(descriptor: int) -> None:
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
        else:
            return
    os.fsync(descriptor)


SYSTEM_FILES: Final[FileSystem] = SystemFiles(has_posix=HAVE_LOCKS)
