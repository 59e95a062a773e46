"""How does the cost of a data directory grow with its partitions?

Nothing may grow faster than the number of partitions. Each size is measured in processes of its
own, on a directory where half the partitions are compacted and half are not, with one batch in each
log. The growth is the cost per partition divided by that with the fewest partitions: 1 is linear,
less is better. A cost below 20 ms is noise and has no growth. Goal: no growth above 1.5.

    .venv/bin/python benchmarks/growth.py [--partitions 1000 4000 16000] [--idle-seconds 60]
        [--directory DIRECTORY]
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from measure import heading

import tidelog
from tidelog.cleaner.cleaner_manager import LogCleanerManager
from tidelog.cleaner.log_cleaner import LogCleaner
from tidelog.embedded.doors import open_briefly
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.service.log_service import LogService

if TYPE_CHECKING:
    from collections.abc import Callable

SEED: Final = 20130101
SIZES: Final = (1000, 4000, 16000)
GOAL: Final = 1.5
NOISE_MS: Final = 20.0
CLEANUP: Final = {"compacted": "compact", "deleted": "delete"}
"""The topics, with the cleanup policy of each."""

Costs = dict[str, float]
"""Milliseconds of CPU by what was measured; memory in KB, as ``memory, KB``."""


def main() -> int:
    """Measure each size and print the costs and their growth; return 1 if a goal is missed."""
    options = parse_options()
    if options.measure is not None:
        step = {"make": make, "service": service, "brief": brief, "spark": spark}[options.measure]
        print(json.dumps(step(options.work, options.partitions[0], options.idle_seconds)))
        return 0
    heading(__doc__.splitlines()[0], SEED)
    sizes = sorted(options.partitions)
    costs = {size: measure_size(size, options) for size in sizes}
    return show(costs)


def parse_options() -> argparse.Namespace:
    """Return the command's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--directory", type=Path, help="where the data directories are made")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure_size(partitions: int, options: argparse.Namespace) -> Costs:
    """Return all costs of a directory with this number of partitions."""
    parent = Path(tempfile.mkdtemp(dir=options.directory))
    costs: Costs = {}
    try:
        for step in ("make", "service", "brief", "spark"):
            command = [sys.executable, __file__, "--measure", step, "--work", str(parent / "data")]
            command += ["--partitions", str(partitions)]
            command += ["--idle-seconds", str(options.idle_seconds)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            costs |= found
            print(f"  {partitions:,} partitions: {found}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(parent)
    return costs


def show(costs: dict[int, Costs]) -> int:
    """Print a table; return 1 if a cost grows faster than the goal allows."""
    sizes = list(costs)
    fewest = sizes[0]
    header = "".join(f"{size:>12,}" for size in sizes)
    growths = "".join(f"{f'growth {size:,}':>16}" for size in sizes[1:])
    print(f"{'CPU ms, by partitions':34}{header}{growths}")
    missed = 0
    for name, first in costs[fewest].items():
        row = "".join(f"{costs[size][name]:12,.1f}" for size in sizes)
        for size in sizes[1:]:
            cost = costs[size][name]
            growth = (cost / size) / (max(first, NOISE_MS) / fewest)
            is_missed = growth > GOAL and cost > NOISE_MS
            missed += is_missed
            row += f"{growth:>14.2f}{' !' if is_missed else '  '}"
        print(f"{name:34}{row}")
    print(f"{missed} of {len(costs[fewest]) * (len(sizes) - 1)} grow faster than {GOAL} (goal 0)")
    return 1 if missed else 0


def timed(function: Callable[[], object]) -> float:
    """Return the milliseconds of CPU that a call takes, in all threads."""
    began = time.process_time()
    function()
    return (time.process_time() - began) * 1000


def make(directory: Path, partitions: int, _: float) -> Costs:
    """Create two topics and append a batch to each of their logs."""
    directory.mkdir(parents=True)

    def create() -> None:
        with open_briefly(directory) as logs:
            for topic, policy in CLEANUP.items():
                logs.create_topic(topic, partitions // 2, {"cleanup.policy": policy})

    def fill() -> None:
        with tidelog.open(directory) as logs:
            for topic in CLEANUP:
                for partition in range(partitions // 2):
                    logs.append(topic, b"value", key=b"key", partition=partition)

    return {"create the topics": timed(create), "fill, start and stop": timed(fill)}


def service(directory: Path, _: int, idle_seconds: float) -> Costs:
    """Start as a service does; run a pass of each kind, be idle, and stop."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    logs = tidelog.open(directory)
    costs = {"start, clean": (time.process_time() - began) * 1000}
    manager = logs.manager
    assert isinstance(manager, LogService)
    compacted = {("compacted", p.partition): p.log for p in logs.partitions("compacted")}
    machine = manager.machine
    states = LogCleanerManager(
        lambda: compacted, fs=machine.fs, clock=machine.clock, sleep_ms=machine.sleep_ms
    )
    cleaner = LogCleaner(manager.config, states, machine)
    costs["retention pass"] = timed(manager.tasks.cleanup_logs)
    costs["cleaner's pass, nothing dirty"] = timed(cleaner.run_once)
    costs["metrics"] = timed(logs.metrics)

    def append() -> None:
        logs.append("deleted", b"value", key=b"key", partition=0)
        logs.partition("deleted", 0).log.flush()

    costs["append and flush one record"] = timed(append)
    cpu_began = time.process_time()
    time.sleep(idle_seconds)
    idle = (time.process_time() - cpu_began) * 1000
    costs["CPU of an idle minute"] = idle * 60 / max(idle_seconds, 1e-9)
    costs["stop"] = timed(logs.close)
    after_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return costs | {"memory, KB": float(after_kb - before_kb)}


def brief(directory: Path, _: int, __: float) -> Costs:
    """Append one record as a command does, opening the one log that it needs."""

    def append() -> None:
        with open_briefly(directory) as logs:
            logs.append("deleted", b"value", key=b"key", partition=1)

    return {"open, append one record, close": timed(append)}


def spark(directory: Path, _: int, __: float) -> Costs:
    """Plan a batch read of both topics."""
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.read_plan import plan

    given = {"path": str(directory), "subscribe": ",".join(CLEANUP)}
    options = ReadOptions.parse(given)
    return {"plan a batch read on Spark": timed(lambda: plan(SYSTEM_FILES, options, 2))}


if __name__ == "__main__":
    sys.exit(main())
