"""The file behind an index: its name, its descriptor, and when it is durable.

Offset, time and transaction indexes share this; each reads and writes its own entries. Kafka:
``AbstractIndex`` and ``TransactionIndex``, which both contain it.
"""

from __future__ import annotations

from contextlib import closing
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.env.renamed_files import delete_if_there
from tidelog.errors import CorruptIndex
from tidelog.records.batch import INT32_MAX

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.env.pooled_file import PooledFile

MAX_INDEX_BYTES: Final = 256 << 20
"""What the entries of one index may take: 32 million batches of 64 bytes fill a segment."""
_BLOCK_BYTES: Final = 1 << 20
_KEPT_ZEROS: Final = 64


def read_index_file(fs: FileSystem, path: str) -> tuple[bytes, int]:
    """Return the bytes of an index file with few of the zeros at its end, and its size in bytes.

    A preallocated or sparse file is mostly zeros; at least the zeros that complete the last entry,
    and those of two more entries, are returned. Raises CorruptIndex for more than
    ``MAX_INDEX_BYTES`` before them, more than the batches of any segment need, and for a file that
    is larger than ``segment.index.bytes`` can be.
    """
    pieces: list[bytes] = []
    position = used = 0
    with closing(fs.open(path)) as file:
        size = file.size()
        if size > INT32_MAX:
            raise CorruptIndex(f"{path} has {size:,} bytes, more than an index can have")
        while position < size and (block := file.pread(_BLOCK_BYTES, position)):
            if block != bytes(len(block)):
                if position >= MAX_INDEX_BYTES:
                    raise CorruptIndex(f"{path} has more than {MAX_INDEX_BYTES:,} bytes of entries")
                pieces += [bytes(position - used)] if position > used else []
                pieces.append(block)
                used = position + len(block)
            position += len(block)
    size = max(size, used)  # a writer may have extended it meanwhile
    return b"".join([*pieces, bytes(min(size - used, _KEPT_ZEROS))]), size


def read_whole_index(fs: FileSystem, path: str) -> bytes:
    """Return all bytes of an index file that is never preallocated; errors as above."""
    with closing(fs.open(path)) as file:
        size = file.size()
        if size > MAX_INDEX_BYTES:
            raise CorruptIndex(f"{path} has {size:,} bytes, more than {MAX_INDEX_BYTES:,}")
        return file.pread(size, 0)


class IndexFile:
    """The file of one index; ``_lock`` guards its path and the loading of its entries.

    The file is kept open only while entries are being written, as long as the file system's
    ``descriptors`` allow: a sealed file, and one that was opened just to be synced, is closed by
    ``sync``.
    """

    def __init__(
        self, fs: FileSystem, path: str, base_offset: int, *, exists: bool | None = None
    ) -> None:
        self.path = path
        self.base_offset: Final = base_offset
        self._fs: Final = fs
        self._exists = exists  # None: not known
        self._file: PooledFile | None = None
        self._is_unsynced = True
        self._is_sealed = False
        self._lock: Final = Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def sync(self) -> None:
        """Make the entries durable."""
        file: OpenFile | None = self._file
        if self._is_unsynced:
            file = file or self._open_for_sync()
            try:
                file.sync()
            except OSError:
                if self._file is None:
                    file.close()
                raise
            self._is_unsynced = False
        if file is not None and (self._is_sealed or self._file is None):
            self._file = None
            file.close()

    def close(self) -> None:
        """Make the entries written here durable and close the file."""
        if self._file is not None:
            self._is_sealed = True
            self.sync()

    def close_handlers(self) -> None:
        """Close the file without writing anything, as after a disk failure."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def delete_if_exists(self) -> bool:
        """Close the file and delete it; return whether it existed."""
        self.close_handlers()
        if not delete_if_there(self._fs, self.path):
            return False
        if self._exists is not None:
            self._exists = False
        return True

    def rename(self, path: str) -> None:
        """Rename the file; if it does not exist yet, it will be created under the new name."""
        with self._lock:
            file = self._file
            if file is not None:
                file.rename(path)
            elif self._exists is not False:
                self._rename_existing(path)
            self.path = path

    def _rename_existing(self, path: str) -> None:
        try:
            self._fs.rename(self.path, path)
        except FileNotFoundError:
            if self._exists:
                raise

    def moved_to(self, path: str) -> None:
        """Record that the directory of the file was renamed."""
        with self._lock:
            self.path = path
            file = self._file
            if file is not None:
                file.moved_to(path)

    def _open_for_sync(self) -> OpenFile:
        return self._fs.open(self.path)
