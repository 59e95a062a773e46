"""A whole data directory opened to be read only: its topics, partitions and their logs.

Takes no lock and changes nothing, and may be used beside a writer, tidelog or Kafka. What the
directory holds is looked up once, when it is first asked for: the catalogue, ``meta.properties``
and the names of the partition directories, and the checkpoints when the first log is opened. To see
what has changed since, open the directory again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.metadata_files import (
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    read_meta_properties,
    read_partition_metadata,
)
from tidelog.datadir.catalogue import (
    CATALOGUE_FILE,
    METADATA_TOPIC,
    Catalogue,
    read_catalogue,
)
from tidelog.datadir.deletion_marks import marks_among, without_marked
from tidelog.datadir.lock_file import has_writer
from tidelog.datadir.offset_checkpoints import (
    CHECKPOINT_FILES,
    CLEANER_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
)
from tidelog.datadir.partition_directories import survey
from tidelog.errors import CorruptFile, InvalidArgument, KafkaStorageError, UnknownTopicOrPartition
from tidelog.readonly.checkpoints import Checkpoints
from tidelog.readonly.cluster_metadata import find_broker_settings
from tidelog.readonly.holes import Hole
from tidelog.readonly.log_snapshot import MAX_LOOKS
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_log import open_read_only
from tidelog.readonly.read_only_topic import MissingPartition, ReadOnlyTopic
from tidelog.segment.filenames import TopicPartition, log_directory_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from uuid import UUID

    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
    from tidelog.env.files import FileSystem
    from tidelog.readonly.damaged_range import OnDamage
    from tidelog.readonly.read_files import ReadFiles
    from tidelog.readonly.read_only_log import ReadOnlyLog


def open_directory_read_only(
    path: str, *, fs: FileSystem, server_properties: Mapping[str, str] | None = None
) -> ReadOnlyDirectory:
    """Open a data directory, as ``data``, to be read only.

    An unreadable catalogue is not an error here: topics are then known by their directories, see
    ``ReadOnlyDirectory.catalogue_error``. ``server_properties`` are those of the broker that wrote
    the directory, if they are known.

    Raises:
        InvalidArgument: there is no such directory.
        KafkaStorageError: the disk failed.
    """
    return ReadOnlyDirectory(path, fs=fs, server_properties=server_properties)


class _Entries(NamedTuple):
    """What one look at a data directory found; ``lost`` is listed here and not there."""

    catalogue: Catalogue
    catalogue_error: KafkaStorageError | None
    found: list[TopicPartition]
    lost: list[TopicPartition]
    foreign: dict[str, str]


class ReadOnlyDirectory:
    """A data directory as it was when it was first asked; used by one thread at a time.

    ``__cluster_metadata``, Kafka's own log, is not among the topics and partitions; ``topic`` and
    ``open`` give it by name.
    """

    def __init__(
        self, path: str, *, fs: FileSystem, server_properties: Mapping[str, str] | None = None
    ) -> None:
        self._server_properties: Final = server_properties
        self.path: Final = path.rstrip("/") or path
        self._fs: Final[ReadFiles] = reading(fs)
        try:
            is_directory = self._fs.stat(self.path).is_directory
        except FileNotFoundError:
            raise InvalidArgument(f"{self.path} is not a data directory: it is missing") from None
        if not is_directory:
            raise InvalidArgument(f"{self.path} is not a data directory: it is a file")

    @property
    def fs(self) -> FileSystem:
        """The file system, to be read only."""
        return self._fs

    @property
    def catalogue_error(self) -> KafkaStorageError | None:
        """Why the catalogue cannot be read; None if it can, or if there is none."""
        return self._entries.catalogue_error

    @cached_property
    def topics(self) -> Mapping[str, ReadOnlyTopic]:
        """All topics by name, in order: those of the catalogue, and those found by directories."""
        entries = self._entries
        placed = {key.topic for key in (*entries.found, *entries.lost)}
        names = placed | set(entries.catalogue.topics)
        return {name: self._topic(name) for name in sorted(names - {METADATA_TOPIC})}

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions whose directories are there, in order."""
        return tuple(key for key in self._entries.found if key.topic != METADATA_TOPIC)

    @property
    def found(self) -> tuple[TopicPartition, ...]:
        """All partitions whose directories are there, ``__cluster_metadata`` included, in order."""
        return tuple(self._entries.found)

    @property
    def foreign(self) -> Mapping[str, str]:
        """The directories that are not partitions, by name, each with what it lacks."""
        return self._entries.foreign

    @cached_property
    def missing(self) -> tuple[MissingPartition, ...]:
        """The partitions that the catalogue places here without there being a directory.

        One that no checkpoint knows is left out while a writer is at work, which is creating it: a
        topic is in the catalogue before its directories are made.
        """
        if not self._entries.lost:
            return ()
        watermarks: OffsetCheckpoint = {}
        points: OffsetCheckpoint = {}
        with suppress(CorruptFile):  # what is missing can be reported all the same
            points = read_offsets(self._fs, os.path.join(self.path, RECOVERY_POINT_FILE))
        with suppress(CorruptFile):
            watermarks = self.checkpoints.high_watermarks
        is_being_written = has_writer(self.path)
        found = (
            MissingPartition(*key, watermarks.get(key, points.get(key)))
            for key in self._entries.lost
            if not self._fs.exists(self.partition_path(*key))
        )
        return tuple(
            gone for gone in found if gone.high_watermark is not None or not is_being_written
        )

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """High watermarks and log starts, read once; KafkaStorageError where one is malformed."""
        return Checkpoints.read(self.path, fs=self._fs)

    def topic(self, name: str) -> ReadOnlyTopic:
        """Return one topic; UnknownTopicOrPartition where there is none."""
        if name in self.topics:
            return self.topics[name]
        if name == METADATA_TOPIC and any(key.topic == name for key in self._entries.found):
            return self._topic(name)
        there = ", ".join(self.topics) or "none"
        raise UnknownTopicOrPartition(f"no topic {name} in {self.path}; topics there: {there}")

    def open(self, topic: str, partition: int, *, on_damage: OnDamage | None = None) -> ReadOnlyLog:
        """Open a partition's log to be read only; ``on_damage`` and errors as ``open_read_only``.

        Its high watermark and log start are those of ``checkpoints``.
        """
        path = self.partition_path(topic, partition)
        checkpoints = self.checkpoints
        return open_read_only(path, fs=self._fs, checkpoints=checkpoints, on_damage=on_damage)

    def unexplained_holes(
        self, log: ReadOnlyLog, holes: Iterable[tuple[int, int]]
    ) -> tuple[Hole, ...]:
        """Return those of a log's holes between segments that compaction does not explain.

        ``holes`` are those of the log's ``find_holes`` or ``holes``. Raises
        KafkaStorageError for a malformed checkpoint of the cleaner.
        """
        found = list(holes)
        if not found:
            return ()
        topic = self.topics.get(log.topic)
        if topic is not None and topic.is_compacted:
            return ()
        path = os.path.join(self.path, CLEANER_OFFSET_FILE)
        cleaned = read_offsets(self._fs, path).get((log.topic, log.partition), 0)
        # A broker's cleaner keeps a line here for each log that it compacts.
        is_unknown = topic is None or "cleanup.policy" in topic.unknown_settings
        may_be_compacted = is_unknown and not self._fs.exists(path)
        clipped = ((max(start, cleaned), end) for start, end in found)
        return tuple(Hole(*hole, may_be_compacted) for hole in clipped if hole[0] < hole[1])

    def logs(self, topic: str | None = None) -> Iterator[ReadOnlyLog]:
        """Yield the log of each partition of a topic, or of all, closed when the next is asked for.

        A partition that has been deleted since the directory was opened is left out.
        """
        for key in self._entries.found if topic is not None else self.partitions:
            if topic in {None, key.topic}:
                try:
                    log = self.open(*key)
                except UnknownTopicOrPartition:
                    continue
                with log:
                    yield log

    def topic_id(self, topic: str, partition: int) -> UUID | None:
        """Return the id in a partition's ``partition.metadata``; None where there is no such file.

        Raises KafkaStorageError if it cannot be read.
        """
        path = os.path.join(self.partition_path(topic, partition), PARTITION_METADATA_FILE)
        return read_partition_metadata(self._fs, path)

    def partition_path(self, topic: str, partition: int) -> str:
        """Return the path of a partition's directory, whether it is there or not."""
        return os.path.join(self.path, log_directory_name(topic, partition))

    @cached_property
    def _entries(self) -> _Entries:
        """Read the catalogue, then list the directory; again where something seems to be missing.

        A writer that creates a topic writes the catalogue before it makes directories, one that
        deletes a topic takes it out of the catalogue before it removes any: only what two looks in
        a row show is missing.
        """
        before: list[TopicPartition] | None = None
        for _ in range(MAX_LOOKS):
            entries = self._look()
            if not entries.lost or entries.lost == before:
                return entries
            before = entries.lost
        raise KafkaStorageError(f"{self.path} changed during each of {MAX_LOOKS} looks at it")

    def _look(self) -> _Entries:
        catalogue, catalogue_error = Catalogue(), None
        try:
            catalogue = read_catalogue(self._fs, self.path)
        except KafkaStorageError as error:
            catalogue_error = error
        try:
            names = self._fs.list(self.path)
            surveyed = survey(self._fs, self.path, listed=_listed(catalogue), names=names)
        except FileNotFoundError:
            raise KafkaStorageError(f"{self.path} was deleted while it was read") from None
        found = surveyed.live
        catalogue = without_marked(catalogue, marks_among(names))
        deleted = catalogue.deleted
        if deleted:
            found = [key for key in found if self._id_or_none(*key) not in deleted]
        lost = self._placed_here(catalogue).difference(found)
        return _Entries(catalogue, catalogue_error, found, sorted(lost), surveyed.foreign)

    def _placed_here(self, catalogue: Catalogue) -> set[TopicPartition]:
        """Return the partitions that the catalogue places into this directory."""
        own_id = self.directory_id if catalogue.topics else None
        return {
            TopicPartition(topic.name, number)
            for topic in catalogue.topics.values()
            for number, directory_id in topic.partitions.items()
            if directory_id == own_id
        }

    def placed_elsewhere(self) -> dict[TopicPartition, UUID]:
        """Return the partitions found here that the catalogue places into another directory.

        Each with the id of that directory. If this one has no id, all that are placed are.
        """
        topics, own_id = self._entries.catalogue.topics, self.directory_id
        elsewhere = {}
        for key in self._entries.found:
            placed = (
                topics[key.topic].partitions.get(key.partition) if key.topic in topics else None
            )
            if placed not in {None, own_id}:
                elsewhere[key] = placed
        return elsewhere

    def has_files_of_its_own(self) -> bool:
        """Return whether there is a file that only a data directory has."""
        own = {META_PROPERTIES_FILE, CATALOGUE_FILE, *CHECKPOINT_FILES}
        return not own.isdisjoint(self._fs.list(self.path))

    @property
    def directory_id(self) -> UUID | None:
        """The directory's id; None if ``meta.properties`` names none or cannot be read."""
        try:
            meta = read_meta_properties(self._fs, os.path.join(self.path, META_PROPERTIES_FILE))
        except (KafkaStorageError, InvalidArgument):
            return None
        return None if meta is None else meta.directory_id

    def _topic(self, name: str) -> ReadOnlyTopic:
        partitions = tuple(self._found_by_topic.get(name, ()))
        missing = tuple(self._lost_by_topic.get(name, ()))
        listed = self._entries.catalogue.topics.get(name)
        if listed is not None:
            return ReadOnlyTopic.listed(listed, partitions, missing, self._broker_settings)
        ids = (self._id_or_none(name, number) for number in partitions)
        topic_id = next((found for found in ids if found is not None), None)
        return ReadOnlyTopic.found(name, topic_id, partitions, self._broker_settings)

    @cached_property
    def _found_by_topic(self) -> Mapping[str, list[int]]:
        return _by_topic(self._entries.found)

    @cached_property
    def _lost_by_topic(self) -> Mapping[str, list[int]]:
        return _by_topic(self._entries.lost)

    def _broker_settings(self) -> BrokerSettings:
        return self._broker

    @cached_property
    def _broker(self) -> BrokerSettings:
        """What is known of the broker's settings; read when it is first asked for."""
        return find_broker_settings(
            [self.path],
            fs=self._fs,
            topic_ids={topic.topic_id for topic in self.topics.values() if topic.topic_id},
            server_properties=self._server_properties,
        )

    def _id_or_none(self, topic: str, partition: int) -> UUID | None:
        try:
            return self.topic_id(topic, partition)
        except KafkaStorageError:
            return None  # verify reports what is wrong with the file


def _by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic, in their order."""
    numbers: dict[str, list[int]] = {}
    for topic, number in keys:
        numbers.setdefault(topic, []).append(number)
    return numbers


def _listed(catalogue: Catalogue) -> set[str]:
    """Return the names of all partition directories that a catalogue knows."""
    return {
        log_directory_name(topic.name, number)
        for topic in catalogue.topics.values()
        for number in topic.partitions
    }
