"""The producer snapshot files of one partition directory.

Kafka: the ``snapshots`` map and ``SnapshotFile`` of ``ProducerStateManager``.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from tidelog.env.files import WRONG_KIND
from tidelog.env.renamed_files import rename_if_there
from tidelog.errors import CorruptSnapshot
from tidelog.log.producers.producer_snapshot import pack_snapshot, read_snapshot
from tidelog.segment.filenames import (
    DELETED_SUFFIX,
    producer_snapshot_file,
    snapshot_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tidelog.env.files import FileSystem
    from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry

_log = logging.getLogger(__name__)


class SnapshotFiles:
    """Snapshot files by offset: the first offset that a file does not reflect.

    Changed under the log's lock; ``sync`` may run on any thread. ``unsynced`` are those that a
    power cut may take.
    """

    def __init__(
        self, directory: str, fs: FileSystem, names: Collection[str] | None = None
    ) -> None:
        self.directory = directory
        self._fs = fs
        self._offsets: list[int] = []
        self.unsynced: set[int] = set()
        self._set_aside: set[int] | None = None
        self.undeleted: set[int] = set()
        """Snapshots whose deletion failed; the next deletion includes them."""
        self.scan(names)

    @property
    def offsets(self) -> list[int]:
        """Offsets of all known snapshots, ascending."""
        return self._offsets.copy()

    @property
    def latest(self) -> int | None:
        """Greatest offset of a known snapshot."""
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        """Return the path of the snapshot at ``offset``."""
        return producer_snapshot_file(self.directory, offset)

    def scan(self, names: Collection[str] | None = None) -> None:
        """List the directory, unless ``names`` is what it holds."""
        found = self._fs.list(self.directory) if names is None else names
        self._offsets = sorted(snapshot_offsets(found))

    def write(self, offset: int, entries: Iterable[ProducerSnapshotEntry], *, sync: bool) -> None:
        """Write a snapshot at ``offset``; durable on return only with ``sync``.

        An OSError leaves none there.
        """
        data = pack_snapshot(entries)
        aside = self._set_aside or set()
        if offset not in aside or not self._holds(offset, data):
            try:
                self._fs.write(self.path(offset), data)
            except OSError as error:
                with suppress(OSError):
                    self.delete(offset)
                if error.errno not in WRONG_KIND:
                    raise
                self._fs.write(self.path(offset), data)  # in place of a link, which is gone now
        aside.discard(offset)
        self.note(offset)
        self.unsynced.add(offset)
        if sync:
            self.sync(offset)

    def note(self, offset: int) -> None:
        """Take note of a snapshot at ``offset``."""
        if not self._knows(offset):
            insort(self._offsets, offset)

    def set_aside(self, offsets: set[int]) -> None:
        """Do as if these were not there, and put into the set what is to be deleted from now on.

        One that is written again leaves the set; its file is not touched if it is the same.
        """
        self._set_aside = offsets
        self._offsets = [offset for offset in self._offsets if offset not in offsets]

    def _knows(self, offset: int) -> bool:
        at = bisect_left(self._offsets, offset)
        return at < len(self._offsets) and self._offsets[at] == offset

    def _forget(self, offset: int) -> None:
        if self._knows(offset):
            del self._offsets[bisect_left(self._offsets, offset)]

    def _holds(self, offset: int, data: bytes) -> bool:
        path = self.path(offset)
        if self._fs.is_link(path):
            return False
        try:
            return self._fs.stat(path).size_bytes == len(data) and self._fs.read(path) == data
        except (FileNotFoundError, IsADirectoryError):
            return False

    def sync(self, offset: int) -> None:
        """Make the snapshot at ``offset`` durable; nothing if it was deleted meanwhile."""
        with (
            suppress(FileNotFoundError, IsADirectoryError),
            closing(self._fs.open(self.path(offset))) as file,
        ):
            file.sync()
        self.unsynced.discard(offset)

    def sync_all(self) -> None:
        """Make every snapshot durable."""
        for offset in sorted(self.unsynced.intersection(self._offsets)):
            self.sync(offset)

    def read(self, offset: int) -> list[ProducerSnapshotEntry]:
        """Return the entries of the snapshot at ``offset``; none if it is not there, or unsound."""
        try:
            return read_snapshot(self._fs, self.path(offset))
        except (CorruptSnapshot, FileNotFoundError):
            return []

    def is_sound(self, offset: int) -> bool:
        """Return whether the snapshot at ``offset`` is there, and can be read."""
        try:
            read_snapshot(self._fs, self.path(offset))
        except (CorruptSnapshot, FileNotFoundError):
            return False
        return True

    def read_latest(self) -> tuple[int, list[ProducerSnapshotEntry]] | None:
        """Return offset and entries of the newest readable snapshot; delete unreadable ones."""
        while (offset := self.latest) is not None:
            try:
                return offset, read_snapshot(self._fs, self.path(offset))
            except CorruptSnapshot as error:
                _log.warning("snapshot-dropped path=%s reason=%s", self.path(offset), error)
                self.delete(offset)
            except FileNotFoundError:
                self._forget(offset)
            except OSError as error:
                if error.errno not in WRONG_KIND:
                    raise
                _log.warning("foreign-file-ignored path=%s", self.path(offset))
                self._forget(offset)
        return None

    def delete(self, offset: int) -> None:
        """Delete the snapshot at ``offset`` now, if it exists."""
        self._forget(offset)
        with suppress(FileNotFoundError, IsADirectoryError):
            self._fs.delete(self.path(offset))

    def delete_outside(self, start_offset: int, end_offset: int) -> None:
        """Delete snapshots at or below ``start_offset`` and above ``end_offset``.

        They are only forgotten if some are set aside.
        """
        first, end = (bisect_right(self._offsets, at) for at in (start_offset, end_offset))
        for offset in (*self._offsets[:first], *self._offsets[max(first, end) :]):
            if self._set_aside is None:
                self.delete(offset)
            else:
                self._forget(offset)
                self._set_aside.add(offset)

    def delete_all(self) -> None:
        """Delete every known snapshot now."""
        for offset in self.offsets:
            self.delete(offset)

    def mark_deleted(self, offset: int) -> str | None:
        """Rename the snapshot to ``.deleted`` and forget it; return its new path, if it existed.

        On an OSError it is still known.
        """
        if not self._knows(offset):
            return None
        renamed = self.path(offset) + DELETED_SUFFIX
        is_there = rename_if_there(self._fs, self.path(offset), renamed)
        self._forget(offset)
        return renamed if is_there else None

    def delete_strays(
        self, segment_bases: Collection[int], names: Collection[str] | None = None
    ) -> None:
        """Delete snapshots that belong to no segment, but the one of a clean shutdown.

        That one is the greatest, at or above the last segment's base. The directory is listed
        unless ``names`` is what it holds.
        Source: Kafka ProducerStateManager.removeStraySnapshots.
        """
        self.scan(names)
        strays = sorted(set(self._offsets).difference(segment_bases))
        if strays and strays[-1] >= max(segment_bases, default=0):
            strays.pop()
        for offset in strays:
            self.delete(offset)
