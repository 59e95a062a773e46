"""The log cleaner's passes over records: find keys, hash them, fill and search the offset map.

An offset map is an array of slots of three words, with linear probing from the slot that the first
word of the hash selects; ``key_rows`` names the elements of its state. Kafka: ``Cleaner``,
``SkimpyOffsetMap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernels.compaction.key_rows import (
    AREA,
    BITS_END,
    BITS_START,
    CAPACITY,
    END,
    ENTRIES,
    EXPIRED,
    FILTER,
    KEEP,
    KEY_AT,
    KEY_COLUMNS,
    KEY_HIGH,
    KEY_LOW,
    KEY_SIZE,
    KEYLESS,
    LATEST,
    LATEST_OFFSET,
    OFFSET,
    REST_AT,
    SLOT_WORDS,
    STATE_WORDS,
    STAYS,
    SUPERSEDED,
    TIMESTAMP,
    VALUE_SIZE,
    VERDICT,
)
from tidelog.kernels.hashing.siphash import siphash128
from tidelog.kernels.record_kernel import area_status, check_headers, record_bounds
from tidelog.kernels.rows import (
    AREA_ATTRIBUTES,
    AREA_BASE_OFFSET,
    AREA_BASE_TIMESTAMP,
    AREA_COLUMNS,
    AREA_COUNT,
    AREA_END,
    AREA_MAX_TIMESTAMP,
    AREA_START,
    BAD_ARGUMENT,
    BAD_KEY_LENGTH,
    BAD_VALUE_LENGTH,
    BAD_VARINT,
    BYTES_LEFT_OVER,
    LOG_APPEND_TIME,
    MISSING_RECORDS,
    OK,
)
from tidelog.kernels.runtime.intrinsics import add64, address_of, prefetch, shift_right
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT64S,
    TABLE,
    WRITABLE_BYTES,
    WRITABLE_INT64S,
    WRITABLE_TABLE,
    called,
    inlined,
    kernel,
)
from tidelog.kernels.varint_kernel import read_varint, read_varlong

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

AHEAD: Final = 16
"""Slots are prefetched this many records ahead, the fastest of the distances measured."""
DELETE_HORIZON: Final = 0x40
"""Attribute bit: the batch's base timestamp is its delete horizon."""


class _Keyed(NamedTuple):
    """A record without its headers; ``_at`` are addresses, and a size of -1 is null."""

    timestamp_delta: int
    offset_delta: int
    rest_at: int
    key_at: int
    key_size: int
    value_size: int


_NOTHING = _Keyed(0, 0, 0, 0, 0, 0)


@inlined
def _keyed_record(at: int, end: int) -> tuple[int, _Keyed]:
    """Return a status, and the fields that ``walk_keys`` needs of the record in ``[at, end)``."""
    timestamp_delta, used = read_varlong(at + 1, end - at - 1)
    if used == 0:
        return BAD_VARINT, _NOTHING
    at += 1 + used
    offset_delta, used = read_varint(at, end - at)
    if used == 0:
        return BAD_VARINT, _NOTHING
    rest_at = at + used
    key_size, used = read_varint(rest_at, end - rest_at)
    key_at = rest_at + used
    if used == 0 or key_size > end - key_at:
        return BAD_KEY_LENGTH, _NOTHING
    key_size = max(key_size, -1)
    at = key_at + max(key_size, 0)
    value_size, used = read_varint(at, end - at)
    if used == 0 or value_size > end - at - used:
        return BAD_VALUE_LENGTH, _NOTHING
    value_size = max(value_size, -1)
    status, _count, _headers_at = check_headers(at + used + max(value_size, 0), end)
    return status, _Keyed(timestamp_delta, offset_delta, rest_at, key_at, key_size, value_size)


@called
def _walk_area(
    first: int,
    areas: npt.NDArray[np.int64],
    area: int,
    min_offset: int,
    keyed_only: bool,  # noqa: FBT001 - kernels pass arguments by position
    out: npt.NDArray[np.int64],
    row: int,
) -> tuple[int, int]:
    """Fill columns of ``out`` from ``row`` on for one area; return the next row and a status."""
    at, area_end = first + areas[AREA_START, area], first + areas[AREA_END, area]
    base_offset, base_time = areas[AREA_BASE_OFFSET, area], areas[AREA_BASE_TIMESTAMP, area]
    max_time = areas[AREA_MAX_TIMESTAMP, area]
    is_append_time = areas[AREA_ATTRIBUTES, area] & LOG_APPEND_TIME
    count = areas[AREA_COUNT, area]
    for _ in range(count):
        if at == area_end:
            return row, MISSING_RECORDS
        status, body, end = record_bounds(at, area_end)
        if status != OK:
            return row, status
        status, found = _keyed_record(body, end)
        if status != OK:
            return row, status
        at = end
        offset = add64(base_offset, found.offset_delta)
        if offset < min_offset or (keyed_only and found.key_size < 0):
            continue
        time = add64(base_time, found.timestamp_delta)
        out[OFFSET, row] = offset
        out[TIMESTAMP, row] = max_time if is_append_time else time
        out[REST_AT, row] = found.rest_at - first
        out[KEY_AT, row] = found.key_at - first
        out[KEY_SIZE, row] = found.key_size
        out[VALUE_SIZE, row] = found.value_size
        out[END, row] = end - first
        out[AREA, row] = area
        row += 1
    return row, OK if count == 0 or at == area_end else BYTES_LEFT_OVER


