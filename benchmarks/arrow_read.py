"""How fast does a topic become a table, beside a Parquet file of the same rows?

``tidelog.arrow.read`` into one table, on one thread and on two, beside ``pyarrow.parquet`` on the
same file, uncompressed, with the same columns; a query of DuckDB over ``tidelog.arrow.dataset``,
beside the same over the file, on one thread each; and one that filters by offset, of which both
have to read a hundredth. Records of 100 B and 1 KB in four partitions; files are in the page cache.
Goals: half of Parquet's speed at 100 B and 0.4 of it for a query, by CPU time; two threads 1.7
times one, by time.

    .venv/bin/python benchmarks/arrow_read.py [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
from measure import Goals, heading, measure

import tidelog
import tidelog.arrow

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20261126
TOPIC = "t"
PARTITIONS = 4
COLUMNS = ["key", "value", "partition", "offset", "timestamp"]
START_MS = 1_750_000_000_000
TABLE_GOAL, QUERY_GOAL, THREADS_GOAL = 0.5, 0.4, 1.7
QUERY = """
    SELECT partition, count(*), max("offset"), min(timestamp), max(octet_length(value))
    FROM rows GROUP BY partition
"""
FEW = 'SELECT count(*), max(octet_length(value)) FROM rows WHERE "offset" < {end}'


def fill(folder: Path, records: int, size: int) -> Path:
    """Write the topic, and its rows as a Parquet file; return the file's path."""
    rng = random.Random(SEED)
    value = rng.randbytes(size + records)
    with tidelog.open(folder) as logs:
        logs.create_topic(TOPIC, PARTITIONS, config={"retention.ms": "-1"})
        logs.append_all(
            TOPIC,
            (
                {
                    "key": b"%08d" % (n % 1000),
                    "value": value[n : n + size],
                    "timestamp": START_MS + n,
                    "partition": n % PARTITIONS,
                }
                for n in range(records)
            ),
        )
    path = folder / "rows.parquet"
    rows = tidelog.arrow.read(folder, TOPIC, columns=COLUMNS)
    with pq.ParquetWriter(path, rows.schema, compression="none", use_dictionary=False) as writer:
        for batch in rows:
            writer.write_batch(batch)
    return path


def asked(query: str, rows: object) -> object:
    """Return what DuckDB answers on one thread; ``rows`` is what the query reads."""
    with duckdb.connect(config={"threads": 1}) as connection:
        if isinstance(rows, Path):
            connection.read_parquet(str(rows)).create_view("rows")
        else:
            connection.register("rows", rows)
        return sorted(connection.sql(query).fetchall())


def compare(folder: Path, records: int, size: int, rounds: int, goals: Goals) -> None:
    """Measure all for records of one size."""
    path = fill(folder, records, size)
    few = FEW.format(end=records // PARTITIONS // 100)

    def table(threads: int) -> object:
        return tidelog.arrow.read(folder, TOPIC, columns=COLUMNS, threads=threads).read_all()

    def rows() -> object:
        return tidelog.arrow.dataset(folder, TOPIC, threads=1)

    functions: dict[str, Callable[[], object]] = {
        "table, 1 thread": partial(table, 1),
        "table, 2 threads": partial(table, 2),
        "Parquet table, 1 thread": lambda: pq.read_table(path, use_threads=False),
        "query": lambda: asked(QUERY, rows()),
        "Parquet query": lambda: asked(QUERY, path),
        "few": lambda: asked(few, rows()),
        "Parquet few": lambda: asked(few, path),
    }
    assert functions["query"]() == functions["Parquet query"]()
    assert functions["few"]() == functions["Parquet few"]()
    found = measure(functions, rounds=rounds)
    print(f"{records:,} records of {size} B, million records a second:")
    for name, timing in found.items():
        print(f"  {name:24}{timing.rate(records)}")
    one, two = found["table, 1 thread"], found["table, 2 threads"]
    if size == min(SIZES):
        goals.at_least(TABLE_GOAL, "table beside Parquet", one, found["Parquet table, 1 thread"])
    goals.at_least(QUERY_GOAL, "query beside Parquet", found["query"], found["Parquet query"])
    goals.at_least(QUERY_GOAL, "few beside Parquet", found["few"], found["Parquet few"])
    print(f"  two threads: {one.best / two.best:.2f} times one, by time (goal {THREADS_GOAL})")


SIZES = (100, 1_000)


def main() -> int:
    """Compare for each size, with the same number of bytes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000, help="of 100 B")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    heading((__doc__ or "").splitlines()[0], SEED)
    goals = Goals()
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            records = arguments.records * SIZES[0] // size
            compare(Path(folder), records, size, arguments.rounds, goals)
    return goals.status


if __name__ == "__main__":
    sys.exit(main())
