"""The file by whose lock one process holds a data directory for writing. Kafka: ``.lock``."""

from __future__ import annotations

import os
from typing import Final

from tidelog.env.locks import is_locked, lock_holder
from tidelog.errors import DirectoryLocked

LOCK_FILE: Final = ".lock"


def has_writer(data_dir: str) -> bool:
    """Return whether a process, Kafka or tidelog, holds the directory now; False on Windows."""
    return is_locked(os.path.join(data_dir, LOCK_FILE))


def writer_of(data_dir: str) -> int | None:
    """Return the pid of the process that holds the directory, 0 if unknown; None: nobody does."""
    return lock_holder(os.path.join(data_dir, LOCK_FILE))


def check_not_held(data_dir: str) -> None:
    """Raise DirectoryLocked if a process holds the directory."""
    pid = writer_of(data_dir)
    if pid is not None:
        raise DirectoryLocked(os.path.join(data_dir, LOCK_FILE), pid)
