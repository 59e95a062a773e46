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
    """What a log knows of its archives without their stores.

    ``drawn`` are incarnations of its claims, by the URI of the archive, newest first: the one that
    the archive names, and those drawn since, whose claims may come late. ``digests`` are those of
    archived segments, by base offset: else each claim would read all of them again.
    """

    inode: int = 0
    drawn: Mapping[str, tuple[str, ...]] = {}
    digests: Mapping[int, Digest] = {}

    def drawn_since(self, uri: str, incarnation: str) -> tuple[str, ...] | None:
        """Return the incarnations from the one that an archive names on; None: it is another's."""
        drawn = self.drawn.get(uri, ())
        return drawn[: drawn.index(incarnation) + 1] if incarnation in drawn else None


def claim_file(data_dir: str, topic_id: UUID, partition: int) -> str:
    """Return the path of a partition's file."""
    return os.path.join(data_dir, f"tidelog.{topic_id}-{partition}.archive")


def read_claim(fs: FileSystem, path: str) -> ClaimFile:
    """Return what the file says, nothing if there is none, or it is a copy.

    Raises as ``read_versioned``, but FileNotFoundError.
    """
    try:
        found = read_versioned(fs, path, _VERSION, _parsed)
        inode = fs.stat(path).inode
    except FileNotFoundError:
        return ClaimFile()
    return found if found.inode == inode else ClaimFile()


def write_claim(fs: FileSystem, path: str, claim: ClaimFile) -> None:
    """Replace the file durably by a new one, which names its own inode."""

    def content(made: str) -> bytes:
        fields = {
            "version": _VERSION,
            "inode": fs.stat(made).inode,
            "archives": {uri: list(drawn) for uri, drawn in sorted(claim.drawn.items())},
            "digests": {str(base): list(one) for base, one in sorted(claim.digests.items())},
        }
        return json.dumps(fields).encode()

    replace_file_by(fs, path, content)


def _parsed(content: Any) -> ClaimFile:  # noqa: ANN401 - whatever JSON holds
    inode = int(content["inode"])
    if inode <= 0:
        raise ValueError(f"{inode} is not an inode")
    drawn = {str(uri): tuple(map(str, each)) for uri, each in content["archives"].items()}
    digests = {int(base): Digest(*map(int, one)) for base, one in content["digests"].items()}
    return ClaimFile(inode, drawn, digests)
