"""A data directory opened for writing by a process that comes and goes.

Owns which logs are loaded, whose high watermark follows their end (this process is the only
replica), and what is written down when it leaves. Must not know sockets, Spark or how a log works
inside. Kafka's ``LogManager`` loads every log of every directory; a commit must not.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidelog.codec.metadata_files import (
    PARTITION_METADATA_FILE,
    read_partition_metadata,
    write_partition_metadata,
)
from tidelog.config.log import LogConfig
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import (
    InconsistentTopicId,
    InvalidPartitions,
    InvalidTopic,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.log.log import Log
from tidelog.manager.catalogue import Catalogue, Topic, read_catalogue, write_catalogue
from tidelog.manager.checkpoints import DirectoryCheckpoints
from tidelog.manager.log_dirs import LogDir, random_id
from tidelog.manager.partition import Partition
from tidelog.segment.filenames import check_topic_name, log_directory_name, parse_topic_partition
from tidelog.staging.staged_file import StagedReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from random import Random
    from typing import Self

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.staging.staged_file import StagedFile

MAX_DIRECTORY_NAME: Final = 255
METADATA_TOPIC: Final = "__cluster_metadata"
"""Kafka's own log of its cluster, which no log manager touches."""


class DataDirectory:
    """The topics and logs of one locked data directory; used by one thread at a time.

    Logs are loaded when first asked for. ``close`` flushes and closes them, writes the checkpoints
    and, if the directory was clean before, leaves it clean. A process that dies instead leaves a
    directory that recovers by itself.
    """

    def __init__(
        self,
        path: str,
        *,
        fs: FileSystem,
        clock: Clock,
        rng: Random,
        defaults: LogConfig | None = None,
    ) -> None:
        self.path = path
        self.fs = fs
        self._clock = clock
        self._rng = rng
        self._defaults = defaults or LogConfig()
        self._scheduler = InlineScheduler()
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._log_dir = LogDir(path, fs=fs, rng=rng)
        self._failed = False
        try:
            self._checkpoints = DirectoryCheckpoints(fs, path)
            self._catalogue = self._read_catalogue()
        except BaseException:
            self._log_dir.close(clean=False)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def topics(self) -> dict[str, Topic]:
        """Return every topic of the directory by name, those Kafka made included."""
        return dict(self._catalogue.topics)

    def topic(self, name: str) -> Topic:
        """Return one topic; raise UnknownTopicOrPartition where there is none."""
        try:
            return self._catalogue.topics[name]
        except KeyError:
            raise UnknownTopicOrPartition(f"no topic {name} in {self.path}") from None

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> Topic:
        """Create a topic of ``partitions`` empty logs, durably.

        Args:
            name: 1 to 249 letters, digits, dots, underscores and dashes.
            partitions: how many, at least 1.
            config: settings that differ from the defaults, under Kafka's names.

        Raises:
            InvalidTopic, InvalidPartitions, InvalidConfig, TopicAlreadyExists: nothing was made.
        """
        check_topic_name(name)
        if partitions < 1:
            raise InvalidPartitions(f"a topic has at least 1 partition, not {partitions}")
        if len(f"{name}-{partitions - 1}") > MAX_DIRECTORY_NAME:
            raise InvalidTopic(f"{name}-{partitions - 1} is too long for a directory's name")
        settings = self._defaults.with_overrides(config or {}).to_properties()
        directory_id = self._log_dir.directory_id
        topic = Topic(
            name=name,
            topic_id=random_id(self._rng),
            partitions=dict.fromkeys(range(partitions), directory_id),
            config=settings,
        )
        catalogue = self._catalogue.with_topic(topic)
        self._log_dir.begin_change()
        self._checkpoints.forget([(name, number) for number in topic.partitions])
        for number in topic.partitions:
            self._make_partition_directory(topic, number)
        self.fs.sync_directory(self.path)
        write_catalogue(self.fs, self.path, catalogue)
        self._catalogue = catalogue
        return topic

    def partition(self, topic: str, partition: int) -> Partition:
        """Return one partition, its log loaded (and recovered, if need be) at the first call."""
        key = (topic, partition)
        if key not in self._partitions:
            self._partitions[key] = self._load(self.topic(topic), partition)
        return self._partitions[key]

    def partitions(self, topic: str) -> Iterator[Partition]:
        """Yield all partitions of a topic, in order of their numbers."""
        for number in sorted(self.topic(topic).partitions):
            yield self.partition(topic, number)

    def commit_staged(self, staged: Sequence[StagedFile]) -> int:
        """Append staged files, in their order, and let readers see them; return the records.

        Every file is checked before the first byte is appended, and removed after all is durable.
        At least once: a crash in between leaves the files, and a repeat appends them again.

        Raises:
            KafkaStorageError: a file is not what its writer finished; nothing was appended.
            UnknownTopicOrPartition: it is for a partition this directory does not have.
        """
        for entry in staged:
            self.partition(entry.topic, entry.partition)
            with StagedReader(self.fs, self.path, entry) as reader:
                reader.check()
        for entry in staged:
            with StagedReader(self.fs, self.path, entry) as reader:
                self.partition(entry.topic, entry.partition).append_staged(reader)
        self.flush()
        for entry in staged:
            self.fs.delete(os.path.join(self.path, entry.name))
        return sum(entry.records for entry in staged)

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""
        return self._defaults.with_overrides(self.topic(topic).config)

    def flush(self) -> None:
        """Make all that was appended durable, and let readers of the directory see it."""
        for partition in self._partitions.values():
            partition.log.flush()
        self.write_checkpoints()

    def write_checkpoints(self) -> None:
        """Write down high watermarks, recovery points and log start offsets of loaded logs."""
        self._checkpoints.write({key: part.log for key, part in self._partitions.items()})

    def close(self) -> None:
        """Flush and close every log, write the checkpoints, give the lock up.

        The lock goes in any case; the mark of a clean shutdown comes back only if all went well.
        """
        clean = not self._failed
        try:
            for partition in self._partitions.values():
                try:
                    partition.log.flush(force=True)
                    partition.log.close()
                except KafkaStorageError:
                    clean = False
                    raise
            if self._partitions:
                self.write_checkpoints()
            self._scheduler.close()
        except BaseException:
            clean = False
            raise
        finally:
            self._partitions.clear()
            self._log_dir.close(clean=clean)

    def _make_partition_directory(self, topic: Topic, number: int) -> None:
        directory = os.path.join(self.path, f"{topic.name}-{number}")
        self.fs.make_directory(directory)
        path = os.path.join(directory, PARTITION_METADATA_FILE)
        write_partition_metadata(self.fs, path, topic.topic_id)

    def _load(self, topic: Topic, number: int) -> Partition:
        owner = topic.partitions.get(number)
        if owner is None:
            raise UnknownTopicOrPartition(f"topic {topic.name} has no partition {number}")
        if owner != self._log_dir.directory_id:
            raise UnknownTopicOrPartition(
                f"{topic.name}-{number} lies in the data directory with id {owner}, not in this one"
            )
        self._log_dir.begin_change()
        key = (topic.name, number)
        log = Log.open(
            os.path.join(self.path, f"{topic.name}-{number}"),
            fs=self.fs,
            clock=self._clock,
            scheduler=self._scheduler,
            rng=self._rng,
            config=self.config_of(topic.name),
            log_start_offset=self._checkpoints.log_start_offset(key),
            recovery_point=self._checkpoints.recovery_point(key),
            clean_shutdown=self._log_dir.was_clean,
            topic_id=topic.topic_id,
            on_failure=self._note_failure,
        )
        return Partition(topic.name, number, log)

    def _note_failure(self, _directory: str, _error: OSError) -> None:
        self._failed = True

    def _read_catalogue(self) -> Catalogue:
        """Read the catalogue, and adopt what lies here without being listed."""
        catalogue = read_catalogue(self.fs, self.path)
        listed = {(topic.name, n) for topic in catalogue.topics.values() for n in topic.partitions}
        found: dict[str, Topic] = {}
        for name in sorted(self.fs.list(self.path)):
            key = self._live_partition(name)
            if key is not None and key not in listed:
                known = found.get(key[0]) or catalogue.topics.get(key[0])
                found[key[0]] = self._adopted(name, key, known)
        return catalogue.adopting(found.values())

    def _live_partition(self, name: str) -> tuple[str, int] | None:
        """Return topic and partition of a live log's directory; None for any other entry."""
        if not self.fs.stat(os.path.join(self.path, name)).is_directory:
            return None
        try:
            key = parse_topic_partition(name)
        except InvalidTopic:
            return None
        is_live = name == log_directory_name(*key) and key.topic != METADATA_TOPIC
        return key if is_live else None

    def _adopted(self, name: str, key: tuple[str, int], known: Topic | None) -> Topic:
        """Return the topic ``known`` so far, or a new one, with this partition as well."""
        path = os.path.join(self.path, name, PARTITION_METADATA_FILE)
        topic_id = read_partition_metadata(self.fs, path)
        if known is None:
            known = Topic(key[0], topic_id or random_id(self._rng), {})
        elif topic_id not in {None, known.topic_id}:
            raise InconsistentTopicId(
                f"{name} has the topic id {topic_id}, its topic {known.topic_id}"
            )
        partitions = {**known.partitions, key[1]: self._log_dir.directory_id}
        return replace(known, partitions=partitions)
