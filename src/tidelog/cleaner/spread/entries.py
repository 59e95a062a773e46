"""Entries of keys, as processes exchange them: the hash of a key with an offset.

An entry is a column of three words, both halves of the hash and the offset. Where hashes are not
trusted, the key itself goes with each entry. Kafka's cleaner keeps such entries in one map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.keys.key_table import check_status
from tidelog.cleaner.keys.offset_map import hash_plainly, keys_of
from tidelog.cleaner.keys.superseded import bytes_for
from tidelog.errors import TidelogError
from tidelog.kernels.compaction import key_rows as keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidelog.cleaner.keys.key_table import KeyTable
    from tidelog.cleaner.keys.superseded import SupersededOffsets
    from tidelog.records.array_rows import Bools, Bytes, Ints

_FIRST_SLOTS: Final = 1 << 14
_ENTRY_BYTES: Final = 8 * keys.SLOT_WORDS
_GATHERED_BYTES: Final = 1 << 20
"""Bytes that are gathered at a time: each needs an index of 8 bytes for as long."""
_SHORT_NUMBERS: Final = 1 << 16
"""Count of the numbers with 16 bits."""
_MARKED_OFFSETS: Final = 1 << 20
"""Offsets whose bits are set at a time: each needs a byte for as long."""
_FILL: Final = 0.6
"""Share of a table's slots that is filled at most: 41 bytes a key, since probing stays short."""


class KeyCollision(TidelogError):
    """Two different keys have the same hash; another random hash key separates them."""


class Entries(NamedTuple):
    """Hashed keys with offsets; ``sizes`` and ``keys`` are empty unless the keys go with them."""

    words: Ints
    sizes: Ints
    keys: Bytes

    @property
    def weight(self) -> int:
        """The number of entries without keys that take the same memory."""
        return int(self.words.shape[1]) + len(self.keys) // _ENTRY_BYTES

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """Return the entries of all parts, in order."""
        if not parts:
            return NO_ENTRIES
        words = np.concatenate([part.words for part in parts], axis=1)
        sizes = np.concatenate([part.sizes for part in parts])
        return cls(words, sizes, np.concatenate([part.keys for part in parts]))

    def select(self, chosen: Ints) -> Entries:
        """Return the entries at these indices, in this order."""
        words = np.ascontiguousarray(self.words[:, chosen])
        if not len(self.sizes):
            return Entries(words, self.sizes, self.keys)
        starts = (self.sizes.cumsum() - self.sizes)[chosen]
        sizes = self.sizes[chosen]
        return Entries(words, sizes, gathered(self.keys, starts, sizes))

    def in_buckets(self, buckets: int) -> Iterator[tuple[int, Entries]]:
        """Yield the entries of each bucket that has some; the key's hash chooses the bucket."""
        bucket_of = (self.words[1].view(np.uint64) >> 32) * np.uint64(buckets) >> 32
        if buckets <= _SHORT_NUMBERS:
            bucket_of = bucket_of.astype(np.uint16)  # NumPy sorts these in linear time
        order = bucket_of.argsort(kind="stable")
        ends = bucket_of[order].searchsorted(np.arange(buckets), "right").tolist()
        start = 0
        for bucket, end in enumerate(ends):
            if start < end:
                yield bucket, self.select(order[start:end])
            start = end


NO_ENTRIES: Final = Entries(
    np.empty((keys.SLOT_WORDS, 0), np.int64), np.empty(0, np.int64), np.empty(0, np.uint8)
)


def gathered(data: Bytes, starts: Ints, sizes: Ints) -> Bytes:
    """Return the pieces of ``data`` with these starts and sizes, one after the other."""
    ends = sizes.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    pieces: Bytes = np.empty(total, np.uint8)
    first = 0
    while first < len(sizes):
        begin = int(ends[first] - sizes[first])
        last = max(int(ends.searchsorted(begin + _GATHERED_BYTES, "right")), first + 1)
        until, some = int(ends[last - 1]), slice(first, last)
        shifts = (starts[some] - ends[some] + sizes[some]).repeat(sizes[some])
        pieces[begin:until] = data[np.arange(begin, until) + shifts]
        first = last
    return pieces


