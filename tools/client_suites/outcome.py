"""What came of a test, and commands that must succeed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Outcome(NamedTuple):
    """What came of one test: ``passed``, ``failed`` or ``skipped``, with what it said."""

    name: str
    state: str
    reason: str


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command and return what it prints; exit with the end of it if the command fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise SystemExit(f"{words}: {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout
