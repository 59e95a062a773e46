"""Reading a partition beside a writer, which may delete it, or delete and create it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.env.files import is_gone
from tidelog.errors import (
    KafkaStorageError,
    OffsetOutOfRange,
    StoreUnavailable,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.files import FileSystem

T = TypeVar("T")

ATTEMPTS: Final = 3
"""How often a partition is read before an error is taken for one that stays."""

MAY_PASS: Final = (UnknownTopicOrPartition, KafkaStorageError, OffsetOutOfRange)
"""The errors of a read that a writer may have caused."""


def read_again(fs: FileSystem, directory: str, question: Callable[[], T]) -> T:
    """Return the answer to ``question``, asked again after an error of ``MAY_PASS``.

    The error is raised if it stays, or once the partition's directory is gone; StoreUnavailable at
    once.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return question()
        except StoreUnavailable:  # no writer's doing; all attempts of a request were waited for
            raise
        except MAY_PASS:
            if is_gone(fs, directory):
                raise
    return question()


def was_deleted(fs: FileSystem, directory: str, error: Exception) -> bool:
    """Return whether ``read_again`` failed because the partition was deleted.

    Its directory may be there again by now, of a topic that was created since.
    """
    return isinstance(error, UnknownTopicOrPartition) or is_gone(fs, directory)
