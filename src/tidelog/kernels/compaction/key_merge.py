"""Keys of a log that many processes clean together: hashed, reduced and looked up.

An entry is a column of three words: both halves of a key's hash, and an offset. A table of entries
has the slots of an offset map, but no bits: an offset that another one supersedes is returned. So
entries may come in any order, from any process. Kafka's cleaner is one thread and has no such step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernels.compaction.key_rows import KEY_COLUMNS, SLOT_WORDS, STATE_WORDS
from tidelog.kernels.compaction.key_walk import AHEAD, find_slot, hash_rows, slot_of
from tidelog.kernels.rows import BAD_ARGUMENT
from tidelog.kernels.runtime.intrinsics import address_of, prefetch, shift_right
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT64S,
    TABLE,
    WRITABLE_INT64S,
    WRITABLE_TABLE,
    called,
    kernel,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@kernel(f"int64({BYTES}, {TABLE}, int64, {INT64S}, {WRITABLE_TABLE})")
def hash_keys(
    data: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
    count: int,
    state: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.int64],
) -> int:
    """Fill both rows of ``hashes`` for the keys of ``rows[:count]``; return OK or BAD_ARGUMENT.

    ``state`` is that of an offset map; only the random key of its hash is used.
    """
    if rows.shape[0] < KEY_COLUMNS or hashes.shape[0] < 2 or state.size < STATE_WORDS:
        return BAD_ARGUMENT
    if not 0 <= count <= min(rows.shape[1], hashes.shape[1]):
        return BAD_ARGUMENT
    return hash_rows(data, rows, 0, count, state, hashes)


@called
def _is_table(table: npt.NDArray[np.int64]) -> bool:
    """Return whether an array has the form of a table of entries."""
    words = table.size
    return bool(words > 0 and words % SLOT_WORDS == 0 and words < SLOT_WORDS << 31)


@called
def _are_entries(entries: npt.NDArray[np.int64], table: npt.NDArray[np.int64]) -> bool:
    """Return whether the arrays have the form of entries and of their table."""
    return bool(entries.shape[0] >= SLOT_WORDS and _is_table(table))


@kernel(f"UniTuple(int64, 3)({TABLE}, int64, int64, {WRITABLE_INT64S}, {WRITABLE_INT64S})")
def merge_entries(
    entries: npt.NDArray[np.int64],
    start: int,
    room: int,
    table: npt.NDArray[np.int64],
    superseded: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Put ``entries[:, start:]`` into the table, of which each key retains its greatest offset.

    The offsets that do not stay are written to ``superseded``, which has a word for each entry; an
    offset that is there already supersedes nothing. Ends before the entry that needs an empty slot
    once ``room`` new keys were put in. Returns how far it came (or BAD_ARGUMENT), how many offsets
    were superseded, and how many keys are new.
    """
    count = entries.shape[1]
    if not _are_entries(entries, table) or not 0 <= start <= count <= superseded.size + start:
        return BAD_ARGUMENT, 0, 0
    base, slots = address_of(table), table.size // SLOT_WORDS
    lost = added = 0
    for index in range(start, count):
        ahead = min(index + AHEAD, count - 1)
        prefetch(base + 8 * slot_of(entries[0, ahead], slots))
        at = find_slot(table, entries[0, index], entries[1, index])
        if at < 0:
            return index, lost, added
        offset, known = entries[2, index], table[at + 2] - 1
        if known < 0:
            if added >= room:
                return index, lost, added
            table[at], table[at + 1] = entries[0, index], entries[1, index]
            added += 1
        elif known != offset:
            superseded[lost] = min(known, offset)
            lost += 1
        table[at + 2] = max(known, offset) + 1
    return count, lost, added


@kernel(f"int64({INT64S}, {WRITABLE_INT64S})")
def move_entries(table: npt.NDArray[np.int64], larger: npt.NDArray[np.int64]) -> int:
    """Copy all entries of a table into a larger, empty one; return their number.

    Both are traversed once, since the slots of both are in the order of the hash. Returns
    BAD_ARGUMENT if the entries do not fit.
    """
    if not _is_table(table) or not _is_table(larger):
        return BAD_ARGUMENT
    moved = 0
    for at in range(0, table.size, SLOT_WORDS):
        if table[at + 2] == 0:
            continue
        to = find_slot(larger, table[at], table[at + 1])
        if to < 0:
            return BAD_ARGUMENT
        larger[to], larger[to + 1] = table[at], table[at + 1]
        larger[to + 2] = table[at + 2]
        moved += 1
    return moved


@called
def _bucket_of(hash_word: int, buckets: int) -> int:
    """Return the bucket that a hash selects; there are fewer than 2**31 buckets."""
    return shift_right(shift_right(hash_word, 32) * buckets, 32)


@kernel(f"int64({INT64S}, {WRITABLE_TABLE}, {WRITABLE_INT64S})")
def entries_by_bucket(
    table: npt.NDArray[np.int64],
    bounds: npt.NDArray[np.int64],
    entries: npt.NDArray[np.int64],
) -> int:
    """Write the entries of a table to ``entries``, those of each bucket together.

    The second half of the hash selects one of ``bounds.shape[1]`` buckets. The rows of ``bounds``
    become the first entry and the number of entries of each bucket, and that number again. The
    entries of a bucket are three rows of ``entries``, one after the other. Returns the number of
    all entries, or BAD_ARGUMENT if they do not fit.
    """
    buckets = bounds.shape[1]
    if not _is_table(table) or bounds.shape[0] < SLOT_WORDS or not 0 < buckets < 1 << 31:
        return BAD_ARGUMENT
    for bucket in range(buckets):
        bounds[1, bucket] = 0
    for at in range(0, table.size, SLOT_WORDS):
        if table[at + 2] != 0:
            bounds[1, _bucket_of(table[at + 1], buckets)] += 1
    count = 0
    for bucket in range(buckets):
        bounds[0, bucket], bounds[2, bucket] = count, 0
        count += bounds[1, bucket]
    if count > entries.size // SLOT_WORDS:
        return BAD_ARGUMENT
    for at in range(0, table.size, SLOT_WORDS):
        if table[at + 2] != 0:
            bucket = _bucket_of(table[at + 1], buckets)
            to, size = bounds[0, bucket] * SLOT_WORDS + bounds[2, bucket], bounds[1, bucket]
            entries[to], entries[to + size] = table[at], table[at + 1]
            entries[to + 2 * size] = table[at + 2] - 1
            bounds[2, bucket] += 1
    return count


@kernel(f"int64({TABLE}, {INT64S}, {WRITABLE_INT64S})")
def find_superseded(
    entries: npt.NDArray[np.int64],
    table: npt.NDArray[np.int64],
    superseded: npt.NDArray[np.int64],
) -> int:
    """Write to ``superseded`` the offsets of entries whose key has a greater one in the table.

    Returns their number, or BAD_ARGUMENT. ``superseded`` has a word for each entry.
    """
    count = entries.shape[1]
    if not _are_entries(entries, table) or superseded.size < count:
        return BAD_ARGUMENT
    base, slots = address_of(table), table.size // SLOT_WORDS
    lost = 0
    for index in range(count):
        ahead = min(index + AHEAD, count - 1)
        prefetch(base + 8 * slot_of(entries[0, ahead], slots))
        at = find_slot(table, entries[0, index], entries[1, index])
        if at >= 0 and table[at + 2] - 1 > entries[2, index]:
            superseded[lost] = entries[2, index]
            lost += 1
    return lost
