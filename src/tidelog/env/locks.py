"""The lock that restricts a data directory to one writing process.

POSIX drops a lock as soon as its process closes *any* descriptor of the file. A registry of the
process's locks therefore keeps every descriptor of a locked file open. Java's lock is a POSIX
record lock too, so Kafka and tidelog exclude each other. Kafka: ``FileLock``.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import threading
from typing import Final

from tidelog.env.files import check_regular
from tidelog.errors import DirectoryLocked

if sys.platform != "win32":
    import fcntl

HAVE_LOCKS: Final = sys.platform != "win32"

_FileId = tuple[int, int]

# ``struct flock``: Linux has type, whence, start, length, pid; macOS start, length, pid, type,
# whence. Native alignment puts the padding where C does.
_IS_DARWIN: Final = sys.platform == "darwin"
_FLOCK: Final = struct.Struct("@qqihh" if _IS_DARWIN else "@hhqqi4x")
# A link could lead out of the directory, and opening a FIFO would wait.
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_REFUSED: Final = (errno.EACCES, errno.EAGAIN)
_ATTEMPTS: Final = 8

_registry_lock = threading.Lock()
_registry: dict[_FileId, list[int]] = {}
"""Each locked file, with other descriptors of it that must stay open until it is unlocked."""


class ProcessLock:
    """An exclusive lock on one whole file, held by this process until ``release``.

    Raises:
        DirectoryLocked: the lock is held by another process (pid 0 if unknown), or by this one.
    """

    def __init__(self, path: str) -> None:
        self._pid = os.getpid()
        self._file_id, self._descriptor = _acquire(path)

    def release(self) -> None:
        """Release the lock; a second call, or one in a forked child, does nothing."""
        with _registry_lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0 and self._pid == os.getpid():
                kept = _registry.pop(self._file_id, [])
                for one in (descriptor, *kept):
                    os.close(one)


def keep_if_locked(descriptor: int, found: os.stat_result) -> bool:
    """Return whether ``descriptor``, just opened, refers to a file that this process has locked.

    If so, it is kept open until the lock is released, because closing it would drop the lock.
    """
    kept = _registry.get(_file_id(found))
    if kept is None:
        return False
    kept.append(descriptor)
    return True


def is_locked(path: str) -> bool:
    """Return whether a process holds the lock on a file; see ``lock_holder``."""
    return lock_holder(path) is not None


def lock_holder(path: str) -> int | None:
    """Return the pid of the process that holds the lock on a file, 0 if unknown; None: nobody does.

    Does not take the lock, or make the file. None on Windows, where there are no such locks, for
    what is not a regular file, and for a file that may not be read. Never waits.
    """
    if not HAVE_LOCKS:
        return None
    with _registry_lock:
        if _id_at(path) in _registry:
            return os.getpid()
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except (FileNotFoundError, PermissionError):
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            lock_type, pid = _conflicting(descriptor)
            return None if lock_type == fcntl.F_UNLCK else max(pid, 0)
        finally:
            os.close(descriptor)


def _acquire(path: str) -> tuple[_FileId, int]:
    with _registry_lock:
        for _ in range(_ATTEMPTS):
            _refuse_own(path)
            descriptor = os.open(path, _FLAGS, 0o666)
            try:
                found = os.fstat(descriptor)
                check_regular(path, found.st_mode)
                pid = _try_lock(descriptor)
                file_id = _file_id(found)
                is_current = pid == 0 and file_id == _id_at(path)
            except BaseException:
                os.close(descriptor)
                raise
            if is_current:
                _registry[file_id] = []
                return file_id, descriptor
            os.close(descriptor)
            if pid > 0:
                raise DirectoryLocked(path, pid)
            # The holder has just exited, or deleted the file it had locked: try again.
    raise DirectoryLocked(path)


def _refuse_own(path: str) -> None:
    file_id = _id_at(path)
    if file_id is not None and file_id in _registry:
        raise DirectoryLocked(path, os.getpid())


def _try_lock(descriptor: int) -> int:
    """Return 0 if the lock was acquired, else the holder's pid, or -1 if it has just exited."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        return _holder(descriptor) or -1
    return 0


def _holder(descriptor: int) -> int:
    """Return the pid of the process that holds a conflicting lock, 0 if there is none."""
    lock_type, pid = _conflicting(descriptor)
    return 0 if lock_type == fcntl.F_UNLCK else pid


def _conflicting(descriptor: int) -> tuple[int, int]:
    """Return type and pid of the lock that would refuse this process one; F_UNLCK if none."""
    order = (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
    question = order if _IS_DARWIN else (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(*question)))
    return (answer[3], answer[2]) if _IS_DARWIN else (answer[0], answer[4])


def _file_id(found: os.stat_result) -> _FileId:
    return found.st_dev, found.st_ino


def _id_at(path: str) -> _FileId | None:
    try:
        return _file_id(os.stat(path))
    except FileNotFoundError:
        return None


def _forget_in_child() -> None:
    """Clear the registry in a forked child, which does not inherit the locks."""
    global _registry_lock  # noqa: PLW0603 - another thread of the parent may have held it
    _registry_lock = threading.Lock()
    _registry.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
