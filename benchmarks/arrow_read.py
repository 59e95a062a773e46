"""How fast does a topic become a table, beside a Parquet file of the same rows?

``tidelog.arrow.read`` into one table, on one thread and on two, beside ``pyarrow.parquet`` on the
same file, uncompressed, with the same columns, and beside aiokafka's decoder, a record at a time
without a broker; a query of DuckDB, and one of Polars where it is installed, over
``tidelog.arrow.dataset``, beside the same over the file, on one thread each; one that filters by
offset, of which both have to read a hundredth; and ``tidelog.arrow.write`` of the table, durable,
beside a Parquet file that is synced. Records of 100 B and 1 KB in four partitions; files are in the
page cache. With Kafka's jars (`make peer`) a running broker's topic as a table, beside aiokafka's
consumer. Goals, by CPU time: at 100 B half of Parquet's speed, 0.4 of it for a query, and 10 times
aiokafka's. Two threads should be 1.7 times one by time; two that only copy memory are measured
beside them, and a topic compressed by zstd, where decoding weighs more.

    .venv/bin/python benchmarks/arrow_read.py [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka import AIOKafkaConsumer
from aiokafka.record.memory_records import MemoryRecords
from kafka_broker import Broker, is_installed
from measure import Goals, heading, measure

import tidelog
import tidelog.arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from measure import Timing

SEED = 20261126
TOPIC = "t"
PARTITIONS = 4
COLUMNS = ["key", "value", "partition", "offset", "timestamp"]
START_MS = 1_750_000_000_000
TABLE_GOAL, QUERY_GOAL, LOOP_GOAL, THREADS_GOAL = 0.5, 0.4, 10, 1.7
COPIED_BYTES = 64 << 20
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


def by_polars(rows: object) -> object:
    """Return what Polars answers to the query; it has as many threads as it wants."""
    import polars as pl

    frame = pl.scan_parquet(rows) if isinstance(rows, Path) else pl.scan_pyarrow_dataset(rows)
    found = frame.group_by("partition").agg(
        pl.len(),
        pl.col("offset").max(),
        pl.col("timestamp").min(),
        pl.col("value").bin.size().max(),
    )
    return sorted(found.collect().rows())


def by_aiokafka(folder: Path) -> pa.Table:
    """Return a table of partition 0, made of the records that aiokafka decodes."""
    keys, values, offsets, times = [], [], [], []
    for path in sorted(folder.glob(f"{TOPIC}-0/*.log")):
        batches = MemoryRecords(path.read_bytes())
        while batches.has_next():
            for record in batches.next_batch():
                keys.append(record.key)
                values.append(record.value)
                offsets.append(record.offset)
                times.append(record.timestamp)
    return pa.table({"key": keys, "value": values, "offset": offsets, "timestamp": times})


def copied(threads: int) -> None:
    """Copy memory into new memory on a number of threads, each as much."""
    sources = [np.ones(COPIED_BYTES, np.uint8) for _ in range(threads)]
    running = [Thread(target=source.copy) for source in sources]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def synced_parquet(table: pa.Table, path: Path) -> None:
    """Write a Parquet file as durably as a commit."""
    pq.write_table(table, path, compression="none", use_dictionary=False)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def print_rates(found: Mapping[str, Timing], records: int, size: int) -> None:
    """Print how fast each is."""
    print(f"{records:,} records of {size} B, million records a second:")
    for name, timing in found.items():
        share = PARTITIONS if name.startswith("aiokafka") else 1
        print(f"  {name:24}{timing.rate(records // share)}")


def compare(folder: Path, records: int, size: int, rounds: int, goals: Goals) -> None:
    """Measure all for records of one size."""
    path = fill(folder, records, size)
    few = FEW.format(end=records // PARTITIONS // 100)

    def table(threads: int) -> object:
        return tidelog.arrow.read(folder, TOPIC, columns=COLUMNS, threads=threads).read_all()

    def rows() -> object:
        return tidelog.arrow.dataset(folder, TOPIC, threads=1)

    whole, numbers = tidelog.arrow.read_table(folder, TOPIC, columns=COLUMNS), count()

    def written() -> object:
        return tidelog.arrow.write(
            folder.parent / f"{folder.name}-{next(numbers)}", TOPIC, whole, partitions=4
        )

    functions: dict[str, Callable[[], object]] = {
        "table, 1 thread": partial(table, 1),
        "table, 2 threads": partial(table, 2),
        "Parquet table, 1 thread": lambda: pq.read_table(path, use_threads=False),
        "query": lambda: asked(QUERY, rows()),
        "Parquet query": lambda: asked(QUERY, path),
        "few": lambda: asked(few, rows()),
        "Parquet few": lambda: asked(few, path),
        "aiokafka, a quarter": lambda: by_aiokafka(folder),
        "write": written,
        "Parquet write": lambda: synced_parquet(whole, folder / "written.parquet"),
    }
    if find_spec("polars") is not None:
        functions |= {
            "Polars query": lambda: by_polars(rows()),
            "Polars, Parquet query": lambda: by_polars(path),
        }
        assert functions["Polars query"]() == functions["Polars, Parquet query"]()
    assert functions["query"]() == functions["Parquet query"]()
    assert functions["few"]() == functions["Parquet few"]()
    found = measure(functions, rounds=rounds)
    print_rates(found, records, size)
    one, two = found["table, 1 thread"], found["table, 2 threads"]
    if size == min(SIZES):
        goals.at_least(TABLE_GOAL, "table beside Parquet", one, found["Parquet table, 1 thread"])
        loop = PARTITIONS * found["aiokafka, a quarter"].cpu / one.cpu
        print(f"  table beside aiokafka's decoder: {loop:.1f} times")
    goals.at_least(QUERY_GOAL, "query beside Parquet", found["query"], found["Parquet query"])
    goals.at_least(QUERY_GOAL, "few beside Parquet", found["few"], found["Parquet few"])
    if "Polars query" in found:
        parquet = found["Polars, Parquet query"]
        goals.at_least(QUERY_GOAL, "Polars beside its Parquet", found["Polars query"], parquet)
    print(f"  write: {found['Parquet write'].best / found['write'].best:.2f} of Parquet, by time")
    print(f"  two threads: {one.best / two.best:.2f} times one, by time (goal {THREADS_GOAL})")


def compare_threads(folder: Path, records: int, rounds: int) -> None:
    """Measure what two threads gain: of copies, and of a compressed topic of 100 B."""
    table = tidelog.arrow.read_table(folder, TOPIC, columns=COLUMNS)
    tidelog.arrow.write(folder, "zstd", table, compression="zstd", partitions=PARTITIONS)

    def read(threads: int) -> object:
        return tidelog.arrow.read_table(folder, "zstd", columns=COLUMNS, threads=threads)

    functions = {
        f"{name}, {threads}": partial(function, threads)
        for name, function in (("copies", copied), ("zstd", read))
        for threads in (1, 2)
    }
    found = measure(functions, rounds=rounds)
    copies = 2 * found["copies, 1"].best / found["copies, 2"].best
    print(f"two threads that copy into new memory: {copies:.2f} times one, by time")
    zstd = found["zstd, 1"].best / found["zstd, 2"].best
    rate = found["zstd, 1"].rate(records)
    print(f"two threads, zstd: {zstd:.2f} times one, by time; one: {rate} M records a second")


async def consumed(server: str, records: int) -> pa.Table:
    """Return a table of what aiokafka's consumer receives of the topic."""
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    partitions: list[int] = []
    offsets: list[int] = []
    times: list[int] = []
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=server, auto_offset_reset="earliest")
    await consumer.start()
    try:
        while len(keys) < records:
            for got in (await consumer.getmany(timeout_ms=1000)).values():
                for record in got:
                    keys.append(record.key)
                    values.append(record.value)
                    partitions.append(record.partition)
                    offsets.append(record.offset)
                    times.append(record.timestamp)
    finally:
        await consumer.stop()
    names = ("key", "value", "partition", "offset", "timestamp")
    return pa.table(dict(zip(names, (keys, values, partitions, offsets, times), strict=True)))


