"""Which archive a log writes: a file beside it, that a copy of the directory does not pass for.

Two copies of one log would each write what the other does not know. So the file says its own
inode, and each claim draws another incarnation, which the chain names.
"""

from __future__ import annotations

import json
import logging
import os
import re
from itertools import pairwise
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from tidelog.codec.checkpoint_file import replace_file_by
from tidelog.datadir.versioned_file import read_versioned
from tidelog.segment.filenames import log_file, log_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from tidelog.env.files import FileStat, FileSystem
    from tidelog.log.log import Log

_log = logging.getLogger(__name__)

_CLAIM: Final = re.compile(
    r"tidelog\.([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-(0|[1-9]\d{0,9})"
    r"\.archive",
    re.ASCII,
)
_changing: Final = RLock()
_VERSION: Final = 2
"""The second form says where segments end, and of a log that begins in an archive."""


class Digest(NamedTuple):
    """The checksum of a segment's file, and what says that the file is still the same.

    ``end_offset`` is where the next segment begins; 0 in files of older releases, which do not say.
    """

    inode: int
    size_bytes: int
    mtime_ms: int
    crc32c: int
    end_offset: int = 0

    def is_of(self, stat: FileStat) -> bool:
        """Return whether a file has not been written since."""
        return self[:3] == (stat.inode, stat.size_bytes, stat.mtime_ms)


class KnownArchive(NamedTuple):
    """The archive that a log continues, which held offsets up to ``end`` when it was seen last.

    ``start`` is the first offset of the log: it is in there, unless the disk has it.
    """

    uri: str
    start: int
    end: int

    def why_behind(self, log: object, end: int) -> str | None:
        """Return what is wrong with the archive of ``log`` if it ends at ``end``; None: nothing."""
        if end >= self.end:
            return None
        return (
            f"the archive of {log} ended at offset {self.end} when it was seen last, and ends at"
            f" {end} now: it was deleted, or put back from an older copy"
        )


class ClaimFile(NamedTuple):
    """What a log knows of its archives without their stores.

    ``drawn`` are incarnations of its claims, by the URI of the archive, newest first: the one that
    the archive names, and those drawn since, whose claims may come late. ``digests`` are those of
    archived segments, by base offset: else each claim would read all of them again. ``archive`` is
    the one into which the log is moved bit by bit; None: the disk has all of it. ``left`` is the
    one of which that was so before, as it was then: what was removed of it still is to be deleted.
    ``is_deleted``: the topic was deleted, and its archive still is to be.
    """

    inode: int = 0
    drawn: Mapping[str, tuple[str, ...]] = {}
    digests: Mapping[int, Digest] = {}
    archive: KnownArchive | None = None
    left: KnownArchive | None = None
    is_deleted: bool = False

    def drawn_since(self, uri: str, incarnation: str) -> tuple[str, ...] | None:
        """Return the incarnations from the one that an archive names on; None: it is another's."""
        drawn = self.drawn.get(uri, ())
        return drawn[: drawn.index(incarnation) + 1] if incarnation in drawn else None


def claim_file(data_dir: str, topic_id: UUID, partition: int) -> str:
    """Return the path of a partition's file."""
    return os.path.join(data_dir, f"tidelog.{topic_id}-{partition}.archive")


def claims_among(names: Iterable[str]) -> list[tuple[UUID, int]]:
    """Return the partitions whose files are among the names in a data directory."""
    found = (_CLAIM.fullmatch(name) for name in names if name.endswith(".archive"))
    return [(UUID(one[1]), int(one[2])) for one in found if one is not None]


def read_claim(fs: FileSystem, path: str) -> ClaimFile:
    """Return what the file says, nothing if there is none.

    A copied file is not a claim: two copies of a log would both write. Only its ``archive`` counts,
    as the copied directory lacks those records, too. Raises as ``read_versioned``, but
    FileNotFoundError.
    """
    try:
        found = read_versioned(fs, path, _VERSION, _parsed)
        inode = fs.stat(path).inode
    except FileNotFoundError:
        return ClaimFile()
    return found if found.inode == inode else ClaimFile(archive=found.archive)


def claim_or_copy(fs: FileSystem, path: str) -> ClaimFile:
    """Return what the file says, or a copied one, to those who only look; else as ``read_claim``.

    In a copied directory the archive has the same segments as they were.
    """
    try:
        return read_versioned(fs, path, _VERSION, _parsed)
    except FileNotFoundError:
        return ClaimFile()


def archives_named(fs: FileSystem, path: str) -> list[str]:
    """Return the URI of the archive that the log continues; else those of all that it was put into.

    Those of a copied file, too: anybody may read an archive. Raises as ``read_claim``.
    """
    found = claim_or_copy(fs, path)
    return sorted(found.drawn) if found.archive is None else [found.archive.uri]


