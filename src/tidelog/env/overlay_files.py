"""A file system that keeps changes in memory, on top of one that it only reads.

It makes dry runs possible: the code that repairs or deletes runs unchanged, and the list of its
changes shows what it would do. Kafka has no counterpart.
"""

from __future__ import annotations

import errno
import io
import os
from contextlib import closing
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.env.files import FileStat, WholeFiles, link_error, os_error
from tidelog.errors import DirectoryLocked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from tidelog.env.descriptors import DescriptorBudget
    from tidelog.env.files import Buffer, FileLock, FileSystem, OpenFile, OpenMode

_COMPARED_BYTES: Final = 1 << 20


class FileChange(NamedTuple):
    """A file that would be changed."""

    file: Annotated[str, "Its path."]
    bytes_before: Annotated[int | None, "Its size, in bytes; null: it is created."]
    bytes_after: Annotated[int | None, "Its size afterwards, in bytes; null: it is deleted."]
    moved_from: Annotated[str | None, "Its path before; null: it is not renamed."] = None


@dataclass(eq=False, slots=True)
class _Node:
    """A file or directory of the overlay.

    Its content is the first ``below_bytes`` of ``below_path``, then ``tail``, then zeros up to
    ``size``. A link to a missing file ``is_dangling``: it can be replaced and deleted, not read.
    """

    mtime_ms: int
    is_directory: bool = False
    below_path: str | None = None
    below_bytes: int = 0
    size: int = 0
    tail: bytearray = field(default_factory=bytearray)
    is_written: bool = False
    is_dangling: bool = False

    def truncate(self, size: int) -> None:
        self.is_written = True
        self.below_bytes = min(self.below_bytes, size)
        del self.tail[max(size - self.below_bytes, 0) :]
        self.size = size

    def write(self, data: bytes, position: int, old: bytes) -> None:
        """Write ``data`` at ``position``; ``old`` is the content from there to ``below_bytes``."""
        self.is_written = True
        if position < self.below_bytes:
            self.tail[:0] = old
            self.below_bytes = position
        at = position - self.below_bytes
        if len(self.tail) < at:
            self.tail.extend(bytes(at - len(self.tail)))
        self.tail[at : at + len(data)] = data
        self.size = max(self.size, position + len(data))


class OverlayFile:
    """An open file of an overlay; ``_below`` is the file that unchanged bytes are read from."""

    def __init__(
        self, node: _Node, path: str, below: OpenFile | None, lock: RLock, *, is_writable: bool
    ) -> None:
        self.path: Final = path
        self._node = node
        self._below = below
        self._lock = lock
        self._is_writable = is_writable
        self.holders = 1
        """Number of references."""

    def hold(self) -> Self:
        """Add a reference and return the file itself."""
        with self._lock:
            self._check()
            self.holders += 1
        return self

    def close(self) -> None:
        """Drop a reference; the last one closes the file below."""
        with self._lock:
            self._check()
            self.holders -= 1
            below = self._below
        if below is not None and self.holders == 0:
            below.close()

    def fileno(self) -> int:
        """Raise: there is no descriptor."""
        raise io.UnsupportedOperation(f"{self.path} is in memory and has no descriptor")

    def native_reads(self) -> None:
        """Return None: there is no descriptor."""

    def size(self) -> int:
        """Return the current size in bytes."""
        self._check()
        return self._node.size

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes at byte ``position``; fewer only at the end of the file."""
        try:
            data = bytearray(max(min(size, self.size() - position), 0))
        except MemoryError:  # a write keeps in memory what follows it
            raise os_error(errno.ENOMEM, self.path) from None
        self.pread_into(data, position)
        return bytes(data)

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position``; return the bytes read."""
        view = memoryview(buffer).cast("B")
        with self._lock:
            self._check()
            node = self._node
            count = max(min(len(view), node.size - position), 0)
            from_below = max(min(count, node.below_bytes - position), 0)
            at = position + from_below - node.below_bytes
            kept = node.tail[at : at + count - from_below]
            view[from_below : from_below + len(kept)] = kept
            view[from_below + len(kept) : count] = bytes(count - from_below - len(kept))
        if from_below and self._below is not None:
            self._below.pread_into(view[:from_below], position)
        return count

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at byte ``position``."""
        with self._lock:
            self._check(changes=True)
            if memoryview(data).nbytes == 0:
                return
            old = self.pread(max(self._node.below_bytes - position, 0), position)
            self._node.write(bytes(data), position, old)

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes, or extend it to that size with zeros."""
        with self._lock:
            self._check(changes=True)
            self._node.truncate(size)

    def start_writeback(self, size: int, position: int) -> None:  # noqa: ARG002 - a protocol's
        """Do nothing: there is no disk."""
        self._check()

    def sync(self) -> None:
        """Do nothing: changes in memory cannot be made durable."""
        self._check()

    def _check(self, *, changes: bool = False) -> None:
        if self.holders <= 0 or (changes and not self._is_writable):
            raise os_error(errno.EBADF, self.path)


