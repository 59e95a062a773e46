"""How many records a second does an embedded log take, beside sqlite3 and lmdb?

In batches: ``Logs.append_all`` against ``executemany`` into a table in WAL mode with synchronous
NORMAL, a commit for each 1,000 records, and against lmdb's ``putmulti``, likewise, with metasync
off. A sync each: one record, durable when the call returns, against a commit with synchronous FULL.
Both also against what no log can do without: a write to the end of a file for each 64 KiB, or for
each record with its ``fsync``. Each round appends to what is there. Reading: the records of one
round, in order. Records of 100 B and 1 KB, all in one process, in turn, round after round. Goals:
at least 5 times sqlite3 in batches, and 1 time with a sync each.

    .venv/bin/python benchmarks/embedded.py [directory]
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import tempfile
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import lmdb
from measure import Goals, Timing, heading, measure

import tidelog
from tidelog.embedded.topic_writer import BATCH_BYTES
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.kernels.runtime import gate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEED = 20130101
RECORDS = {100: 100_000, 1_000: 20_000}
"""Records of a round, by their size in bytes."""
SYNCED = 50
COMMIT = 1_000
ROUNDS = 7
BATCH_GOAL, SYNC_GOAL = 5.0, 1.0


class Store(Protocol):
    """What records are written to and read from."""

    def write(self, values: Sequence[bytes]) -> None:
        """Append records."""

    def read(self, limit: int) -> int:
        """Read the first records in order; return their bytes."""


class Sqlite:
    """A table of records in WAL mode."""

    def __init__(self, path: str, synchronous: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(f"PRAGMA synchronous={synchronous}")
        self._db.execute(
            "CREATE TABLE records (offset INTEGER PRIMARY KEY, timestamp INTEGER, value BLOB)"
        )

    def write(self, values: Sequence[bytes], commit: int = COMMIT) -> None:
        """Insert records, ``commit`` of them in a transaction."""
        now_ms = SYSTEM_CLOCK.now_ms()
        for at in range(0, len(values), commit):
            rows = [(now_ms, value) for value in values[at : at + commit]]
            self._db.execute("BEGIN")
            self._db.executemany("INSERT INTO records(timestamp, value) VALUES (?, ?)", rows)
            self._db.execute("COMMIT")

    def read(self, limit: int) -> int:
        """Fetch the first records in order; return their bytes."""
        query = "SELECT offset, timestamp, value FROM records ORDER BY offset LIMIT ?"
        return sum(len(value) for _, _, value in self._db.execute(query, (limit,)))


class Lmdb:
    """A database of records by offset."""

    def __init__(self, path: str, **how: Any) -> None:  # noqa: ANN401 - options of lmdb
        self._env = lmdb.open(path, map_size=4 << 30, **how)
        self._offset = 0

    def write(self, values: Sequence[bytes], commit: int = COMMIT) -> None:
        """Put records, ``commit`` of them in a transaction."""
        for at in range(0, len(values), commit):
            chunk = values[at : at + commit]
            numbers = count(self._offset)
            with self._env.begin(write=True) as txn:
                pairs = [(next(numbers).to_bytes(8, "big"), value) for value in chunk]
                txn.cursor().putmulti(pairs, append=True)
            self._offset += len(chunk)

    def read(self, limit: int) -> int:
        """Return the bytes of the first records in order."""
        with self._env.begin() as txn:
            records = zip(range(limit), txn.cursor(), strict=False)
            return sum(len(value) for _, (_, value) in records)


class GrowingFile:
    """A file that records are written to the end of: the floor of any log."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._end = 0

    def write(self, values: Sequence[bytes]) -> None:
        """Write records, as many at a time as a batch has."""
        count = BATCH_BYTES // len(values[0])
        for at in range(0, len(values), count):
            self._end += os.pwrite(self._descriptor, b"".join(values[at : at + count]), self._end)

    def write_synced(self, values: Sequence[bytes]) -> None:
        """Write records one by one, each durable before the next."""
        for value in values:
            self._end += os.pwrite(self._descriptor, value, self._end)
            os.fsync(self._descriptor)


