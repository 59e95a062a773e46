"""The names of staged files, which hold batches that wait to be committed.

A staged file is a plain file in a data directory, which Kafka ignores. Each is written by a single
attempt of a single task.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

    from tidelog.env.files import FileSystem

STAGED_SUFFIX: Final = ".staged"
_NAME: Final = re.compile(r"tidelog\.[0-9a-f]{32}\.[0-9a-f]{32}\.staged")


def transaction_hash(txn: str) -> str:
    """Return the part of a staged file's name that identifies its transaction."""
    return hashlib.blake2b(txn.encode(), digest_size=16).hexdigest()


def staged_name(txn: str, rng: Random) -> str:
    """Return a new name for a staged file of ``txn``; 128 random bits make it unique."""
    return f"tidelog.{transaction_hash(txn)}.{rng.getrandbits(128):032x}{STAGED_SUFFIX}"


def is_staged_name(name: str) -> bool:
    """Return whether a file name is that of a staged file."""
    return _NAME.fullmatch(name) is not None


def list_staged(fs: FileSystem, data_dir: str, txn: str | None = None) -> list[str]:
    """Return the sorted names of the staged files of ``txn``, or of all transactions."""
    prefix = "tidelog." if txn is None else f"tidelog.{transaction_hash(txn)}."
    return sorted(
        name for name in fs.list(data_dir) if name.startswith(prefix) and is_staged_name(name)
    )