@kernel(f"UniTuple(int64, 3)({BYTES}, {TABLE}, {INT64S}, int64, boolean, {WRITABLE_TABLE})")
def walk_keys(
    data: npt.NDArray[np.uint8],
    areas: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    min_offset: int,
    keyed_only: bool,  # noqa: FBT001 - numba takes arguments by position
    out: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fill one column of ``out`` for each record of areas whose actions include FILTER or KEEP.

    Records below ``min_offset`` are omitted, and with ``keyed_only`` also records without a key.
    Returns the number of records, a status, and the area where the walk stopped. ``out`` must have
    room for all records that the areas state.
    """
    if areas.shape[0] < AREA_COLUMNS or out.shape[0] < KEY_COLUMNS or actions.size < areas.shape[1]:
        return 0, BAD_ARGUMENT, 0
    first = address_of(data)
    row = 0
    for area in range(areas.shape[1]):
        if actions[area] & (FILTER | KEEP) == 0:
            continue
        start, end, count = areas[AREA_START, area], areas[AREA_END, area], areas[AREA_COUNT, area]
        status = area_status(start, end, data.size, count, out.shape[1] - row)
        if status != OK:
            return row, status, area
        row, status = _walk_area(first, areas, area, min_offset, keyed_only, out, row)
        if status != OK:
            return row, status, area
    return row, OK, areas.shape[1]


@inlined
def slot_of(hash_word: int, slots: int) -> int:
    """Return the word at which the search for a key begins; there are fewer than 2**31 slots."""
    return shift_right(shift_right(hash_word, 32) * slots, 32) * SLOT_WORDS


@called
def hash_rows(
    data: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
    start: int,
    end: int,
    state: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.int64],
) -> int:
    """Hash the keys of ``rows[start:end]``, a null key like an empty one; return a status."""
    first, size = address_of(data), data.size
    low, high = state[KEY_LOW], state[KEY_HIGH]
    for row in range(start, end):
        at, key_size = rows[KEY_AT, row], max(rows[KEY_SIZE, row], 0)
        if not 0 <= at <= size - key_size:
            return BAD_ARGUMENT
        hashes[0, row], hashes[1, row] = siphash128(first + at, key_size, size - at, low, high)
    return OK


@inlined
def find_slot(table: npt.NDArray[np.int64], one: int, two: int) -> int:
    """Return the word of the key's slot or of the empty slot for it; -1 if the table is full."""
    words = table.size
    at = slot_of(one, words // SLOT_WORDS)
    for _ in range(words // SLOT_WORDS):
        if table[at + 2] == 0 or (table[at] == one and table[at + 1] == two):
            return at
        at += SLOT_WORDS
        if at == words:
            at = 0
    return -1


@called
def _is_map(table: npt.NDArray[np.int64], state: npt.NDArray[np.int64], bits: int) -> bool:
    """Return whether the arrays of a map are consistent; ``bits`` is the size of the third."""
    if state.size < STATE_WORDS or table.size % SLOT_WORDS or table.size >= SLOT_WORDS << 31:
        return False
    return bool(0 <= state[BITS_END] - state[BITS_START] <= 8 * bits)


@kernel(
    f"UniTuple(int64, 2)({BYTES}, {TABLE}, int64, {WRITABLE_TABLE}, {WRITABLE_INT64S}, "
    f"{WRITABLE_BYTES}, {WRITABLE_INT64S})"
)
def put_keys(
    data: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
    count: int,
    hashes: npt.NDArray[np.int64],
    table: npt.NDArray[np.int64],
    bits: npt.NDArray[np.uint8],
    state: npt.NDArray[np.int64],
) -> tuple[int, int]:
    """Put the offsets of ``rows[:count]``, which rise and have keys, into the map until it is full.

    The bit of each superseded offset is set in ``bits``. ``hashes`` is scratch space of two rows.
    Returns a status and the number of records put into the map; fewer than ``count`` means that the
    map is full.
    """
    if rows.shape[0] < KEY_COLUMNS or hashes.shape[0] < 2 or not _is_map(table, state, bits.size):
        return BAD_ARGUMENT, 0
    if not 0 <= count <= min(rows.shape[1], hashes.shape[1]):
        return BAD_ARGUMENT, 0
    status = hash_rows(data, rows, 0, count, state, hashes)
    if status != OK:
        return status, 0
    base, slots = address_of(table), table.size // SLOT_WORDS
    bits_start, bits_end = state[BITS_START], state[BITS_END]
    for row in range(count):
        ahead = min(row + AHEAD, count - 1)
        prefetch(base + 8 * slot_of(hashes[0, ahead], slots))
        if state[ENTRIES] >= state[CAPACITY]:
            return OK, row
        at = find_slot(table, hashes[0, row], hashes[1, row])
        if at < 0:
            return OK, row
        offset = rows[OFFSET, row]
        known = table[at + 2] - 1
        if known < 0:
            table[at], table[at + 1] = hashes[0, row], hashes[1, row]
            state[ENTRIES] += 1
        elif bits_start <= known < bits_end:
            bit = known - bits_start
            bits[bit >> 3] |= 1 << (bit & 7)
        table[at + 2] = offset + 1
        state[LATEST_OFFSET] = offset
    return OK, count


@kernel(f"int64({BYTES}, {WRITABLE_TABLE}, int64, int64, {WRITABLE_TABLE}, {INT64S}, {INT64S})")
def find_keys(
    data: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
    start: int,
    end: int,
    hashes: npt.NDArray[np.int64],
    table: npt.NDArray[np.int64],
    state: npt.NDArray[np.int64],
) -> int:
    """Fill LATEST of ``rows[start:end]`` from the map: -1 for a key that is not in it."""
    if rows.shape[0] < KEY_COLUMNS or hashes.shape[0] < 2 or not _is_map(table, state, 1 << 50):
        return BAD_ARGUMENT
    if not 0 <= start <= end <= min(rows.shape[1], hashes.shape[1]):
        return BAD_ARGUMENT
    status = hash_rows(data, rows, start, end, state, hashes)
    if status != OK:
        return status
    base, slots = address_of(table), table.size // SLOT_WORDS
    for row in range(start, end):
        ahead = min(row + AHEAD, end - 1)
        prefetch(base + 8 * slot_of(hashes[0, ahead], slots))
        at = find_slot(table, hashes[0, row], hashes[1, row])
        rows[LATEST, row] = table[at + 2] - 1 if at >= 0 else -1
    return OK


@kernel(f"int64({TABLE}, {INT64S}, {WRITABLE_TABLE}, int64, {BYTES}, {INT64S}, int64)")
def decide_retention(
    areas: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    count: int,
    bits: npt.NDArray[np.uint8],
    state: npt.NDArray[np.int64],
    now_ms: int,
) -> int:
    """Fill VERDICT of ``rows[:count]``, from ``bits`` or, for offsets without a bit, from LATEST.

    A tombstone is retained until its batch has a delete horizon that has passed. Source: Kafka
    Cleaner.shouldRetainRecord.
    """
    if areas.shape[0] < AREA_COLUMNS or rows.shape[0] < KEY_COLUMNS or state.size < STATE_WORDS:
        return BAD_ARGUMENT
    bits_start, bits_end = state[BITS_START], state[BITS_END]
    if not 0 <= count <= rows.shape[1] or not 0 <= bits_end - bits_start <= 8 * bits.size:
        return BAD_ARGUMENT
    latest_offset = state[LATEST_OFFSET]
    for row in range(count):
        area, offset = rows[AREA, row], rows[OFFSET, row]
        if not 0 <= area < min(areas.shape[1], actions.size):
            return BAD_ARGUMENT
        if bits_start <= offset < bits_end:
            bit = offset - bits_start
            is_superseded = bits[bit >> 3] >> (bit & 7) & 1 != 0
        else:
            is_superseded = offset < rows[LATEST, row]
        has_horizon = areas[AREA_ATTRIBUTES, area] & DELETE_HORIZON != 0
        is_due = has_horizon and areas[AREA_BASE_TIMESTAMP, area] <= now_ms
        verdict = EXPIRED if is_due and rows[VALUE_SIZE, row] < 0 else STAYS
        if rows[KEY_SIZE, row] < 0:
            verdict = KEYLESS
        elif is_superseded:
            verdict = SUPERSEDED
        stays = offset > latest_offset or actions[area] & KEEP != 0
        rows[VERDICT, row] = STAYS if stays else verdict
    return OK
