"""An open file of a ``CrashFileSystem``."""

from __future__ import annotations

import errno
import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Buffer, Iterator  # type: ignore[attr-defined]  # Buffer: 3.12+
    from contextlib import AbstractContextManager
    from typing import Protocol, Self

    from tidelog.testing.disk import FileNode

    class Owner(Protocol):
        """The interface of the file system that an open file uses."""

        @property
        def boot(self) -> int:
            """Number of restarts of the program or the machine."""

        def use(self, operation: str, path: str, *, changes: bool) -> AbstractContextManager[None]:
            """Hold the lock during an operation, and raise any planned fault."""

        def put(self, node: FileNode, path: str, data: bytes, position: int) -> None:
            """Write to a file as far as there is space."""

        def lose(self, node: FileNode) -> None:
            """Let all unsynced changes of a file be lost."""

        def resize(self, node: FileNode, path: str, size: int) -> None:
            """Truncate or extend a file; ENOSPC if there is no space."""


def os_error(code: int, path: str) -> OSError:
    """Return the error that the operating system has for ``code``."""
    return OSError(code, os.strerror(code), path)


class CrashFile:
    """An ``OpenFile`` in memory; any use after a power cut raises OSError."""

    def __init__(self, owner: Owner, node: FileNode, path: str, *, is_writable: bool) -> None:
        self.path: Final = path
        self._owner = owner
        self._node = node
        self._is_writable = is_writable
        self._boot = owner.boot
        self._holders = 1

    def __repr__(self) -> str:
        return f"CrashFile({self.path!r})"

    @property
    def holders(self) -> int:
        """Number of references."""
        return self._holders

    def hold(self) -> Self:
        """Add a reference and return the file itself."""
        with self._use("hold"):
            self._holders += 1
        return self

    def close(self) -> None:
        """Drop a reference; a no-op if a power cut closed the file."""
        if self._owner.boot != self._boot:
            return
        with self._use("close"):
            self._holders -= 1

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
            return bytes(self._node.content[position : position + size])

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
            with self._owner.use("sync", self.path, changes=True):
                self._node.sync()
        except OSError as error:
            self._owner.lose(self._node)
            raise OSError(errno.EIO, error.strerror, self.path) from error

    def map(self) -> memoryview:
        """Return the current bytes."""
        with self._use("map"):
            return memoryview(bytes(self._node.content))

    @contextmanager
    def _use(self, operation: str, *, changes: bool = False) -> Iterator[None]:
        self._check_usable(changes=changes)
        with self._owner.use(operation, self.path, changes=changes):
            yield

    def _check_usable(self, *, changes: bool) -> None:
        if self._owner.boot != self._boot:
            raise os_error(errno.EIO, self.path)
        if self._holders <= 0 or (changes and not self._is_writable):
            raise os_error(errno.EBADF, self.path)
