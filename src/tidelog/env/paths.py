"""Paths as Python programs give them: one, or several that belong together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from tidelog.errors import InvalidArgument

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A data directory, or several; to be read, an archive by its URI, too."""


NOT_A_DIRECTORY: Final = (
    "not a directory: an archive on an object store is only read, and tidelog archive writes to it"
)


def is_uri(path: str) -> bool:
    """Return whether a path is the URI of an object store, as ``s3://bucket/prefix``, or below it.

    ``//`` is not in the absolute path of a file.
    """
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme.replace("+", "").isalnum()


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of what is to be written; InvalidArgument for what is not a path."""
    given = absolute_place(path)
    if is_uri(given):
        raise InvalidArgument(f"{given} is {NOT_A_DIRECTORY}")
    return given


def absolute_place(path: str | os.PathLike[str]) -> str:
    """Return the absolute path, or the URI, of what is to be read.

    Raises InvalidArgument for what is neither.
    """
    try:
        given = os.fspath(path)
    except TypeError:
        hint = "; settings are given by name, or as config={...}" if isinstance(path, dict) else ""
        raise InvalidArgument(f"{path!r} is not a path{hint}") from None
    if not given or not isinstance(given, str) or not is_name(given):
        raise InvalidArgument(f"{path!r} is not a path")
    return given.rstrip("/") if is_uri(given) else os.path.abspath(given)


def absolute_places(given: Paths) -> list[str]:
    """Return what ``absolute_place`` does of one directory, or of a list.

    Raises InvalidArgument for none.
    """
    if isinstance(given, (str, os.PathLike)) or not isinstance(given, Iterable):
        return [absolute_place(given)]
    several = list(given)
    if not several:
        raise InvalidArgument("no data directory is named")
    return [absolute_place(one) for one in several]


def is_name(text: str) -> bool:
    """Return whether the system can take a text as the name of a file."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def new_temporary_path(prefix: str) -> str:
    """Return a path for temporary files at which there is nothing yet."""
    import tempfile  # noqa: PLC0415 - loads three compressors
    from secrets import token_hex  # noqa: PLC0415 - few programs need it

    return os.path.join(tempfile.gettempdir(), f"{prefix}{token_hex(8)}")
