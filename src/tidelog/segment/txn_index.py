"""The index of aborted transactions (``.txnindex``).

Kafka: ``TransactionIndex``, ``AbortedTxn``.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Protocol

from tidelog.codec.layout import Layout, Wire
from tidelog.env.pooled_file import PooledFile
from tidelog.errors import CorruptIndex, InvalidArgument
from tidelog.lazy import np
from tidelog.segment.index_file import IndexFile, read_whole_index
from tidelog.segment.undo import undone_on_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tidelog.env.files import FileSystem

TXN_INDEX_VERSION: Final = 0


class AbortedTxn(NamedTuple):
    """One entry of a .txnindex file. Source: Kafka AbortedTxn."""

    version: Annotated[int, Wire("h", "Entry format, 0.")]
    producer_id: Annotated[int, Wire("q", "Producer whose transaction was aborted.")]
    first_offset: Annotated[int, Wire("q", "First offset of the transaction.")]
    last_offset: Annotated[int, Wire("q", "Offset of the abort marker.")]
    last_stable_offset: Annotated[int, Wire("q", "Last stable offset after the abort.")]


ABORTED_TXN: Final = Layout(AbortedTxn)
assert ABORTED_TXN.size == 34


class TxnIndexSearchResult(NamedTuple):
    """Aborted transactions of a range; ``is_complete``: later segments need not be searched."""

    aborted: tuple[AbortedTxn, ...]
    is_complete: bool


_NONE_FOUND: Final = TxnIndexSearchResult((), is_complete=False)


class HasAborted(Protocol):
    """A segment, or its index, as far as aborted transactions are looked for in it."""

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """Return the transactions of its index that overlap offsets of [fetch, upper bound)."""


def collect_aborted(
    segments: Iterable[HasAborted], start_offset: int, upper_bound: int
) -> list[AbortedTxn]:
    """Return the aborted transactions with offsets in [start, upper bound), oldest marker first.

    ``segments`` are those from the one of ``start_offset`` to the end of the log: an abort may be
    indexed long after its transaction's records.
    """
    aborted: list[AbortedTxn] = []
    for segment in segments:
        found = segment.collect_aborted(start_offset, upper_bound)
        aborted += found.aborted
        if found.is_complete:
            break
    return aborted


class TransactionIndex(IndexFile):
    """Aborted transactions in the order of their markers; not thread safe for writers.

    The first entry creates the file; it is not preallocated. An entry is stored in the segment of
    the abort marker, even if the transaction began in an earlier one. Readers take the published
    entries without a lock. The descriptor is held only between a write and the next ``sync``.
    ``exists`` is whether the file exists, if that is known.

    Source: Kafka TransactionIndex.
    """

    def __init__(
        self, fs: FileSystem, path: str, base_offset: int, *, exists: bool | None = None
    ) -> None:
        is_there = fs.exists(path) if exists is None else exists
        super().__init__(fs, path, base_offset, exists=is_there)
        self._was_there: Final = is_there
        self._published: _Published | None = None
        self._last_offset: int | None = None
        self._is_unsynced = is_there
        self._is_sealed = True
        self._is_name_synced = False

    @property
    def may_have_entries(self) -> bool:
        """Whether there may be an entry: there is one, or the file was not read."""
        published = self._published
        return self._was_there if published is None else published.count > 0

    def all_aborted(self) -> list[AbortedTxn]:
        """Return all entries; CorruptIndex if one has an unknown format."""
        return _as_entries(self._load().filled)

    def append_all(self, aborted: Sequence[AbortedTxn]) -> None:
        """Append all entries with one write, or none on an error.

        Raises:
            InvalidArgument: a last offset is not above the one appended before it. As in Kafka,
                entries that were in the file when it was opened are not compared.
        """
        last = self._last_offset
        for txn in aborted:
            if last is not None and txn.last_offset <= last:
                raise InvalidArgument(
                    f"last offset {txn.last_offset} is not above {last} in {self.path}"
                )
            last = txn.last_offset
        if not aborted:
            return
        published = self._load()
        data = b"".join(map(ABORTED_TXN.pack, aborted))
        size_bytes = published.count * ABORTED_TXN.size
        file = self._writable()
        with closing(file.hold()), undone_on_error(self.path) as undo:
            undo.callback(file.truncate, size_bytes)
            file.pwrite(data, size_bytes)
        self._published = published.with_added(np.frombuffer(data, ABORTED_TXN.dtype))
        self._last_offset = last

    def sync(self) -> None:
        """Make the entries durable, and the name of the file."""
        super().sync()
        if self._exists and not self._is_name_synced:
            # Unlike the other indexes it may be created after the segment was flushed. If a power
            # cut took it, readers would be given what was aborted.
            self._fs.sync_directory(self.path.rpartition("/")[0])
            self._is_name_synced = True

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """Return the transactions that overlap offsets from ``fetch_offset`` (inclusive) on.

        ``upper_bound_offset`` is exclusive. The result is complete if the last stable offset of an
        entry shows that no transaction was open below the bound.
        """
        entries = self._load().filled
        if not len(entries):
            return _NONE_FOUND
        decided = np.flatnonzero(entries["last_stable_offset"] >= upper_bound_offset)
        if len(decided):
            entries = entries[: int(decided[0]) + 1]
        touched = entries["last_offset"] >= fetch_offset
        touched &= entries["first_offset"] < upper_bound_offset
        return TxnIndexSearchResult(tuple(_as_entries(entries[touched])), len(decided) > 0)

    def truncate_to(self, offset: int) -> None:
        """Remove the first entry whose marker is at or above ``offset``, and all after it."""
        last_offsets = self._load().filled["last_offset"]
        dropped = np.flatnonzero(last_offsets >= offset)
        if len(dropped):
            count = int(dropped[0])
            self._keep(count)
            self._last_offset = int(last_offsets[count - 1]) if count else None

    def mark(self) -> tuple[int, int | None]:
        """Return the number of entries, and the last offset that was appended or stayed."""
        return self._load().count, self._last_offset

    def go_back(self, mark: tuple[int, int | None]) -> None:
        """Remove what was appended since ``mark``, as if it never had been."""
        count, last_offset = mark
        if self._load().count > count:
            self._keep(count)
        self._last_offset = last_offset

    def reset(self) -> None:
        """Remove all entries, readable or not."""
        self._published = _nothing()
        if self._exists:
            self._keep(0)
        self._last_offset = None

    def sanity_check(self) -> None:
        """Raise CorruptIndex if an entry has an unknown format or is below the base offset."""
        if not self.may_have_entries:
            return
        last_offsets = self._load().filled["last_offset"]
        below = last_offsets[last_offsets < self.base_offset]
        if len(below):
            raise CorruptIndex(f"marker {below[0]} is below the base offset of {self.path}")

    def _load(self) -> _Published:
        published = self._published
        if published is not None:
            return published
        with self._lock:
            if self._published is None and not self._was_there:
                self._published = _nothing()
            if self._published is None:
                data = read_whole_index(self._fs, self.path)
                raw = np.frombuffer(data, ABORTED_TXN.dtype, len(data) // ABORTED_TXN.size)
                # Kafka reads only the first byte of the version.
                if ((raw["version"] >> 8) > TXN_INDEX_VERSION).any():
                    raise CorruptIndex(f"{self.path} has an entry of an unknown version")
                self._published = _Published(raw.astype(_native()), len(raw))
            return self._published

    def _keep(self, count: int) -> None:
        self._writable().truncate(count * ABORTED_TXN.size)
        published = self._load()
        self._published = _Published(published.entries[:count].copy(), count)

    def _writable(self) -> PooledFile:
        if self._file is None or not self._exists:
            self._file = PooledFile(self._fs, self.path).open("w")
            self._exists = True
        self._is_unsynced = True  # not before: a file that could not be created has nothing to sync
        return self._file


@dataclass(frozen=True, slots=True)
class _Published:
    """Native entries; the first ``count`` of them are valid and never change."""

    entries: NDArray[Any]
    count: int

    @property
    def filled(self) -> NDArray[Any]:
        return self.entries[: self.count]

    def with_added(self, added: NDArray[Any]) -> _Published:
        end = self.count + len(added)
        entries = self.entries
        if end > len(entries):
            entries = np.empty(max(2 * self.count, end), _native())
            entries[: self.count] = self.filled
        entries[self.count : end] = added
        return _Published(entries, end)


@cache
def _native() -> np.dtype[np.void]:
    return ABORTED_TXN.dtype.newbyteorder("=")


@cache
def _nothing() -> _Published:
    return _Published(np.empty(0, _native()), 0)


def _as_entries(entries: NDArray[Any]) -> list[AbortedTxn]:
    return [AbortedTxn(*entry) for entry in entries.tolist()]
