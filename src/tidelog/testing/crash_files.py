"""An in-memory file system whose power can fail at any moment."""

from __future__ import annotations

import errno
import io
import os
import pickle
import posixpath
from contextlib import contextmanager
from functools import lru_cache
from random import Random
from threading import RLock
from typing import TYPE_CHECKING, Final

from tidelog.env.descriptors import NO_DESCRIPTORS, DescriptorBudget
from tidelog.env.files import FileStat, os_error
from tidelog.errors import DirectoryLocked
from tidelog.testing.disk import DirectoryNode, Disk, FileNode, Kept, Node
from tidelog.testing.faults import Faults, Operation
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Self

    from tidelog.env.clock import Clock
    from tidelog.env.files import Buffer, FileLock, OpenFile, OpenMode

_UNLIMITED: Final = 2**60


@lru_cache(maxsize=4096)
def _names_of(path: str) -> tuple[str, ...]:
    names = posixpath.normpath(path).strip("/").split("/")
    return tuple(name for name in names if name not in {"", "."})


class CrashLock:
    """A lock held in a ``CrashFileSystem``."""

    def __init__(self, held: dict[FileNode, CrashLock], node: FileNode) -> None:
        self._held = held
        self._node = node
        held[node] = self

    def release(self) -> None:
        """Release the lock; a second call, or one after a restart, does nothing."""
        if self._held.get(self._node) is self:
            del self._held[self._node]


