"""Jobs of the command line that are killed together with their Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def kill_thrice(job: list[str], target: Path) -> Iterator[None]:
    """Run ``tidelog spark`` with a job that writes to ``target``; yield after each kill.

    It is killed once its tasks have staged a file, then two, then when it begins to commit.
    """
    command = [sys.executable, "-m", "tidelog", "spark", *job]
    for number, staged in enumerate((1, 2, 0)):
        process = subprocess.Popen(command, start_new_session=True)
        while process.poll() is None and not _is_at(target, staged):
            threading.Event().wait(0.001)
        threading.Event().wait(0.03 * number)
        with suppress(ProcessLookupError):  # a repeat of a job that was done ends by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        yield


def _is_at(path: Path, staged: int) -> bool:
    """Return whether a job has staged files, besides its marker, or begun to commit them."""
    names = os.listdir(path) if path.exists() else []
    if not staged:
        return any(name.endswith((".journal", "transactions.json")) for name in names)
    return sum(name.endswith(".staged") for name in names) > staged
