"""A file of fixed-size entries that point into a .log file, mirrored in memory.

Owns the file: when it is created, preallocated, trimmed, synced and renamed, and how readers see
its entries. Must not know what the entries mean. Kafka: ``AbstractIndex`` and ``LazyIndex``.

Nothing is written through a map. The writer appends to the file with ``pwrite`` and to two native
arrays; readers take the published ``Entries`` and never lock. A file that nobody writes holds no
descriptor.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidelog.env.files import FileSystem, OpenFile

_FIRST_CAPACITY: Final = 64
_ZERO_FROM: Final = 2
"""In a file of so many entries, zeros at the end are none: it was preallocated and not trimmed."""


class Entries(NamedTuple):
    """Entries as native arrays, of which the first ``filled`` are and never change.

    ``keys`` and ``values`` are the two fields of an entry in the file's order.
    """

    keys: NDArray[Any]
    values: NDArray[Any]
    filled: int

    @property
    def filled_keys(self) -> NDArray[Any]:
        """The keys that are filled."""
        return self.keys[: self.filled]

    @property
    def filled_values(self) -> NDArray[Any]:
        """The values that are filled."""
        return self.values[: self.filled]


class IndexFile:
    """One index file, not thread safe for writers; ``_lock`` guards loading and the path.

    Zeros at the end of an existing file, which a crash leaves there, count as no entries; in Kafka
    they do, until recovery resets the file, and there may be no recovery. A missing file reads as
    empty and is made, with zeros up to ``max_bytes`` rounded down to whole entries, before the
    first write.

    Args:
        fs: where the file lies.
        path: the file; need not exist.
        base_offset: of the segment.
        max_bytes: greatest size of the file, in bytes.
        entry: big-endian form of one entry: two fields.

    Source: Kafka AbstractIndex, LazyIndex.
    """

    kept_back: ClassVar[int] = 0
    """Entries at the end of the file that an append leaves free."""

    def __init__(
        self, fs: FileSystem, path: str, base_offset: int, max_bytes: int, entry: np.dtype[Any]
    ) -> None:
        self.path = path
        self.base_offset: Final = base_offset
        self._fs: Final = fs
        self._max_bytes: Final = max_bytes
        self._entry: Final = entry
        self._key, self._value = entry.names or ("", "")
        self._empty: Final = self._native(np.empty(0, entry))
        self._one: Final = np.empty(1, entry)
        self._entries: Entries | None = None
        self._file: OpenFile | None = None
        self._file_bytes = 0
        self._is_sealed = False
        self._is_growing = False
        self._rebuilt: bytearray | None = None
        self._is_unsynced = True
        self._lock: Final = Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    # Reading

    def entries(self) -> Entries:
        """Return what is published now; the file is read into memory at the first call."""
        published = self._entries
        if published is not None:
            return published
        with self._lock:
            return self._load_locked() or self._empty

    @property
    def entry_count(self) -> int:
        """How many entries there are."""
        return self.entries().filled

    @property
    def max_entries(self) -> int:
        """How many entries the file has room for as it stands."""
        self.entries()
        size = self._max_bytes if self._entries is None else self._room_bytes
        return size // self._entry.itemsize

    @property
    def free_entries(self) -> int:
        """How many entries can still be appended."""
        return max(0, self.max_entries - self.kept_back - self.entry_count)

    @property
    def is_full(self) -> bool:
        """Whether no entry can be appended."""
        published = self._entries
        if published is None:
            return self.free_entries == 0
        return (published.filled + self.kept_back + 1) * self._entry.itemsize > self._room_bytes

    @property
    def _room_bytes(self) -> int:
        return max(self._max_bytes, self._file_bytes) if self._is_growing else self._file_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes taken by the entries."""
        return self.entry_count * self._entry.itemsize

    def last(self) -> tuple[int, int] | None:
        """Return key and value of the last entry; an unloaded file is not loaded for it."""
        published = self._entries
        if published is None:
            with self._lock:
                return self._peek_last_locked()
        if published.filled == 0:
            return None
        at = published.filled - 1
        return published.keys.item(at), published.values.item(at)

    def has_odd_size(self) -> bool:
        """Whether the file's length is no whole number of entries."""
        self.entries()
        return self._file_bytes % self._entry.itemsize != 0

    # Writing

    def create(self) -> None:
        """Make the file, preallocated, unless it exists; hold it open for writing."""
        if self._file is None and self._rebuilt is None:
            self._writable()

    def resize(self, max_bytes: int | None = None) -> None:
        """Give the file its greatest size again (or another), zeros behind the entries."""
        wanted = self._round_down(self._max_bytes if max_bytes is None else max_bytes)
        self.trim()
        self._set_size(self._writable(), max(wanted, self.size_bytes))
        self._is_sealed = self._is_growing = False

    def grow(self) -> None:
        """Take entries up to the greatest size; unlike after ``resize`` the file grows with them.

        Nothing is touched, so that this costs nothing where no entry comes.
        """
        self._is_growing = True
        self._is_sealed = False

    def trim(self) -> None:
        """Cut the file behind its last entry."""
        if self._rebuilt is not None:
            self._end_rebuilding(bytes(self._rebuilt))
            return
        self._set_size(self._writable(), self.size_bytes)

    def seal(self) -> None:
        """Trim the file, which will take no more entries; the next ``sync`` lets go of it."""
        self.trim()
        self._is_sealed = True

    def reset(self) -> None:
        """Begin anew without entries; the file stays as it is until ``trim`` ends that.

        What was there is not read: a file that was not trimmed is megabytes of zeros.
        """
        with self._lock:
            self._entries = self._empty
        self._rebuilt = bytearray()
        self.grow()

    def _end_rebuilding(self, data: bytes) -> None:
        """Make the file hold just ``data``; one that does so is not touched."""
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
        try:
            file = self._fs.open(self.path)
        except FileNotFoundError:
            return False
        try:
            return file.size() == len(data) and file.pread(len(data), 0) == data
        finally:
            file.close()

    def sync(self) -> None:
        """Make the entries durable; a missing file is created."""
        if not self._is_unsynced and self._file is None:
            return
        file = self._file or self._open_for_sync()
        if self._is_unsynced:
            file.sync()
            self._is_unsynced = False
        if self._is_sealed or self._file is None:
            self._file = None
            file.close()

    def close(self) -> None:
        """Trim the file, make that durable and let go of it; nothing if it was never used."""
        published = self._entries
        if published is None:
            return
        if self._file_bytes != published.filled * self._entry.itemsize:
            self.seal()
        if self._file is not None:
            self._is_sealed = True
            self.sync()

    def close_handlers(self) -> None:
        """Let go of the file without writing anything, as after the disk has failed."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def delete_if_exists(self) -> bool:
        """Let go of the file and delete it; return whether it was there."""
        self.close_handlers()
        try:
            self._fs.delete(self.path)
        except FileNotFoundError:
            return False
        return True

    def rename(self, path: str) -> None:
        """Give the file another name; a file that was never made just gets it for later."""
        with self._lock:
            try:
                self._fs.rename(self.path, path)
            except FileNotFoundError:
                if self._file is not None:
                    raise
            self.path = path

    def moved_to(self, path: str) -> None:
        """Take note that the directory around the file has another name."""
        with self._lock:
            self.path = path

    # For the kinds of index

    def _append(self, keys: NDArray[Any], values: NDArray[Any]) -> None:
        """Write entries behind the last one, with one ``pwrite``, then publish them."""
        added = np.empty(len(keys), self._entry)
        added[self._key] = keys
        added[self._value] = values
        native_keys, native_values, start = self._write(added.tobytes(), len(keys))
        end = start + len(keys)
        native_keys[start:end] = keys
        native_values[start:end] = values
        self._entries = Entries(native_keys, native_values, end)

    def _append_one(self, key: int, value: int) -> None:
        self._one[0] = key, value
        native_keys, native_values, start = self._write(self._one.tobytes(), 1)
        native_keys[start] = key
        native_values[start] = value
        self._entries = Entries(native_keys, native_values, start + 1)

    def _write(self, data: bytes, added: int) -> Entries:
        """Write the bytes of entries; return the published ones, with room for those behind."""
        file = self._writable() if self._rebuilt is None else None
        published = self.entries()
        start, size = published.filled, self._entry.itemsize
        end = start + added
        if file is None:
            assert self._rebuilt is not None
            self._rebuilt += data
        else:
            self._is_unsynced = True
            file.pwrite(data, start * size)
            self._file_bytes = max(self._file_bytes, end * size)
        return published if end <= len(published.keys) else self._grown(published, end)

    def keep(self, count: int) -> None:
        """Publish the first ``count`` entries only. Readers may still hold the others' arrays."""
        published = self.entries()
        if count < published.filled:
            if self._rebuilt is not None:
                del self._rebuilt[count * self._entry.itemsize :]
            kept = Entries(published.keys[:count].copy(), published.values[:count].copy(), count)
            self._entries = kept

    # The file

    def _writable(self) -> OpenFile:
        if self._file is None:
            with self._lock:
                self._file = self._open_locked()
        return self._file

    def _open_locked(self) -> OpenFile:
        if self._entries is not None or self._load_locked() is not None:
            return self._fs.open(self.path, "w")
        size = self._round_down(self._max_bytes)
        if size == 0:
            least = self._entry.itemsize
            raise InvalidArgument(
                f"{self._max_bytes} bytes hold no entry of {least} in {self.path}"
            )
        file = self._fs.open(self.path, "x")
        try:
            file.truncate(size)
        except OSError:
            file.close()
            self._fs.delete(self.path)
            raise
        self._file_bytes = size
        self._entries = self._empty
        return file

    def _open_for_sync(self) -> OpenFile:
        try:
            return self._fs.open(self.path)
        except FileNotFoundError:
            return self._writable()

    def _load_locked(self) -> Entries | None:
        """Read the file, if there is one; a missing file is looked for again next time."""
        if self._entries is None:
            try:
                data = self._fs.read(self.path)
            except FileNotFoundError:
                return None
            self._file_bytes = len(data)
            count = len(data) // self._entry.itemsize
            raw = np.frombuffer(data, self._entry, count)
            self._entries = self._native(raw[: self._count_entries(raw)])
        return self._entries

    def _count_entries(self, raw: NDArray[Any]) -> int:
        """Return how many entries come before the zeros of a file that was not trimmed.

        Only the first entry may be zero, and then it is the only one: the next would be greater.
        """
        if len(raw) < _ZERO_FROM or raw[-1][self._key] or raw[-1][self._value]:
            return len(raw)
        used = np.flatnonzero((raw[self._key] != 0) | (raw[self._value] != 0))
        return int(used[-1]) + 1 if len(used) else 0

    def _peek_last_locked(self) -> tuple[int, int] | None:
        size = self._entry.itemsize
        try:
            file = self._fs.open(self.path)
        except FileNotFoundError:
            return None
        try:
            count, odd_bytes = divmod(file.size(), size)
            if odd_bytes:
                self._load_locked()  # so that closing cuts them off
            data = file.pread(size, (count - 1) * size) if count else b""
        finally:
            file.close()
        if count >= _ZERO_FROM and not data.strip(b"\0"):
            found = self._load_locked()
            if found is None or not found.filled:
                return None
            return found.keys.item(found.filled - 1), found.values.item(found.filled - 1)
        if len(data) < size:
            return None
        entry = np.frombuffer(data, self._entry)[0]
        return int(entry[self._key]), int(entry[self._value])

    def _set_size(self, file: OpenFile, size: int) -> None:
        if size != self._file_bytes or file.size() != size:
            self._is_unsynced = True
            file.truncate(size)
            self._file_bytes = size

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
        return size - size % self._entry.itemsize
