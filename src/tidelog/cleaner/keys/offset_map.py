"""A map from keys to the last offset of each, in bounded memory.

Only a 128-bit hash of each key is stored. It is computed under a random key that is new for every
map, so nobody can choose two keys that collide. By chance any two of n keys collide with a
probability of n * n / 2**129: for a billion keys, one in 10**20. Kafka: ``SkimpyOffsetMap``, which
hashes with MD5.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.cleaner.keys.key_table import KeyTable, check_status
from tidelog.cleaner.keys.superseded import OFFSETS_PER_BYTE, SupersededOffsets, bytes_for
from tidelog.errors import InvalidArgument
from tidelog.kernels.compaction import key_rows as keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tidelog.records.array_rows import Bytes

ENTRY_BYTES: Final = 24
"""Bytes of a slot: 16 of hash, 8 of offset."""
MAX_BYTES: Final = 2**31 - 1
_MAX_FILL: Final = 0.95
"""Share of the slots that may be filled; the memory of the slots saved is used for the bits."""
_GOOD_FILL: Final = 0.6
"""Share of the slots that is filled at most where memory allows, since probing stays short."""


def slot_count(memory_bytes: int) -> int:
    """Return how many entries fit in ``memory_bytes``. Source: Kafka SkimpyOffsetMap."""
    return min(memory_bytes, MAX_BYTES) // ENTRY_BYTES


def usable_entries(memory_bytes: int, load_factor: float) -> int:
    """Return how many keys one cleaning may put in; it ends when the map is full.

    Source: Kafka Cleaner.buildOffsetMap.
    """
    return int(slot_count(memory_bytes) * min(load_factor, 1.0))


class OffsetMap(SupersededOffsets):
    """The last offset of each key. Records must be put in by ascending offset.

    ``latest_offset`` (inclusive, -1 at first) is the last one known: records above it are not in
    the map. Each offset in [``bits_start``, ``bits_end``) also has a bit, which is set when a later
    record with its key is put in, so that most records need not be looked up again.

    Source: Kafka SkimpyOffsetMap.

    Args:
        memory_bytes: the most that slots and bits may take together.
        load_factor: share of Kafka's slots that keys may fill.
        start_offset: the first offset to be put in.
        span: how many offsets there may be; the map is no larger than these can need.
        rng: makes the random key of the hash.
        with_kernels: whether compiled code may be used.
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
            raise InvalidArgument(
                f"an offset map of {memory_bytes} bytes with load factor {load_factor:g} has no"
                " room for a key (log.cleaner.dedupe.buffer.size,"
                " log.cleaner.io.buffer.load.factor)"
            )
        max_slots = min(self.slots, int(self.capacity / _MAX_FILL) + 1)
        slots = min(max_slots, int(span / _GOOD_FILL) + 1)
        spare_bytes = min(memory_bytes, MAX_BYTES) - slots * ENTRY_BYTES
        bit_bytes = max(min(bytes_for(span), spare_bytes), 0)
        self.table: Final = np.zeros(slots * keys.SLOT_WORDS, np.int64)
        state = np.zeros(keys.STATE_WORDS, np.int64)
        state[[keys.KEY_LOW, keys.KEY_HIGH]] = random_hash_key(rng)
        state[keys.CAPACITY] = self.capacity
        state[keys.BITS_START] = start_offset
        state[keys.BITS_END] = start_offset + min(bit_bytes * OFFSETS_PER_BYTE, span)
        state[keys.LATEST_OFFSET] = -1
        super().__init__(np.zeros(bit_bytes, np.uint8), state, with_kernels=with_kernels)

    @property
    def entries(self) -> int:
        """Number of keys."""
        return int(self.state[keys.ENTRIES])

    @property
    def utilization(self) -> float:
        """Number of keys divided by the number of slots that fit in all of the memory."""
        return self.entries / self.slots

    def put(self, data: Bytes, table: KeyTable) -> int:
        """Put in the records of ``table``, all of which have keys; return how many were put in.

        Fewer than all means that the map is full. As in Kafka, a full map takes no record, even if
        it contains its key.
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
        """Fill the LATEST row for records ``[start, end)`` of ``table``: -1 for unknown keys."""
        if start == end:
            return
        if not self.with_kernels:
            found = [self._get(key) for key in keys_of(data, table, start, end)]
            table.rows[keys.LATEST, start:end] = found
            return
        from tidelog.kernels.compaction.key_walk import find_keys  # noqa: PLC0415 - compiles when imported

        arrays = table.hashes, self.table, self.state
        check_status(find_keys(data, table.rows, start, end, *arrays))

    def _hash(self, key: bytes) -> tuple[int, int]:
        """Return the two halves of a key's hash; it need not equal that of the kernels."""
        return hash_plainly(key, self.state[:2].tobytes())

    def _find(self, one: int, two: int) -> int | None:
        """Return the index of the first word of the key's slot, or of the empty slot for it.

        None means that the key is absent and no slot is empty.
        """
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
        for row, key in enumerate(keys_of(data, table, 0, table.count)):
            one, two = self._hash(key)
            at = None if self.entries >= self.capacity else self._find(one, two)
            if at is None:
                return row
            self._replace(int(self.table[at + 2]) - 1)
            self.table[at : at + keys.SLOT_WORDS] = one, two, offsets[row] + 1
            self.latest_offset = offsets[row]
        return table.count

    def _replace(self, old_offset: int) -> None:
        """Set the bit of an offset that is about to be replaced; -1 counts as a new key."""
        if old_offset < 0:
            self.state[keys.ENTRIES] += 1
        elif self.bits_start <= old_offset < self.bits_end:
            bit = old_offset - self.bits_start
            self.bits[bit >> 3] |= 1 << (bit & 7)


def random_hash_key(rng: Random) -> tuple[int, int]:
    """Return a new random key of the hash, as two words."""
    low, high = (rng.getrandbits(64) - 2**63 for _ in range(2))
    return low, high


def hash_plainly(key: bytes, hash_key: bytes) -> tuple[int, int]:
    """Return the two halves of a key's hash; it need not equal that of the kernels."""
    digest = hashlib.blake2b(key, digest_size=16, key=hash_key).digest()
    one, two = np.frombuffer(digest, np.int64).tolist()
    return one, two


def keys_of(data: Bytes, table: KeyTable, start: int, end: int) -> Iterator[bytes]:
    """Yield the keys of records ``[start, end)`` of ``table``; a null key is empty."""
    positions = table.rows[keys.KEY_AT, start:end].tolist()
    sizes = table.rows[keys.KEY_SIZE, start:end].tolist()
    for at, size in zip(positions, sizes, strict=True):
        yield data[at : at + max(size, 0)].tobytes()
