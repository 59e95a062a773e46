"""From keys to the last offset of each, in a bounded buffer.

Owns the memory of one cleaning round and what may go in. Must not know logs or batches. Keys are
kept as hashes of 128 bits under a random key that changes with every map, so that two keys of one
log cannot be chosen to collide; that any two of n keys do by chance has odds of n * n / 2**129: of
a billion keys, one in 10**20. Kafka: ``SkimpyOffsetMap``, which hashes with MD5.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.cleaner.key_table import KeyTable, check_status
from tidelog.errors import InvalidArgument
from tidelog.kernels.compaction import key_rows as keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tidelog.records.array_rows import Bools, Bytes, Ints

ENTRY_BYTES: Final = 24
"""Bytes of a slot: 16 of hash, 8 of offset."""
MOST_BYTES: Final = 2**31 - 1
_MAX_FILL: Final = 0.95
"""Share of slots that may get filled; the memory of those saved goes to the bits."""
_GOOD_FILL: Final = 0.6
"""Share of slots that keys may fill where memory allows."""
_BITS_SHARE: Final = 8
"""Offsets to a byte of bits."""


def slot_count(memory_bytes: int) -> int:
    """Return how many entries ``memory_bytes`` have room for. Source: Kafka SkimpyOffsetMap."""
    return min(memory_bytes, MOST_BYTES) // ENTRY_BYTES


def usable_entries(memory_bytes: int, load_factor: float) -> int:
    """Return how many keys one round may take: what decides where it ends. Source: Kafka."""
    return int(slot_count(memory_bytes) * load_factor)


class OffsetMap:
    """The last offset of each key among the records put in, which come with rising offsets.

    ``latest_offset`` (inclusive, -1 at first) is the last one known: records above it are not in
    the map. Offsets in [``bits_start``, ``bits_end``) also have a bit that says whether a later
    record with their key came in, so that they need not be looked up again. All of that together
    takes at most ``memory_bytes``, and no more than a log of ``span`` offsets can need.

    Source: Kafka SkimpyOffsetMap.
    """

    def __init__(
        self,
        memory_bytes: int,
        load_factor: float,
        *,
        start_offset: int,
        span: int,
        rng: Random,
        with_kernels: bool,
    ) -> None:
        self.slots: Final = slot_count(memory_bytes)
        self.capacity: Final = usable_entries(memory_bytes, load_factor)
        if self.capacity < 1:
            raise InvalidArgument(f"{memory_bytes} bytes have no room for a key")
        self.with_kernels: Final = with_kernels
        most_slots = min(self.slots, int(self.capacity / _MAX_FILL) + 1)
        slots = min(most_slots, int(span / _GOOD_FILL) + 1)
        spare_bytes = min(memory_bytes, MOST_BYTES) - slots * ENTRY_BYTES
        bit_bytes = max(min(-(-span // _BITS_SHARE), spare_bytes), 0)
        self.table: Final = np.zeros(slots * keys.SLOT_WORDS, np.int64)
        self.bits: Final = np.zeros(bit_bytes, np.uint8)
        self.state: Final = np.zeros(keys.STATE_WORDS, np.int64)
        self.state[keys.KEY_LOW] = rng.getrandbits(64) - 2**63
        self.state[keys.KEY_HIGH] = rng.getrandbits(64) - 2**63
        self.state[keys.CAPACITY] = self.capacity
        self.state[keys.BITS_START] = start_offset
        self.state[keys.BITS_END] = start_offset + min(bit_bytes * _BITS_SHARE, span)
        self.state[keys.LATEST_OFFSET] = -1

    @property
    def entries(self) -> int:
        """Number of keys."""
        return int(self.state[keys.ENTRIES])

    @property
    def utilization(self) -> float:
        """Keys by slots of the whole memory."""
        return self.entries / self.slots

    @property
    def latest_offset(self) -> int:
        """Last offset that the map knows of, -1 at first."""
        return int(self.state[keys.LATEST_OFFSET])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.state[keys.LATEST_OFFSET] = offset

    @property
    def bits_start(self) -> int:
        """First offset that has a bit."""
        return int(self.state[keys.BITS_START])

    @property
    def bits_end(self) -> int:
        """Offset after the last one that has a bit."""
        return int(self.state[keys.BITS_END])

    def has_bits(self, offsets: Ints) -> Bools:
        """Say of each offset, all with a bit, whether a later record with its key came in."""
        bits = offsets - self.bits_start
        is_set: Bools = (self.bits[bits >> 3] >> (bits & 7) & 1) != 0
        return is_set

    def put(self, data: Bytes, table: KeyTable) -> int:
        """Put in the records of ``table``, all with keys; return how many the map had room for.

        As in Kafka a full map takes not even a key that it holds.
        """
        if not self.with_kernels:
            return self._put_plainly(data, table)
        from tidelog.kernels.compaction.key_walk import put_keys  # noqa: PLC0415 - compiles when imported

        status, done = put_keys(
            data, table.rows, table.count, table.hashes, self.table, self.bits, self.state
        )
        check_status(status)
        return int(done)

    def look_up(self, data: Bytes, table: KeyTable, start: int, end: int) -> None:
        """Fill LATEST of the records ``[start, end)`` of ``table``: -1 for unknown keys."""
        if start == end:
            return
        if not self.with_kernels:
            found = [self._get(key) for key in _keys(data, table, start, end)]
            table.rows[keys.LATEST, start:end] = found
            return
        from tidelog.kernels.compaction.key_walk import find_keys  # noqa: PLC0415 - compiles when imported

        arrays = table.hashes, self.table, self.state
        check_status(find_keys(data, table.rows, start, end, *arrays))

    def _hash(self, key: bytes) -> tuple[int, int]:
        """Return the hash that plain code uses; it need not be that of the kernels."""
        digest = hashlib.blake2b(key, digest_size=16, key=self.state[:2].tobytes()).digest()
        one, two = np.frombuffer(digest, np.int64).tolist()
        return one, two

    def _find(self, one: int, two: int) -> int | None:
        """Return the word of the key's slot, or of the empty one for it; None in a full table."""
        slots = len(self.table) // keys.SLOT_WORDS
        first = (one % 2**64 >> 32) * slots >> 32
        for probe in range(slots):
            at = (first + probe) % slots * keys.SLOT_WORDS
            stored = self.table[at : at + keys.SLOT_WORDS].tolist()
            if stored[2] == 0 or stored[:2] == [one, two]:
                return at
        return None

    def _get(self, key: bytes) -> int:
        at = self._find(*self._hash(key))
        return -1 if at is None else int(self.table[at + 2]) - 1

    def _put_plainly(self, data: Bytes, table: KeyTable) -> int:
        offsets = table.rows[keys.OFFSET, : table.count].tolist()
        for row, key in enumerate(_keys(data, table, 0, table.count)):
            one, two = self._hash(key)
            at = None if self.entries >= self.capacity else self._find(one, two)
            if at is None:
                return row
            self._supersede(int(self.table[at + 2]) - 1)
            self.table[at : at + keys.SLOT_WORDS] = one, two, offsets[row] + 1
            self.latest_offset = offsets[row]
        return table.count

    def _supersede(self, known: int) -> None:
        """Note that the offset a slot held is not the last one of its key any more."""
        if known < 0:
            self.state[keys.ENTRIES] += 1
        elif self.bits_start <= known < self.bits_end:
            bit = known - self.bits_start
            self.bits[bit >> 3] |= 1 << (bit & 7)


def _keys(data: Bytes, table: KeyTable, start: int, end: int) -> Iterator[bytes]:
    places = table.rows[keys.KEY_AT, start:end].tolist()
    sizes = table.rows[keys.KEY_SIZE, start:end].tolist()
    for at, size in zip(places, sizes, strict=True):
        yield data[at : at + max(size, 0)].tobytes()
