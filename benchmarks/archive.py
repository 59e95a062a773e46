"""What does an archive cost, beside plain requests for the same bytes?

A topic is copied to a server that speaks S3, in a process of its own, and read from there as one
table. References of the same run: the same ``.log`` files put as they are, in parts of the same
size; the same bytes got in pieces of the same size, and the table made of the directory, together.
Goals, by CPU time of this process: copying at 0.8 of the speed of plain puts, a scan at 0.7 of that
of plain gets. Times are printed, too; the server takes a part of them on these cores.

    .venv/bin/python benchmarks/archive.py [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from measure import Goals, heading, measure
from obstore.store import S3Store

import tidelog
import tidelog.arrow
from tidelog.archive.fetched_file import SCAN_BYTES
from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.segment.filenames import TopicPartition
from tidelog.store.object_store import PART_BYTES, PARTS_AT_ONCE, ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 20261127
TOPIC = "t"
ROOT = Path(__file__).parent.parent
COPY_GOAL, SCAN_GOAL = 0.8, 0.7
SERVE = """
from tests.machinery.object_server import object_server
with object_server() as server:
    print(server.endpoint, flush=True)
    input()
"""
ACCESS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


@contextmanager
def server() -> Iterator[str]:
    """Run a server; yield its endpoint."""
    words = [sys.executable, "-c", SERVE]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("\n")


def fill(folder: Path, records: int, size: int) -> list[Path]:
    """Write the topic; return its closed segments."""
    value = random.Random(SEED).randbytes(size + records)
    settings = {"retention.ms": "-1", "segment.bytes": str(64 << 20)}
    with tidelog.open(folder) as logs:
        logs.create_topic(TOPIC, config=settings)
        logs.append_all(TOPIC, (value[n : n + size] for n in range(records)))
    return sorted((folder / f"{TOPIC}-0").glob("*.log"))[:-1]


def run(folder: Path, endpoint: str, args: argparse.Namespace, goals: Goals) -> None:
    """Measure copies and scans."""
    segments = fill(folder, args.records, args.size)
    total = sum(path.stat().st_size for path in segments)
    numbers = count()
    plain = S3Store("lake", endpoint=endpoint, client_options={"allow_http": True})

    def put() -> None:
        for path in segments:
            obstore.put(
                plain,
                f"plain/{path.name}",
                path,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )

    with tidelog.open(folder) as logs:

        def copy() -> None:
            store = ObjectStore(f"s3://lake/{next(numbers)}")
            archive_log(logs.manager, TopicPartition(TOPIC, 0), store, ArchiveTerms())

        done = measure({"put": put, "copy": copy}, rounds=args.rounds)
    print(f"{len(segments)} segments of {total / 1e6:.0f} MB in all, records of {args.size} B")
    for name, timing in done.items():
        print(f"  {name:8} MB/s {timing.rate(total)}")
    goals.at_least(COPY_GOAL, "copying, beside plain puts", done["copy"], done["put"])

    def get() -> None:
        for path in segments:
            size = path.stat().st_size
            for start in range(0, size, SCAN_BYTES):
                end = min(start + SCAN_BYTES, size)
                obstore.get_range(plain, f"plain/{path.name}", start=start, end=end)
        tidelog.arrow.read_table(folder, TOPIC, end_offsets=last)

    def scan() -> None:
        found = tidelog.arrow.read_table("s3://lake/0", TOPIC)
        assert found.num_rows == last

    last = tidelog.open_directory_read_only("s3://lake/0").offsets(TOPIC, 0).log_end_offset
    done = measure({"get": get, "scan": scan}, rounds=args.rounds)
    for name, timing in done.items():
        print(f"  {name:8} MB/s {timing.rate(total)}")
    beside = "a scan, beside plain gets and a scan of the disk"
    goals.at_least(SCAN_GOAL, beside, done["scan"], done["get"])


def main() -> int:
    """Measure, and return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a record's value")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    heading(__doc__.splitlines()[0], SEED)
    os.environ.update(ACCESS)
    goals = Goals()
    with tempfile.TemporaryDirectory() as folder, server() as endpoint:
        os.environ["AWS_ENDPOINT_URL"] = endpoint
        run(Path(folder) / "data", endpoint, args, goals)
    return goals.status


if __name__ == "__main__":
    sys.exit(main())
