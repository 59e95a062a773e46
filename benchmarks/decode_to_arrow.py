"""How fast do records become Arrow tables, against aiokafka making Python tuples of them?

One thread, from memory, no codec, CRC checked by both. tidelog builds all eight columns (key,
value, topic, partition, offset, timestamp, timestampType, headers); aiokafka the tuple (offset,
timestamp, timestamp type, key, value, headers) of each record. Goals: rows/s at least 5 times
aiokafka's at 100-byte values, 3 times at 1 KB. Rounds are interleaved; the best of each counts.

    .venv/bin/python benchmarks/decode_to_arrow.py
"""

from __future__ import annotations

import platform
import random
import sys
import time
from typing import TYPE_CHECKING

from aiokafka.record.memory_records import MemoryRecords

from tidelog.arrow.decode import ArrowDecoder
from tidelog.arrow.schema import SCHEMA_WITH_HEADERS
from tidelog.kernels.runtime import gate
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.memory import walk
from tidelog.records.record_columns import decode_groups

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20130101
BATCH_BYTES = 16 << 10
PIECE_BYTES = 2 << 20
TOTAL_BYTES = 32 << 20
ROUNDS = 25
GOALS = {100: 5.0, 1000: 3.0}


def pieces(value_bytes: int) -> tuple[list[bytes], int]:
    """Make pieces of 16 KB batches; return them and the number of records."""
    rng = random.Random(SEED)
    per_batch = BATCH_BYTES // (value_bytes + 27)
    made: list[bytes] = []
    piece, count = bytearray(), 0
    while len(made) * PIECE_BYTES < TOTAL_BYTES:
        records = [
            (1_700_000_000_000 + n, rng.randbytes(16), rng.randbytes(value_bytes), ())
            for n in range(count, count + per_batch)
        ]
        piece += build_batch(records, BatchSpec(base_offset=count))
        count += per_batch
        if len(piece) >= PIECE_BYTES:
            made.append(bytes(piece))
            piece = bytearray()
    return made, count - (count % per_batch)


def to_tables(data: list[bytes]) -> int:
    """Make Arrow tables of every piece; return the number of rows."""
    decoder = ArrowDecoder(SCHEMA_WITH_HEADERS, "topic", 0)
    return sum(
        table.num_rows
        for piece in data
        for group in decode_groups(piece, walk(piece, check_crc=True).batches)
        for table in decoder.tables(group)
    )


def to_tuples(data: list[bytes]) -> int:
    """Let aiokafka make a tuple of every record; return their number."""
    count = 0
    for piece in data:
        batches = MemoryRecords(piece)
        while batches.has_next():
            batch = batches.next_batch()
            if not batch.validate_crc():
                raise SystemExit("aiokafka finds a wrong CRC")
            for r in batch:
                _ = (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
                count += 1
    return count


def cpu_seconds(work: Callable[[list[bytes]], int], data: list[bytes]) -> tuple[float, int]:
    """Return the CPU seconds of one run and what it returned."""
    start = time.process_time()
    rows = work(data)
    return time.process_time() - start, rows


def main() -> int:
    """Print both rates for both sizes; return 1 if a goal is missed."""
    gate.force(True)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"seed {SEED}, {TOTAL_BYTES >> 20} MiB in pieces of {PIECE_BYTES >> 20} MiB")
    missed = False
    for value_bytes, goal in GOALS.items():
        data, _ = pieces(value_bytes)
        to_tables(data[:1])
        ours: list[float] = []
        theirs: list[float] = []
        rows: set[int] = set()
        for _ in range(ROUNDS):
            for seconds, work in ((ours, to_tables), (theirs, to_tuples)):
                taken, count = cpu_seconds(work, data)
                seconds.append(taken)
                rows.add(count)
        (count,) = rows  # both saw the same records
        ratio = min(theirs) / min(ours)
        missed |= ratio < goal
        print(
            f"{value_bytes:5} B: tidelog {count / min(ours) / 1e6:6.1f} M rows/s, "
            f"aiokafka {count / min(theirs) / 1e6:5.2f} M rows/s, "
            f"ratio {ratio:.1f} (goal {goal:g}){' MISSED' if ratio < goal else ''}"
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
