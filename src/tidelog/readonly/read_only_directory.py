"""A whole data directory, or several as one, to be read only: topics, partitions and their logs.

Takes no lock and changes nothing, and may be used beside a writer, tidelog or Kafka. What the
directories hold is looked up once, when it is first asked for: the catalogues, ``meta.properties``
and the names of the partition directories, and the checkpoints when the first log is opened. To see
what has changed since, open them again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tidelog.codec.one_line import Told
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.effective_config import POLICY
from tidelog.datadir.offset_checkpoints import (
    HIGH_WATERMARK_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
)
from tidelog.datadir.partition_directories import is_directory, lies_twice
from tidelog.errors import (
    CorruptFile,
    KafkaStorageError,
    StoreUnavailable,
    UnknownTopicOrPartition,
)
from tidelog.readonly.absent_partitions import BY_ARGUMENT, partitions_elsewhere
from tidelog.readonly.directory_files import DirectoryFiles
from tidelog.readonly.missing.holes import surely_lost, unexplained_holes
from tidelog.readonly.missing.strays import check_strays
from tidelog.readonly.placement import find_partitions
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_topic import MissingPartition, ReadOnlyTopic
from tidelog.segment.filenames import TopicPartition, check_topic_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
    from tidelog.env.files import FileSystem
    from tidelog.readonly.missing.damaged_range import OnDamage
    from tidelog.readonly.missing.holes import Hole
    from tidelog.readonly.missing.strays import Stray
    from tidelog.readonly.placement import Absent, Placement
    from tidelog.readonly.read_files import ReadFiles
    from tidelog.readonly.read_only_log import ReadOnlyLog


_ONE_BY_ONE: Final = 4
"""The number of topics that are looked up each by itself; the next one has all looked up."""


def open_directory_read_only(
    path: str,
    *more: str,
    fs: FileSystem,
    server_properties: Mapping[str, str] | None = None,
    accept: str | None = BY_ARGUMENT,
    topics: Collection[str] | None = None,
    asks_holder: bool = False,
) -> ReadOnlyDirectory:
    """Open a data directory, as ``data``, or several of one owner, to be read only.

    An unreadable catalogue is not an error here: topics are then known by their directories, see
    ``ReadOnlyDirectory.catalogue_error``. ``server_properties`` are those of the broker that wrote
    the directories, if they are known. ``accept`` is how an error says that topics are
    read in part; None: ``check_present`` lets them be read so. ``topics`` are the only ones to
    look for in an archive, None: all; one listing of a directory finds all of its topics anyway.
    ``asks_holder``: see ``ask_for_watermarks``; not for the process that holds the directories.

    Raises:
        InvalidArgument: there is no such directory.
        KafkaStorageError: the disk failed.
    """
    return ReadOnlyDirectory(
        path,
        *more,
        fs=reading(fs, topics),
        server_properties=server_properties,
        accept=accept,
        asks_holder=asks_holder,
    )


class ReadOnlyDirectory(Told):
    """One or several data directories as they were when first asked; used by one thread at a time.

    The partitions of a topic come from all of them. ``parts`` are the directories, each once. What
    is asked of topics raises InvalidArgument for directories that do not belong together.

    ``__cluster_metadata``, Kafka's own log, is not among the topics and partitions; ``topic`` and
    ``open`` give it by name.
    """

    def __init__(
        self,
        path: str,
        *more: str,
        fs: FileSystem,
        server_properties: Mapping[str, str] | None = None,
        accept: str | None = BY_ARGUMENT,
        asks_holder: bool = False,
    ) -> None:
        self._server_properties: Final = server_properties
        self._accept: Final = accept
        self._fs: Final[ReadFiles] = reading(fs)
        self._by_real_path: Final[dict[str, DirectoryFiles]] = {}
        for one in (path, *more):
            # A directory that is named twice, maybe by a link, would hold each partition twice.
            part = DirectoryFiles(one, self._fs, asks_holder=asks_holder)
            self._by_real_path.setdefault(self._fs.real_path(one), part)
        self.parts: Final = tuple(self._by_real_path.values())
        self._of_topics: dict[str, Placement] = {}
        """Topics that were looked up one by one, up to ``_ONE_BY_ONE``; then all are together."""

    def _told(self) -> str:
        paths = ", ".join(map(repr, self.paths))
        # Only what was looked up before: asking for the topics would read the directories.
        known = vars(self).get("topic_names")
        return paths if known is None else f"{paths}: topics={len(known)}"

    @property
    def fs(self) -> FileSystem:
        """The file system, to be read only."""
        return self._fs

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the directories."""
        return tuple(part.path for part in self.parts)

    @property
    def name(self) -> str:
        """The paths as messages name them."""
        return ", ".join(self.paths)

    @property
    def catalogue_error(self) -> KafkaStorageError | None:
        """Why a catalogue cannot be read; None if all can, or if there is none."""
        return self._placed.catalogue_error

    def check_catalogue(self) -> None:
        """Raise why a catalogue cannot be read.

        For what copies topics or changes them: without it they pass for adopted ones, with settings
        that are unknown, and copies would keep that.
        """
        if self.catalogue_error is not None:
            raise self.catalogue_error

    @property
    def deleted_ids(self) -> Collection[UUID]:
        """The ids of topics that the catalogues, or marks beside them, say were deleted."""
        return self._placed.catalogue.deleted

    @cached_property
    def topics(self) -> Mapping[str, ReadOnlyTopic]:
        """All topics by name, in order: those of the catalogue, and those found by directories."""
        return {name: self._topic(name) for name in self.topic_names}

    @cached_property
    def topic_names(self) -> tuple[str, ...]:
        """The names of all topics, in order."""
        placed = self._placed
        names = {*placed.found_by_topic, *placed.lost_by_topic, *placed.catalogue.topics}
        return tuple(sorted(names - {METADATA_TOPIC}))

    @cached_property
    def sharing_ids(self) -> Mapping[str, str]:
        """The topics whose id another topic has, too, each with that one: copies made by hand.

        Of several the first one that the catalogue lists, else the first one, is not among them.
        """
        owners: dict[UUID, str] = {}
        found = {}
        for topic in sorted(self.topics.values(), key=lambda one: not one.is_listed):
            if topic.topic_id is not None:
                owner = owners.setdefault(topic.topic_id, topic.name)
                if owner != topic.name:
                    found[topic.name] = owner
        return found

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions whose directories are there, in order."""
        return tuple(key for key in self._placed.found if key.topic != METADATA_TOPIC)

    def strays(self, topic: str | None = None) -> Sequence[Stray]:
        """Return the partitions that are another topic's of this name, or all such, in order."""
        if topic is not None:
            return self._of(topic).strays.get(topic, ())
        return [one for _, of_topic in sorted(self._placed.strays.items()) for one in of_topic]

    def partitions_in(self, part: DirectoryFiles) -> tuple[TopicPartition, ...]:
        """Return those of ``partitions`` that a directory holds."""
        here = self._placed.found_by_part.get(part, ())
        return tuple(key for key in here if key.topic != METADATA_TOPIC)

    @property
    def found(self) -> tuple[TopicPartition, ...]:
        """All partitions whose directories are there, ``__cluster_metadata`` included, in order."""
        return tuple(self._placed.found)

    def part_at(self, path: str) -> DirectoryFiles:
        """Return the directory with a path, or that a link with this path leads to."""
        return self._by_real_path[self._fs.real_path(path)]

    def has_files_of_its_own(self) -> bool:
        """Return whether there is a file that only a data directory has."""
        return any(part.has_files_of_its_own() for part in self.parts)

    def has(self, topic: str, partition: int) -> bool:
        """Return whether a partition is among those ``found``."""
        return TopicPartition(topic, partition) in self._of(topic).found

    def foreign(self, part: DirectoryFiles) -> Mapping[str, str]:
        """Return the other entries of a directory, with what makes each no partition."""
        return self._placed.foreign[part.path]

    @cached_property
    def missing(self) -> tuple[MissingPartition, ...]:
        """The partitions that the catalogue places here without there being a directory.

        A file in its place is none. One that no checkpoint knows is left out while a writer is at
        work, which is creating it: a topic is in the catalogue before its directories are made.
        """
        return self._missing_of(None)

    def _missing_of(self, topic: str | None) -> tuple[MissingPartition, ...]:
        placed = self._placed if topic is None else self._of(topic)
        lost = {key: part for key, part in placed.lost.items() if topic in {None, key.topic}}
        if not lost:
            return ()
        from tidelog.datadir.lock_file import has_writer

        lines = {part: _last_known_offsets(part) for part in set(lost.values())}
        written = {part for part in lines if has_writer(part.path)}
        missing = [
            MissingPartition(*key, lines[part].get(key))
            for key, part in lost.items()
            if (key in lines[part] or part not in written)
            and not is_directory(self._fs, part.partition_path(*key))
        ]
        # A topic that was created after the first look and deleted before the last one has left
        # its lines. One that is still listed, by the same id, was there all the time.
        now = find_partitions(self.parts, topic) if missing else placed
        before, after = placed.catalogue.topics, now.catalogue.topics
        return tuple(
            one
            for one in missing
            if one.key in now.lost and before[one.topic].topic_id == after[one.topic].topic_id
        )

    def check_present(
        self,
        wanted: Mapping[str, Collection[int] | None],
        *,
        asks_metadata: bool = True,
        takes_copies: bool = False,
    ) -> None:
        """Raise PartitionsElsewhere if partitions of some topics are in none of the directories.

        InconsistentTopicId if the directories hold partitions of two topics of one name.
        Those that are lost, as the catalogue places them here, are not meant: see ``missing``.

        Args:
            wanted: the topics, with the partitions that are to be read; None: all.
            asks_metadata: whether to read the cluster's metadata, which alone says that a topic of
                Kafka's has more partitions than the last one found.
            takes_copies: whether a copy that a move may have left here counts as the partition, and
                another topic of a name is left out.
        """
        if self._accept is None:
            return
        if not takes_copies:
            check_strays([one for name in wanted for one in self.strays(name)], self._accept)
        absent = [
            each
            for topic, numbers in wanted.items()
            for each in self.absent(topic, asks_metadata=asks_metadata)
            if each.copy is None or not takes_copies
            if numbers is None or any(number in each.numbers for number in numbers)
        ]
        if absent:
            raise partitions_elsewhere(
                *(self._fs, self.paths, absent, self._accept),
                log_dirs=(self._server_properties or {}).get("log.dirs", ""),
            )

    def absent(self, topic: str, *, asks_metadata: bool = True) -> list[Absent]:
        """Return the partitions of a topic that are in none of the directories, in order."""
        found = self._absent.get((topic, asks_metadata))
        if found is None:
            known: Collection[int] = ()
            placed = self._of(topic)
            if asks_metadata and topic not in placed.catalogue.topics:
                known = self._known_to_cluster(topic)
            found = self._absent[topic, asks_metadata] = list(placed.absent(topic, known))
        return found

    def numbers_of(self, topic: str, *, asks_metadata: bool = True) -> list[int]:
        """Return the partitions of a topic, in order; lost ones too, as reading them fails.

        Raises UnknownTopicOrPartition, and PartitionsElsewhere as ``check_present``.
        """
        self.check_present({topic: None}, asks_metadata=asks_metadata)
        missing = (gone.partition for gone in self._missing_of(topic))
        return sorted({*self.topic(topic).partitions, *missing})

    def look(self, topic: str) -> bool:
        """Look up where the partitions of a topic are, unless that is known.

        Returns whether it was not.
        """
        is_known = self._knows(topic)
        self._of(topic)
        return not is_known

    def look_again(self) -> None:
        """Forget what was looked up: a partition that is gone may have been moved meanwhile."""
        self._fs.look_again()
        self.read_checkpoints_again()
        self._of_topics.clear()
        for name in ("topics", "topic_names", "missing", "_absent", "_placed", "_broker"):
            self.__dict__.pop(name, None)

    def read_checkpoints_again(self) -> None:
        """Let logs be opened with the checkpoints as they are then; where they are stays known."""
        for part in self.parts:
            part.__dict__.pop("checkpoints", None)

    def path_of_moved(self, topic: str, partition: int, path: str) -> str | None:
        """Look again where a partition is that is gone from ``path``; None: in no other directory.

        Its writer may have moved it from one of the directories to another.
        """
        if len(self.parts) == 1:
            return None
        self.look_again()
        found = self.partition_path(topic, partition) if self.has(topic, partition) else path
        return None if found == path else found

    def part_of(self, topic: str, partition: int) -> DirectoryFiles:
        """Return the directory that holds a partition, or the one that would.

        Raises KafkaStorageError for a partition that is in two, if it is not known which counts,
        and InconsistentTopicId for one that another topic of the name has alone.
        """
        key = TopicPartition(topic, partition)
        placed = self._of(topic)
        rivals = placed.rivals.get(key)
        if rivals is not None:
            raise lies_twice(*(one.partition_path(*key) for one in rivals))
        found = placed.found.get(key) or placed.lost.get(key)
        if found is None:
            # The first directory may have a stray of this name, which would be opened.
            check_strays([one for one in self.strays(topic) if one.key == key], "")
        return found or self.parts[0]

    def topic(self, name: str) -> ReadOnlyTopic:
        """Return one topic; UnknownTopicOrPartition where there is none."""
        found = self.known_topic(name)
        if found is None:
            there = ", ".join(self.topics) or "none"
            raise UnknownTopicOrPartition(f"no topic {name} in {self.name}; topics there: {there}")
        return found

    def known_topic(self, name: str) -> ReadOnlyTopic | None:
        """Return one topic; None where there is none, as of a directory that waits for deletion."""
        placed = self._of(name)
        is_there = name in placed.found_by_topic
        if not is_there and name != METADATA_TOPIC:
            is_there = name in placed.catalogue.topics or name in placed.lost_by_topic
        return self._topic(name) if is_there else None

    def config_in_force(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """Return the settings of a topic's logs; ``overrides`` take precedence over its own.

        Of a topic that is not known, nothing about deletion is. Raises InvalidConfig.
        """
        from tidelog.config.log_config import LogConfig

        found = self.known_topic(topic) or ReadOnlyTopic.found(topic, None, ())
        return found.config_in_force(LogConfig(), overrides)

    def open(self, topic: str, partition: int, *, on_damage: OnDamage | None = None) -> ReadOnlyLog:
        """Open a partition's log to be read only; ``on_damage`` and errors as ``open_read_only``.

        Its high watermark and log start are those of its directory's checkpoints. Errors, too, as
        of ``part_of``.
        """
        part = self.part_of(topic, partition)
        try:
            return part.open(topic, partition, on_damage=on_damage)
        except StoreUnavailable as error:
            # It names an object, and so the id of a topic that is one of many.
            raise StoreUnavailable(f"{topic}-{partition}: {error}") from error

    def unexplained_holes(
        self, log: ReadOnlyLog, holes: Iterable[tuple[int, int]] | None = None
    ) -> tuple[Hole, ...]:
        """Return those of a log's holes between segments that compaction does not explain.

        ``holes`` are those of the log's ``find_holes`` or ``holes``; None: all, for which only the
        ends of segments are read. Raises KafkaStorageError, also for a malformed checkpoint of the
        cleaner.
        """
        found = list(log.find_holes() if holes is None else holes)
        key = TopicPartition(log.topic, log.partition)
        return self.unexplained_holes_of(key, found) if found else ()

    def unexplained_holes_of(
        self, key: TopicPartition, holes: Sequence[tuple[int, int]]
    ) -> tuple[Hole, ...]:
        """Return those of a partition's holes as above, whatever they were found by."""
        topic = self.known_topic(key.topic)
        return unexplained_holes(
            *(holes, key, self.part_of(*key).path, self._fs),
            is_compacted=topic is not None and topic.is_compacted,
            unknown_settings=(POLICY,) if topic is None else topic.unknown_settings,
        )

    def lost(self, log: ReadOnlyLog, start: int, end: int) -> list[Hole]:
        """Return the offsets in ``[start, end)`` that reads so far found in no segment.

        What compaction may have removed is left out. Errors as of ``unexplained_holes``.
        """
        read = ((max(first, start), min(last, end)) for first, last in log.holes)
        inside = [hole for hole in read if hole[0] < hole[1]]
        return surely_lost(self.unexplained_holes(log, inside))

    def logs(self, topic: str | None = None) -> Iterator[ReadOnlyLog]:
        """Yield the log of each partition of a topic, or of all, closed when the next is asked for.

        A partition that has been deleted since the directory was opened is left out.
        """
        for key in self._of(topic).found if topic is not None else self.partitions:
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
        return self.part_of(topic, partition).topic_id(topic, partition)

    def partition_path(self, topic: str, partition: int) -> str:
        """Return the path of a partition's directory, whether it is there or not."""
        return self.part_of(topic, partition).partition_path(topic, partition)

    def placed_elsewhere(self, part: DirectoryFiles) -> dict[TopicPartition, UUID]:
        """Return the partitions found in a directory that the catalogue places into another one.

        Each with the id of that directory. If this one has no id, all that are placed are.
        """
        placed = self._placed
        homes = {key: placed.home_of(key) for key in placed.found_by_part.get(part, ())}
        return {
            key: home
            for key, home in homes.items()
            if home is not None and home != part.directory_id
        }

    @cached_property
    def _absent(self) -> dict[tuple[str, bool], list[Absent]]:
        """What ``absent`` has answered: each log that is opened asks it about its whole topic."""
        return {}

    @cached_property
    def _placed(self) -> Placement:
        return find_partitions(self.parts)

    def _of(self, topic: str) -> Placement:
        """Return where the partitions of a topic are, among others.

        Each look reads the catalogue and lists the directories: one for each of many topics would
        take time with the square of their number.
        """
        if not self._knows(topic):
            if len(self._of_topics) >= _ONE_BY_ONE:
                return self._placed
            self._of_topics[topic] = find_partitions(self.parts, topic)
        return self._of_topics.get(topic) or self._placed

    def _knows(self, topic: str) -> bool:
        check_topic_type(topic)
        return "_placed" in self.__dict__ or topic in self._of_topics

    def _topic(self, name: str) -> ReadOnlyTopic:
        placed = self._of(name)
        partitions = tuple(placed.found_by_topic.get(name, ()))
        missing = tuple(placed.lost_by_topic.get(name, ()))
        listed = placed.catalogue.topics.get(name)
        if listed is not None:
            return ReadOnlyTopic.listed(listed, partitions, missing, self._broker_settings)
        keys = (TopicPartition(name, number) for number in partitions)
        ids = (placed.found[key].id_or_none(*key) for key in keys)
        topic_id = next((found for found in ids if found is not None), None)
        return ReadOnlyTopic.found(name, topic_id, partitions, self._broker_settings)

    def _known_to_cluster(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic by the cluster's metadata; none: it does not know it."""
        image = self._broker.image
        if image is None:
            return ()
        found = self.topics.get(topic)
        topic_id = image.id_of(topic) if found is None else found.topic_id
        recorded = None if topic_id is None else image.topics.get(topic_id)
        return () if recorded is None else recorded.partitions

    def _broker_settings(self) -> BrokerSettings:
        return self._broker

    @cached_property
    def _broker(self) -> BrokerSettings:
        """What is known of the broker's settings; read when it is first asked for."""
        from tidelog.readonly.cluster_metadata import find_broker_settings

        return find_broker_settings(
            self.paths,
            fs=self._fs,
            topic_ids={topic.topic_id for topic in self.topics.values() if topic.topic_id},
            server_properties=self._server_properties,
        )


def _last_known_offsets(part: DirectoryFiles) -> OffsetCheckpoint:
    """Return how far the partitions of a directory had records, by its checkpoints.

    What is missing can be reported all the same if a checkpoint cannot be read.
    """
    lines: OffsetCheckpoint = {}
    with suppress(CorruptFile):
        lines |= read_offsets(part.fs, os.path.join(part.path, RECOVERY_POINT_FILE))
    with suppress(CorruptFile):
        lines |= read_offsets(part.fs, os.path.join(part.path, HIGH_WATERMARK_FILE))
    return lines
