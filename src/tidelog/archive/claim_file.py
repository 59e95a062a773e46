"""Which archive a log writes: a file beside it, that a copy of the directory does not pass for.

Two copies of one log would each write what the other does not know. So the file says its own
inode, and each claim draws another incarnation, which the chain names.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.datadir.versioned_file import read_versioned

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.env.files import FileSystem

_VERSION: Final = 1
_NEW_SUFFIX: Final = ".new"


class ClaimFile(NamedTuple):
    """What a log knows of its archive without the store.

    ``incarnation`` is the one of its last claim, ``before`` that of the claim before, which holds
    if the last one was not committed. ``start`` and ``end`` are the archive's, as last seen.
    """

    incarnation: str
    before: str
    inode: int
    start: int = 0
    end: int = 0

    def names(self, incarnation: str) -> bool:
        """Return whether a claim of this incarnation is of this log."""
        return incarnation in {self.incarnation, self.before}


def claim_file(data_dir: str, topic_id: UUID, partition: int) -> str:
    """Return the path of a partition's file."""
    return os.path.join(data_dir, f"tidelog.{topic_id}-{partition}.archive")


def read_claim(fs: FileSystem, path: str) -> ClaimFile | None:
    """Return what the file says, None if there is none, or it is a copy.

    Raises as ``read_versioned``, but FileNotFoundError.
    """
    try:
        found = read_versioned(fs, path, _VERSION, _parsed)
        inode = fs.stat(path).inode
    except FileNotFoundError:
        return None
    return found if found.inode == inode else None


def write_claim(fs: FileSystem, path: str, claim: ClaimFile) -> ClaimFile:
    """Replace the file durably by a new one, which has an inode of its own; return what it says."""
    made = path + _NEW_SUFFIX
    with closing(fs.open(made, "w")) as file:
        written = claim._replace(inode=fs.stat(made).inode)
        data = json.dumps({"version": _VERSION, **written._asdict()}).encode()
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    fs.rename(made, path)
    fs.sync_directory(os.path.dirname(path))
    return written


def _parsed(content: Any) -> ClaimFile:  # noqa: ANN401 - whatever JSON holds
    inode, start, end = (int(content[name]) for name in ("inode", "start", "end"))
    if min(inode, start, end) < 0:
        raise ValueError(f"{min(inode, start, end)} is not a number from 0 on")
    return ClaimFile(str(content["incarnation"]), str(content["before"]), inode, start, end)
