"""Writes a file that the user names: whole or not at all, and over no other unless asked to."""

from __future__ import annotations

import errno
import os
from contextlib import closing, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem

_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of a disk that cannot give a file a second name."""


def check_output_file(fs: FileSystem, path: str, *, may_replace: bool) -> None:
    """Raise InvalidArgument if there is a file of this name, unless it may be replaced.

    Only a regular file is ever replaced. Raises OSError for anything else of that name.
    """
    if not fs.exists(path) and not fs.is_link(path):
        return
    if not may_replace:
        raise InvalidArgument(f"{path} exists; --force replaces it")
    fs.open(path).close()


def write_output_file(fs: FileSystem, path: str, data: bytes, *, may_replace: bool) -> None:
    """Write a file by way of another one in the same directory.

    Raises InvalidArgument as ``check_output_file``, also for a file that appears meanwhile, and
    OSError; then the directory is as it was before.
    """
    check_output_file(fs, path, may_replace=may_replace)
    target = fs.real_path(path)
    temporary = f"{target}.{token_hex(8)}.tmp"
    try:
        with closing(fs.open(temporary, "x")) as file:
            file.pwrite(data, 0)
            file.sync()
        if may_replace or not _link(fs, temporary, target):
            check_output_file(fs, path, may_replace=may_replace)
            fs.rename(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            fs.delete(temporary)
    fs.sync_directory(os.path.dirname(target))


def _link(fs: FileSystem, source: str, target: str) -> bool:
    """Give a file its name, which must be free; return False where the disk has no links."""
    try:
        fs.link(source, target)
    except FileExistsError:
        raise InvalidArgument(f"{target} exists; --force replaces it") from None
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True
