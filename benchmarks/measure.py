"""Timing that benchmarks share: functions run in turn; best and median, wall and CPU time.

On a machine with other load, a single run means little. So the functions that are compared run in
turn, round after round, and the best round of each counts; the median shows how noisy it was.

Other benchmarks import it: ``from measure import Goals, heading, measure``.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROUNDS = 7
MIN_ROUND_SECONDS = 0.02
"""A round calls its function until it has taken about that long."""


class Timing(NamedTuple):
    """Seconds that one call of a function takes."""

    best: float
    median: float
    cpu: float
    """User and system time of this process, in the round with the least."""

    def per(self, units: float, scale: float = 1e9) -> str:
        """Return time per unit, best and median, in 1/``scale`` seconds (default: ns)."""
        best, median = (seconds / units * scale for seconds in (self.best, self.median))
        return f"{best:8.2f} (median {median:.2f}, CPU {self.cpu / units * scale:.2f})"

    def rate(self, units: float, scale: float = 1e6) -> str:
        """Return units a second, in units of ``scale`` (default: millions)."""
        best, median = (units / seconds / scale for seconds in (self.best, self.median))
        return f"{best:8.1f} (median {median:.1f}, per CPU second {units / self.cpu / scale:.1f})"


def heading(question: str, seed: int) -> None:
    """Print the benchmark's question, the machine, and the seed of the data."""
    cores = os.cpu_count()
    print(question)
    print(f"{_processor()}, {cores} cores, Python {platform.python_version()}; seed {seed}")


def _processor() -> str:
    """Return the processor's name, or the machine type if the name is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return named[0] if named else platform.processor() or platform.machine()


def measure(
    functions: Mapping[str, Callable[[], object]],
    *,
    rounds: int = ROUNDS,
    before: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, Timing]:
    """Call the functions in turn, ``rounds`` times each after one round to warm up.

    A function with an entry in ``before`` is called once in a round, after that untimed entry.
    """
    resets = before or {}
    calls = {
        name: 1 if name in resets else _calls(function) for name, function in functions.items()
    }
    wall: dict[str, list[float]] = {name: [] for name in functions}
    cpu: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            if name in resets:
                resets[name]()
            cpu_start, start = time.process_time(), time.perf_counter()
            for _ in range(calls[name]):
                function()
            wall[name].append((time.perf_counter() - start) / calls[name])
            cpu[name].append((time.process_time() - cpu_start) / calls[name])
    return {
        name: Timing(min(wall[name]), statistics.median(wall[name]), min(cpu[name]))
        for name in functions
    }


def _calls(function: Callable[[], object]) -> int:
    """Warm the function up; return how many calls make a round."""
    function()
    start = time.perf_counter()
    function()
    return max(1, round(MIN_ROUND_SECONDS / max(time.perf_counter() - start, 1e-9)))


class Goals:
    """Ratios of CPU time that a benchmark must reach; ``status`` is the process's exit code.

    On a machine with other load, wall time would measure that load too.
    """

    def __init__(self) -> None:
        self.status = 0

    def at_least(self, goal: float, name: str, ours: Timing, theirs: Timing) -> None:
        """Print how many times as fast as ``theirs`` ``ours`` is; set ``status`` if below goal."""
        ratio = theirs.cpu / ours.cpu
        missed = ratio < goal
        self.status |= int(missed)
        print(f"  {name}: {ratio:.2f} times (goal {goal:g}){' MISSED' if missed else ''}")


def installed_environment(compiled: Path) -> dict[str, str]:
    """Return an environment in which Python caches compiled modules, as after installation."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(compiled)}
