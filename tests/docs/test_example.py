"""The example runs the page on which a log is watched, and leaves the log to explore."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import tidelog

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "how_a_log_works.py"
PAGE: Final = ROOT / "docs" / "how-a-log-works.md"
HEADING: Final = re.compile(r"^(?:##+ |\$ ).+$", re.MULTILINE)
"""What the page and the output both have: headings, and commands of console blocks."""


def run(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.slow
def test_the_example_runs_the_whole_page(tmp_path: Path) -> None:
    """Sections and commands are those of the page; outputs are of this run; the log stays."""
    directory = tmp_path / "log"

    done = run(directory)

    assert done.returncode == 0, done.stderr
    assert HEADING.findall(done.stdout) == HEADING.findall(PAGE.read_text("utf-8"))
    assert f"Log directory {directory / 'data'} not found, creating it." in done.stdout
    assert "dropped 3 b'Dover' None" in done.stdout
    with tidelog.open_read_only(directory / "disk2" / "tides-0") as log:
        assert [record.offset for record in log.records()] == [12]


def test_the_example_leaves_other_directories_alone(tmp_path: Path) -> None:
    """A directory with anything in it is left unchanged."""
    kept = tmp_path / "mine"
    kept.write_text("mine")

    done = run(tmp_path)

    assert done.returncode == 1
    assert "choose another directory" in done.stderr
    assert kept.read_text() == "mine"
