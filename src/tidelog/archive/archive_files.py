"""An archive as a data directory: its segments as files, which are read from the store.

So whatever looks at a log on a disk looks at one on a store: the same readers, with this file
system. Each partition is pinned at the version that its chain had when it was first asked for.
"""

from __future__ import annotations

import errno
from threading import RLock
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_URL, uuid5

from tidelog.archive.coarse_index import CoarseIndex
from tidelog.archive.deltas import SECTIONS
from tidelog.archive.fetched_file import ArchiveFile, Place, size_of
from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, pack_checkpoint, pack_leader_epochs
from tidelog.datadir.catalogue import CATALOGUE_FILE, Catalogue, Topic, pack_catalogue
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, MetaProperties
from tidelog.datadir.offset_checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
)
from tidelog.datadir.partition_directories import partition_of
from tidelog.env.descriptors import DescriptorBudget
from tidelog.env.files import FileStat, os_error
from tidelog.env.read_only_file import FilesToRead
from tidelog.errors import CorruptArchive
from tidelog.log.topic_id import PARTITION_METADATA_FILE, pack_partition_metadata
from tidelog.segment.filenames import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    filename_prefix_from_offset,
    offset_from_file_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tidelog.archive.archived_partitions import ArchivedPartition, ArchivedPartitions
    from tidelog.archive.deltas import Entry
    from tidelog.env.files import OpenMode
    from tidelog.store.objects import Objects

_SUFFIXES: Final = {
    "log": LOG_SUFFIX,
    "index": INDEX_SUFFIX,
    "timeindex": TIME_INDEX_SUFFIX,
    "txnindex": TXN_INDEX_SUFFIX,
}


class ArchiveFiles(FilesToRead):
    """The partitions of an archive, as ``FileSystem`` to be read only; any thread may use it.

    Args:
        partitions: what the archive holds.
        root: the path of the data directory that it stands for, such as its URI.
        only: the name of the one partition's directory that is wanted; None: not just one.
        topics: those that are wanted; None: all. What is not wanted is not looked for.
        number: the only partition of them that is wanted, if there is one; None: all.

    Raises what ``ArchivedPartitions`` and ``Objects`` raise; OSError for paths that are not there.
    """

    def __init__(
        self,
        partitions: ArchivedPartitions,
        root: str,
        *,
        only: str | None = None,
        topics: Collection[str] | None = None,
        number: int | None = None,
    ) -> None:
        self._number = number
        self._partitions = partitions
        self._only = only
        self._topics = topics
        self.root: Final = root.rstrip("/")
        self._lock = RLock()
        self._pinned: dict[str, ArchivedPartition] | None = None
        self._files: dict[str, Mapping[str, Place | bytes]] = {}
        self.descriptors: Final = DescriptorBudget()

    def partitions(self) -> dict[str, ArchivedPartition]:
        """Return the partitions by the names of their directories."""
        with self._lock:
            if self._pinned is None:
                self._pinned = self._looked_up()
            return self._pinned

    def _looked_up(self) -> dict[str, ArchivedPartition]:
        if self._only is not None:
            found = self._partitions.find(self._only)
            return {} if found is None else {found.directory: found}
        if self._topics is not None:
            return self._partitions.of_topics(self._topics, self._number)
        return self._partitions.all()

    def serves(self, path: str) -> bool:
        """Return whether it was looked for what is at a path."""
        below = self._below(path)
        first = below.partition("/")[0]
        return self._only in {None, first} or (first == below != "" and partition_of(first) is None)

    def open(self, path: str, mode: OpenMode = "r") -> ArchiveFile:
        """Open a file of the archive."""
        if mode != "r":
            self.refuse(path)
        if self._is_directory(path):
            raise os_error(errno.EISDIR, path)
        return ArchiveFile(self._partitions.store, path, self._file(path), self._is_gone)

    def _is_gone(self, name: str) -> None:
        """Look again what there is, as an object is gone; CorruptArchive if it should be there."""
        with self._lock:
            self._pinned, self._files = None, {}
            for one in self.partitions().values():
                check_gone(one, name)

    def start_offset(self, path: str) -> int | None:
        """Return the first offset of a partition, by its directory; None if there is none."""
        one = self.partitions().get(self._below(path))
        return None if one is None else one.state.whole_start

    def coarse_index(self, path: str) -> CoarseIndex | None:
        """Return the coarse index of a ``.log`` file; None if there is no such segment."""
        directory, _, name = self._below(path).rpartition("/")
        one = self.partitions().get(directory)
        return None if one is None else coarse_index_of(self._partitions.store, one, name)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory."""
        below = self._below(path)
        return [*([] if below else self.partitions()), *self._entries(below, path)]

    def stat(self, path: str) -> FileStat:
        """Return size and kind; objects have no time of their own."""
        if self._is_directory(path):
            return FileStat(0, 0, is_directory=True)
        return FileStat(size_of(self._file(path)), 0, is_directory=False)

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or directory."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def is_link(self, path: str) -> bool:
        """Return False: there are no links."""
        del path
        return False

    def real_path(self, path: str) -> str:
        """Return the path."""
        return path

    def free_bytes(self, path: str) -> int:
        """Return 0: nothing can be written."""
        del path
        return 0

    total_bytes = free_bytes

    # What there is

    def _below(self, path: str) -> str:
        """Return a path below the root; FileNotFoundError for others."""
        given = path.rstrip("/")
        if given != self.root and not given.startswith(f"{self.root}/"):
            raise os_error(errno.ENOENT, path)
        return given[len(self.root) + 1 :]

    def _is_directory(self, path: str) -> bool:
        below = self._below(path)
        return not below or below in self.partitions()

    def _file(self, path: str) -> Place | bytes:
        """Return where a file is; FileNotFoundError if there is none."""
        directory, _, name = self._below(path).rpartition("/")
        found = self._entries(directory, path).get(name)
        if found is None:
            raise self._missing(path)
        return found

    def _entries(self, directory: str, path: str) -> Mapping[str, Place | bytes]:
        """Return the files in a directory; FileNotFoundError if there is none."""
        with self._lock:
            if directory not in self._files:
                if directory == "":
                    self._files[""] = self._own_files()
                elif directory in self.partitions():
                    self._files[directory] = files_of(self.partitions()[directory])
                else:
                    raise self._missing(path)
            return self._files[directory]

    def _missing(self, path: str) -> OSError:
        """Return the error for what is not there; CorruptArchive for a name that topics share."""
        name = self._below(path).partition("/")[0]
        key = partition_of(name)
        if key is not None:
            shared = {one.shared_name for one in self.partitions().values()}
            if key.topic in shared:
                self._partitions.find(name)
        return os_error(errno.ENOENT, path)

    def _own_files(self) -> dict[str, Place | bytes]:
        """Return the files of the data directory itself."""
        directory_id = uuid5(NAMESPACE_URL, self.root)
        starts: dict[tuple[str, int], int] = {}
        ends: dict[tuple[str, int], int] = {}
        cleaned: dict[tuple[str, int], int] = {}
        topics: dict[str, Topic] = {}
        for topic_id, number, state, damage, _ in self.partitions().values():
            if not damage:
                starts[state.topic, number], ends[state.topic, number] = state.start, state.end
            if state.cleaned_end:
                cleaned[state.topic, number] = state.cleaned_end
            known = topics.get(state.topic)
            partitions = {**({} if known is None else known.partitions), number: directory_id}
            # A damaged chain says nothing of settings. What is compacted is not archived.
            said = known.config if damage and known is not None else state.config
            config = {"cleanup.policy": "delete", **said}
            topics[state.topic] = Topic(state.topic, topic_id, partitions, config, is_adopted=True)
        lines = {CLEANER_OFFSET_FILE: pack_checkpoint(cleaned)} if cleaned else {}
        return {
            **lines,
            LOG_START_OFFSET_FILE: pack_checkpoint(starts),
            HIGH_WATERMARK_FILE: pack_checkpoint(ends),
            META_PROPERTIES_FILE: MetaProperties(version=0, directory_id=directory_id).format(),
            CATALOGUE_FILE: pack_catalogue(Catalogue(topics)),
        }


def files_of(one: ArchivedPartition) -> dict[str, Place | bytes]:
    """Return the files of a partition."""
    state = one.state
    metadata = pack_partition_metadata(one.topic_id)
    files: dict[str, Place | bytes] = {PARTITION_METADATA_FILE: metadata}
    # As on a disk after a roll: else the last segment would pass for one that is written to, and
    # damage at its end, or a gap before the next one, for something else.
    active = filename_prefix_from_offset(state.end)
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        files[active + suffix] = b""
    for entry in state.entries:
        files |= files_of_segment(one.object_name(entry), entry)
    if state.entries:
        files[LEADER_EPOCH_FILE] = pack_leader_epochs(epochs_of(state.entries))
    return files


def coarse_index_of(store: Objects, one: ArchivedPartition, name: str) -> CoarseIndex | None:
    """Return the coarse index of a ``.log`` file of a partition; None if there is no such file."""
    entry = one.state.entry_at(offset_from_file_name(name))
    if entry is None or name != filename_prefix_from_offset(entry.base_offset) + LOG_SUFFIX:
        return None
    return CoarseIndex(store, one.object_name(entry), entry)


def check_gone(one: ArchivedPartition, name: str) -> None:
    """Raise CorruptArchive if a partition has a segment whose object is not there."""
    if any(one.object_name(entry) == name for entry in one.known.entries):
        raise CorruptArchive(f"{name} is gone, and the archive has not removed it")


def epochs_of(entries: Iterable[Entry]) -> list[tuple[int, int]]:
    """Return the leader epochs in segments, in order, each with its first offset.

    A log forgets those below its start on the disk, so the last segment need not have all.
    """
    found: dict[int, int] = {}
    for entry in entries:
        for epoch, start in entry.epochs:
            found.setdefault(epoch, start)
    return sorted(found.items())


def files_of_segment(name: str, entry: Entry) -> dict[str, Place | bytes]:
    """Return the files of a segment, whose object has this name."""
    files: dict[str, Place | bytes] = {}
    for section in SECTIONS:
        start, end = entry.section(section)
        if section in _SUFFIXES and (end > start or section != "txnindex"):
            file = filename_prefix_from_offset(entry.base_offset) + _SUFFIXES[section]
            files[file] = Place(name, start, end)
        elif section == "snapshot" and end > start:
            file = filename_prefix_from_offset(entry.end_offset) + SNAPSHOT_SUFFIX
            files[file] = Place(name, start, end)
    return files
