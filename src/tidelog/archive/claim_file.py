"""Which archive a log writes: a file beside it, that a copy of the directory does not pass for.

Two copies of one log would each write what the other does not know. So the file says its own
inode, and each claim draws another incarnation, which the chain names.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.checkpoint_file import replace_file_by
from tidelog.datadir.versioned_file import read_versioned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from tidelog.env.files import FileStat, FileSystem

_VERSION: Final = 1


class Digest(NamedTuple):
    """The checksum of a segment's file, and what says that the file is still the same."""

    inode: int
    size_bytes: int
    mtime_ms: int
    crc32c: int

    def is_of(self, stat: FileStat) -> bool:
        """Return whether a file has not been written since."""
        return self[:3] == (stat.inode, stat.size_bytes, stat.mtime_ms)


class ClaimFile(NamedTuple):
    """What a log knows of its archive without the store.

    ``incarnation`` is that of its last claim, ``before`` that of the previous one, which holds
    if the last one was not committed. ``digests`` are those of archived segments, by base offset:
    else each claim would read all of them again.
    """

    incarnation: str
    before: str
    inode: int
    digests: Mapping[int, Digest]

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


def write_claim(
    fs: FileSystem, path: str, incarnation: str, before: str, digests: Mapping[int, Digest]
) -> None:
    """Replace the file durably by a new one, which names its own inode."""

    def content(made: str) -> bytes:
        fields = {
            "version": _VERSION,
            "incarnation": incarnation,
            "before": before,
            "inode": fs.stat(made).inode,
            "digests": {str(base): list(one) for base, one in sorted(digests.items())},
        }
        return json.dumps(fields).encode()

    replace_file_by(fs, path, content)


def _parsed(content: Any) -> ClaimFile:  # noqa: ANN401 - whatever JSON holds
    inode = int(content["inode"])
    if inode < 0:
        raise ValueError(f"{inode} is not an inode")
    digests = {int(base): Digest(*map(int, one)) for base, one in content["digests"].items()}
    return ClaimFile(str(content["incarnation"]), str(content["before"]), inode, digests)
