"""How long do a program that has joined another one, and a test that takes a broker, wait?

An append of 100 B through ``tidelog.join``, acknowledged by `tidelog serve` in another process,
beside one in a program that has the directory open itself: medians and 99th percentiles of single
calls, in turn, round after round, and of each the best round. Then brokers of ``tidelog.testing``,
each over an empty directory: the first one of a process with all imports, and those after it; best,
median, and CPU. Goals: 0.3 ms for the median of an append, 300 ms for a first broker, and 20 ms for
each other one, by the best of them.

    .venv/bin/python benchmarks/joined.py [DIRECTORY]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker import tidelog_server
from measure import heading

import tidelog
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 33
VALUE = bytes(100)
APPENDS = 4_000
ROUNDS = 5
BROKERS = 15
FIRST = """
import sys, time
start = time.perf_counter()
from tidelog.testing import KafkaBroker
with KafkaBroker(sys.argv[1]):
    print(time.perf_counter() - start, time.process_time())
"""
APPEND_GOAL_MS, FIRST_GOAL_MS, FRESH_GOAL_MS = 0.3, 300, 20


def judged(figure: float, goal: float) -> str:
    """Return a figure in milliseconds with its goal."""
    return f"{figure:8.2f} ms (goal at most {goal:g}){' MISSED' if figure > goal else ''}"


def append_times_ms(logs: Any) -> tuple[float, float]:  # noqa: ANN401 - of either kind
    """Append record by record; return the median and the 99th percentile."""
    waited = []
    for _ in range(APPENDS):
        start = time.perf_counter()
        logs.append("t", VALUE)
        waited.append(time.perf_counter() - start)
    waited.sort()
    return waited[APPENDS // 2] * 1e3, waited[APPENDS * 99 // 100] * 1e3


@contextmanager
def both(folder: Path) -> Iterator[dict[str, Any]]:
    """Open a directory here, and join one that another process serves."""
    with (
        tidelog_server(folder, "group"),
        tidelog.join(folder / "tidelog", wait_ms=60_000) as joined,
        tidelog.open(folder / "own") as own,
    ):
        for logs in (joined, own):
            logs.create_topic("t")
        yield {"joined": joined, "embedded": own}


def appends(folder: Path) -> bool:
    """Print how long an append takes; return whether the goal is missed."""
    found: dict[str, list[tuple[float, float]]] = {"joined": [], "embedded": []}
    with both(folder) as programs:
        for number in range(ROUNDS + 1):
            for name, logs in programs.items():
                times = append_times_ms(logs)
                if number:  # the first one warms up
                    found[name].append(times)
    best = {name: min(times) for name, times in found.items()}
    print(f"an append, joined:    {judged(best['joined'][0], APPEND_GOAL_MS)}, p99", end="")
    print(f" {best['joined'][1]:.2f}; embedded: {best['embedded'][0]:.3f}")
    return best["joined"][0] > APPEND_GOAL_MS


def brokers(folder: Path) -> bool:
    """Print how soon brokers are ready; return whether a goal is missed."""
    firsts, first_cpu, waited, cpu = [], [], [], []
    for number in range(ROUNDS):
        words = [sys.executable, "-c", FIRST, str(folder / f"first-{number}")]
        seconds = [float(one) for one in subprocess.check_output(words).split()]
        firsts.append(seconds[0] * 1e3)
        first_cpu.append(seconds[1] * 1e3)
    for number in range(BROKERS):
        broker = KafkaBroker(folder / f"fresh-{number}")
        start, cpu_start = time.perf_counter(), time.process_time()
        broker.start()
        waited.append((time.perf_counter() - start) * 1e3)
        cpu.append((time.process_time() - cpu_start) * 1e3)
        broker.stop()
    print(f"a first broker:       {judged(min(firsts), FIRST_GOAL_MS)}", end="")
    print(f", median {statistics.median(firsts):.0f}, CPU {statistics.median(first_cpu):.0f}")
    print(f"another broker:       {judged(min(waited), FRESH_GOAL_MS)}", end="")
    print(f", median {statistics.median(waited):.1f}, CPU {statistics.median(cpu):.1f}")
    return min(firsts) > FIRST_GOAL_MS or min(waited) > FRESH_GOAL_MS


def main() -> int:
    """Print all figures; return 1 if a goal was missed."""
    heading((__doc__ or "").partition("\n")[0], SEED)
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        missed = [appends(Path(name)), brokers(Path(name))]
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
