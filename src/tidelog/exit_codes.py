"""The exit code of a command, and its message, by the error that has ended it.

Kafka's tools end with 1 for each error.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tidelog.errors import (
    CorruptArchive,
    CorruptFile,
    CorruptMessage,
    DamagedLog,
    DataLoss,
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    InvalidRecord,
    InvalidTopic,
    OffsetOutOfRange,
    PolicyViolation,
    RebuildableError,
    RequestFailed,
    StoreNotInstalled,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    text_or_kind,
)


class ExitCode(IntEnum):
    """What a command ends with; ``summary`` is how every ``--help`` says it."""

    summary: str

    def __new__(cls, number: int, summary: str) -> ExitCode:  # noqa: PYI034 - as of ErrorCode
        """Make the member; its value is ``number`` alone."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.summary = summary
        return member

    OK = 0, "fine"
    DAMAGED = 1, "damage or loss was found"
    BAD_USAGE = 2, "the usage is wrong"
    FAILED = 3, "the operation failed"
    INTERRUPTED = 130, "Ctrl-C"
    """128 and the number of SIGINT, as shells report it."""
    TERMINATED = 143, "SIGTERM"
    """128 and the number of SIGTERM, as shells report it."""


_DAMAGE: Final = (
    CorruptArchive,
    CorruptFile,
    CorruptMessage,
    DamagedLog,
    DataLoss,
    InvalidRecord,
    RebuildableError,
)
_USAGE_ERRORS: Final = (
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    OffsetOutOfRange,
    PolicyViolation,
    StoreNotInstalled,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    FileNotFoundError,
    NotADirectoryError,
    IsADirectoryError,
)


def exit_code_of(error: Exception) -> int:
    """Return the ``ExitCode`` of a command that ends with this error.

    A storage error may wrap what is wrong with a file; InvalidArgument as its cause is a field that
    no valid file has.
    """
    if isinstance(error, RequestFailed):
        return error.exit_code
    if isinstance(error, _USAGE_ERRORS):
        return ExitCode.BAD_USAGE
    is_damaged = isinstance(error, _DAMAGE)
    is_damaged |= isinstance(error.__cause__, (*_DAMAGE, InvalidArgument))
    return ExitCode.DAMAGED if is_damaged else ExitCode.FAILED


def is_damage(error: Exception) -> bool:
    """Return whether the error says that files, or an archive, are damaged."""
    return exit_code_of(error) == ExitCode.DAMAGED


def text_of(error: Exception) -> str:
    """Return what a command prints of an error: never empty, the path of an OSError first."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return text_or_kind(error)
