"""Compiled kernels never access a byte outside their arrays, whatever the bytes and numbers.

numba does not check what kernels do through addresses. So this file runs itself in a process of
its own, where every array ends (or begins) at a page that may be neither read nor written: one
byte too far kills the process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidelog
from tidelog.kernels import rows
from tidelog.kernels.accept_kernel import accept_batches
from tidelog.kernels.batch_headers import close_batches
from tidelog.kernels.compaction import key_rows as keys
from tidelog.kernels.compaction.key_batches import (
    collect_stats,
    count_records,
    fill_areas,
    mark_superseded,
    summarize_headers,
)
from tidelog.kernels.compaction.key_merge import (
    entries_by_bucket,
    find_superseded,
    hash_keys,
    merge_entries,
    move_entries,
)
from tidelog.kernels.compaction.key_rewrite import rewrite_batches
from tidelog.kernels.compaction.key_walk import decide_retention, find_keys, put_keys, walk_keys
from tidelog.kernels.decode_kernel import decode_records
from tidelog.kernels.encode_kernel import cut_batches, write_batches
from tidelog.kernels.extract import extract
from tidelog.kernels.gather import gather, header_positions
from tidelog.kernels.hashing.crc import crc32c
from tidelog.kernels.hashing.murmur import partition_keys
from tidelog.kernels.json.record_lines import PIECES, write_lines
from tidelog.kernels.record_headers import MOST_LENGTH_BYTES, encode_headers
from tidelog.kernels.scan_kernel import walk_batches
from tidelog.kernels.stamp_kernel import stamp_batches
from tidelog.kernels.survey import plan_index_entries, survey_batches
from tidelog.kernels.validate_kernel import validate_records
from tidelog.records.builder import BatchSpec, build_batch

PAGE = mmap.PAGESIZE
ROUNDS = 1_500
HOSTILE = (-(2**63), -(2**31), -1, 0, 1, 7, 8, 63, 64, 2**31 - 1, 2**31, 2**62, 2**63 - 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")
@pytest.mark.parametrize("side", ["end", "start"])
def test_no_kernel_leaves_its_arrays(side: str) -> None:
    """Thousands of hostile inputs next to forbidden pages: the process survives."""
    environment = {**os.environ, "PYTHONPATH": str(Path(tidelog.__file__).parents[1])}

    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, side],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, f"{ROUNDS} rounds\n"), done.stderr


class Pages:
    """Arrays next to a forbidden page, in one mapping that is reused."""

    def __init__(self, side: str, count: int, pages: int = 16) -> None:
        self.at_end = side == "end"
        self.size = pages * PAGE
        self.maps = []
        for _ in range(count):
            mapped = mmap.mmap(-1, self.size + 2 * PAGE)
            start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
            for forbidden in (start, start + PAGE + self.size):
                assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(forbidden), PAGE, 0) == 0
            self.maps.append((mapped, start + PAGE))
        self.next = 0

    def bytes(self, data: bytes | int) -> Any:
        """Return an array of these bytes, or of this size."""
        size = data if isinstance(data, int) else len(data)
        assert size <= self.size
        _, start = self.maps[self.next]
        self.next = (self.next + 1) % len(self.maps)
        address = start + self.size - size if self.at_end else start
        array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        if not isinstance(data, int):
            array[:] = np.frombuffer(data, np.uint8)
        return array

    def numbers(self, values: Any, kind: type = np.int64) -> Any:
        """Return an array of these numbers, with the same shape."""
        given: np.ndarray = np.ascontiguousarray(values, kind)
        return self.bytes(given.tobytes()).view(kind).reshape(given.shape)

    def table(self, fields: int, columns: int) -> Any:
        """Return a table to be filled."""
        return self.numbers(np.zeros((fields, columns), np.int64))


def damaged(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randrange(3)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.5 else changed)


def hostile(rng: random.Random, table: Any, chance: float = 0.5) -> Any:
    """Set a number of the table to an invalid value."""
    if table.size and rng.random() < chance:
        table[rng.randrange(table.shape[0]), rng.randrange(table.shape[1])] = rng.choice(HOSTILE)
    return table


def some_bytes(rng: random.Random) -> bytes | None:
    return rng.choice((None, b"", rng.randbytes(rng.randrange(200)), rng.randbytes(1_100)))


def some_batch(rng: random.Random) -> bytes:
    made = [
        (
            rng.randrange(-1, 10**13),
            some_bytes(rng),
            some_bytes(rng),
            [("n" * rng.randrange(3), some_bytes(rng)) for _ in range(rng.randrange(3))],
        )
        for _ in range(rng.randrange(1, 6))
    ]
    return build_batch(made, BatchSpec(base_offset=rng.randrange(100)))


def read(pages: Pages, rng: random.Random) -> None:
    """Walk, decode, validate and gather damaged bytes."""
    data = pages.bytes(damaged(rng, b"".join(some_batch(rng) for _ in range(rng.randrange(4)))))
    out = pages.table(rows.BATCH_COLUMNS, rng.randrange(4))
    found, *_ = walk_batches(data, 0, data.size, rng.random() < 0.5, rows.ANY_OFFSET, 0, out)
    seen = pages.numbers(hostile(rng, out[:, :found].copy()))
    survey_batches(seen, pages.numbers(np.zeros(rows.SURVEY_COLUMNS - rng.randrange(2))))
    entries = pages.table(rows.ENTRY_COLUMNS, max(found - rng.randrange(2), 0))
    plan_index_entries(seen, rng.choice(HOSTILE), 0, -1, -1, rng.randrange(400), entries)
    headers = pages.table(rows.BATCH_COLUMNS, rng.randrange(3))
    accept_batches(data, rng.random() < 0.5, False, 0, 10**13, headers)
    crc32c(data, rng.choice((0, 1, -1)), data.size - rng.randrange(2))
    areas = np.zeros((rows.AREA_COLUMNS, found), np.int64)
    areas[rows.AREA_START] = out[rows.POSITION, :found] + rows.HEADER_BYTES
    areas[rows.AREA_END] = out[rows.POSITION, :found] + out[rows.SIZE, :found]
    areas[rows.AREA_COUNT] = out[rows.RECORDS_COUNT, :found]
    areas = pages.numbers(hostile(rng, areas))
    decoded = pages.table(rows.RECORD_COLUMNS, rng.randrange(20))
    count, *_ = decode_records(data, areas, decoded)
    validate_records(data, areas, True, 0, 10**13, False, pages.table(rows.VALID_COLUMNS, found))
    straight(pages, rng, data, areas)
    take(pages, rng, data, hostile(rng, decoded[:, :count].copy()))


def straight(pages: Pages, rng: random.Random, data: Any, areas: Any) -> None:
    """Fill columns with the records of areas; each is too small, not wanted, or just fits."""
    stated = int(np.clip(areas[rows.AREA_COUNT], 0, 30).sum())
    places = [max(stated + rng.choice((0, 0, 0, -1)), 0) * (rng.random() < 0.7) for _ in range(2)]
    out = [pages.numbers(np.zeros(size)) for size in places]
    for _ in range(2):
        size = max(stated + rng.choice((1, 1, 1, 0)), 0) * (rng.random() < 0.7)
        room = data.size if rng.random() < 0.7 else rng.randrange(data.size + 1)
        out.append(pages.numbers(np.zeros(size), np.int32))
        out += [pages.bytes(room), pages.bytes(max(size - rng.choice((0, 0, 0, 1)), 0))]
    start, end = rng.choice(((-(2**63), 2**63 - 1), (0, 100)))
    extract(data, areas, start, end, rng.random() < 0.3, *out)


def take(pages: Pages, rng: random.Random, data: Any, table: Any) -> None:
    """Gather, hash and encode the records of a table."""
    count = table.shape[1]
    at, size = (pages.numbers(table[row]) for row in (rows.VALUE_AT, rows.VALUE_SIZE))
    room = max(int(np.clip(size, 0, 2_000).sum()) - rng.randrange(-5, 2), 0)
    offsets, valid = pages.numbers(np.zeros(count + 1), np.int32), pages.bytes(count)
    gather(data, at, size, offsets, pages.bytes(room), valid)
    partition_keys(data, at, size, 7, pages.numbers(np.zeros(count), np.int32))
    headers_at, counts = (
        pages.numbers(table[row]) for row in (rows.HEADERS_AT, rows.HEADERS_COUNT)
    )
    places = pages.table(rows.HEADER_COLUMNS, rng.randrange(12))
    header_positions(data, headers_at, counts, pages.numbers(np.zeros(count + 1), np.int32), places)
    lines(pages, rng, data, pages.numbers(table))
    order = pages.numbers([rng.choice((*range(-1, count + 1), 0)) for _ in range(rng.randrange(6))])
    encode(pages, rng, data, pages.numbers(table), order)


def lines(pages: Pages, rng: random.Random, data: Any, table: Any) -> None:
    """Write the records of a table as JSON, into buffers of every size."""
    words = [b"w" * rng.randrange(40) for _ in range(PIECES - 1)] + [b"A" * 64]
    ends = np.cumsum([0, *map(len, words)])
    if rng.random() < 0.2:
        ends[rng.randrange(ends.size)] = rng.choice(HOSTILE)
    write_lines(
        data,
        table,
        pages.bytes(bytes(rng.choice((0, 1, 2, 255)) for _ in range(table.shape[1]))),
        pages.numbers([rng.choice(HOSTILE) for _ in range(rng.randrange(4))]),
        pages.bytes(b"".join(words)),
        pages.numbers(ends),
        rng.randrange(3),
        rng.choice((0, 0, 0, 1, -1, 2**62)),
        pages.bytes(rng.choice((0, 200, 300, 1_000, 20_000))),
    )


def encode(pages: Pages, rng: random.Random, data: Any, table: Any, order: Any) -> None:
    """Split, write, close and stamp batches in a buffer that is just long enough, or not."""
    cut = pages.table(rows.BATCH_COLUMNS, rng.randrange(6))
    count, size, *_ = cut_batches(data, table, order, rng.choice((0, 300, 5_000)), 0, cut)
    out = pages.bytes(max(size - rng.choice((0, 0, 1)), 0))
    batches = pages.numbers(hostile(rng, cut[:, :count].copy(), 0.3))
    write_batches(data, data, data, table, order, batches, rng.random() < 0.5, out)
    close_batches(out, batches)
    stamp_batches(out, batches, 5, 1)


def headers(pages: Pages, rng: random.Random) -> None:
    """Encode headers whose offsets may be invalid."""
    names, values = rng.randbytes(rng.randrange(80)), rng.randbytes(rng.randrange(80))
    count = rng.randrange(4)
    lists = sorted(rng.randrange(count + 1) for _ in range(3))
    name_offsets, value_offsets = (
        np.array([sorted(rng.randrange(len(part) + 1) for _ in range(count + 1))])
        for part in (names, values)
    )
    needed = len(names) + len(values) + MOST_LENGTH_BYTES * count
    small = [number for number in HOSTILE if abs(number) <= 2**31 - 1]
    for part in (name_offsets, value_offsets):
        if rng.random() < 0.3:
            part[0, rng.randrange(part.size)] = rng.choice(small)
    encode_headers(
        pages.numbers(lists, np.int32),
        pages.bytes(bytes(rng.randrange(2) for _ in range(2))),
        pages.bytes(names),
        pages.numbers(name_offsets[0], np.int32),
        pages.bytes(values),
        pages.numbers(value_offsets[0], np.int32),
        pages.bytes(bytes(rng.randrange(2) for _ in range(count))),
        pages.table(rows.RECORD_COLUMNS, 2),
        pages.bytes(max(needed - rng.randrange(3), 0)),
    )


def compact(pages: Pages, rng: random.Random) -> None:
    """Walk, map, evaluate and rewrite damaged cleaner input."""
    data = pages.bytes(damaged(rng, b"".join(some_batch(rng) for _ in range(rng.randrange(4)))))
    found, *_ = walk_batches(
        data,
        0,
        data.size,
        False,
        rows.ANY_OFFSET,
        0,
        out := np.zeros((rows.BATCH_COLUMNS, 4), np.int64),
    )
    headers = pages.numbers(hostile(rng, out[:, :found].copy(), 0.3))
    marks = pages.numbers([rng.choice((0, 1, 2, 5, 10)) for _ in range(found)])
    areas = pages.table(rows.AREA_COLUMNS, found)
    summarize_headers(headers)
    fill_areas(headers, areas)
    areas = pages.numbers(hostile(rng, areas.copy(), 0.3))
    stated = count_records(areas, marks)
    table = pages.table(keys.KEY_COLUMNS, max(min(stated, 99) - rng.choice((0, 0, 1)), 0))
    count, *_ = walk_keys(data, areas, marks, 0, rng.random() < 0.5, table)
    judged = pages.numbers(hostile(rng, table.copy(), 0.5))
    slots = pages.numbers(np.zeros(keys.SLOT_WORDS * rng.randrange(1, 9)))
    bits = pages.bytes(rng.randrange(14))
    state = np.zeros(keys.STATE_WORDS, np.int64)
    state[keys.CAPACITY], state[keys.BITS_END] = rng.randrange(9), 8 * bits.size
    state = pages.numbers(state)
    hashes = pages.table(2, judged.shape[1])
    put_keys(data, judged, count, hashes, slots, bits, state)
    find_keys(data, judged, 0, count, hashes, slots, state)
    decide_retention(areas, marks, judged, count, bits, state, 0)
    hash_keys(data, judged, count, state, hashes)
    entries = pages.table(keys.SLOT_WORDS, rng.randrange(9))
    lost = pages.numbers(np.zeros(max(entries.shape[1] - rng.choice((0, 0, 1)), 0)))
    merge_entries(entries, rng.choice((0, 0, 3, -1)), rng.randrange(9), slots, lost)
    find_superseded(entries, slots, lost)
    move_entries(slots, pages.numbers(np.zeros(keys.SLOT_WORDS * rng.randrange(9))))
    taken = pages.numbers(np.zeros(rng.randrange(28)))
    entries_by_bucket(slots, pages.table(rng.choice((3, 3, 2)), rng.randrange(4)), taken)
    mark_superseded(headers, marks, bits, state)
    room = data.size + 10 * count + rows.HEADER_BYTES * found - rng.choice((0, 0, 1, 70))
    written, fates = pages.table(rows.BATCH_COLUMNS, found), pages.numbers(np.zeros(found))
    copy, target = rng.random() < 0.5, pages.bytes(max(room, 0))
    judged = pages.numbers(hostile(rng, judged.copy(), 0.5))
    rewrite_batches(data, headers, marks, judged, count, 5, copy, target, written, fates)
    collect_stats(headers, marks, judged, count, fates, pages.numbers(np.zeros(keys.SEEN_COLUMNS)))


def main(side: str) -> None:
    rng = random.Random(side)
    pages = Pages(side, 40)
    for _ in range(ROUNDS):
        read(pages, rng)
        headers(pages, rng)
        compact(pages, rng)
    sys.stdout.write(f"{ROUNDS} rounds\n")


if __name__ == "__main__":
    main(sys.argv[1])
