"""The names of staged files, which hold batches that wait to be committed.

A staged file is a plain file in a data directory, which Kafka ignores. Each is written by a single
attempt of a single task. The files of one attempt to write a transaction, be it a program's or a
whole job's, share the first half of their random bits: a clean-up deletes those of its own attempt,
and none of another one that runs beside it with the same id.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from tidelog.codec.text import check_text
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.staging.stream_batch import is_batch_txn

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

    from tidelog.env.files import FileSystem, OpenFile, OpenMode

STAGED_SUFFIX: Final = ".staged"
_NAME: Final = re.compile(r"tidelog\.[0-9a-f]{32}\.[0-9a-f]{32}\.staged")
_ATTEMPT: Final = slice(41, 57)
MAX_TXN_BYTES: Final = 255
"""Length of a transaction id in UTF-8, at most: tables and error messages hold it."""


def check_txn(txn: str) -> None:
    """Raise InvalidArgument for an id that a user cannot choose for a transaction.

    Files are read whatever ids they hold: earlier releases took longer ones, and those of batches.
    """
    check_text(txn, "a transaction id", MAX_TXN_BYTES)
    if not txn.strip():
        raise InvalidArgument(f"{txn!r} is not a transaction id: it is blank")
    if is_batch_txn(txn):
        raise InvalidArgument(
            f"{txn!r} is not a transaction id: it would be taken for that of a batch of a stream;"
            " choose one of another form"
        )


def transaction_hash(txn: str) -> str:
    """Return the part of a staged file's name that identifies its transaction."""
    return hashlib.blake2b(txn.encode(), digest_size=16).hexdigest()


def new_attempt(rng: Random) -> str:
    """Return what the names of the staged files of a new attempt share, 16 hexadecimal digits."""
    return f"{rng.getrandbits(64):016x}"


def attempt_of(name: str) -> str:
    """Return the attempt that a staged file belongs to, by its name."""
    return name[_ATTEMPT]


def staged_name(txn: str, rng: Random, attempt: str | None = None) -> str:
    """Return a new name for a staged file of ``txn``; 128 random bits make it unique.

    ``attempt`` are the first 64 of them, None: those of a new attempt.
    """
    bits = f"{attempt or new_attempt(rng)}{rng.getrandbits(64):016x}"
    return f"tidelog.{transaction_hash(txn)}.{bits}{STAGED_SUFFIX}"


def is_staged_name(name: str) -> bool:
    """Return whether a file name is that of a staged file."""
    return _NAME.fullmatch(name) is not None


def files_of_attempts(fs: FileSystem, data_dir: str, attempts: Collection[str]) -> list[str]:
    """Return the sorted names of the staged files of attempts, those of failed tasks among them."""
    return [name for name in list_staged(fs, data_dir) if attempt_of(name) in attempts]


def is_attempt(text: object) -> bool:
    """Return whether this is what ``attempt_of`` may return."""
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{16}", text) is not None


def open_staged(fs: FileSystem, path: str, mode: OpenMode = "r") -> OpenFile:
    """Open a staged file; raise KafkaStorageError if it is missing."""
    try:
        return fs.open(path, mode)
    except FileNotFoundError:
        # Without its cause, since the disk has not failed.
        raise KafkaStorageError(f"staged file {path} does not exist") from None


def list_staged(fs: FileSystem, data_dir: str, txn: str | None = None) -> list[str]:
    """Return the sorted names of the staged files of ``txn``, or of all transactions."""
    prefix = "tidelog." if txn is None else f"tidelog.{transaction_hash(txn)}."
    return sorted(
        name for name in fs.list(data_dir) if name.startswith(prefix) and is_staged_name(name)
    )
