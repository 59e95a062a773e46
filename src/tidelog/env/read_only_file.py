"""What files that are only read have in common: every operation that writes is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from tidelog.env.files import WholeFiles
from tidelog.errors import InvariantError

if TYPE_CHECKING:
    from typing import Self

    from tidelog.env.descriptors import DescriptorBudget
    from tidelog.env.files import Buffer, FileStat, FileSystem, NativeReads, OpenFile


class ReadOnlyFile:
    """The base of an ``OpenFile`` that is only read; a write is a fault of the program."""

    if TYPE_CHECKING:

        @property
        def path(self) -> str:
            """The path as opened."""

        def size(self) -> int:
            """Return the current size in bytes."""

        def pread(self, size: int, position: int) -> bytes:
            """Return ``size`` bytes at byte ``position``; fewer only at the end of the file."""

    def native_reads(self) -> NativeReads | None:
        """Return None: compiled code would pass by what is done here with each read."""

    def will_read(self, start: int, end: int) -> None:
        """Take note that bytes ``[start, end)`` will be read in order; most files need not."""

    def refuse(self, *_: object) -> NoReturn:
        """Raise what every operation raises that would change something."""
        raise InvariantError(f"{self.path} was opened to be read only")

    pwrite = truncate = start_writeback = sync = refuse


class FileBelow(ReadOnlyFile):
    """The base of an open file that reads ``below``, and owns it."""

    def __init__(self, below: OpenFile) -> None:
        self._below: Final = below

    @property
    def path(self) -> str:
        """The path as opened."""
        return self._below.path

    @property
    def holders(self) -> int:
        """Number of references."""
        return self._below.holders

    def hold(self) -> Self:
        """Add a reference and return the file to use and close."""
        self._below.hold()
        return self

    def close(self) -> None:
        """Drop a reference."""
        self._below.close()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._below.fileno()

    def size(self) -> int:
        """Return the current size in bytes."""
        return self._below.size()


class FilesToRead(WholeFiles):
    """The base of a ``FileSystem`` that is only read."""

    def write(self, path: str, data: Buffer) -> None:
        """Refuse."""
        self.refuse(path, data)

    def refuse(self, path: str, *_: object) -> NoReturn:
        """Raise what every operation raises that would change something."""
        raise InvariantError(f"{path} was opened to be read only")

    rename = link = delete = delete_directory = make_directory = refuse
    set_mtime_ms = lock = sync_directory = refuse


class FilesBelow(FilesToRead):
    """The base of a ``FileSystem`` that reads ``below``, and answers only some things otherwise."""

    def __init__(self, below: FileSystem) -> None:
        self._below: Final = below

    @property
    def descriptors(self) -> DescriptorBudget:
        """The budget of the file system below."""
        return self._below.descriptors

    def stat(self, path: str) -> FileStat:
        """Return size, time of modification and kind."""
        return self._below.stat(path)

    def is_link(self, path: str) -> bool:
        """Return whether this path is a symbolic link."""
        return self._below.is_link(path)

    def real_path(self, path: str) -> str:
        """Return the path without symbolic links."""
        return self._below.real_path(path)

    def free_bytes(self, path: str) -> int:
        """Return the free bytes on the disk of ``path``."""
        return self._below.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        """Return the bytes of the disk of ``path``."""
        return self._below.total_bytes(path)
