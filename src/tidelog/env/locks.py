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
from collections import deque
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from tidelog.env.files import check_regular
from tidelog.env.forks import call_after_fork, close_inherited
from tidelog.errors import DirectoryLocked

if TYPE_CHECKING:
    from collections.abc import Callable

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


class _Registry:
    """The files that this process has locked, as long as somebody has the lock; ``lock`` guards it.

    A lock without an owner releases itself: an interrupt may come when a file has been locked, and
    before any caller has the result.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: WeakValueDictionary[_FileId, ProcessLock] = WeakValueDictionary()
        call_after_fork(self)

    def after_fork(self, _parent: int) -> None:
        """Forget the locks in a forked child, which does not inherit them.

        The descriptors are closed now: once the child itself has locked one of the files, closing
        any descriptor of it would release that lock.
        """
        self.lock = threading.Lock()  # another thread of the parent may have held it
        held, self.held = self.held, WeakValueDictionary()
        for lock in held.values():
            close_inherited(lock.descriptors)
            lock.descriptors = []


_registry: Final = _Registry()


class ProcessLock:
    """An exclusive lock on one whole file, held by this process until ``release``.

    Raises:
        DirectoryLocked: the lock is held by another process (pid 0 if unknown), or by this one.
    """

    def __init__(self, path: str) -> None:
        self.descriptors: list[int] = []
        """Of the file: that of the lock, and others, which must stay open as long as it is held."""
        self._file_id: _FileId = (0, 0)
        with _registry.lock:
            self._acquire(path)

    def release(self) -> None:
        """Release the lock; a second call, or one in a forked child, does nothing."""
        with _registry.lock:
            if self.descriptors:
                _registry.held.pop(self._file_id, None)
                self.close_descriptors()

    def close_descriptors(self) -> None:
        """Close all descriptors, which releases the lock."""
        closing = map(os.close, self.descriptors)
        # No interrupt comes between these two lines, nor between two closes: nothing here is ours.
        self.descriptors = []
        deque(closing, maxlen=0)

    def __del__(self) -> None:
        if vars(self):  # an interrupt may come before it has any descriptors
            self.close_descriptors()

    def _acquire(self, path: str) -> None:
        for _ in range(_ATTEMPTS):
            _refuse_own(path)
            descriptor = os.open(path, _FLAGS, 0o666)
            self.descriptors.append(descriptor)
            try:
                found = os.fstat(descriptor)
                check_regular(path, found.st_mode)
                pid = _try_lock(descriptor)
                self._file_id = _file_id(found)
                if pid == 0 and self._file_id == _id_at(path):
                    _registry.held[self._file_id] = self
                    return
            except BaseException:
                self.close_descriptors()
                raise
            self.close_descriptors()
            if pid > 0:
                raise DirectoryLocked(path, pid)
            # The holder has just exited, or deleted the file it had locked: try again.
        raise DirectoryLocked(path)


def keep_if_locked(take: Callable[[], int], found: os.stat_result) -> bool:
    """Return whether ``found``, of a file just opened, is of one that this process has locked.

    If so, the descriptor that ``take`` returns is kept open until the lock is released, because
    closing it would drop the lock.
    """
    lock = _registry.held.get(_file_id(found))
    if lock is None:
        return False
    lock.descriptors.append(take())
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
    with _registry.lock:
        if _id_at(path) in _registry.held:
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


def _refuse_own(path: str) -> None:
    file_id = _id_at(path)
    if file_id is not None and file_id in _registry.held:
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
