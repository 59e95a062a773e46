"""All logs of one process, in one or several data directories.

Owns their life: loaded at start, made, deleted, kept in order by tasks, closed at the end; and what
happens when a disk fails. Each step is in a module of its own; here stands what is promised. Must
not know sockets, or how a log works inside. Kafka: ``LogManager``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.cleaner.log_cleaner import LogCleaner
from tidelog.datadir.partition_directories import random_id
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.log.producers.producer_state import ProducerStateConfig
from tidelog.manager.background_tasks import ManagerTasks
from tidelog.manager.directories.disk_reserve import DiskReserve
from tidelog.manager.directories.live_dirs import LiveDirs, release
from tidelog.manager.lifecycle import (
    creation,
    directory_failure,
    log_truncation,
    moving,
    settling,
    topic_deletion,
)
from tidelog.manager.lifecycle.loading import LogLoading
from tidelog.manager.lifecycle.log_factory import LogFactory
from tidelog.manager.lifecycle.logs_to_delete import DoomedLogs
from tidelog.manager.lifecycle.shutdown import close_directories
from tidelog.manager.parts import Parts
from tidelog.manager.topics.topic_rules import check_topic
from tidelog.manager.topics.topics import Topics
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Self
    from uuid import UUID

    from tidelog.cleaner.log_cleaner import Machine
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.log.log import Log
    from tidelog.manager.lifecycle.loading import LoadProgress
    from tidelog.manager.partition import Partition

_log = logging.getLogger(__name__)


class LogManager:
    """The logs of one process. Any thread may call it.

    Opening locks the directories; ``startup`` loads the logs and starts the tasks; ``shutdown``
    leaves every directory in order. A process that dies instead leaves directories that recover by
    themselves. Every log is led by this process, its only replica.

    Args:
        config: the broker's settings; ``log.dirs`` as absolute paths.
        machine: disk, clock, scheduler and the rest.
        overrides: settings under Kafka's names that go before a topic's own.
        offline: directories known to have failed.
        is_stray: says of a log that it belongs to no topic of this process.
        on_halt: told that no directory is left.

    Raises:
        DirectoryLocked, InvalidArgument, KafkaStorageError: see ``LiveDirs``.
    """

    def __init__(
        self,
        config: BrokerConfig,
        machine: Machine,
        *,
        overrides: Mapping[str, str] | None = None,
        offline: Collection[str] = (),
        is_stray: Callable[[Log], bool] | None = None,
        on_halt: Callable[[], None] | None = None,
    ) -> None:
        config.log_defaults.with_overrides(overrides or {})
        paths = config.data_directories
        dirs = LiveDirs(paths, fs=machine.fs, rng=machine.rng, offline=offline)
        try:
            self._parts = _parts_of(config, machine, dirs)
            dirs.check_any()
        except BaseException:
            for one in dirs:
                release(one)
            raise
        self._parts.on_halt = on_halt
        self._parts.topics.overrides = dict(overrides or {})
        self._is_stray = is_stray
        self._is_closed = False
        self.tasks = ManagerTasks(self._parts)
        self.recovery_threads = config.num_recovery_threads_per_data_dir
        self.progress: LoadProgress | None = None
        """How far loading has come; None before and after."""
        dirs.cordon(config.cordoned_log_dirs)
        dirs.on_offline = self._schedule_failures

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    # Life

    def startup(self) -> None:
        """Load all logs, begin the background tasks.

        Raises:
            InvalidTopic: a directory is there that is no partition's.
            KafkaStorageError: a partition lies in two directories, or no directory is left.
        """
        parts = self._parts
        try:
            self._load()
            self.handle_failures()
            parts.dirs.check_any()
        except BaseException:
            self._abandon()
            raise
        for name, topic in sorted(self.topics().items()):
            if topic.unknown_settings:
                unknown = ",".join(topic.unknown_settings)
                _log.warning("topic-settings-unknown topic=%s unknown=%s", name, unknown)
        self.tasks.sweep_staged()
        self.tasks.start()
        parts.doomed.start(parts.config.log_initial_task_delay_ms)
        if parts.config.log_cleaner_enable:
            parts.cleaner = LogCleaner(parts.config, self._current_logs, parts.machine)
            parts.cleaner.startup()
        settling.resume_moves(parts)

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close all logs, write checkpoints, mark the directories as clean, unlock them.

        A directory where something fails gets no mark. A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        _log.info("Shutting down.")
        parts = self._parts
        if parts.cleaner is not None:
            parts.cleaner.shutdown()
        self.tasks.stop()
        parts.doomed.stop()
        parts.dirs.on_offline = None
        try:
            close_directories(parts, self.recovery_threads, broker_epoch)
        finally:
            error = KafkaStorageError("the log manager was shut down")
            for partition in parts.logs.partitions().values():
                partition.end(error)
            parts.bell.ring()
        _log.info("Shutdown complete.")

    def resize_recovery_threads(self, threads: int) -> None:
        """Use so many threads a directory the next time logs are loaded or closed."""
        _log.info(
            "Resizing recovery thread pool size for each data dir from %d to %d",
            *(self.recovery_threads, threads),
        )
        self.recovery_threads = threads

    # Looking

    @property
    def parts(self) -> Parts:
        """What this is made of; for metrics and for those who add to it."""
        return self._parts

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings in force."""
        return self._parts.config

    @property
    def live_dirs(self) -> list[str]:
        """The directories in use."""
        return [one.path for one in self._parts.dirs]

    def is_dir_online(self, path: str) -> bool:
        """Say whether a directory is in use; raise LogDirNotFound if it is none of ours."""
        return self._parts.dirs.is_online(path)

    def get_log(self, topic: str, partition: int, *, is_future: bool = False) -> Log | None:
        """Return a log, None if there is none."""
        key = TopicPartition(topic, partition)
        logs = self._parts.logs
        return logs.future(key) if is_future else logs.current(key)

    def all_logs(self) -> list[Log]:
        """Return all logs, also those that a partition will move to."""
        return self._parts.logs.all_logs()

    def logs_of(self, topic: str) -> list[Log]:
        """Return all logs of a topic, also those that a partition will move to."""
        logs = self._parts.logs
        current = [partition.log for partition in logs.partitions(topic).values()]
        return [*current, *logs.futures(topic).values()]

    def partition(self, topic: str, partition: int) -> Partition:
        """Return one partition to append to and read from.

        Raises UnknownTopicOrPartition, or KafkaStorageError while its directory is offline.
        """
        found = self._parts.logs.partition(TopicPartition(topic, partition))
        if found is not None:
            return found
        home_id = self.topic(topic).partitions.get(partition)
        if home_id is None:
            raise UnknownTopicOrPartition(f"topic {topic} has no partition {partition}")
        raise KafkaStorageError(f"{topic}-{partition} lies in a directory that is offline")

    def partitions(self, topic: str) -> Iterator[Partition]:
        """Yield all partitions of a topic, in order of their numbers."""
        for number in sorted(self.topic(topic).partitions):
            yield self.partition(topic, number)

    def topics(self) -> dict[str, Topic]:
        """Return every topic by name."""
        return self._parts.topics.all()

    def topic(self, name: str) -> Topic:
        """Return one topic; raise UnknownTopicOrPartition where there is none."""
        return self._parts.topics.get(name)

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""
        self.topic(topic)
        return self._parts.topics.config_of(topic)

    # Changing

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> Topic:
        """Create a topic of empty logs, durably, each where the fewest logs are.

        Raises:
            InvalidTopic, InvalidPartitions, InvalidConfig, TopicAlreadyExists: nothing was made.
            KafkaStorageError: a disk failed; the topic may be there.
        """
        parts = self._parts
        with parts.creation:
            check_topic(name, partitions, config or {}, defaults=parts.topics.defaults)
            homes = creation.spread(parts, partitions)
            topic_id = random_id(parts.machine.rng)
            ids = [home.directory_id for home in homes]
            topic = parts.topics.create(name, topic_id, ids, config or {})
            settling.make_missing(parts, topic)
        return topic

    def get_or_create_log(
        self,
        topic: str,
        partition: int,
        *,
        is_new: bool = False,
        is_future: bool = False,
        topic_id: UUID | None = None,
        target_directory_id: UUID | None = None,
    ) -> Log:
        """Return a log, made if there is none.

        Args:
            topic: the topic; one that no catalogue knows is noted if ``topic_id`` is given.
            partition: its number.
            is_new: nobody has seen this partition before, so it lies in no offline directory.
            is_future: the log that the partition will move to; ``prefer_directory`` says where.
            topic_id: given to a new log, compared with that of a known one.
            target_directory_id: where a new log goes, if that directory is online.

        Raises:
            KafkaStorageError: it may lie in an offline directory, or no directory takes it.
            InconsistentTopicId: it belongs to another topic.
        """
        return creation.get_or_create_log(
            self._parts,
            TopicPartition(topic, partition),
            is_new=is_new,
            is_future=is_future,
            topic_id=topic_id,
            target_directory_id=target_directory_id,
        )

    def alter_topic(
        self, name: str, settings: Mapping[str, str], unset: Collection[str] = ()
    ) -> Topic:
        """Change a topic's settings, also of its open logs; raise InvalidConfig."""
        parts = self._parts
        with parts.creation:
            topic = parts.topics.alter(name, settings, unset)
            self._apply_config(name)
        return topic

    def update_config(self, config: BrokerConfig) -> None:
        """Take other broker settings; those of open logs follow, and so does the cleaner.

        Raises InvalidConfig, with nothing changed, for a number of cleaners out of reach.
        """
        parts = self._parts
        if parts.cleaner is not None:
            parts.cleaner.check_settings(config)
        with parts.creation:
            parts.config = config
            parts.topics.defaults = config.log_defaults
            parts.dirs.cordon(config.cordoned_log_dirs)
            if config.num_recovery_threads_per_data_dir != self.recovery_threads:
                self.resize_recovery_threads(config.num_recovery_threads_per_data_dir)
            for name in {key.topic for key in parts.logs.partitions()}:
                self._apply_config(name)
        if parts.cleaner is not None:
            parts.cleaner.reconfigure(config)

    def move_partition(self, topic: str, partition: int, path: str) -> bool:
        """Begin to move a partition to the data directory ``path``; see ``moving.move``.

        Appends and reads go on meanwhile. Raises UnknownTopicOrPartition, too.
        """
        self.partition(topic, partition)
        return moving.move(self._parts, TopicPartition(topic, partition), path)

    def delete_topic(self, name: str) -> None:
        """Delete a topic; its files go after ``file.delete.delay.ms``. See ``topic_deletion``."""
        topic_deletion.delete_topic(self._parts, name)

    def async_delete(
        self, topic: str, partition: int, *, is_future: bool = False, is_stray: bool = False
    ) -> Log | None:
        """Take one log out of service; see ``topic_deletion.async_delete``."""
        key = TopicPartition(topic, partition)
        return topic_deletion.async_delete(self._parts, key, is_future=is_future, is_stray=is_stray)

    def truncate_to(
        self, offsets: Mapping[tuple[str, int], int], *, is_future: bool = False
    ) -> None:
        """Cut logs so that each ends at its offset; cleaning of them waits meanwhile."""
        log_truncation.truncate_to(self._parts, offsets, is_future=is_future)

    def truncate_fully_and_start_at(
        self, topic: str, partition: int, offset: int, *, is_future: bool = False
    ) -> None:
        """Empty a log and let it go on at ``offset``."""
        key = TopicPartition(topic, partition)
        log_truncation.truncate_fully_and_start_at(self._parts, key, offset, is_future=is_future)

    def flush(self) -> None:
        """Make all that was appended durable, and let readers of other processes see it."""
        for log in self.all_logs():
            log.flush()
        for home in self._parts.dirs:
            self._parts.write_checkpoints(home)

    # Disks that fail

    def take_dir_offline(self, path: str, error: OSError) -> None:
        """Put a directory out of use, with all logs in it; the others go on."""
        self._parts.dirs.take_offline(path, error)

    def handle_failures(self) -> None:
        """Let go of the logs of directories that failed; a task does this soon after."""
        directory_failure.handle_failures(self._parts)

    def _schedule_failures(self) -> None:
        self._parts.machine.scheduler.schedule("log-dir-failure", self.handle_failures)

    # Steps of starting

    def _load(self) -> None:
        parts = self._parts
        loading = LogLoading(
            parts.dirs,
            parts.factory,
            fs=parts.machine.fs,
            clock=parts.machine.clock,
            scheduler=parts.machine.scheduler,
            threads=self.recovery_threads,
        )
        self.progress = loading.progress
        loaded = loading.run()
        self.progress = None
        settling.settle(parts, loaded, self._is_stray)

    def _abandon(self) -> None:
        """Let go of everything: the start has failed, and nothing here is in order."""
        self._is_closed = True
        for log in self.all_logs():
            log.close_handlers()
        for one in self._parts.dirs:
            release(one)

    def _apply_config(self, topic: str) -> None:
        parts = self._parts
        config = parts.topics.config_of(topic)
        for log in parts.logs.futures(topic).values():
            log.update_config(config)
        for key, partition in parts.logs.partitions(topic).items():
            before = partition.log.update_config(config)
            if parts.cleaner is None or before == config:
                continue
            if before.is_compacted and not config.is_compacted:
                parts.cleaner.manager.abort(key)
            parts.cleaner.manager.retry(key)

    def _current_logs(self) -> dict[tuple[str, int], Log]:
        return {key: part.log for key, part in self._parts.logs.partitions().items()}


def _parts_of(config: BrokerConfig, machine: Machine, dirs: LiveDirs) -> Parts:
    topics = Topics(dirs, config.log_defaults, fs=machine.fs, rng=machine.rng)
    producers = ProducerStateConfig(
        config.producer_id_expiration_ms,
        config.producer_id_expiration_check_interval_ms,
        config.transaction_max_timeout_ms,
        config.transaction_partition_verification_enable,
    )

    def fail(path: str, error: OSError) -> None:
        dirs.take_offline(path, error)

    factory = LogFactory(
        fs=machine.fs,
        clock=machine.clock,
        scheduler=machine.scheduler,
        rng=machine.rng,
        config_of=topics.config_of,
        on_failure=fail,
        producer_config=producers,
    )
    parts: Parts
    doomed = DoomedLogs(
        fs=machine.fs,
        clock=machine.clock,
        scheduler=machine.scheduler,
        delay_ms=lambda: parts.config.log_defaults.file_delete_delay_ms,
        on_failure=fail,
    )
    reserve = DiskReserve(dirs, machine.fs.free_bytes, lambda: parts.config.tidelog_reserve_bytes)
    parts = Parts(config, machine, dirs, topics, doomed, factory, reserve)
    return parts
