"""Paths as Python programs give them: one, or several that belong together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

from tidelog.errors import InvalidArgument

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A data directory, or several."""


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path; InvalidArgument for what is not a path."""
    try:
        given = os.fspath(path)
    except TypeError:
        raise InvalidArgument(
            f"{path!r} is not a path; settings are given by name, or as config={{...}}"
        ) from None
    if not given or not isinstance(given, str):
        raise InvalidArgument(f"{path!r} is not a path")
    return os.path.abspath(given)


def absolute_paths(given: Paths) -> list[str]:
    """Return the absolute paths of one directory, or of a list; InvalidArgument for none."""
    several = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    if not several:
        raise InvalidArgument("no data directory is named")
    return [absolute_path(one) for one in several]


def new_temporary_path(prefix: str) -> str:
    """Return a path for temporary files at which there is nothing yet."""
    import tempfile  # noqa: PLC0415 - loads three compressors
    from secrets import token_hex  # noqa: PLC0415 - few programs need it

    return os.path.join(tempfile.gettempdir(), f"{prefix}{token_hex(8)}")
