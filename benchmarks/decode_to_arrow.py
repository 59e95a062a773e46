"""How fast do records become Arrow tables, against aiokafka making Python tuples of them?

One thread, from memory, no codec; both verify the CRC. tidelog builds all eight columns (key,
value, topic, partition, offset, timestamp, timestampType, headers); aiokafka the tuple (offset,
timestamp, timestamp type, key, value, headers) of each record. Goals: at least 5 times aiokafka's
rows/s with 100-byte values, 3 times with 1 KB. Rounds are interleaved; the best of each counts.

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
from tidelog.records.decoding.record_columns import decode_groups
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20130101
BATCH_BYTES = 16 << 10
CHUNK_BYTES = 2 << 20
TOTAL_BYTES = 32 << 20
ROUNDS = 25
GOALS = {100: 5.0, 1000: 3.0}


def make_chunks(value_bytes: int) -> tuple[list[bytes], int]:
    """Make chunks of 16 KB batches; return them and the number of records."""
    rng = random.Random(SEED)
    per_batch = BATCH_BYTES // (value_bytes + 27)
    chunks: list[bytes] = []
    chunk, count = bytearray(), 0
    while len(chunks) * CHUNK_BYTES < TOTAL_BYTES:
        records = [
            (1_700_000_000_000 + n, rng.randbytes(16), rng.randbytes(value_bytes), ())
            for n in range(count, count + per_batch)
        ]
        chunk += build_batch(records, BatchSpec(base_offset=count))
        count += per_batch
        if len(chunk) >= CHUNK_BYTES:
            chunks.append(bytes(chunk))
            chunk = bytearray()
    return chunks, count - (count % per_batch)


def to_tables(chunks: list[bytes]) -> int:
    """Make Arrow tables of every chunk; return the number of rows."""
    decoder = ArrowDecoder(SCHEMA_WITH_HEADERS, "topic", 0)
    return sum(
        table.num_rows
        for chunk in chunks
        for group in decode_groups(chunk, walk(chunk, check_crc=True).batches)
        for table in decoder.tables(group)
    )


def to_tuples(chunks: list[bytes]) -> int:
    """Make a tuple of every record with aiokafka; return their number."""
    count = 0
    for chunk in chunks:
        batches = MemoryRecords(chunk)
        while batches.has_next():
            batch = batches.next_batch()
            if not batch.validate_crc():
                raise SystemExit("aiokafka found a wrong CRC")
            for r in batch:
                _ = (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
                count += 1
    return count


def cpu_seconds(decode: Callable[[list[bytes]], int], chunks: list[bytes]) -> tuple[float, int]:
    """Return the CPU seconds of one call and the number of rows."""
    start = time.process_time()
    rows = decode(chunks)
    return time.process_time() - start, rows


def main() -> int:
    """Print both rates for both sizes; return 1 if a goal is missed."""
    gate.force(True)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"seed {SEED}, {TOTAL_BYTES >> 20} MiB in chunks of {CHUNK_BYTES >> 20} MiB")
    missed = False
    for value_bytes, goal in GOALS.items():
        chunks, _ = make_chunks(value_bytes)
        to_tables(chunks[:1])
        ours: list[float] = []
        theirs: list[float] = []
        rows: set[int] = set()
        for _ in range(ROUNDS):
            for seconds, decode in ((ours, to_tables), (theirs, to_tuples)):
                taken, count = cpu_seconds(decode, chunks)
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
