"""The open files of a snapshot, which stay readable whatever becomes of their names."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.env.read_only_file import ReadOnlyFile
from tidelog.errors import KafkaStorageError
from tidelog.log.topic_id import is_other_topic, topic_id_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from tidelog.env.files import Buffer, FileSystem, OpenFile
    from tidelog.readonly.read_files import ReadFiles

MAX_HELD_FILES: Final = 64
"""Files that one snapshot keeps open; those read longest ago are closed and opened again."""


class SnapshotOutdated(Exception):
    """The files of a snapshot have changed; never leaves this package."""


@contextmanager
def outdated_if_gone(path: str) -> Iterator[None]:
    """Raise SnapshotOutdated where a file of a snapshot is no longer found under its name."""
    try:
        yield
    except FileNotFoundError:
        raise SnapshotOutdated(f"{path} was deleted or renamed") from None


def check_topic(fs: FileSystem, directory: str, topic_id: UUID | None) -> None:
    """Raise KafkaStorageError if a partition is another topic's by now; None: that is not known.

    The files of the new topic have the same names and offsets, and would be read as the old one's.
    Call this after opening them: if the old topic is still there now, they are its files.
    """
    if topic_id is not None and is_other_topic(topic_id_or_none(fs, directory), topic_id):
        raise KafkaStorageError(f"{directory} was deleted and created again while it was read")


class HeldFiles:
    """The open .log files of one snapshot, by base offset; used by one thread at a time.

    ``topic_id`` is that of the topic whose files they are, None: not known.
    """

    def __init__(self, fs: ReadFiles, topic_id: UUID | None = None) -> None:
        self.fs: Final = fs
        self.topic_id: Final = topic_id
        self._held: Final[dict[int, OpenFile]] = {}

    def __del__(self) -> None:
        self.close()

    def add(self, base_offset: int, file: OpenFile) -> None:
        """Hold a file that was opened."""
        self._held[base_offset] = file
        self.close(but=MAX_HELD_FILES)

    def of(self, base_offset: int, open_again: Callable[[], OpenFile]) -> OpenFile:
        """Return the file of a segment, opened again if it was closed; errors as ``open_again``."""
        file = self._held[base_offset] if base_offset in self._held else open_again()
        self._held.pop(base_offset, None)  # it is put back as the last one to be closed
        self.add(base_offset, file)
        return file

    def close(self, *, but: int = 0) -> None:
        """Close files, those opened or read first, until only ``but`` are left."""
        while len(self._held) > but:
            self._held.pop(next(iter(self._held))).close()


class MeasuredFile(ReadOnlyFile):
    """Bytes ``[0, size_bytes)`` of a file, as ``OpenFile``; ``below`` returns it, borrowed.

    What a writer appends later is not there. A read that finds less than was measured raises
    SnapshotOutdated: the file has been truncated.
    """

    def __init__(self, below: Callable[[], OpenFile], path: str, size_bytes: int) -> None:
        self._below: Final = below
        self.path: Final = path
        self._size_bytes: Final = size_bytes

    @property
    def holders(self) -> int:
        """Number of references."""
        return self._below().holders

    def hold(self) -> MeasuredFile:
        """Return the file to use; who gave it keeps it open, or opens it again."""
        return self

    def close(self) -> None:
        """Do nothing: the file is borrowed."""

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._below().fileno()

    def size(self) -> int:
        """Return the measured size in bytes."""
        return self._size_bytes

    def will_read(self, start: int, end: int) -> None:
        """Pass it on."""
        below = self._below()
        if isinstance(below, ReadOnlyFile):
            below.will_read(start, min(end, self._size_bytes))

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes from byte ``position`` on; fewer only at the measured end."""
        wanted = max(min(size, self._size_bytes - position), 0)
        data = self._below().pread(wanted, position) if wanted else b""
        self._check(len(data), wanted, position)
        return data

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position`` on; return the bytes read."""
        view = memoryview(buffer).cast("B")
        wanted = max(min(len(view), self._size_bytes - position), 0)
        count = self._below().pread_into(view[:wanted], position) if wanted else 0
        self._check(count, wanted, position)
        return count

    def _check(self, count: int, wanted: int, position: int) -> None:
        if count < wanted:
            raise SnapshotOutdated(f"{self.path} was cut to {position + count} bytes")