class KeyHasher:
    """Makes entries of the records in a key table; alike in all processes with one ``hash_key``.

    Args:
        hash_key: the random key of the hash.
        is_exact: whether the keys go with the entries.
        with_kernels: whether compiled code may be used; it hashes differently.
    """

    def __init__(self, hash_key: tuple[int, int], *, is_exact: bool, with_kernels: bool) -> None:
        self._state: Final = np.zeros(keys.STATE_WORDS, np.int64)
        self._state[[keys.KEY_LOW, keys.KEY_HIGH]] = hash_key
        self._is_exact: Final = is_exact
        self._with_kernels: Final = with_kernels

    def entries_of(self, data: Bytes, table: KeyTable) -> Entries:
        """Return the entries of all records of ``table``, whose keys are in ``data``."""
        words = np.empty((keys.SLOT_WORDS, table.count), np.int64)
        words[:2] = self._hashes_of(data, table)
        words[2] = table.rows[keys.OFFSET, : table.count]
        if not self._is_exact:
            return Entries(words, NO_ENTRIES.sizes, NO_ENTRIES.keys)
        sizes = table.rows[keys.KEY_SIZE, : table.count].clip(0)
        starts = table.rows[keys.KEY_AT, : table.count]
        return Entries(words, sizes, gathered(data, starts, sizes))

    def _hashes_of(self, data: Bytes, table: KeyTable) -> Ints:
        if self._with_kernels:
            from tidelog.kernels.compaction.key_merge import hash_keys  # noqa: PLC0415 - compiles when imported

            check_status(hash_keys(data, table.rows, table.count, self._state, table.hashes))
            return table.hashes[:, : table.count]
        hash_key = self._state[:2].tobytes()
        found = [hash_plainly(key, hash_key) for key in keys_of(data, table, 0, table.count)]
        return np.array(found, np.int64).reshape(-1, 2).T


class LastOffsets:
    """The last offset of each key, by its hash alone; entries may come in any order."""

    def __init__(self, *, with_kernels: bool) -> None:
        self._with_kernels: Final = with_kernels
        self._table: Ints = np.zeros(_FIRST_SLOTS * keys.SLOT_WORDS, np.int64)
        self._plain: dict[tuple[int, int], int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._plain) if not self._with_kernels else self._count

    def merge(self, words: Ints) -> Ints:
        """Put entries in; return the offsets, of these and of earlier ones, that are superseded."""
        if not self._with_kernels:
            return np.array(list(self._merge_plainly(words)), np.int64)
        from tidelog.kernels.compaction.key_merge import merge_entries  # noqa: PLC0415 - compiles when imported

        added = words.shape[1]
        self._reserve(added)
        superseded: Ints = np.empty(added, np.int64)
        at, lost, added = merge_entries(words, 0, added, self._table, superseded)
        check_status(at)
        self._count += added
        return superseded[:lost]

    def find_superseded(self, words: Ints) -> Ints:
        """Return the offsets of entries whose key has a greater offset here."""
        if not self._with_kernels:
            pairs = zip(*words.tolist(), strict=True)
            found = [at for one, two, at in pairs if self._plain.get((one, two), -1) > at]
            return np.array(found, np.int64)
        from tidelog.kernels.compaction.key_merge import find_superseded  # noqa: PLC0415 - compiles when imported

        superseded: Ints = np.empty(words.shape[1], np.int64)
        lost = find_superseded(words, self._table, superseded)
        check_status(lost)
        return superseded[:lost]

    def take(self, buckets: int) -> Iterator[tuple[int, Entries]]:
        """Yield the entries that stay, as ``Entries.in_buckets``, and forget them."""
        if not self._with_kernels:
            found = [(*key, offset) for key, offset in self._plain.items()]
            columns = np.array(found, np.int64).reshape(-1, keys.SLOT_WORDS).T
            self._plain = {}
            every = Entries(np.ascontiguousarray(columns), NO_ENTRIES.sizes, NO_ENTRIES.keys)
            yield from every.in_buckets(buckets)
            return
        from tidelog.kernels.compaction.key_merge import entries_by_bucket  # noqa: PLC0415 - compiles when imported

        bounds = np.empty((keys.SLOT_WORDS, buckets), np.int64)
        words = np.empty(self._count * keys.SLOT_WORDS, np.int64)
        check_status(entries_by_bucket(self._table, bounds, words))
        self._table.fill(0)
        self._count = 0
        for bucket, (first, count) in enumerate(bounds[:2].T.tolist()):
            if count:
                start, end = first * keys.SLOT_WORDS, (first + count) * keys.SLOT_WORDS
                of_bucket = words[start:end].reshape(keys.SLOT_WORDS, count)
                yield bucket, Entries(of_bucket, NO_ENTRIES.sizes, NO_ENTRIES.keys)

    def _reserve(self, added: int) -> None:
        """Make room for ``added`` more keys.

        All at once: entries from another table come in the order of its slots, and the first part
        of them would fill one end of a small table, where each search is long.
        """
        slots = len(self._table) // keys.SLOT_WORDS
        needed = slots
        while needed * _FILL < self._count + added:
            needed *= 2
        if needed == slots:
            return
        from tidelog.kernels.compaction.key_merge import move_entries  # noqa: PLC0415 - compiles when imported

        larger = np.zeros(needed * keys.SLOT_WORDS, np.int64)
        check_status(move_entries(self._table, larger))
        self._table = larger

    def _merge_plainly(self, words: Ints) -> Iterator[int]:
        for one, two, offset in zip(*words.tolist(), strict=True):
            known = self._plain.get((one, two), offset)
            if known != offset:
                yield min(known, offset)
            self._plain[one, two] = max(known, offset)


