"""A disk that fails in places: what cannot be read is zeros, and is remembered.

So that the search for batches, which passes by zeros as by any damage, needs to know no errors.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from tidelog.codec.layout import byte_view
from tidelog.env.files import WRONG_KIND, FileStat
from tidelog.env.read_only_file import FileBelow, FilesBelow
from tidelog.errors import text_or_kind
from tidelog.log.directory_guard import NO_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tidelog.env.files import Buffer, FileSystem, OpenFile, OpenMode

BLOCK_BYTES: Final = 4096
"""What is left out around a byte that cannot be read: disks and file systems fail by pages."""


class Unreadable:
    """Bytes of one file that could not be read, as ranges that rise, and why."""

    def __init__(self) -> None:
        self.reason = ""
        self._ranges: list[list[int]] = []

    def add(self, start: int, end: int, error: OSError) -> None:
        """Take note of a block; what is read a second time is noted once."""
        self.reason = error.strerror or text_or_kind(error)
        for known in reversed(self._ranges):
            if known[0] <= start and end <= known[1]:
                return
            if known[1] == start:
                known[1] = end
                return
            if known[1] < start:
                break
        self._ranges.append([start, end])
        self._ranges.sort()

    def meets(self, start: int, end: int) -> bool:
        """Return whether some of bytes ``[start, end)`` could not be read."""
        return any(first < end and start < last for first, last in self._ranges)


class FailingFiles(FilesBelow):
    """Reads ``below``. ``unreadable`` has the files that failed in places, by path.

    A directory below ``roots`` that cannot be listed is empty, and so is an entry of a root that
    cannot be looked at; both are in ``unlisted`` with the reason. One of ``roots`` is an error.
    ``shortage`` is the first error that is none of the disk, but a lack of descriptors or memory:
    what it has left out can be read another time.
    """

    def __init__(self, below: FileSystem, roots: Collection[str]) -> None:
        super().__init__(below)
        self._roots: Final = frozenset(roots)
        self.unreadable: Final[dict[str, Unreadable]] = {}
        self.unlisted: Final[dict[str, str]] = {}
        self.shortage: OSError | None = None

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file, with the caller as its first holder."""
        if mode != "r":
            self.refuse(path)
        with self.noting_shortage():
            return FailingFile(self._below.open(path), self)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory; none if it cannot be read."""
        try:
            with self.noting_shortage():
                return self._below.list(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            if path in self._roots:
                raise
            self._note_unlisted(path, error)
            return []

    def _note_unlisted(self, path: str, error: OSError) -> None:
        self.unlisted[path] = error.strerror or text_or_kind(error)

    def stat(self, path: str) -> FileStat:
        """Return size, time of modification and kind."""
        try:
            with self.noting_shortage():
                return self._below.stat(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in WRONG_KIND or os.path.dirname(path) not in self._roots:
                raise
            # One inode that is damaged must not keep all other partitions from being copied.
            self._note_unlisted(path, error)
            return FileStat(0, 0, is_directory=True)

    def is_link(self, path: str) -> bool:
        """Return whether this path is a symbolic link; False if that cannot be found out."""
        with suppress(OSError), self.noting_shortage():
            return self._below.is_link(path)
        return False

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or directory; False if that cannot be found out."""
        with suppress(OSError), self.noting_shortage():
            return self._below.exists(path)
        return False

    @contextmanager
    def noting_shortage(self) -> Iterator[None]:
        """Take note of an error of the body that is a shortage."""
        try:
            yield
        except OSError as error:
            if error.errno in NO_RESOURCES and self.shortage is None:
                self.shortage = error
            raise

    def why_unreadable(self, path: str, start: int, end: int) -> str | None:
        """Return why some of bytes ``[start, end)`` of a file were not read; None: all were."""
        found = self.unreadable.get(path)
        return found.reason if found is not None and found.meets(start, end) else None


class FailingFile(FileBelow):
    """An open file; blocks of it that cannot be read are zeros."""

    def __init__(self, below: OpenFile, files: FailingFiles) -> None:
        super().__init__(below)
        self._files: Final = files

    def pread(self, size: int, position: int) -> bytes:
        """Return bytes; fewer only at the end of the file."""
        with suppress(OSError), self._files.noting_shortage():
            return self._below.pread(size, position)
        data = bytearray(max(min(size, self.size() - position), 0))
        with memoryview(data) as view:
            return bytes(view[: self._read_blocks(view, position)])

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position``; return the bytes read, zeros among them."""
        try:
            with self._files.noting_shortage():
                return self._below.pread_into(buffer, position)
        except OSError:
            return self._read_blocks(byte_view(buffer), position)

    def _read_blocks(self, view: memoryview, position: int) -> int:
        end = min(position + len(view), self.size())
        at = position
        while at < end:
            until = min((at // BLOCK_BYTES + 1) * BLOCK_BYTES, end)
            part = view[at - position : until - position]
            try:
                count = self._below.pread_into(part, at)
            except OSError as error:
                part[:] = bytes(len(part))
                count = len(part)
                self._files.unreadable.setdefault(self.path, Unreadable()).add(at, until, error)
            if not count:
                break
            at += count
        return max(at - position, 0)
