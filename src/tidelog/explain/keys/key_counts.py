"""Counts records and bytes of the keys of a log: exactly while they are few, else within bounds.

Two summaries follow the keys with the most records and those with the most bytes. A key is known
by a hash of 128 bits under a random key, as in the cleaner's offset map.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.keys.key_table import KeyTable
from tidelog.cleaner.keys.offset_map import random_hash_key
from tidelog.cleaner.spread.entries import KeyHasher
from tidelog.codec.layout import byte_view
from tidelog.explain.keys.frequent_items import FrequentItems
from tidelog.kernels.compaction import key_rows as keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tidelog.explain.keys.frequent_items import Tracked
    from tidelog.records.array_rows import Ints
    from tidelog.records.decoding.record_columns import RecordColumns

    Hash = tuple[int, int]

CAPACITY: Final = 20_000
"""Keys that each summary follows; about 1 KB each, with what is shown of a key."""
SHOWN_BYTES: Final = 256
"""Bytes of a key that are kept to be shown."""


class Bounds(NamedTuple):
    """A number that is known to lie in ``[least, most]``."""

    least: int
    most: int

    @property
    def is_exact(self) -> bool:
        """Whether it is known."""
        return self.least == self.most


class KeyCount(NamedTuple):
    """What is known of a key, or of several: ``key`` None.

    ``sizes`` are the bytes of keys and values, uncompressed. ``superseded_records`` and
    ``superseded_bytes`` are the least number of those before the last record of their key.
    ``key`` are the first ``SHOWN_BYTES`` of it; ``key_size`` is the size of all of it.
    """

    records: Bounds
    sizes: Bounds
    superseded_records: int
    superseded_bytes: int
    is_exact: bool
    last_offset: int
    key: bytes | None = None
    key_size: int | None = None
    rank_by_records: int | None = None
    rank_by_bytes: int | None = None


@dataclass(slots=True)
class _Seen:
    """What is shown of a key, and its last record."""

    key: bytes
    key_size: int
    last_offset: int
    last_bytes: int


@dataclass(slots=True)
class _Sum:
    """Records, their bytes, and the offset of the last one."""

    records: int = 0
    size_bytes: int = 0
    last_offset: int = -1

    def add(self, sizes: Ints, offsets: Ints) -> None:
        if len(sizes):
            self.records += len(sizes)
            self.size_bytes += int(sizes.sum())
            self.last_offset = int(offsets[-1])


class KeyCounts:
    """Counts the keys of the records of one log, which are added in the order of their offsets.

    Args:
        rng: makes the random key of the hash.
        with_kernels: whether compiled code may be used.
        capacity: how many keys each summary follows.
    """

    def __init__(self, rng: Random, *, with_kernels: bool, capacity: int = CAPACITY) -> None:
        self._table: Final = KeyTable(with_kernels=with_kernels)
        hash_key = random_hash_key(rng)
        self._hasher: Final = KeyHasher(hash_key, is_exact=False, with_kernels=with_kernels)
        self._by_records: Final = FrequentItems["Hash"](capacity)
        self._by_bytes: Final = FrequentItems["Hash"](capacity)
        self._seen: dict[Hash, _Seen] = {}
        self._all = _Sum()
        self._keyless = _Sum()

    def add(self, columns: RecordColumns) -> None:
        """Count some records."""
        sizes = columns.key_size.clip(0) + columns.value_size.clip(0)
        is_keyless = columns.key_size < 0
        self._all.add(sizes, columns.offset)
        self._keyless.add(sizes[is_keyless], columns.offset[is_keyless])
        table = self._table
        table.take(columns, keyed_only=True)
        if not table.count:
            return
        words = self._hasher.entries_of(columns.data, table).words
        sizes = sizes[~is_keyless]
        # Records of a key come together, and stay in the order of their offsets.
        order = np.lexsort((words[0], words[1]))
        halves = words[:2, order]
        starts = np.flatnonzero(np.r_[True, (halves[:, 1:] != halves[:, :-1]).any(axis=0)])
        counts = np.diff(np.r_[starts, len(order)])
        last = order[starts + counts - 1]
        groups = zip(
            zip(*halves[:, starts].tolist(), strict=True),
            counts.tolist(),
            np.add.reduceat(sizes[order], starts).tolist(),
            sizes[last].tolist(),
            *table.rows[[[keys.OFFSET], [keys.KEY_AT], [keys.KEY_SIZE]], last].tolist(),
            strict=True,
        )
        view = byte_view(columns.data)
        for item, count, size, last_bytes, offset, key_at, key_size in groups:
            seen = self._seen.get(item)
            if seen is None:
                shown = bytes(view[key_at : key_at + min(key_size, SHOWN_BYTES)])
                self._seen[item] = _Seen(shown, key_size, offset, last_bytes)
            else:
                seen.last_offset, seen.last_bytes = offset, last_bytes
            have_removed = self._by_records.add(item, count, size)
            have_removed |= self._by_bytes.add(item, size, count)
            if have_removed:
                self._forget_others()

    def _forget_others(self) -> None:
        """Forget what was to be shown of keys that neither summary tracks any more."""
        one, other = self._by_records.tracked, self._by_bytes.tracked
        self._seen = {
            item: seen for item, seen in self._seen.items() if item in one or item in other
        }

    @property
    def total(self) -> KeyCount:
        """All records; what is superseded of them is exact while all keys are followed."""
        found = [self._count(item) for item in self._seen]
        return KeyCount(
            *_exactly(self._all),
            sum(one.superseded_records for one in found),
            sum(one.superseded_bytes for one in found),
            self._by_records.is_exact and self._by_bytes.is_exact,
            self._all.last_offset,
        )

    @property
    def keyless(self) -> KeyCount | None:
        """The records without a key; None if there are none."""
        found = self._keyless
        if not found.records:
            return None
        return KeyCount(*_exactly(found), 0, 0, is_exact=True, last_offset=found.last_offset)

    def top(self, count: int) -> Iterator[KeyCount]:
        """Yield the ``count`` keys of the most records and those of the most bytes, by bytes."""
        by_records = self._ranks(self._by_records, count)
        by_bytes = self._ranks(self._by_bytes, count)
        found = [
            self._count(item)._replace(
                rank_by_records=by_records.get(item), rank_by_bytes=by_bytes.get(item)
            )
            for item in by_records | by_bytes
        ]
        yield from sorted(
            found, key=lambda one: (-one.sizes.most, -one.records.most, one.key, one.last_offset)
        )

    def _ranks(self, summary: FrequentItems[Hash], count: int) -> dict[Hash, int]:
        """Return the items of the greatest weights, with their ranks; equal ones by their keys."""

        def order(pair: tuple[Hash, Tracked]) -> tuple[int, bytes, int]:
            seen = self._seen[pair[0]]
            return -pair[1].upper, seen.key, seen.last_offset

        found = nsmallest(count, summary.tracked.items(), key=order)
        return {item: rank for rank, (item, _) in enumerate(found, start=1)}

    def _count(self, item: Hash) -> KeyCount:
        seen = self._seen[item]
        records = _bounds(self._by_records, self._by_bytes, item)
        sizes = _bounds(self._by_bytes, self._by_records, item)
        return KeyCount(
            records,
            sizes,
            records.least - 1,
            sizes.least - seen.last_bytes,
            records.is_exact and sizes.is_exact,
            seen.last_offset,
            seen.key,
            seen.key_size,
        )


def _exactly(found: _Sum) -> tuple[Bounds, Bounds]:
    return Bounds(found.records, found.records), Bounds(found.size_bytes, found.size_bytes)


def _bounds(summary: FrequentItems[Hash], other: FrequentItems[Hash], item: Hash) -> Bounds:
    """Return what both summaries know of an item's weight in the first; one has the item."""
    known, beside = summary.tracked.get(item), other.tracked.get(item)
    least = max(known.lower if known else 0, beside.other if beside else 0)
    return Bounds(least, known.upper if known else max(summary.floor, least))
