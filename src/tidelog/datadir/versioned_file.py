"""Reading files of JSON of tidelog's own, which say the version of their form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidelog.codec.checkpoint_file import read_small_file
from tidelog.errors import CorruptFile, InvalidArgument, InvalidTopic, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.files import FileSystem

T = TypeVar("T")

MALFORMED: Final = (
    *(ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidTopic),
    OverflowError,
)
"""What reading JSON raises whose members are not those that are expected; the last one is of a
number such as 1e999, which reads as an infinite one."""


def whole(value: object, what: str, least: int = 0, most: int = 2**63 - 1) -> int:
    """Return a number that was read; raise ValueError unless it is whole and within the bounds."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r} is not {what}")
    return value


def read_versioned(fs: FileSystem, path: str, newest: int, parse: Callable[[Any], T]) -> T:
    """Return what ``parse`` makes of a file; ``newest`` is the latest version that it knows.

    ``parse`` may fail in any of the ways in which content of another form makes it fail.

    Raises:
        CorruptFile: the file is malformed, or too large.
        KafkaStorageError: a newer version of tidelog wrote it.
        OSError: it cannot be read; FileNotFoundError if it does not exist.
    """
    return parse_versioned(read_small_file(fs, path), path, newest, parse)


def parse_versioned(data: bytes, path: str, newest: int, parse: Callable[[Any], T]) -> T:
    """Return what ``parse`` makes of what was read from a file; errors as ``read_versioned``."""
    try:
        content = json.loads(data)
        _check_version(content["version"], newest, path)
        return parse(content)
    except (*MALFORMED, InvalidArgument) as error:
        raise CorruptFile(f"{path} cannot be read: {error}") from error


def _check_version(version: object, newest: int, path: str) -> None:
    """Raise KafkaStorageError for a file of a newer form, ValueError for what is not a version."""
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"{version!r} is not a version")
    if version > newest:
        raise KafkaStorageError(f"{path} has version {version}; this tidelog reads up to {newest}")
