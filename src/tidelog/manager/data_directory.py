"""A data directory opened for writing by a process that comes and goes.

Owns which logs are loaded, whose high watermark follows their end (this process is the only
replica), and what is written down when it leaves. Must not know sockets, Spark or how a log works
inside. Kafka's ``LogManager`` loads every log of every directory; a commit must not.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from tidelog.codec.compression import Codec
from tidelog.config.broker_config import STAGED_RETENTION_MS
from tidelog.config.log_config import LogConfig
from tidelog.datadir.adoption import adopt, deleted_partitions, tell_adopted
from tidelog.datadir.catalogue import (
    NO_SETTINGS,
    Catalogue,
    Topic,
    read_catalogue,
    write_catalogue,
)
from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
from tidelog.datadir.partition_directories import make_partition_directory, random_id
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.log.directory_guard import DirectoryGuard
from tidelog.log.loading.load_watch import SILENT
from tidelog.log.log import Log
from tidelog.manager.directories.log_dir import LogDir
from tidelog.manager.lifecycle.disposal import put_away_directories, sweep_deleted, sweep_staged
from tidelog.manager.lifecycle.logs_to_delete import remove_directory
from tidelog.manager.lifecycle.lost_offsets import tell_lost_end, tell_lost_log
from tidelog.manager.partition import Partition
from tidelog.manager.staged import commit_staged
from tidelog.manager.topic_writer import TopicWriter
from tidelog.manager.topics.topic_rules import altered_config, check_topic, new_topic
from tidelog.segment.filenames import log_directory_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from random import Random
    from typing import Self

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.staging.staged_file import StagedFile


class DataDirectory:
    """The topics and logs of one locked data directory; used by one thread at a time.

    Logs are loaded when first asked for. ``close`` flushes and closes them, writes the checkpoints
    and, if the directory was clean before, leaves it clean. A process that dies instead leaves a
    directory that recovers by itself. Once the disk has failed, every method raises
    KafkaStorageError and ``close`` gives no clean mark back.

    Args:
        path: absolute path of the directory, made if missing.
        fs: the disk; ``clock`` and ``rng`` likewise are the doors to the rest of the machine.
        clock: see ``fs``.
        rng: see ``fs``.
        defaults: topic settings in force where a topic has none of its own.
        overrides: settings under Kafka's names that go before a topic's own, for this opening only.
        watcher: told how far recoveries are, and what they cut off.
        distrusts_all: check every log from its first segment on, whatever was flushed or closed.

    Raises:
        DirectoryLocked, InvalidConfig, InvalidArgument, KafkaStorageError: see ``LogDir``.
    """

    def __init__(
        self,
        path: str,
        *,
        fs: FileSystem,
        clock: Clock,
        rng: Random,
        defaults: LogConfig | None = None,
        overrides: Mapping[str, str] = NO_SETTINGS,
        watcher: LoadWatcher = SILENT,
        distrusts_all: bool = False,
    ) -> None:
        self.path = path
        self.fs = fs
        self._clock = clock
        self._rng = rng
        self._defaults = defaults or LogConfig()
        self._overrides = overrides
        self._watcher = watcher
        self._distrusts_all = distrusts_all
        self._defaults.with_overrides(overrides)
        self._scheduler = InlineScheduler()
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._guard = DirectoryGuard(path)
        self._is_closed = False
        self._is_in_doubt = False
        self._log_dir = LogDir(path, fs=fs, rng=rng)
        try:
            self._checkpoints = DirectoryCheckpoints(fs, path)
            known = read_catalogue(fs, path)
            directory_id = self._log_dir.directory_id
            self._catalogue = adopt(fs, path, known, directory_id=directory_id, rng=rng)
            tell_adopted(path, known, self._catalogue)
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

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""
        return self.topic(topic).config_in_force(self._defaults, self._overrides)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] = NO_SETTINGS
    ) -> Topic:
        """Create a topic of ``partitions`` empty logs, durably.

        Args:
            name: 1 to 249 letters, digits, dots, underscores and dashes.
            partitions: how many, at least 1 and at most 10,000.
            config: the topic's own settings, under Kafka's names.

        Raises:
            InvalidTopic, InvalidPartitions, PolicyViolation, InvalidConfig, TopicAlreadyExists:
                nothing was made.
            KafkaStorageError: the disk failed; the topic may be there.
        """
        check_topic(name, partitions, config, defaults=self._defaults)
        homes = [self._log_dir.directory_id] * partitions
        topic_id = random_id(self._rng)
        topic = new_topic(name, topic_id, homes, config, defaults=self._defaults)
        catalogue = self._catalogue.with_topic(topic)
        with self._using("creating a topic"):
            self._log_dir.begin_change()
            self._checkpoints.forget([(name, number) for number in topic.partitions])
            # From here on the topic exists: directories that a crash leaves out are made later.
            self._write_catalogue(catalogue)
            for number in topic.partitions:
                make_partition_directory(self.fs, self._directory_of(topic, number), topic.topic_id)
            self.fs.sync_directory(self.path)
        return topic

    def alter_topic(
        self, name: str, settings: Mapping[str, str], unset: Collection[str] = ()
    ) -> Topic:
        """Change a topic's own settings, durably; ``unset`` ones become the defaults again.

        Raises UnknownTopicOrPartition, or one InvalidConfig that names every bad setting.
        """
        topic = self.topic(name)
        config = altered_config(topic, settings, unset, defaults=self._defaults)
        with self._using("changing a topic"):
            changed = topic.changed(config=config)
            self._write_catalogue(self._catalogue.replacing(changed))
            for (loaded, _), partition in self._partitions.items():
                if loaded == name:
                    partition.log.update_config(self.config_of(name))
        return changed

    def delete_topic(self, name: str) -> None:
        """Delete a topic, durably; its files go when the directory is closed.

        Raises UnknownTopicOrPartition, also for a topic of which another directory holds a part.
        """
        topic = self.topic(name)
        for number, owner in topic.partitions.items():
            if owner != self._log_dir.directory_id:
                raise UnknownTopicOrPartition(
                    f"{name}-{number} lies in the data directory with id {owner}; open both to"
                    f" delete {name}"
                )
        keys = [(name, number) for number in topic.partitions]
        delay_ms = self.config_of(name).file_delete_delay_ms
        with self._using("deleting a topic"):
            self._log_dir.begin_change()
            # From here on the topic is gone: directories that a crash leaves are not adopted.
            self._write_catalogue(self._catalogue.without(name))
            for key in keys:
                if (loaded := self._partitions.pop(key, None)) is not None:
                    loaded.log.close()
                    loaded.end(UnknownTopicOrPartition(f"{name}-{key[1]} was deleted"))
            self._checkpoints.forget(keys)
            self._put_away(keys, delay_ms)
            self._write_catalogue(Catalogue(self._catalogue.topics))

    def _put_away(self, keys: Sequence[tuple[str, int]], delay_ms: int) -> None:
        for path in put_away_directories(self.fs, self.path, keys, self._rng):
            remove = partial(remove_directory, self.fs, path)
            self._scheduler.schedule("kafka-delete-logs", remove, delay_ms=delay_ms)

    def _write_catalogue(self, catalogue: Catalogue) -> None:
        write_catalogue(self.fs, self.path, catalogue)
        self._catalogue = catalogue

    def partition(self, topic: str, partition: int) -> Partition:
        """Return one partition, its log loaded (and recovered, if need be) at the first call.

        Raises:
            UnknownTopicOrPartition: there is none, or another data directory holds it.
            InconsistentTopicId: the files are those of another topic of the same name.
        """
        key = (topic, partition)
        if key not in self._partitions:
            with self._using(f"loading {topic}-{partition}"):
                self._partitions[key] = self._load(self.topic(topic), partition)
        return self._partitions[key]

    def partitions(self, topic: str) -> Iterator[Partition]:
        """Yield all partitions of a topic, in order of their numbers."""
        for number in sorted(self.topic(topic).partitions):
            yield self.partition(topic, number)

    def writer(self, topic: str, *, codec: Codec = Codec.NONE) -> TopicWriter:
        """Return a writer that spreads records over a topic's partitions, as producers do."""
        return TopicWriter(self, topic, clock=self._clock, codec=codec)

    def commit_staged(self, staged: Sequence[StagedFile]) -> int:
        """Append staged files, in their order, and let readers see them; return the records.

        Every file is checked before the first byte is appended, and removed after all is durable.
        At least once: a crash in between leaves the files, and a repeat appends them again.

        Raises:
            KafkaStorageError: a file is not what its writer finished, and nothing was appended; or
                the disk failed.
            MessageTooLarge: a batch is larger than its topic takes; nothing was appended.
            UnknownTopicOrPartition: it is for a partition this directory does not have.
        """
        with self._using("committing staged files"):
            return commit_staged(self, self.fs, self.path, staged)

    def flush(self) -> None:
        """Make all that was appended durable, and let readers of the directory see it."""
        with self._using("flushing"):
            for partition in self._partitions.values():
                partition.log.flush()
            self._write_checkpoints()

    def close(self) -> None:
        """Flush and close every log, write the checkpoints, give the lock up.

        All logs are tried, then the first error is raised. The lock goes in any case; the mark of a
        clean shutdown comes back only if all went well. A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._close_logs()
            if self._partitions:
                with self._guard.watch("writing checkpoints"):
                    self._write_checkpoints()
            if self._log_dir.is_changing and not self._guard.is_offline:
                with self._guard.watch("removing what was deleted"):
                    self._tidy()
            self._scheduler.close()
        except BaseException:
            self._is_in_doubt = True
            raise
        finally:
            self._partitions.clear()
            self._log_dir.close(clean=not (self._is_in_doubt or self._guard.is_offline))

    def _tidy(self) -> None:
        """Remove what processes that ended too early meant to delete."""
        delay_ms = self._defaults.with_overrides(self._overrides).file_delete_delay_ms
        keys = list(deleted_partitions(self.fs, self.path, self._catalogue))
        if self._catalogue.deleted:
            self._checkpoints.forget(keys)
            self._put_away(keys, delay_ms)
            self._write_catalogue(Catalogue(self._catalogue.topics))
        now_ms = self._clock.now_ms()
        sweep_deleted(self.fs, self.path, now_ms=now_ms, delay_ms=delay_ms)
        sweep_staged(self.fs, self.path, now_ms=now_ms, retention_ms=STAGED_RETENTION_MS)

    def _close_logs(self) -> None:
        errors: list[KafkaStorageError] = []
        for partition in self._partitions.values():
            try:
                partition.log.flush(force=True)
                partition.log.close()
            except KafkaStorageError as error:
                errors.append(error)
                with suppress(OSError, KafkaStorageError):
                    partition.log.close_handlers()
        if errors:
            raise errors[0]

    def _write_checkpoints(self) -> None:
        self._checkpoints.write({key: part.log for key, part in self._partitions.items()})

    def _directory_of(self, topic: Topic, number: int) -> str:
        return os.path.join(self.path, log_directory_name(topic.name, number))

    def _load(self, topic: Topic, number: int) -> Partition:
        owner = topic.partitions.get(number)
        if owner is None:
            raise UnknownTopicOrPartition(f"topic {topic.name} has no partition {number}")
        if owner != self._log_dir.directory_id:
            raise UnknownTopicOrPartition(
                f"{topic.name}-{number} lies in the data directory with id {owner}, not in this one"
            )
        key = (topic.name, number)
        self._log_dir.begin_change()
        if not self.fs.exists(self._directory_of(topic, number)):
            tell_lost_log(self._checkpoints, key, self.path)
            self._checkpoints.forget([key])
            make_partition_directory(self.fs, self._directory_of(topic, number), topic.topic_id)
            self.fs.sync_directory(self.path)
        try:
            log = Log.open(
                self._directory_of(topic, number),
                fs=self.fs,
                clock=self._clock,
                scheduler=self._scheduler,
                rng=self._rng,
                config=self.config_of(topic.name),
                log_start_offset=self._checkpoints.log_start_offset(key),
                recovery_point=0 if self._distrusts_all else self._checkpoints.recovery_point(key),
                clean_shutdown=self._log_dir.was_clean and not self._distrusts_all,
                topic_id=topic.topic_id,
                on_failure=lambda _, error: self._guard.take_offline(error),
                watcher=self._watcher,
            )
        except BaseException:
            self._is_in_doubt = True  # its files may be half recovered, and nobody closes them
            raise
        tell_lost_end(self._checkpoints, key, log)
        return Partition(topic.name, number, log)

    @contextmanager
    def _using(self, doing: str) -> Iterator[None]:
        """Run a change of the directory, unless it is closed or its disk has failed."""
        if self._is_closed:
            raise KafkaStorageError(f"{self.path} is closed")
        with self._guard.watch(doing):
            yield
