"""Faults of a disk, chosen by a seed."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.testing import CrashFileSystem
    from tidelog.testing.disk import Kept

CODES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENOMEM)
CHANGES: Final = ("pwrite", "truncate", "rename", "delete", "open")
READS: Final = ("pread", "stat", "list", "open")
SYNCS: Final = ("sync", "sync_directory")
PATHS: Final = ("", "", ".log", ".index", ".timeindex", ".txnindex", ".snapshot", "checkpoint.tmp")
CUTS: Final[tuple[Kept | None, ...]] = (None, None, "all", "none", "prefix", "any")
"""What a power cut may leave of what was not synced."""


def plant(rng: Random, fs: CrashFileSystem) -> object:
    """Let something fail soon, or more often nothing; return what."""
    if rng.random() > 0.3:
        return None
    kind = rng.choice(["full", "crash", "change", "change", "read", "sync", "several"])
    if kind == "full":
        free = rng.choice([0, 10, 50, 100, 300])
        fs.set_free_bytes(free)
        return kind, free
    if kind == "crash":
        number = rng.randint(0, rng.choice([3, 10, 40]))
        fs.crash_after(number)
        return kind, number
    kinds = [CHANGES, SYNCS, READS] if kind == "several" else [OPERATIONS[kind]]
    return kind, *(_fail(rng, fs, rng.choice(operations)) for operations in kinds)


OPERATIONS: Final = {"change": CHANGES, "read": READS, "sync": SYNCS}


def _fail(rng: Random, fs: CrashFileSystem, operation: str) -> tuple[object, ...]:
    code, path = rng.choice(CODES), rng.choice(PATHS)
    count, skipped = rng.choice([1, 1, 1, 3]), rng.randint(0, rng.choice([2, 6, 20]))
    error = OSError(code, os.strerror(code), "injected")
    fs.fail(operation, path, error, count, skipped=skipped)
    return operation, path, errno.errorcode[code], count, skipped


class RandomHistory(Protocol):
    """What happens to a disk by a seed, held against a model with each step."""

    events: list[tuple[object, ...]]
    faults: int

    def step(self) -> None:
        """Do the next thing, and check what is there then."""


def run(history_of: Callable[[int], RandomHistory], seeds: range, steps: int) -> int:
    """Run a history for each seed; return the number of faults that were planted."""
    faults = 0
    for seed in seeds:
        history = history_of(seed)
        for _ in range(steps):
            try:
                history.step()
            except AssertionError as error:
                error.add_note(f"seed {seed}, which ends with {history.events[-6:]}")
                raise
        faults += history.faults
    return faults
