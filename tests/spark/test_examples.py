"""The examples run and give the results that they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def test_the_demo_reads_back_every_flight(tmp_path: Path) -> None:
    """The delays computed from the log equal those of the CSV, and the log is drawn."""
    directory = str(tmp_path / "demo")

    done = run(str(EXAMPLES / "flights.py"), directory)

    assert done.returncode == 0, done.stderr
    assert "336,776 records" in done.stdout
    assert "equal for all 16 carriers" in done.stdout
    assert "flights-3:" in done.stdout


def test_the_demo_leaves_other_directories_alone(tmp_path: Path) -> None:
    """A directory with anything but the demo's log is left unchanged."""
    kept = tmp_path / "mine"
    kept.write_text("mine")

    done = run(str(EXAMPLES / "flights.py"), str(tmp_path))

    assert done.returncode == 1
    assert "choose another directory" in done.stderr
    assert kept.read_text() == "mine"
