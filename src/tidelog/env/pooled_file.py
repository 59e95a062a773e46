"""A file that is kept open only while enough descriptors are free.

Its owner uses it like an ``OpenFile``. Between two uses a ``DescriptorBudget`` may close its
descriptor; the next use reopens the file at its current path.
"""

from __future__ import annotations

import errno
import io
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.env.system_files import SystemFile

if TYPE_CHECKING:
    from typing import Self

    from tidelog.env.files import Buffer, FileSystem, OpenFile, OpenMode

_ticks = count(1)


class PooledFile:
    """An ``OpenFile`` that is opened on first use, and reopened after the budget has closed it.

    ``hold`` returns the file that is currently open: it stays open, and counts as in use, until
    the holder closes it. Every other method uses it only during the call. ``close`` is for the
    owner: any later use raises OSError, but held files stay open.

    The budget syncs a written file before it closes the descriptor. After a failed sync, of the
    budget or of the owner, all later writes and syncs fail too, but reads do not.

    One thread at a time may write, truncate, rename or close; any number may read, hold and sync.
    ``_lock`` guards opening, closing and the path. A use of an open file takes no lock: it first
    adds an item to ``_uses``, then reads the descriptor. The budget first removes the descriptor,
    then checks for uses, and puts it back if there are any. So either the use finds no descriptor
    and waits for the lock, or the budget sees the use. (``append`` and ``pop`` of a list are
    atomic.) ``_sync_lock`` is held during a sync.
    """

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.path = path
        self.last_use = 0
        self._fs: Final = fs
        self._budget: Final = fs.descriptors
        self._file: OpenFile | None = None
        self._file_before: OpenFile | None = None
        self._uses: list[None] = []
        self.is_writable = False
        """Whether it was opened for writing, which the first write does if nothing else has."""
        self._was_opened = False
        self._is_closed = False
        self._changes = self._writes = self._synced_writes = 0
        self._synced_changes = -1  # an earlier process may have left unsynced bytes
        self._failure: OSError | None = None
        self._lock: Final = Lock()
        self._sync_lock: Final = Lock()

    def __repr__(self) -> str:
        return f"PooledFile({self.path!r})"

    # The descriptor

    @property
    def is_open(self) -> bool:
        """Whether it currently has a descriptor."""
        return self._file is not None

    @property
    def was_opened(self) -> bool:
        """Whether it was ever opened, and its owner has not closed it."""
        return self._was_opened and not self._is_closed

    @property
    def is_dirty(self) -> bool:
        """Whether bytes were written here since the last sync.

        Changes of size do not count: if the disk fails to store one, the next sync fails too.
        """
        return self._synced_writes != self._writes

    @property
    def holders(self) -> int:
        """Number of references to the descriptor, including the pool's; 0 without a descriptor."""
        file = self._file
        return 0 if file is None else file.holders

    def open(self, mode: OpenMode = "r") -> Self:
        """Open the file now, with a mode as for ``FileSystem.open``; return it.

        This does nothing if it is already open for this purpose. With "w" and "x" a missing file is
        created, but only here: a file that the budget has closed must exist when it is reopened.
        """
        self._uses.append(None)
        try:
            with self._lock:
                if self._file is None or (mode != "r" and not self.is_writable):
                    self._open_locked(mode)
        finally:
            self._uses.pop()
        return self

    def hold(self) -> OpenFile:
        """Return the open file with another reference; the caller closes it."""
        self._uses.append(None)
        try:
            return (self._file or self._opened()).hold()
        finally:
            self._done()

    def pin(self) -> None:
        """Open the file to write, unless it is open, and keep the descriptor until ``unpin``.

        After an OSError it is not pinned.
        """
        self._uses.append(None)
        if self._file is None:
            try:
                self._opened_to_write()
            except BaseException:
                self._uses.pop()
                raise

    def unpin(self) -> None:
        """Let the budget close the descriptor again."""
        self._uses.pop()

    def close(self) -> None:
        """Close the file permanently, without a sync; the last holder closes the descriptor."""
        with self._lock:
            self._is_closed = True
            self._close_descriptor_locked(self._file)

    def evict(self) -> bool:
        """Close the descriptor, unless the file is in use; return whether it was closed."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            file = self._file
            if file is None or not self._is_idle(file):
                return False
            if self.is_dirty:
                self._sync_to_evict(file)
            self._file = None
            if not self._is_idle(file) or (self.is_dirty and self._failure is None):
                self._file = file
                return False
            self._close_descriptor_locked(file)
            return True
        finally:
            self._lock.release()

    def drop(self, parent: int) -> None:
        """Close the descriptors in a forked child of ``parent``, without a lock, for good."""
        self._is_closed = True
        dropped = (self._file, self._file_before)
        self._file = self._file_before = None
        for file in dropped:
            if isinstance(file, SystemFile):
                file.drop(parent)

    def _is_idle(self, file: OpenFile) -> bool:
        # In this order: during ``hold``, the use is in ``_uses`` until the reference is added.
        return not self._uses and file.holders == 1

    def _close_descriptor_locked(self, file: OpenFile | None) -> None:
        self._file = None
        before, self._file_before = self._file_before, None
        self._budget.discard(self)
        for one in (file, before):
            if one is not None:
                one.close()

    # The path

    def rename(self, path: str) -> None:
        """Rename the file; a reopening at the same time finds it."""
        with self._lock:
            self._fs.rename(self.path, path)
            self.path = path

    def moved_to(self, path: str) -> None:
        """Record that the directory of the file was renamed; ``path`` is the current path."""
        self.path = path

    # The bytes

    def fileno(self) -> int:
        """Raise: only a held file keeps its descriptor."""
        raise io.UnsupportedOperation(f"{self.path} has no descriptor of its own: hold it")

    def native_reads(self) -> None:
        """Return None: only a held file keeps its descriptor."""

    def size(self) -> int:
        """Return the current size in bytes."""
        self._uses.append(None)
        try:
            return (self._file or self._opened()).size()
        finally:
            self._done()

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes at byte ``position``; fewer only at the end of the file."""
        self._uses.append(None)
        try:
            return (self._file or self._opened()).pread(size, position)
        finally:
            self.last_use = next(_ticks)
            self._uses.pop()

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position`` on; return the number of bytes read."""
        self._uses.append(None)
        try:
            return (self._file or self._opened()).pread_into(buffer, position)
        finally:
            self.last_use = next(_ticks)
            self._uses.pop()

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at byte ``position``; errors as for ``OpenFile``."""
        self._uses.append(None)
        try:
            file = self._file if self.is_writable and self._failure is None else None
            (file or self._opened_to_write()).pwrite(data, position)
        finally:
            self._changes += 1
            self._writes += 1
            self.last_use = next(_ticks)
            self._uses.pop()

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes, or extend it with zeros."""
        self._uses.append(None)
        try:
            self._opened_to_write().truncate(size)
        finally:
            self._changes += 1
            self._done()

    def start_writeback(self, size: int, position: int) -> None:
        """Ask the system to begin to write bytes to the disk; nothing is opened for that."""
        self._uses.append(None)
        try:
            file = self._file
            if file is not None:
                file.start_writeback(size, position)
        finally:
            self._uses.pop()

    def sync(self) -> None:
        """Make the bytes durable, including those written before the budget closed a descriptor.

        A file that was synced and not changed since is not synced again.
        """
        self._uses.append(None)
        try:
            with self._sync_lock:
                self._check_usable()
                if self._synced_changes == self._changes:
                    self._check_not_closed()
                    return
                self._sync_once(self._file or self._opened())
        finally:
            self._done()

    # Internal

    def _done(self) -> None:
        """End a use."""
        self.last_use = next(_ticks)
        self._uses.pop()

    def _opened(self) -> OpenFile:
        """Return the file, for reading or a sync; the caller has added its use."""
        with self._lock:
            return self._file or self._open_locked("r+" if self.is_writable else "r")

    def _opened_to_write(self) -> OpenFile:
        """Return the file, for writing; the caller has added its use."""
        self._check_usable()
        with self._lock:
            file = self._file
            return file if file is not None and self.is_writable else self._open_locked("r+")

    def _open_locked(self, mode: OpenMode) -> OpenFile:
        self._check_not_closed()
        self._budget.make_room()
        file = self._fs.open(self.path, mode)
        before, self._file, self._was_opened = self._file, file, True
        # Another user than the caller may be reading from the one that was opened for that. Kept
        # without need it would be open beside what the budget counts.
        if before is not None and len(self._uses) == 1:
            before.close()
        else:
            self._file_before = before
        self.is_writable = self.is_writable or mode != "r"
        self._budget.add(self)
        return file

    def _sync_to_evict(self, file: OpenFile) -> None:
        """Sync unless another thread does; the next sync or write raises an error of this one."""
        if self._failure is None and self._sync_lock.acquire(blocking=False):
            try:
                with suppress(OSError):
                    self._sync_once(file)
            finally:
                self._sync_lock.release()

    def _sync_once(self, file: OpenFile) -> None:
        """Sync, or keep the error: the kernel reports it once, and the next fsync may succeed."""
        changes, writes = self._changes, self._writes
        try:
            file.sync()
        except OSError as error:
            if error.errno is not None:  # else a handler of a signal has raised it
                self._failure = error
            raise
        self._synced_changes, self._synced_writes = changes, writes

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise OSError(errno.EIO, self._failure.strerror, self.path) from self._failure

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "file is closed", self.path)
