"""Files of which several processes may act on one: the rename that succeeds decides who does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem


def rename_if_there(fs: FileSystem, source: str, target: str) -> bool:
    """Rename a file that others may rename, too; return whether this process did.

    Not durable before a sync of the directory.
    """
    try:
        fs.rename(source, target)
    except FileNotFoundError:
        return False
    return True


def delete_if_there(fs: FileSystem, path: str) -> bool:
    """Delete a file that others may delete, too; return whether this process did."""
    try:
        fs.delete(path)
    except FileNotFoundError:
        return False
    return True