def superseded_exactly(dirty: Entries, clean: Entries) -> Ints:
    """Return the offsets that a greater one of ``dirty`` with the same key supersedes.

    The keys themselves are compared. Raises KeyCollision if two of them have one hash.
    """
    both = Entries.joined([dirty, clean])
    is_dirty = np.arange(both.words.shape[1]) < dirty.words.shape[1]
    order = np.lexsort((both.words[2], both.words[1], both.words[0]))
    words = both.words[:, order]
    is_same: Bools = (words[:2, 1:] == words[:2, :-1]).all(axis=0)
    _check_keys(both, order[:-1][is_same], order[1:][is_same])
    if not len(order):
        return np.empty(0, np.int64)
    first = np.flatnonzero(np.concatenate([[True], ~is_same]))
    latest = np.maximum.reduceat(np.where(is_dirty[order], words[2], -1), first)
    sizes = np.diff(np.append(first, len(order)))
    found: Ints = words[2][words[2] < latest.repeat(sizes)]
    return found


def _check_keys(entries: Entries, left: Ints, right: Ints) -> None:
    """Raise KeyCollision unless each entry of ``left`` has the key of that of ``right``."""
    sizes = entries.sizes
    starts = sizes.cumsum() - sizes
    is_equal = bool((sizes[left] == sizes[right]).all()) and bool(
        np.array_equal(
            gathered(entries.keys, starts[left], sizes[left]),
            gathered(entries.keys, starts[right], sizes[right]),
        )
    )
    if not is_equal:
        raise KeyCollision("two keys have the same hash")


class OffsetSet(NamedTuple):
    """Offsets of [start, ...), as a bit for each of them or, if that is shorter, as numbers."""

    start: int
    is_bits: bool
    data: Bytes

    @classmethod
    def of(cls, offsets: Ints, start: int, end: int) -> OffsetSet:
        """Return the set of some offsets of [start, end), which are in ascending order."""
        if offsets.nbytes < bytes_for(end - start):
            return cls(start, is_bits=False, data=offsets.view(np.uint8))
        pieces = []
        for first in range(start, end, _MARKED_OFFSETS):
            last = min(first + _MARKED_OFFSETS, end)
            some = offsets[offsets.searchsorted(first) : offsets.searchsorted(last)]
            is_marked = np.zeros(last - first, np.bool_)
            is_marked[some - first] = True
            pieces.append(np.packbits(is_marked, bitorder="little"))
        bits = np.concatenate(pieces) if pieces else np.empty(0, np.uint8)
        return cls(start, is_bits=True, data=bits)

    def add_to(self, superseded: SupersededOffsets) -> None:
        """Set the bits of these offsets; they start where the bits do."""
        bits = superseded.bits
        if self.is_bits:
            bits[: len(self.data)] |= self.data
            return
        at = np.frombuffer(self.data, np.int64) - superseded.bits_start
        np.bitwise_or.at(bits, at >> 3, (1 << (at & 7)).astype(np.uint8))


def joined_offsets(parts: Iterable[Ints]) -> Ints:
    """Return all offsets of some arrays, in ascending order."""
    arrays = list(parts)
    if not arrays:
        return np.empty(0, np.int64)
    joined: Ints = np.concatenate(arrays)
    joined.sort()
    return joined
