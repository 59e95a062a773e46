"""One data directory's own files, to be read only: its id, catalogue, checkpoints and logs.

Each is read once. ``ReadOnlyDirectory`` puts one or several together.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.one_line import first_names
from tidelog.datadir.catalogue import CATALOGUE_FILE, Catalogue, read_catalogue
from tidelog.datadir.deletion_marks import marks_among
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, known_meta_properties
from tidelog.datadir.offset_checkpoints import CHECKPOINT_FILES
from tidelog.datadir.partition_directories import survey
from tidelog.env.paths import is_uri
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.log.topic_id import PARTITION_METADATA_FILE, read_partition_metadata, topic_id_or_none
from tidelog.readonly.checkpoints import Checkpoints, ask_for_watermarks
from tidelog.readonly.read_only_log import open_read_only
from tidelog.segment.filenames import log_directory_name

if TYPE_CHECKING:
    from collections.abc import Container
    from uuid import UUID

    from tidelog.datadir.metadata_files import MetaProperties
    from tidelog.datadir.partition_directories import PartitionLinks
    from tidelog.readonly.missing.damaged_range import OnDamage
    from tidelog.readonly.read_files import ReadFiles
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition


class CatalogueFile(NamedTuple):
    """What a catalogue says; ``error``: why it cannot be read, it is then empty."""

    catalogue: Catalogue
    error: KafkaStorageError | None = None


class Listing(NamedTuple):
    """The entries of a data directory: partitions, others with what they lack, marks."""

    found: list[TopicPartition]
    foreign: dict[str, str]
    marked: frozenset[UUID]


class DirectoryFiles:
    """The files of one data directory.

    ``asks_holder``: the process that holds it writes down its high watermarks before they are read.
    Raises InvalidArgument if there is no such directory, KafkaStorageError if the disk failed.
    """

    def __init__(self, path: str, fs: ReadFiles, *, asks_holder: bool = False) -> None:
        self.path: Final = path.rstrip("/") or path
        self.fs: Final = fs
        self._asks_holder = asks_holder
        try:
            is_directory = fs.stat(self.path).is_directory
        except (FileNotFoundError, KafkaStorageError) as error:
            # Below a file there is no directory either.
            if not isinstance(error.__cause__ or error, (FileNotFoundError, NotADirectoryError)):
                raise
            if is_uri(self.path):
                raise InvalidArgument(_no_archive(self.path)) from None
            raise InvalidArgument(f"{self.path} is not a data directory: it is missing") from None
        if not is_directory:
            raise InvalidArgument(f"{self.path} is not a data directory: it is a file")

    @cached_property
    def meta(self) -> MetaProperties | None:
        """Whose directory it is; None if ``meta.properties`` is missing or cannot be read."""
        return known_meta_properties(self.fs, self.path)

    @property
    def directory_id(self) -> UUID | None:
        """The directory's id; None if ``meta.properties`` names none or cannot be read."""
        return None if self.meta is None else self.meta.directory_id

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """High watermarks and log starts, read once; KafkaStorageError where one is malformed."""
        if self._asks_holder:
            ask_for_watermarks(self.fs, [self.path])
        return Checkpoints.read(self.path, fs=self.fs)

    def has_files_of_its_own(self) -> bool:
        """Return whether there is a file that only a data directory has."""
        own = {META_PROPERTIES_FILE, CATALOGUE_FILE, *CHECKPOINT_FILES}
        return not own.isdisjoint(self.fs.list(self.path))

    def read_catalogue(self) -> CatalogueFile:
        """Read the catalogue."""
        try:
            return CatalogueFile(read_catalogue(self.fs, self.path))
        except KafkaStorageError as error:
            return CatalogueFile(Catalogue(), error)

    def listing(
        self, listed: Container[str], links: PartitionLinks, topic: str | None = None
    ) -> Listing:
        """List the entries, or those of one topic; other arguments as of ``survey``."""
        try:
            names = self.fs.list(self.path)
            self.fs.note_names(self.path, names)
            chosen = [one for one in names if topic is None or one.rpartition("-")[0] == topic]
            found = survey(self.fs, self.path, listed=listed, names=chosen, links=links)
        except FileNotFoundError:
            raise KafkaStorageError(f"{self.path} was deleted while it was read") from None
        return Listing(found.live, found.foreign, marks_among(names))

    def partition_path(self, topic: str, partition: int) -> str:
        """Return the path of a partition's directory, whether it is there or not."""
        return os.path.join(self.path, log_directory_name(topic, partition))

    def open(self, topic: str, partition: int, *, on_damage: OnDamage | None = None) -> ReadOnlyLog:
        """Open a partition's log to be read only; ``on_damage`` and errors as ``open_read_only``.

        Its high watermark and log start are those of ``checkpoints``.
        """
        path = self.partition_path(topic, partition)
        checkpoints = self.checkpoints
        return open_read_only(path, fs=self.fs, checkpoints=checkpoints, on_damage=on_damage)

    def topic_id(self, topic: str, partition: int) -> UUID | None:
        """Return the id in a partition's ``partition.metadata``; None where there is no such file.

        Raises KafkaStorageError if it cannot be read.
        """
        path = os.path.join(self.partition_path(topic, partition), PARTITION_METADATA_FILE)
        return read_partition_metadata(self.fs, path)

    def id_or_none(self, topic: str, partition: int) -> UUID | None:
        """Return a partition's topic id; None, too, where it cannot be read: verify reports it."""
        return topic_id_or_none(self.fs, self.partition_path(topic, partition))


def _no_archive(uri: str) -> str:
    """Say that there is no archive, and which snapshots there are: each is an archive."""
    from tidelog.archive.open_archives import archive_at  # most directories lie on a disk
    from tidelog.archive.snapshots import snapshots_below

    found = snapshots_below(uri, archive_at(uri).store)
    text = f"there is no archive at {uri}"
    return f"{text}; snapshots there: {first_names(found)}" if found else text
