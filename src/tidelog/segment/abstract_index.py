"""A file of fixed-size entries that point into a .log file, mirrored in memory.

Unlike Kafka's, it is not written through a map. The writer appends to the file with ``pwrite`` and
to two native arrays; readers take the published ``Entries`` without a lock. Kafka:
``AbstractIndex`` and ``LazyIndex``.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from tidelog.env.pooled_file import PooledFile
from tidelog.errors import InvalidArgument
from tidelog.lazy import np
from tidelog.segment.index_file import IndexFile, read_index_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidelog.codec.layout import Layout
    from tidelog.env.files import FileSystem, OpenFile

_FIRST_CAPACITY: Final = 64
_ZERO_FROM: Final = 2
"""From this number of entries on, trailing zeros are unused space of a file not trimmed."""


class Entries(NamedTuple):
    """Entries as native arrays; the first ``filled`` of them are valid and never change.

    ``keys`` and ``values`` are the two fields of an entry in the file's order.
    """

    keys: NDArray[Any]
    values: NDArray[Any]
    filled: int

    @property
    def filled_keys(self) -> NDArray[Any]:
        """The valid keys."""
        return self.keys[: self.filled]

    @property
    def filled_values(self) -> NDArray[Any]:
        """The valid values."""
        return self.values[: self.filled]


class AbstractIndex(IndexFile):
    """An offset or time index; not thread safe for writers.

    Trailing zeros of an existing file, as left by a crash, do not count as entries. In Kafka they
    do until recovery resets the file, which may never happen. A missing file reads as empty; it
    is created before the first write, with zeros up to ``max_bytes`` rounded down to whole
    entries.

    Args:
        fs: the file system.
        path: the file; need not exist.
        base_offset: of the segment.
        max_bytes: maximum size of the file, in bytes.

    Source: Kafka AbstractIndex, LazyIndex.
    """

    layout: ClassVar[Layout[Any]]
    """Format of one entry, with two fields."""
    reserved_entries: ClassVar[int] = 0
    """Entries at the end of the file that an append leaves free."""

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(fs, path, base_offset)
        self._max_bytes: Final = max_bytes
        self._entry_bytes: Final = self.layout.size
        self._key, self._value = self.layout.offsets
        self._entries: Entries | None = None
        self._file_bytes = 0
        self._is_growing = False
        self._rebuilt: bytearray | None = None

    # Reading

    def entries(self) -> Entries:
        """Return the published entries; the first call reads the file into memory."""
        published = self._entries
        if published is not None:
            return published
        with self._lock:
            return self._load_locked() or self._empty()

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        return self.entries().filled

    @property
    def max_entries(self) -> int:
        """Number of entries that the file currently has room for."""
        self.entries()
        size = self._max_bytes if self._entries is None else self._room_bytes
        return size // self._entry_bytes

    @property
    def free_entries(self) -> int:
        """Number of entries that can still be appended."""
        return max(0, self.max_entries - self.reserved_entries - self.entry_count)

    @property
    def is_full(self) -> bool:
        """Whether no entry can be appended."""
        return self._lacks_room(1)

    def _lacks_room(self, count: int) -> bool:
        published = self._entries
        if published is None:
            return self.free_entries < count
        needed_bytes = (published.filled + self.reserved_entries + count) * self._entry_bytes
        return needed_bytes > self._file_bytes and needed_bytes > self._room_bytes

    @property
    def _room_bytes(self) -> int:
        return max(self._max_bytes, self._file_bytes) if self._is_growing else self._file_bytes

    @property
    def size_bytes(self) -> int:
        """Total size of the entries in bytes."""
        return self.entry_count * self._entry_bytes

    def last(self) -> tuple[int, int] | None:
        """Return key and value of the last entry; this does not load the file."""
        published = self._entries
        if published is None:
            with self._lock:
                return self._peek_last_locked()
        if published.filled == 0:
            return None
        at = published.filled - 1
        return published.keys.item(at), published.values.item(at)

    def make_ready(self) -> None:
        """Create the file unless it exists; raise InvalidArgument if no entry can be appended."""
        self.create()
        if self.is_full:
            raise InvalidArgument(f"{self.path} is full with {self.entry_count} entries")

    # Writing

    def create(self) -> int:
        """Create the file, preallocated, unless it exists; return the number of entries.

        It is kept open for writing.
        """
        if self._file is None and self._rebuilt is None:
            self._writable()
        published = self._entries
        assert published is not None  # what opens it for writing, or rebuilds it, has set them
        return published.filled

    def resize(self, max_bytes: int | None = None) -> None:
        """Extend the file to its maximum size (or another) with zeros after the entries."""
        wanted = self._round_down(self._max_bytes if max_bytes is None else max_bytes)
        self.trim()
        self._set_size(self._writable(), max(wanted, self.size_bytes))
        self._is_sealed = self._is_growing = False

    def grow(self) -> None:
        """Allow entries up to the maximum size; unlike after ``resize``, the file grows with them.

        The file is not touched, so this costs nothing if no entry follows.
        """
        self._is_growing = True
        self._is_sealed = False

    def trim(self) -> None:
        """Truncate the file after its last entry."""
        if self._rebuilt is not None:
            self._end_rebuilding(bytes(self._rebuilt))
            return
        self._set_size(self._writable(), self.size_bytes)

    def seal(self) -> None:
        """Trim the file, which gets no more entries; the next ``sync`` closes it."""
        self.trim()
        self._is_sealed = True

    def reset(self) -> None:
        """Remove all entries; the file is not changed until ``trim`` completes the rebuilding.

        Its content is not read: a file that was not trimmed is megabytes of zeros.
        """
        with self._lock:
            self._entries = self._empty()
        self._rebuilt = bytearray()
        self.grow()

    def _end_rebuilding(self, data: bytes) -> None:
        """Replace the content of the file by ``data``, unless it is the same."""
        self._rebuilt = None
        if self._file is None and self._holds(data):
            self._file_bytes = len(data)
            return
        file = self._writable()
        self._is_unsynced = True
        if data:
            file.pwrite(data, 0)
        self._file_bytes = max(file.size(), len(data))
        self._set_size(file, len(data))

    def _holds(self, data: bytes) -> bool:
        with suppress(FileNotFoundError), closing(self._fs.open(self.path)) as file:
            return file.size() == len(data) and file.pread(len(data), 0) == data
        return False

    def close(self) -> None:
        """Trim the file, make it durable and close it; a no-op if it was never used."""
        published = self._entries
        if published is None:
            return
        if self._file_bytes != published.filled * self._entry_bytes:
            self.seal()
        super().close()

    # For subclasses

    def _append(self, keys: NDArray[Any], values: NDArray[Any]) -> None:
        """Append entries with one ``pwrite``, then publish them."""
        added = np.empty(len(keys), self.layout.dtype)
        added[self._key] = keys
        added[self._value] = values
        native_keys, native_values, start = self._write(added.tobytes(), len(keys))
        end = start + len(keys)
        native_keys[start:end] = keys
        native_values[start:end] = values
        self._entries = Entries(native_keys, native_values, end)

    def _append_few(self, entries: Sequence[tuple[int, int]]) -> None:
        """As ``_append``, of entries that are so few that arrays would take longer; or none."""
        if not entries:
            return
        native_keys, native_values, end = self._write(
            b"".join(map(self.layout.pack, entries)), len(entries)
        )
        for key, value in entries:
            native_keys[end] = key
            native_values[end] = value
            end += 1
        self._entries = Entries(native_keys, native_values, end)

    def _fitting(self, entries: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Return the entries that there is room for."""
        return entries[: self.free_entries] if self._lacks_room(len(entries)) else entries

    def _write(self, data: bytes, added: int) -> Entries:
        """Write the bytes of entries; return the published ones, with room for the new ones."""
        file = (self._file or self._writable()) if self._rebuilt is None else None
        published = self._entries or self.entries()
        start, size = published.filled, self._entry_bytes
        end = start + added
        if file is None:
            assert self._rebuilt is not None
            self._rebuilt += data
        else:
            self._is_unsynced = True
            try:
                file.pwrite(data, start * size)
            finally:
                # Part of a failed write may be in the file; closing truncates it then.
                self._file_bytes = max(self._file_bytes, end * size)
        return published if end <= len(published.keys) else self._grown(published, end)

    def keep(self, count: int) -> None:
        """Keep the first ``count`` entries, copied: readers may still hold the old arrays."""
        published = self.entries()
        if count < published.filled:
            if self._rebuilt is not None:
                del self._rebuilt[count * self._entry_bytes :]
            kept = Entries(published.keys[:count].copy(), published.values[:count].copy(), count)
            self._entries = kept

    # The file

    def _writable(self) -> PooledFile:
        if self._file is None:
            with self._lock:
                self._file = self._open_locked()
        return self._file

    def _open_locked(self) -> PooledFile:
        file = PooledFile(self._fs, self.path)
        if self._entries is not None or self._load_locked() is not None:
            return file.open("w")
        size = self._round_down(self._max_bytes)
        if size == 0:
            least = self._entry_bytes
            raise InvalidArgument(
                f"{self.path}: {self._max_bytes} bytes are less than one entry of {least} bytes"
            )
        file.open("x")
        try:
            file.truncate(size)
        except OSError:
            file.close()
            self._fs.delete(self.path)
            raise
        self._file_bytes = size
        self._entries = self._empty()
        return file

    def _open_for_sync(self) -> OpenFile:
        """Open the file; a missing one is created."""
        try:
            return super()._open_for_sync()
        except FileNotFoundError:
            return self._writable()

    def _load_locked(self) -> Entries | None:
        """Read the file if it exists; a missing file is looked up again next time."""
        if self._entries is None:
            try:
                data, self._file_bytes = read_index_file(self._fs, self.path)
            except FileNotFoundError:
                return None
            count = len(data) // self._entry_bytes
            raw = np.frombuffer(data, self.layout.dtype, count)
            self._entries = self._native(raw[: self._count_entries(raw)])
        return self._entries

    def _count_entries(self, raw: NDArray[Any]) -> int:
        """Return the number of entries before the trailing zeros of a file that was not trimmed.

        Only the first entry can be all zeros, and only if there is no second, greater one.
        """
        if len(raw) < _ZERO_FROM or raw[-1][self._key] or raw[-1][self._value]:
            return len(raw)
        used = np.flatnonzero((raw[self._key] != 0) | (raw[self._value] != 0))
        return int(used[-1]) + 1 if len(used) else 0

    def _peek_last_locked(self) -> tuple[int, int] | None:
        size, count, data = self._entry_bytes, 0, b""
        with suppress(FileNotFoundError), closing(self._fs.open(self.path)) as file:
            count, odd_bytes = divmod(file.size(), size)
            if odd_bytes:
                self._load_locked()  # so that closing truncates them
            data = file.pread(size, (count - 1) * size) if count else b""
        if count >= _ZERO_FROM and not data.strip(b"\0"):
            found = self._load_locked()
            if found is None or not found.filled:
                return None
            return found.keys.item(found.filled - 1), found.values.item(found.filled - 1)
        if len(data) < size:
            return None
        key, value = self.layout.unpack(data)
        return key, value

    def _set_size(self, file: OpenFile, size: int) -> None:
        if size != self._file_bytes or file.size() != size:
            self._is_unsynced = True
            file.truncate(size)
            self._file_bytes = size

    def _empty(self) -> Entries:
        return self._native(np.empty(0, self.layout.dtype))

    def _native(self, raw: NDArray[Any]) -> Entries:
        keys, values = raw[self._key], raw[self._value]
        native_keys = keys.astype(keys.dtype.newbyteorder("="))
        return Entries(native_keys, values.astype(values.dtype.newbyteorder("=")), len(raw))

    @staticmethod
    def _grown(entries: Entries, least: int) -> Entries:
        capacity = max(_FIRST_CAPACITY, 2 * entries.filled, least)
        keys = np.empty(capacity, entries.keys.dtype)
        values = np.empty(capacity, entries.values.dtype)
        keys[: entries.filled] = entries.filled_keys
        values[: entries.filled] = entries.filled_values
        return Entries(keys, values, entries.filled)

    def _round_down(self, size: int) -> int:
        return size - size % self._entry_bytes
