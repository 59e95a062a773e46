"""How long does it take to compile every kernel at first, and to load them from the cache later?

Each run is a new process, first with an empty kernel cache, then with a full one; both include the
import of numba. Times are CPU seconds, which equal wall time on an idle machine. Goals: at most
20 s cold, 2 s from the cache.

    .venv/bin/python benchmarks/cold_kernels.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from measure import heading

GOALS = {"cold": 20.0, "from the cache": 2.0}
WARM = """
import json, time
from tidelog.kernels.runtime.gate import warm
print(json.dumps(warm(time.process_time_ns)))
"""


def warmed(cache: str) -> dict[str, float]:
    """Return the CPU seconds of each kernel module in a new process with this cache."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    done = subprocess.run(
        [sys.executable, "-c", WARM], env=environment, check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout))


def main() -> int:
    """Print seconds for each module, cold and from the cache; return 1 if a goal is missed."""
    heading(__doc__.splitlines()[0], 0)
    status = 0
    with tempfile.TemporaryDirectory() as cache:
        for name, goal in GOALS.items():
            seconds = warmed(cache)
            total = sum(seconds.values())
            status |= int(total > goal)
            print(f"{name}: {total:.1f} s (goal {goal:g}){' MISSED' if total > goal else ''}")
            print("  " + ", ".join(f"{module} {s:.2f}" for module, s in seconds.items()))
    return status


if __name__ == "__main__":
    sys.exit(main())
