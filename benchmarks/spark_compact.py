"""How long does a compaction on Spark take, against the cleaner of one process on the same log?

Both clean the same log of random keys once; the offset map of the one process has room for all of
them. Sessions start, and kernels load, before anything is timed: each side cleans a small log
first. Both times contain the opening of the log, which was not closed cleanly. The ratio compares
the best rounds. On one machine Spark has nothing to win: the same work is done by more processes,
and hashes are sent between them. The goal is that this costs no more than as much again.

    .venv/bin/python benchmarks/spark_compact.py [--records 20000000] [--keys 4900000]
        [--cores 1 2] [--rounds 2] [--directory /dev/shm]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cleaner import SEED, SETTINGS, Case, make
from measure import heading

from tidelog.cleaner.rewriting.background_writers import MAX_WRITERS
from tidelog.codec.compression import Codec
from tidelog.config.broker_config import BrokerConfig
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.machine import brief_machine
from tidelog.env.scheduler import start_threads
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels.runtime import gate
from tidelog.manager.log_manager import LogManager
from tidelog.manager.on_demand import Terms
from tidelog.segment.filenames import TopicPartition

GOAL = 2.0
VALUE_BYTES = 100
RECORD_BYTES = 127
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(128 << 20)}


def copied(source: Path, work: Path) -> Path:
    """Copy a log into a data directory of its own."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work / "t-0")
    os.sync()
    return work


def here(directory: Path) -> float:
    """Return the seconds that this process takes alone, from opening the log on, as on Spark."""
    map_bytes = int(SETTINGS["log.cleaner.dedupe.buffer.size"])
    config = BrokerConfig(log_dirs=(str(directory),), log_cleaner_dedupe_buffer_size=map_bytes)
    threads = start_threads(MAX_WRITERS, "writers")
    key = TopicPartition("t", 0)
    machine = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
    started = time.perf_counter()
    try:
        with LogManager(config, machine, overrides=COMPACTED) as manager:
            done = manager.on_demand.compact(key, scheduler=threads, terms=Terms(None, COMPACTED))
        seconds = time.perf_counter() - started
    finally:
        threads.shutdown()
    assert done[key].is_whole, "the offset map was full"
    return seconds


def on_spark(cores: int, source: Path, small: Path, work: Path, rounds: int) -> float:
    """Return the least seconds of some rounds in a session of ``cores`` tasks at a time."""
    words = [sys.executable, __file__, "--session", str(cores), str(source), str(small), str(work)]
    done = subprocess.run(
        [*words, "--rounds", str(rounds)], check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def session_main(cores: int, source: Path, small: Path, work: Path, rounds: int) -> None:
    """Print the least seconds of this process's session."""
    from tidelog.spark import compact, session

    spark = session(**{"spark.master": f"local[{cores}]"})

    def one(directory: Path) -> float:
        started = time.perf_counter()
        compact(spark, str(directory), settings=COMPACTED, min_bytes=0)
        return time.perf_counter() - started

    one(copied(small, work))
    best = min(one(copied(source, work)) for _ in range(rounds))
    spark.stop()
    print(best)


def main() -> None:
    """Make the logs, clean them on each side and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--keys", type=int, default=4_900_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--session", nargs=4, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.session:
        cores, *paths = args.session
        source, small, work = map(Path, paths)
        session_main(int(cores), source, small, work, args.rounds)
        return
    gate.force(True)
    heading("How long does a compaction on Spark take, against one process?", SEED)
    with tempfile.TemporaryDirectory(dir=args.directory) as made:
        root = Path(made)
        source, small, work = root / "source" / "t-0", root / "small" / "t-0", root / "work"
        case = Case(VALUE_BYTES, args.keys, Codec.NONE, 0)
        for path, records in ((source, args.records), (small, 100_000)):
            path.mkdir(parents=True)
            count = make(path, case, records * RECORD_BYTES)
        size = sum(file.stat().st_size for file in source.glob("*.log"))
        print(f"{size:,} bytes, {args.keys:,} keys, {count and args.rounds} rounds")
        here(copied(small, work))
        alone = min(here(copied(source, work)) for _ in range(args.rounds))
        print(f"one process: {alone:.2f} s")
        for cores in args.cores:
            seconds = on_spark(cores, source, small, work, args.rounds)
            print(f"Spark, local[{cores}]: {seconds:.2f} s, {seconds / alone:.2f} times as long")
            if seconds / alone > GOAL:
                print(f"  more than the goal of {GOAL:g}")


if __name__ == "__main__":
    main()
