"""How fast does ``tidelog cat`` print records, against aiokafka and ``json.dumps``?

Both read the same files from the page cache, verify every CRC, and produce the same lines of JSON,
byte for byte: tidelog as the command does, aiokafka as a script would, with a dict and
``json.dumps`` for each record. One thread, no codec, text values. Goals: 15 times as many records
per CPU second with 100-byte values, 7 times with 1 KB; and a million with 100 bytes.

    .venv/bin/python benchmarks/cat.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from aiokafka.record.memory_records import MemoryRecords
from measure import Goals, heading, measure
from sample import make_batches

import tidelog
from tidelog.kernels.runtime import gate
from tidelog.records.json.json_lines import JsonLines
from tidelog.records.json.json_record import Encoding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SEED = 20130101
BATCH_BYTES = 16 << 10
TOTAL_BYTES = 32 << 20
GOALS = {100: 15.0, 1000: 7.0}
GOAL_RECORDS = 1_000_000
NAMES = {0: "CreateTime", 1: "LogAppendTime", None: "NoTimestampType"}


class KafkaRecord(Protocol):
    """A record as aiokafka, which has no types, hands it out."""

    offset: int
    timestamp: int
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def by_tidelog(directory: str) -> Iterator[bytes | memoryview]:
    """Yield the lines that ``tidelog cat`` prints, some megabytes at a time."""
    lines = JsonLines("cat", 0, Encoding.UTF8)
    with tidelog.open_read_only(directory) as log:
        for columns in log.columns():
            yield from lines.pieces(columns)


def by_aiokafka(directory: str) -> Iterator[bytes]:
    """Yield the same lines, a batch at a time."""
    batches = MemoryRecords(Path(directory, f"{0:020d}.log").read_bytes())
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise SystemExit("aiokafka found a wrong CRC")
        yield "".join(f"{line(record)}\n" for record in batch).encode()


def line(record: KafkaRecord) -> str:
    """Return one of aiokafka's records as a line; the batches here state no leader epoch."""
    return json.dumps(
        {
            "topic": "cat",
            "partition": 0,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": NAMES[record.timestamp_type],
            "key": None if record.key is None else record.key.decode(),
            "value": None if record.value is None else record.value.decode(),
            "headers": [[name, value and value.decode()] for name, value in record.headers],
            "leaderEpoch": None,
        },
        ensure_ascii=False,
    )


def fill(data_directory: str, value_bytes: int) -> tuple[str, int]:
    """Write a log of one segment; return its directory and number of records."""
    batches = make_batches(TOTAL_BYTES, value_bytes, SEED, BATCH_BYTES)
    path = Path(data_directory, "cat-0", f"{0:020d}.log")
    path.parent.mkdir()
    path.write_bytes(batches.data.data)
    return str(path.parent), batches.records


def drained(
    lines_of: Callable[[str], Iterator[bytes | memoryview]], directory: str
) -> Callable[[], None]:
    """Return a function that produces all lines and discards them."""

    def run() -> None:
        for _ in lines_of(directory):
            pass

    return run


def digest(lines: Iterator[bytes | memoryview]) -> str:
    """Return a hash of all lines."""
    hashed = sha256()
    for chunk in lines:
        hashed.update(chunk)
    return hashed.hexdigest()


def main() -> int:
    """Print both rates for both sizes; return 1 if a goal is missed."""
    gate.force(True)
    heading("How fast are records printed as JSON?", SEED)
    goals = Goals()
    for value_bytes, goal in GOALS.items():
        with tempfile.TemporaryDirectory() as data_directory:
            directory, count = fill(data_directory, value_bytes)
            if digest(by_tidelog(directory)) != digest(by_aiokafka(directory)):
                raise SystemExit("tidelog and aiokafka print different lines")
            functions = {
                "tidelog cat": drained(by_tidelog, directory),
                "aiokafka": drained(by_aiokafka, directory),
            }
            timings = measure(functions)
        print(f"values of {value_bytes} B, {count:,} records, millions a second:")
        for name, timing in timings.items():
            print(f"  {name:12} {timing.rate(count)}")
        goals.at_least(goal, "to aiokafka", timings["tidelog cat"], timings["aiokafka"])
        if value_bytes == 100 and count / timings["tidelog cat"].cpu < GOAL_RECORDS:
            print(f"  fewer than {GOAL_RECORDS:,} records a CPU second: MISSED")
            goals.status = 1
    return goals.status


if __name__ == "__main__":
    sys.exit(main())