class OverlayLock:
    """A lock within one overlay; locks on the file below are ignored."""

    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path: str | None = path

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._path is not None:
            self._locked.discard(self._path)
            self._path = None


class OverlayFiles(WholeFiles):
    """A file system that reads ``below`` and keeps every change in memory.

    The content of a file is that of its first open here. Locks apply within this object only, so a
    directory can be examined while its writer is running. ``_lock`` guards all state.
    """

    def __init__(self, below: FileSystem) -> None:
        self._below = below
        self._nodes: dict[str, _Node | None] = {}
        self._paths_in: dict[str, set[str]] = {}
        """The paths of ``_nodes`` by the directory that they lie in."""
        self._locked: set[str] = set()
        self._lock = RLock()

    @property
    def descriptors(self) -> DescriptorBudget:
        """The budget of the file system below."""
        return self._below.descriptors

    def changes(self) -> list[FileChange]:
        """Return the files that differ from those below, by path; directories are not included."""
        with self._lock:
            found = [self._change(path, node) for path, node in sorted(self._nodes.items())]
        changed = [change for change in found if change is not None]
        moved = {change.moved_from for change in changed}
        return [c for c in changed if c.bytes_after is not None or c.file not in moved]

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file, with the caller as its first holder."""
        with self._lock:
            node = self._find(path)
            if node is not None and mode == "x":
                raise os_error(errno.EEXIST, path)
            if node is not None and node.is_directory:
                raise os_error(errno.EISDIR, path)
            if mode != "r" and self.is_link(path):  # nothing is written through one
                raise link_error(path)
            if node is None:
                node = self._make(path, must_exist=mode in {"r", "r+"})
            self._check_target(node)
            below = None
            if node.below_bytes and node.below_path is not None:
                below = self._below.open(node.below_path)
            self._put(path, node)
            return OverlayFile(node, path, below, self._lock, is_writable=mode != "r")

    def rename(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target`` atomically, replacing a file of that name."""
        with self._lock:
            node, replaced = self._existing(source), self._find(target)
            self._check_parent(target)
            if replaced is not None and replaced.is_directory and self.list(target):
                raise os_error(errno.ENOTEMPTY, target)
            self._move(source, target, node)

    def link(self, source: str, target: str) -> None:
        """Give the file a second name."""
        with self._lock:
            node = self._existing(source)
            if self._find(target) is not None:
                raise os_error(errno.EEXIST, target)
            self._check_parent(target)
            self._put(source, node)
            self._put(target, node)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with self._lock:
            if self._existing(path).is_directory and not self.is_link(path):
                raise os_error(errno.EISDIR, path)
            self._put(path, None)

    def delete_directory(self, path: str) -> None:
        """Delete an empty directory."""
        with self._lock:
            if self.list(path):
                raise os_error(errno.ENOTEMPTY, path)
            self._put(path, None)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, in no particular order."""
        with self._lock:
            node = self._existing(path)
            if not node.is_directory:
                raise os_error(errno.ENOTDIR, path)
            names = set(self._below.list(node.below_path)) if node.below_path is not None else set()
            for changed in self._paths_in.get(path, ()):
                name = os.path.basename(changed)
                (names.discard if self._nodes[changed] is None else names.add)(name)
            return list(names)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; does nothing if it exists."""
        with self._lock:
            node = self._find(path)
            if node is not None and node.is_directory:
                return
            if node is not None:
                raise os_error(errno.EEXIST, path)
            parent = os.path.dirname(path)
            self.make_directory(parent)
            self._put(path, _Node(self._find_time(parent), is_directory=True))

    def stat(self, path: str) -> FileStat:
        """Return size, time of modification and kind."""
        with self._lock:
            node = self._existing(path)
            self._check_target(node)
            return FileStat(node.size, node.mtime_ms, node.is_directory)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of this name exists."""
        with self._lock:
            node = self._find(path)
            return node is not None and not node.is_dangling

    def is_link(self, path: str) -> bool:
        """Return whether this path is a symbolic link."""
        with self._lock:
            node = self._find(path)
            below = None if node is None else node.below_path
            return below is not None and self._below.is_link(below)

    def real_path(self, path: str) -> str:
        """Return the path without symbolic links; what was renamed here has its path below."""
        with self._lock:
            node = self._find(path)
            below = None if node is None else node.below_path
        if below is not None:
            return self._below.real_path(below)
        path = os.path.normpath(path)
        parent, name = os.path.split(path)
        return os.path.join(self.real_path(parent), name) if parent and name else path

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the time of modification, in milliseconds since the Unix epoch."""
        with self._lock:
            node = self._existing(path)
            node.mtime_ms = mtime_ms
            self._put(path, node)

    def lock(self, path: str) -> FileLock:
        """Lock a file within this overlay."""
        with self._lock:
            if path in self._locked:
                raise DirectoryLocked(path, os.getpid())
            self._check_parent(path)
            if self._find(path) is None:
                self._put(path, _Node(0))
            self._locked.add(path)
            return OverlayLock(self._locked, path)

    def free_bytes(self, path: str) -> int:
        """Return the free bytes available to this user on the disk of ``path``."""
        return self._below.free_bytes(self._nearest_below(path))

    def total_bytes(self, path: str) -> int:
        """Return the bytes that the disk of ``path`` can hold, used or free."""
        return self._below.total_bytes(self._nearest_below(path))

    def _nearest_below(self, path: str) -> str:
        """Return the path, or the nearest directory above it, that exists below."""
        with self._lock:
            self._existing(path)
        while not self._below.exists(path):
            path = os.path.dirname(path)
        return path

    def sync_directory(self, path: str) -> None:
        """Do nothing: changes in memory cannot be made durable."""
        with self._lock:
            self._existing(path)

    # Lookups and changes; the caller holds the lock

    def _find(self, path: str) -> _Node | None:
        """Return the node with this name; a node for a file below is not stored yet."""
        if path in self._nodes:
            return self._nodes[path]
        above, parent = path, os.path.dirname(path)
        while parent != above:
            if parent in self._nodes:
                node = self._nodes[parent]
                if node is None or node.below_path is None:
                    return None  # created or deleted here, it hides whatever is below it
                break
            above, parent = parent, os.path.dirname(parent)
        return self._look_below(path)

    def _look_below(self, path: str) -> _Node | None:
        try:
            found = self._below.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            if not self._below.is_link(path) or self._below.exists(path):
                raise
            return _Node(0, below_path=path, is_dangling=True)
        if found.is_directory:
            return _Node(found.mtime_ms, is_directory=True, below_path=path, size=found.size_bytes)
        size = found.size_bytes
        return _Node(found.mtime_ms, below_path=path, below_bytes=size, size=size)

    def _put(self, path: str, node: _Node | None) -> None:
        """Keep the node with this name; None: there is none from now on."""
        self._nodes[path] = node
        self._paths_in.setdefault(os.path.dirname(path), set()).add(path)

    def _existing(self, path: str) -> _Node:
        node = self._find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        return node

    def _check_target(self, node: _Node) -> None:
        if node.is_dangling and node.below_path is not None:
            self._below.stat(node.below_path)  # raises what it does below

    def _make(self, path: str, *, must_exist: bool) -> _Node:
        if must_exist:
            raise os_error(errno.ENOENT, path)
        self._check_parent(path)
        return _Node(self._find_time(os.path.dirname(path)), is_written=True)

    def _find_time(self, path: str) -> int:
        """Return a modification time for an entry created in ``path``: there is no clock here."""
        return self._existing(path).mtime_ms

    def _check_parent(self, path: str) -> None:
        parent = os.path.dirname(path)
        if not self._existing(parent).is_directory:
            raise os_error(errno.ENOTDIR, parent)

    def _move(self, source: str, target: str, node: _Node) -> None:
        if node.is_directory:
            for name in self.list(source):
                child = os.path.join(source, name)
                self._move(child, os.path.join(target, name), self._existing(child))
            node = _Node(node.mtime_ms, is_directory=True)
        self._put(source, None)
        self._put(target, node)

    # Changes

    def _change(self, path: str, node: _Node | None) -> FileChange | None:
        below = self._look_below(path)
        before = None if below is None or below.is_directory else below.size
        if node is None:
            return None if before is None else FileChange(path, before, None)
        if node.is_directory:
            return None
        moved_from = node.below_path if node.below_path not in {None, path} else None
        if before is not None and moved_from is None and self._is_as_below(path, node, before):
            return None
        return FileChange(path, before, node.size, moved_from)

    def _is_as_below(self, path: str, node: _Node, size_before: int) -> bool:
        if not node.is_written:
            return True
        if node.size != size_before:
            return False
        return all(one == other for one, other in self._blocks(path, node.size))

    def _blocks(self, path: str, size: int) -> Iterator[tuple[bytes, bytes]]:
        with closing(self.open(path)) as here, closing(self._below.open(path)) as below:
            for at in range(0, size, _COMPARED_BYTES):
                yield here.pread(_COMPARED_BYTES, at), below.pread(_COMPARED_BYTES, at)