def compare_consumer(records: int, rounds: int, goals: Goals) -> None:
    """Compare with aiokafka's consumer, which asks a broker for what tidelog reads beside it."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder))
        with broker.running():
            broker.create(TOPIC, PARTITIONS)
            broker.fill(TOPIC, records, min(SIZES))

            def read() -> pa.Table:
                # A broker writes its high watermarks to a file every five seconds.
                return tidelog.arrow.read_table(
                    broker.directory, TOPIC, columns=COLUMNS, threads=1, read_up_to="logEnd"
                )

            assert read().num_rows == records
            functions = {
                "tidelog": read,
                "aiokafka": lambda: asyncio.run(consumed(broker.server, records)),
            }
            found = measure(functions, rounds=rounds)
    print(f"{records:,} records of {min(SIZES)} B of a running broker, million records a second:")
    for name, timing in found.items():
        print(f"  {name:24}{timing.rate(records)}")
    goals.at_least(LOOP_GOAL, "table beside aiokafka", found["tidelog"], found["aiokafka"])


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
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "data")
            records = arguments.records * SIZES[0] // size
            compare(folder, records, size, arguments.rounds, goals)
            if size == min(SIZES):
                compare_threads(folder, records, arguments.rounds)
    if is_installed():
        compare_consumer(arguments.records // 10, min(arguments.rounds, 3), goals)
    return goals.status


if __name__ == "__main__":
    sys.exit(main())
