"""A partition's directory together with the archive in which its log begins.

Where retention has deleted the first segments from the disk, listings and reads show those of the
archive in their place. So whatever reads a directory reads the whole log.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.archive.archive_files import (
    check_gone,
    coarse_index_of,
    epochs_of,
    files_of_segment,
)
from tidelog.archive.claim_file import leftovers
from tidelog.archive.fetched_file import ArchiveFile, size_of
from tidelog.codec.checkpoint_file import (
    LEADER_EPOCH_FILE,
    pack_leader_epochs,
    read_leader_epochs,
)
from tidelog.env.files import FileStat
from tidelog.env.read_only_file import FilesBelow
from tidelog.errors import CorruptArchive
from tidelog.log.archived import ArchivedOffsets
from tidelog.segment.filenames import log_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from tidelog.archive.archived_partitions import ArchivedPartition, ArchivedPartitions
    from tidelog.archive.chain_state import ChainState
    from tidelog.archive.claim_file import ClaimFile
    from tidelog.archive.coarse_index import CoarseIndex
    from tidelog.archive.deltas import Entry
    from tidelog.archive.fetched_file import Place
    from tidelog.env.files import FileSystem, OpenFile, OpenMode


class JoinedFiles(FilesBelow):
    """One directory of ``below``, to be read only; used by one thread at a time.

    The store is asked only where the disk does not hold the whole log. Each listing shows what is
    on the disk then; what the archive has is looked up again if the disk begins behind that.

    Args:
        below: the disk.
        directory: the partition's.
        archive: the archive.
        part: topic id and number of the partition.
        beside: those of partitions that may be read next.
        claim: what the file beside the log says of it.

    Raises what ``Chain.read`` and ``Objects`` raise; CorruptArchive where the archive does not fit
    the disk.
    """

    def __init__(
        self,
        below: FileSystem,
        directory: str,
        archive: ArchivedPartitions,
        part: tuple[UUID, int],
        claim: ClaimFile,
        *,
        beside: Sequence[tuple[UUID, int]] = (),
    ) -> None:
        super().__init__(below)
        self._directory: Final = directory
        self._archive: Final = archive
        self._part: Final = part
        self._beside: Final = beside
        assert claim.archive is not None
        self._claim: Final = claim
        self._known: Final = claim.archive
        self._pinned: ArchivedPartition | None = None
        self._shown: Mapping[str, Place | bytes] | None = None
        self._epochs: list[tuple[int, int]] = []
        self._first = 0

    @property
    def start_offset(self) -> int:
        """The first offset of the log, as its owner has it."""
        first, end = self.disk_and_archive
        start = self._known.start
        if self._pinned is not None:
            start = max(start, self._pinned.state.start)
        return ArchivedOffsets(start, end).whole_start(max(start, first))

    @property
    def disk_and_archive(self) -> tuple[int, int]:
        """The offset from which on the disk has all, and the end of what the archive has."""
        self._files()
        return self._first, self._known.end if self._pinned is None else self._pinned.state.end

    def list(self, path: str) -> list[str]:
        """Return the names on the disk, and those of older segments, which the archive has."""
        names = self._below.list(path)
        # After the listing: what the disk has lost by then, the archive has.
        self._shown = self._in_front(names)
        return [*names, *(name for name in self._shown if name not in names)]

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file of the disk, or else of the archive."""
        if mode != "r":
            self.refuse(path)
        name = os.path.basename(path)
        if name == LEADER_EPOCH_FILE and self._files():
            return ArchiveFile(self._archive.store, path, self._all_epochs(path), self._is_gone)
        try:
            return self._below.open(path)
        except FileNotFoundError:
            place = self._files().get(name)
            if place is None:
                raise
            return ArchiveFile(self._archive.store, path, place, self._is_gone)

    def coarse_index(self, path: str) -> CoarseIndex | None:
        """Return the coarse index of a ``.log`` file that the archive has; None for the disk's."""
        name = os.path.basename(path)
        if self._pinned is None or name not in self._files() or self._below.exists(path):
            return None
        return coarse_index_of(self._archive.store, self._pinned, name)

    def _is_gone(self, name: str) -> None:
        """Look again what there is, as an object is gone; CorruptArchive if it should be there."""
        self._pinned, self._shown = None, None
        check_gone(self._archive.now(self._part), name)

    def stat(self, path: str) -> FileStat:
        """Return size and kind of what ``open`` would open."""
        try:
            return self._below.stat(path)
        except FileNotFoundError:
            place = self._files().get(os.path.basename(path))
            if place is None:
                raise
            return FileStat(size_of(place), 0, is_directory=False)

    def exists(self, path: str) -> bool:
        """Return whether there is such a file."""
        return self._below.exists(path) or os.path.basename(path) in self._files()

    def _files(self) -> Mapping[str, Place | bytes]:
        """Return the archive's files in front of the disk, as of the last listing."""
        if self._shown is None:
            self.list(self._directory)
        return self._shown or {}

    def _in_front(self, names: Iterable[str]) -> dict[str, Place | bytes]:
        """Return the archive's files that stand for those the disk has no longer."""
        bases = sorted(log_offsets(names))
        gaps = leftovers(bases, self._claim)
        self._first = bases[gaps] if bases else self._known.end
        if bases and bases[0] <= self._known.start and not gaps:
            return {}
        # Before the gaps the disk has what a crash has brought back; there it may lack anything.
        first = self._first if bases else None
        one = self._pinned
        if one is None or first is None or one.state.end < first:
            one = self._pinned = self._archive.now_among(self._part, self._beside)
        entries = self._entries_before(one.state, first)
        self._epochs = epochs_of(entries)
        files: dict[str, Place | bytes] = {}
        for entry in entries:
            files |= files_of_segment(one.object_name(entry), entry)
        return files

    def _entries_before(self, state: ChainState, first: int | None) -> Sequence[Entry]:
        """Return the segments that end at or below the offset from which on the disk has all."""
        if first is None:
            return state.entries
        where = f"{self._directory} begins at offset {first}, and its archive {self._known.uri}"
        if state.end < self._known.end or state.is_deleted:
            raise CorruptArchive(f"{where}, which held the offsets before, is gone or incomplete")
        start = max(self._known.start, state.start)
        if start >= min(first, state.end):  # nothing of it is in the log
            return []
        entries = [entry for entry in state.entries if entry.base_offset < first]
        if entries and entries[-1].end_offset > first:
            last = entries[-1]
            raise CorruptArchive(
                f"{where} has a segment of offsets {last.base_offset} to {last.end_offset - 1}:"
                " they are of different logs"
            )
        return entries

    def _all_epochs(self, path: str) -> bytes:
        """Return the leader epochs of the archive's segments and of the disk."""
        epochs = dict(self._epochs)
        try:
            local = read_leader_epochs(self._below, path)
        except FileNotFoundError:
            local = []
        for epoch, start in local:
            epochs.setdefault(epoch, start)
        return pack_leader_epochs(sorted(epochs.items()))
