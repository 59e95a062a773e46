"""Damaged data directories, generated from seeds: every command, reader and writer survives them.

``hostile_directories`` runs the cases, each in a process with limits, and lists the rules. It is
here, beside the power cuts and kills, because it generates what could happen to a directory;
whatever it finds becomes a test with a name in ``tests/regression``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.machinery.scale import examples, scaled

if TYPE_CHECKING:
    from tests.conftest import Enumerated

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.crash.hostile_directories"
FEW = examples(12)
SLOW_RUNS = 20
CASES_PER_RUN = scaled(100)


def check_cases(first: int, count: int, enumerated: Enumerated, *options: str) -> None:
    """Run the cases with these seeds; none of them breaks a rule."""
    words = ["--first", str(first), "--count", str(count), *options]
    argv = [sys.executable, "-m", PROGRAM, *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    assert lines, done.stderr[-3000:]
    broken = "\n".join(map(json.dumps, lines[:-1]))  # whole, where pytest would shorten a list
    assert not broken, broken
    enumerated("damaged directories", lines[-1]["cases"], at_least=count)
    enumerated("commands on them", lines[-1]["commands"], at_least=8 * count)


@pytest.mark.timeout(300)
def test_a_few_damaged_directories(enumerated: Enumerated) -> None:
    """Nothing fails in an untyped way, hangs, grows, changes by being looked at, or is lost."""
    check_cases(0, FEW, enumerated, "--plain")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("run", range(SLOW_RUNS))
def test_many_damaged_directories(run: int, enumerated: Enumerated) -> None:
    """As above, with compiled code in half of the cases, and some by processes of their own."""
    check_cases(1000 + run * CASES_PER_RUN, CASES_PER_RUN, enumerated)
