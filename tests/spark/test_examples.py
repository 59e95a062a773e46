"""The examples run and give the results that they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.releases import NEEDS_LIMITS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@NEEDS_LIMITS
def test_the_demo_has_every_flight_once(tmp_path: Path) -> None:
    """A stream is killed and run again; what the log holds then equals the files, and is drawn."""
    directory = str(tmp_path / "demo")

    done = run(str(EXAMPLES / "flights.py"), directory)

    assert done.returncode == 0, done.stderr
    assert "killed while it wrote month 4" in done.stdout
    assert "336,776 records" in done.stdout
    assert "delays of all 16 carriers equal" in done.stdout
    assert "last flights of 4,043 aircraft" in done.stdout
    assert "8 partitions, 0 damaged" in done.stdout
    assert "flights-3:" in done.stdout


def test_the_demo_leaves_other_directories_alone(tmp_path: Path) -> None:
    """A directory with anything but the demo's log is left unchanged."""
    kept = tmp_path / "mine"
    kept.write_text("mine")

    done = run(str(EXAMPLES / "flights.py"), str(tmp_path))

    assert done.returncode == 1
    assert "choose another directory" in done.stderr
    assert kept.read_text() == "mine"
