"""What files that are only read have in common: every operation that writes is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tidelog.env.files import WholeFiles
from tidelog.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]  # 3.12+


class ReadOnlyFile:
    """The base of an ``OpenFile`` that is only read; a write is a fault of the program."""

    if TYPE_CHECKING:

        @property
        def path(self) -> str:
            """The path as opened."""

    def will_read(self, start: int, end: int) -> None:
        """Take note that bytes ``[start, end)`` will be read in order; most files need not."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Refuse."""
        self._refuse(data, position)

    def truncate(self, size: int) -> None:
        """Refuse."""
        self._refuse(size)

    def start_writeback(self, size: int, position: int) -> None:
        """Refuse."""
        self._refuse(size, position)

    def sync(self) -> None:
        """Refuse."""
        self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        raise InvariantError(f"{self.path} was opened to be read only")


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
