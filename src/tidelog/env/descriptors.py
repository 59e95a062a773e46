"""The limit of files that the process may have open, and the choice of files to close at the limit.

A loaded log keeps the files of its active segment open, and the process's limit of descriptors
(``ulimit -n``) is often too low for thousands of partitions. Therefore all logs on one file system
share a ``DescriptorBudget``: files are opened through ``PooledFile``, which reopens a closed file
on its next use. Kafka has no such budget and asks the operator for a higher ``ulimit``.
"""

from __future__ import annotations

import errno
import logging
import sys
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from weakref import WeakSet

from tidelog.env.forks import call_after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

if sys.platform != "win32":
    import resource

_log = logging.getLogger(__name__)

T = TypeVar("T")

NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of opening a file when the process or the system has too many files open."""

_MOST: Final = 1 << 20
"""Below the maximum of every supported system; macOS refuses its own "unlimited"."""
_MOST_DARWIN: Final = 10_240
_RESERVE: Final = 64
"""Minimum number of descriptors left to the rest of the process."""
_BATCH: Final = 16
"""One in this many open files is closed at a time, since each choice sorts all of them."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files up to the hard limit; return the limit now in force.

    The usual limit of a shell, 1024 on Linux and 256 on macOS, is too low for a thousand logs.
    """
    if sys.platform == "win32":
        return _MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DARWIN if sys.platform == "darwin" else _MOST
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        _log.warning("descriptor-limit-not-raised soft=%d hard=%d reason=%s", soft, hard, error)
        return soft
    return wanted


def descriptor_limit() -> int:
    """Return how many descriptors files may use: the soft limit minus a reserve.

    The reserve, a quarter and at least 64, is for sockets, Spark, libraries, and files that are
    opened only briefly. It is never more than half of the limit.
    """
    if sys.platform == "win32":
        return _MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(soft - max(soft // 4, _RESERVE), soft // 2, 1)


class Evictable(Protocol):
    """An open file that a budget may close."""

    last_use: int
    """Time of the last use, as a counter shared by all files."""

    @property
    def is_dirty(self) -> bool:
        """Whether it must be synced before it is closed."""

    def evict(self) -> bool:
        """Close it unless it is in use; return whether it was closed."""

    def drop(self, parent: int) -> None:
        """Close it in a forked child of ``parent``, in use or not, without a lock."""


class DescriptorBudget:
    """Keeps the number of open files at or below ``limit``; thread safe.

    Before another file is opened, the least recently used files that are not being read, written or
    held are closed. A file with unsynced writes is synced before it is closed, since the kernel
    could not report a later write error to a closed descriptor. As a sync takes milliseconds, the
    less recently used half is first searched for files without such writes. If all files are in
    use, more than ``limit`` are open, up to the process's own limit.

    Args:
        limit: maximum number of open files; None: ``descriptor_limit`` at each opening.

    The budget has weak references: a file that is no longer referenced does not count.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._open: WeakSet[Evictable] = WeakSet()
        self._lock = Lock()
        self._evictions = 0
        call_after_fork(self)

    @property
    def limit(self) -> int:
        """Maximum number of open files."""
        return descriptor_limit() if self._limit is None else self._limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        self._limit = limit

    @property
    def open_count(self) -> int:
        """Number of open files."""
        return len(self._open)

    @property
    def evictions(self) -> int:
        """Number of files closed so far to make room for others."""
        return self._evictions

    def make_room(self) -> None:
        """Close files so that another can be opened."""
        excess = len(self._open) + 1 - self.limit
        if excess > 0:
            self.evict(excess)

    def add(self, file: Evictable) -> None:
        """Count an opened file."""
        with self._lock:
            self._open.add(file)

    def discard(self, file: Evictable) -> None:
        """Stop counting a file; does nothing if it is not counted."""
        with self._lock:
            self._open.discard(file)

    def evict(self, count: int = 1) -> int:
        """Close ``count`` files, or more if that needs no sync; return how many were closed."""
        with self._lock:
            files = sorted(self._open, key=lambda file: file.last_use)
        older = files[: (len(files) + 1) // 2]
        wanted = max(count, len(files) // _BATCH)
        closed = _evict((file for file in older if not file.is_dirty), wanted)
        if closed < count:
            closed += _evict(files, count - closed)
        with self._lock:
            self._evictions += closed
        return closed

    def retry(self, opening: Callable[[], T]) -> T:
        """Return the result of ``opening``; while no descriptor is free, close files and try again.

        Raises OSError: EMFILE or ENFILE if no file can be closed, or another error of ``opening``.
        """
        while True:
            try:
                return opening()
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not self.evict():
                    raise

    def after_fork(self, parent: int) -> None:
        """Close all files in a forked child: they belong to the owners of logs.

        The lock is replaced, since another thread of the parent may have held it.
        """
        self._lock = Lock()
        files, self._open = self._open, WeakSet()
        for file in files:
            file.drop(parent)


PROCESS_DESCRIPTORS: Final = DescriptorBudget()
"""The budget of the operating system's file system."""


def _evict(files: Iterable[Evictable], count: int) -> int:
    closed = 0
    candidates: Iterator[Evictable] = iter(files)
    while closed < count and (file := next(candidates, None)) is not None:
        closed += file.evict()
    return closed