class Log:
    """A topic of one partition."""

    def __init__(self, logs: tidelog.Logs, topic: str) -> None:
        self._logs = logs
        self._topic = topic
        logs.create_topic(topic, config={"retention.ms": "-1"})
        self._writer = logs.writer(topic)

    def write(self, values: Sequence[bytes]) -> None:
        """Append records in batches; they survive the end of the process, as those of sqlite3."""
        self._writer.append_all(values)

    def write_synced(self, values: Sequence[bytes]) -> None:
        """Append records one by one, each durable before the next."""
        log = self._logs.partition(self._topic, 0).log
        for value in values:
            self._logs.append(self._topic, value)
            log.flush_records()

    def read(self, limit: int) -> int:
        """Return the bytes of the first records in order."""
        records = zip(range(limit), self._logs.read(self._topic), strict=False)
        return sum(len(record.value or b"") for _, record in records)


def main() -> int:
    """Print records a second; return 1 if a goal is missed."""
    heading(__doc__.splitlines()[0], SEED)
    gate.force(True)
    gate.warm(SYSTEM_CLOCK.monotonic_ns)
    goals = Goals()
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    with (
        tempfile.TemporaryDirectory(dir=parent) as directory,
        tidelog.open(f"{directory}/data") as logs,
    ):
        for size, records in RECORDS.items():
            rng = random.Random(SEED)
            values = [rng.randbytes(size) for _ in range(records)]
            compare(f"{directory}/{size}", logs, size, values, goals)
    return goals.status


def compare(
    path: str, logs: tidelog.Logs, size: int, values: Sequence[bytes], goals: Goals
) -> None:
    """Time writes and reads of records of one size."""
    log, sqlite = Log(logs, f"batches-{size}"), Sqlite(f"{path}.db", "NORMAL")
    other = Lmdb(f"{path}.lmdb", metasync=False)
    written: dict[str, Store] = {"tidelog": log, "sqlite3": sqlite, "lmdb": other}
    writes: dict[str, Callable[[], object]] = {
        name: partial(store.write, values) for name, store in written.items()
    }
    writes["a file"] = partial(GrowingFile(f"{path}.batches").write, values)
    timings = timed("in batches", size, writes, len(values))
    goals.at_least(
        BATCH_GOAL, "tidelog to sqlite3, in batches", timings["tidelog"], timings["sqlite3"]
    )
    for name in ("lmdb", "a file"):
        goals.at_least(0, f"tidelog to {name}, in batches", timings["tidelog"], timings[name])
    timings = timed(
        "read", size, {n: partial(s.read, len(values)) for n, s in written.items()}, len(values)
    )
    goals.at_least(0, "tidelog to sqlite3, reading", timings["tidelog"], timings["sqlite3"])
    synced = values[:SYNCED]
    full, safe = Sqlite(f"{path}.full.db", "FULL"), Lmdb(f"{path}.safe.lmdb")
    slow, raw = Log(logs, f"synced-{size}"), GrowingFile(f"{path}.raw")
    timings = timed(
        "a sync each",
        size,
        {
            "tidelog": partial(slow.write_synced, synced),
            "sqlite3": partial(full.write, synced, 1),
            "lmdb": partial(safe.write, synced, 1),
            "a file": partial(raw.write_synced, synced),
        },
        len(synced),
    )
    goals.at_least(
        SYNC_GOAL, "tidelog to sqlite3, CPU of a sync each", timings["tidelog"], timings["sqlite3"]
    )
    for name in ("sqlite3", "a file"):
        ratio = timings[name].median / timings["tidelog"].median
        print(f"  tidelog to {name}, seconds of a sync each: {ratio:.2f} times")


def timed(
    what: str,
    size: int,
    functions: dict[str, Callable[[], object]],
    records: int,
) -> dict[str, Timing]:
    """Time functions in turn and print their records a second."""
    timings = measure(functions, rounds=ROUNDS)
    print(f"{what}, records of {size} B; thousands a second:")
    for name, timing in timings.items():
        print(f"  {name:10} {timing.rate(records, 1e3)}")
    return timings


if __name__ == "__main__":
    sys.exit(main())