def leftovers(bases: Sequence[int], claim: ClaimFile) -> int:
    """Return how many of the first segments a deletion has left, of which a crash lost a part.

    ``bases`` are the base offsets of all, in order. An archived segment whose successor is missing
    was to be deleted with it: the segments before the last gap are only in the way. A gap that is
    not archived is none of these: a power cut has taken what was never flushed.
    """
    count, archived_end = 0, 0 if claim.archive is None else claim.archive.end
    for number, (base, following) in enumerate(pairwise(bases), 1):
        digest = claim.digests.get(base)
        if digest is None or not digest.end_offset or following > archived_end:
            break
        if digest.end_offset != following:
            count = number
    return count


def delete_leftovers(fs: FileSystem, directory: str, claim: ClaimFile) -> None:
    """Finish, in a log's directory, a deletion of archived segments; see ``leftovers``.

    A segment whose file was written since it was archived stays, with all after it.
    """
    bases = sorted(log_offsets(fs.list(directory)))
    count = leftovers(bases, claim)
    for base in bases[:count]:
        path = log_file(directory, base)
        if not claim.digests[base].is_of(fs.stat(path)):
            break
        _log.info("leftover-deleted path=%s", path)
        fs.delete(path)
    if count:
        fs.sync_directory(directory)


def change_claim(fs: FileSystem, path: str, change: Callable[[ClaimFile], ClaimFile]) -> None:
    """Change what a file says, durably; nothing is written if that stays the same.

    The archive is kept by one thread, and records are deleted by others. Raises as ``read_claim``.
    """
    with _changing:
        known = read_claim(fs, path)
        claim = change(known)
        if claim != known:
            write_claim(fs, path, claim)


def raise_known_start(fs: FileSystem, log: Log, partition: int) -> None:
    """Note durably that a log which continues an archive begins no earlier than it does now.

    A line says where a log begins on the disk only: what lies below would be back.
    """
    offset = log.log_start_offset

    def raised(known: ClaimFile) -> ClaimFile:
        archive = known.archive
        if archive is None or archive.start >= offset:
            return known
        return known._replace(archive=archive._replace(start=offset))

    if log.topic_id is not None:
        with log.watch("noting where the log begins in its archive"):
            change_claim(fs, claim_file(log.data_dir, log.topic_id, partition), raised)


def write_claim(fs: FileSystem, path: str, claim: ClaimFile) -> None:
    """Replace the file durably by a new one, which names its own inode."""

    def content(made: str) -> bytes:
        fields: dict[str, Any] = {
            "version": _VERSION,
            "inode": fs.stat(made).inode,
            "archives": {uri: list(drawn) for uri, drawn in sorted(claim.drawn.items())},
            "digests": {str(base): list(one) for base, one in sorted(claim.digests.items())},
        }
        for name, archive in (("archive", claim.archive), ("left", claim.left)):
            if archive is not None:
                fields |= {name: list(archive), "deleted": claim.is_deleted}
        return json.dumps(fields).encode()

    replace_file_by(fs, path, content)


def carry_claim(fs: FileSystem, path: str, to: str) -> None:
    """Let a log that moves to another directory keep its claim; nothing if it has none.

    A copied log takes along only which archive it begins in: else it would begin on the disk.
    """
    known = read_claim(fs, path)
    if known != ClaimFile():
        write_claim(fs, to, known)


def note_deleted(fs: FileSystem, data_dir: str, topic_ids: Container[UUID]) -> None:
    """Note durably that topics were deleted, in each file of a log that continued an archive.

    Only then may the archive be deleted: a topic that is merely not known may be known again. Other
    files of these topics are deleted: those archives stay, as somebody has asked for each copy.
    """
    for topic_id, partition in claims_among(fs.list(data_dir)):
        if topic_id not in topic_ids:
            continue
        path = claim_file(data_dir, topic_id, partition)
        known = read_claim(fs, path)
        if known.archive is None and known.left is None:
            fs.delete(path)
        else:
            change_claim(fs, path, lambda known: known._replace(is_deleted=True))


def _parsed(content: Any) -> ClaimFile:  # noqa: ANN401 - whatever JSON holds
    inode = int(content["inode"])
    if inode <= 0:
        raise ValueError(f"{inode} is not an inode")
    drawn = {str(uri): tuple(map(str, each)) for uri, each in content["archives"].items()}
    digests = {int(base): Digest(*map(int, one)) for base, one in content["digests"].items()}
    archive, left = _archive_in(content, "archive"), _archive_in(content, "left")
    is_deleted = False if archive is None and left is None else bool(content["deleted"])
    return ClaimFile(inode, drawn, digests, archive, left, is_deleted)


def _archive_in(content: Any, name: str) -> KnownArchive | None:  # noqa: ANN401 - as above
    if name not in content:
        return None
    uri, start, end = content[name]
    archive = KnownArchive(str(uri), int(start), int(end))
    if archive.start < 0 or archive.end < 0:
        raise ValueError(f"an archive cannot have offsets {archive.start} to {archive.end}")
    return archive