class CrashFileSystem:
    """A ``FileSystem`` whose ``power_cut`` loses unsynced changes, chosen by ``seed``.

    Bytes are durable after ``OpenFile.sync``, names after ``sync_directory`` of their directory (a
    move between two directories after both). ``clock`` supplies modification times. ``operations``
    lists all changes of the disk, so that a test can cut the power after each one: run once, then
    again with ``crash_after(n)`` for every ``n`` below ``len(operations)``. ``descriptors`` has no
    limit until a test sets one.

    ``_lock`` guards all state.
    """

    def __init__(self, seed: int = 0, *, clock: Clock | None = None) -> None:
        self.seed: Final = seed
        self.descriptors: Final = DescriptorBudget(_UNLIMITED)
        self._rng = Random(seed)
        self._shuffler = Random(seed)
        self._clock: Clock = clock if clock is not None else ManualClock()
        self._disk = Disk(self._clock.now_ms())
        self._faults = Faults()
        self._capacity: int | None = None
        self._locked: dict[FileNode, CrashLock] = {}
        self.boot = 0
        """Number of restarts of the program or the machine."""
        self._lock = RLock()
        self.has_lost_bytes = False
        """Whether a sync of a file has failed since the last restart of the machine."""

    def __repr__(self) -> str:
        return f"CrashFileSystem(seed={self.seed})"

    # For tests

    def copied(self, seed: int, *, clock: Clock) -> CrashFileSystem:
        """Return a machine of its own with the same disk, as after a restart of the process."""
        with self._lock:
            copy = CrashFileSystem(seed, clock=clock)
            # A deep copy takes five times as long, and tests of crashes make one for each state.
            copy._disk = pickle.loads(pickle.dumps(self._disk))  # noqa: S301 - our own bytes
            copy._capacity = self._capacity
            return copy

    @property
    def operations(self) -> list[Operation]:
        """All operations so far that changed the disk or made changes durable."""
        return self._faults.operations

    def fail(
        self,
        operation: str,
        path_suffix: str,
        error: OSError,
        count: int = 1,
        *,
        skipped: int = 0,
    ) -> None:
        """Make ``count`` operations on paths with this suffix raise ``error``, after ``skipped``.

        ``operation`` is the name of a method of ``FileSystem`` or ``OpenFile``; ``pread`` includes
        ``pread_into``. A ``sync`` that fails loses the bytes it should have made durable: programs
        still see them, but no later sync saves them.
        """
        with self._lock:
            self._faults.fail(operation, path_suffix, error, count, skipped)

    def trace(self) -> list[Operation]:
        """Return a list to which all operations are added from now on, reads included."""
        with self._lock:
            traced: list[Operation] = []
            self._faults.traced = traced
            return traced

    def fail_at(self, number: int, error: OSError, *, is_short: bool = False) -> None:
        """Make the ``number``-th operation from now on raise ``error``; 0 is the next one.

        All are counted, reads included, as in ``trace``. With ``is_short`` the operation is a write
        of which half reaches the file.
        """
        with self._lock:
            self._faults.fail_at(number, error, is_short=is_short)

    def crash_after(self, operations: int) -> None:
        """Let ``operations`` more operations succeed; the next one raises ``PowerCut``.

        From then on everything raises ``PowerCut`` until ``power_cut`` is called.
        """
        with self._lock:
            self._faults.crash_after(operations)

    def power_cut(self, kept: Kept | None = None) -> None:
        """Lose some or all unsynced changes, and restart.

        ``kept`` is what survives: "all", as when only the process ends, "none", the operations
        before some moment ("prefix"), or "any" of them; None lets the seed choose for each file.
        Files opened earlier raise OSError, locks are released, and planned faults are dropped.
        """
        with self._lock:
            self.kill()
            self._disk.cut(self._rng, kept)
            self._faults.reset()
            self.has_lost_bytes = False

    def kill(self) -> None:
        """End the process that uses this file system: its files close, its locks are released.

        The disk keeps everything, synced or not.
        """
        with self._lock:
            self.boot += 1
            self._locked.clear()

    def end_process(self, *, holds_locks: bool) -> None:
        """After a planned crash, end the process that it hit, and let the others continue.

        The disk keeps everything. Locks are released if it is the process that holds them.
        """
        with self._lock:
            if holds_locks:
                self._locked.clear()
            self._faults.reset()

    def mend(self) -> None:
        """Drop all planned faults; there is no limit of space any more."""
        with self._lock:
            self._faults.reset()
            self._capacity = None

    def set_free_bytes(self, free_bytes: int | None) -> None:
        """Let files grow by this many bytes in total, then raise ENOSPC; None: no limit."""
        with self._lock:
            used = self._disk.used_bytes()
            self._capacity = None if free_bytes is None else used + free_bytes

    # For programs

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file, with the caller as its first holder."""
        with self._lock:
            node = self._look_up(path)
            if node is not None or mode in {"r", "r+"}:
                self._faults.check("open", path)
                if mode == "x":
                    raise os_error(errno.EEXIST, path)
                node = self._file(path)
            else:
                with self.changing("open", path):
                    node = self._create(path)
            return CrashFile(self, node, path, is_writable=mode != "r")

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        with self.looking("read", path):
            return bytes(self._file(path).content)

    def write(self, path: str, data: Buffer) -> None:
        """Create the file or replace its content; neither atomic nor durable."""
        with self.changing("write", path):
            node = self._file(path) if self._look_up(path) is not None else self._create(path)
            node.truncate(0)
            self.put(node, path, bytes(data), 0)

    def rename(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target`` atomically, replacing a file of that name."""
        with self.changing("rename", source, target):
            node = self._existing(source)
            self._check_replaceable(node, target)
            old, new = self._entry(source), self._entry(target)
            if self._look_up(target) is not node:
                self._disk.rename({old: None, new: node})

    def link(self, source: str, target: str) -> None:
        """Give the file a second name; FileExistsError if the name is taken."""
        with self.changing("link", source, target):
            node = self._file(source)
            if self._look_up(target) is not None:
                raise os_error(errno.EEXIST, target)
            self._disk.rename({self._entry(target): node})

    def delete(self, path: str) -> None:
        """Delete a file; FileNotFoundError if it does not exist."""
        with self.changing("delete", path):
            self._file(path)
            self._disk.rename({self._entry(path): None})

    def delete_directory(self, path: str) -> None:
        """Delete an empty directory."""
        with self.changing("delete_directory", path):
            if self._directory(path).entries:
                raise os_error(errno.ENOTEMPTY, path)
            self._disk.rename({self._entry(path): None})

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, shuffled so that no program relies on an order."""
        with self.looking("list", path):
            names = sorted(self._directory(path).entries)
            self._shuffler.shuffle(names)
            return names

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; does nothing if it exists."""
        above = posixpath.dirname(path.rstrip("/"))
        with self._lock:
            if isinstance(self._look_up(path), DirectoryNode):
                self._faults.check("make_directory", path)
                return
            if above != path:
                self.make_directory(above)
            with self.changing("make_directory", path):
                if self._look_up(path) is not None:
                    raise os_error(errno.EEXIST, path)
                node = DirectoryNode(self._clock.now_ms())
                self._disk.rename({self._entry(path): node})

    def stat(self, path: str) -> FileStat:
        """Return size, time of modification and kind; FileNotFoundError if there is no entry."""
        with self.looking("stat", path):
            node = self._existing(path)
            if isinstance(node, DirectoryNode):
                return FileStat(0, node.mtime_ms, is_directory=True)
            return FileStat(len(node.content), node.mtime_ms, is_directory=False, inode=node.inode)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of this name exists."""
        with self.looking("exists", path):
            try:
                return self._look_up(path) is not None
            except NotADirectoryError:
                return False

    def is_link(self, path: str) -> bool:
        """Return False: there are no symbolic links here."""
        with self.looking("is_link", path):
            return False

    def real_path(self, path: str) -> str:
        """Return the path: there are no symbolic links here."""
        with self.looking("real_path", path):
            return posixpath.normpath(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the time of modification, in milliseconds since the Unix epoch."""
        with self.changing("set_mtime_ms", path):
            self._existing(path).mtime_ms = mtime_ms

    def lock(self, path: str) -> FileLock:
        """Create the file if missing and lock it, without waiting."""
        with self.looking("lock", path):
            if self._look_up(path) is None:
                with self.changing("lock", path):
                    self._create(path)
            node = self._file(path)
            if node in self._locked:
                raise DirectoryLocked(path, os.getpid())
            return CrashLock(self._locked, node)

    def free_bytes(self, path: str) -> int:
        """Return the number of bytes that can still be written."""
        with self.looking("free_bytes", path):
            self._existing(path)
            return self._free_bytes()

    def total_bytes(self, path: str) -> int:
        """Return the number of bytes that the disk can hold."""
        with self.looking("total_bytes", path):
            self._existing(path)
            return self._disk.used_bytes() + self._free_bytes()

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and deletions in this directory durable."""
        try:
            with self.changing("sync_directory", path):
                self._disk.sync(self._directory(path))
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:  # the directory is opened to be synced
                raise
            raise OSError(errno.EIO, error.strerror, path) from error

    # For open files

    def looking(self, operation: str, path: str) -> AbstractContextManager[object]:
        """Hold the lock during an operation that changes nothing; raise any planned fault."""
        with self._lock:
            self._faults.check(operation, path)
        return self._lock  # a generator's context takes longer than most operations

    @contextmanager
    def changing(self, operation: str, *paths: str) -> Iterator[None]:
        """Hold the lock during a change of the disk, and raise any planned fault."""
        with self._lock:
            is_last = self._faults.begin_change(operation, *paths)
            try:
                yield
            finally:
                if is_last:
                    self._faults.cut(operation, *paths)

    def put(self, node: FileNode, path: str, data: bytes, position: int) -> None:
        """Write to a file as far as there is space, then raise ENOSPC."""
        growth = max(position + len(data) - len(node.content), 0)
        missing = max(growth - self._free_bytes(), 0)
        short = self._faults.take_short()
        fitting = data[: len(data) // 2 if short else max(len(data) - missing, 0)]
        if fitting:
            node.write(fitting, position)
            node.mtime_ms = self._clock.now_ms()
        if short is not None:
            raise short
        if missing:
            raise os_error(errno.ENOSPC, path)

    def lose(self, node: FileNode) -> None:
        """Let all unsynced changes of a file be lost: a sync has failed."""
        with self._lock:
            node.forget()
            self.has_lost_bytes = True

    def resize(self, node: FileNode, path: str, size: int) -> None:
        """Truncate or extend a file; ENOSPC if there is no space."""
        if size - len(node.content) > self._free_bytes():
            raise os_error(errno.ENOSPC, path)
        node.truncate(size)
        node.mtime_ms = self._clock.now_ms()

    def _free_bytes(self) -> int:
        if self._capacity is None:
            return _UNLIMITED
        return max(self._capacity - self._disk.used_bytes(), 0)

    def _create(self, path: str) -> FileNode:
        node = FileNode(self._clock.now_ms())
        self._disk.rename({self._entry(path): node})
        return node

    def _check_replaceable(self, node: Node, target: str) -> None:
        """Raise the error of a rename whose target is of another kind than the source."""
        present = self._look_up(target)
        if isinstance(node, DirectoryNode):
            if isinstance(present, FileNode):
                raise os_error(errno.ENOTDIR, target)
            if present is not None and present is not node and present.entries:
                raise os_error(errno.ENOTEMPTY, target)
        elif isinstance(present, DirectoryNode):
            raise os_error(errno.EISDIR, target)

    def _entry(self, path: str) -> tuple[DirectoryNode, str]:
        above, name = posixpath.split(posixpath.normpath(path))
        return self._directory(above), name

    def _directory(self, path: str) -> DirectoryNode:
        node = self._existing(path)
        if not isinstance(node, DirectoryNode):
            raise os_error(errno.ENOTDIR, path)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._existing(path)
        if not isinstance(node, FileNode):
            raise os_error(errno.EISDIR, path)
        return node

    def _existing(self, path: str) -> Node:
        node = self._look_up(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        return node

    def _look_up(self, path: str) -> Node | None:
        node: Node | None = self._disk.root
        for name in _names_of(path):
            if node is None:
                return None
            if not isinstance(node, DirectoryNode):
                raise os_error(errno.ENOTDIR, path)
            node = node.entries.get(name)
        return node


class CrashFile:
    """An ``OpenFile`` in memory; any use after a power cut raises OSError."""

    def __init__(
        self, owner: CrashFileSystem, node: FileNode, path: str, *, is_writable: bool
    ) -> None:
        self.path: Final = path
        self._owner = owner
        self._node = node
        self._is_writable = is_writable
        self._boot = owner.boot
        self.holders = 1
        """Number of references."""

    def __repr__(self) -> str:
        return f"CrashFile({self.path!r})"

    def hold(self) -> Self:
        """Add a reference and return the file itself."""
        with self._use("hold"):
            self.holders += 1
        return self

    def close(self) -> None:
        """Drop a reference; a no-op if a power cut closed the file."""
        if self._owner.boot != self._boot:
            return
        with self._use("close"):
            self.holders -= 1

    def fileno(self) -> int:
        """Raise: there is no descriptor."""
        raise io.UnsupportedOperation(f"{self.path} is in memory and has no descriptor")

    def native_reads(self) -> None:
        """Return None: there is no descriptor."""

    def size(self) -> int:
        """Return the current size in bytes."""
        with self._use("size"):
            return len(self._node.content)

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes at byte ``position``; fewer only at the end of the file."""
        with self._use("pread"):
            return self._node.content.read(position, position + size)

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position``; return the bytes read."""
        view = memoryview(buffer).cast("B")
        data = self.pread(len(view), position)
        view[: len(data)] = data
        return len(data)

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at byte ``position``; ENOSPC after a part if the disk is full."""
        with self._use("pwrite", changes=True):
            self._owner.put(self._node, self.path, bytes(data), position)

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes, or extend it to that size with zeros."""
        with self._use("truncate", changes=True):
            self._owner.resize(self._node, self.path, size)

    def start_writeback(self, size: int, position: int) -> None:  # noqa: ARG002 - a protocol's
        """Do nothing: a power cut may keep any bytes anyway."""
        self._check_usable(changes=False)

    def sync(self) -> None:
        """Make the bytes durable; a planned fault loses them and is raised as EIO."""
        self._check_usable(changes=False)
        try:
            with self._owner.changing("sync", self.path):
                self._node.sync()
        except OSError as error:
            self._owner.lose(self._node)
            raise OSError(errno.EIO, error.strerror, self.path) from error

    def _use(self, operation: str, *, changes: bool = False) -> AbstractContextManager[object]:
        self._check_usable(changes=changes)
        act = self._owner.changing if changes else self._owner.looking
        return act(operation, self.path)

    def _check_usable(self, *, changes: bool) -> None:
        if self._owner.boot != self._boot:
            raise os_error(errno.EIO, self.path)
        if self.holders <= 0 or (changes and not self._is_writable):
            raise os_error(errno.EBADF, self.path)
