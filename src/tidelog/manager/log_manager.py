"""The logs that one process has open, in one or several data directories, each loaded on first use.

What every writer needs, short-lived or not; ``service.LogService`` adds what runs by itself.
Kafka: ``LogManager``.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from tidelog.codec.one_line import one_line, open_or_closed
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.datadir.partition_directories import random_id
from tidelog.env.forks import OfOneProcess
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import (
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.log.loading.load_watch import SILENT
from tidelog.manager.cleaning import Cleaning
from tidelog.manager.directories.describe_log_dirs import describe_log_dirs
from tidelog.manager.directories.disk_reserve import DiskReserve
from tidelog.manager.directories.log_dirs import LogDirs
from tidelog.manager.lifecycle.creator import LogCreator
from tidelog.manager.lifecycle.deleter import LogDeleter
from tidelog.manager.lifecycle.deletion_queue import DeletionQueue
from tidelog.manager.lifecycle.directory_closer import DirectoryCloser
from tidelog.manager.lifecycle.first_use import FirstUseLoader
from tidelog.manager.lifecycle.log_opener import USUAL_RECOVERY, LogOpener, RecoveryRules
from tidelog.manager.lifecycle.move_status import moves_in_files
from tidelog.manager.lifecycle.reopening import LogReopener
from tidelog.manager.log_registry import LogRegistry
from tidelog.manager.log_truncation import LogTruncation
from tidelog.manager.manager_part import OpenStores, Shared
from tidelog.manager.metrics.collect import collect
from tidelog.manager.metrics.counters import Counters
from tidelog.manager.offset_checkpointing import OffsetCheckpointing
from tidelog.manager.on_demand import OnDemand
from tidelog.manager.staged_commits import StagedCommits
from tidelog.manager.topics.topic_checks import check_topic, check_wider
from tidelog.manager.topics.topics import Topics
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Self
    from uuid import UUID

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.datadir.log_dir_description import LogDirDescription
    from tidelog.env.machine import Machine
    from tidelog.env.waiting import Bell
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.lifecycle.load_progress import LoadProgress
    from tidelog.manager.lifecycle.move_status import MoveStatus
    from tidelog.manager.metrics.metric import Metric
    from tidelog.manager.partition import Partition
    from tidelog.readonly.transactional_id import Transaction

_log = logging.getLogger(__name__)


class LogManager(OfOneProcess):
    """The logs of one process. Any thread may call it.

    Opening locks the directories; only the logs that are asked for are loaded, nothing runs in
    background, and the checkpoint lines of all other logs are kept. ``shutdown`` leaves every
    directory in order. A process that dies instead leaves directories that recover by themselves.
    Every log is led by this process, its only replica.

    A subclass that works in another way overrides the methods under "What a service does in
    another way".

    Args:
        config: the broker's settings; ``log.dirs`` as absolute paths.
        machine: disk, clock and the rest; its scheduler is not used.
        overrides: settings under Kafka's names that take precedence over a topic's own.
        watcher: notified of how far recoveries are and what they cut.
        recovery: how logs are recovered.

    Raises:
        DirectoryLocked, InvalidArgument, InvalidConfig, KafkaStorageError: see ``LogDirs``.
    """

    def __init__(
        self,
        config: BrokerConfig,
        machine: Machine,
        *,
        overrides: Mapping[str, str] = NO_SETTINGS,
        watcher: LoadWatcher = SILENT,
        recovery: RecoveryRules = USUAL_RECOVERY,
    ) -> None:
        config.log_defaults.with_overrides(overrides)
        self._config = config
        self._inline = InlineScheduler()
        self.machine = self._own_machine(machine)
        """The disk, clock, scheduler and the rest."""
        self._is_closing = False
        self.metric_sources: list[Callable[[], Iterable[Metric]]] = []
        self.recovery_threads = config.recovery_threads
        self.progress: LoadProgress | None = None
        """How far loading has come; None before and after."""
        self._log_dirs = LogDirs(
            config.data_directories,
            fs=machine.fs,
            clock=machine.clock,
            rng=machine.rng,
            has_all_logs=self._has_all_logs,
        )
        try:
            self._make_storage(overrides, recovery)
            self._make_lifecycle(watcher)
            self._make_upkeep(watcher)
            self._log_dirs.cordon(config.cordoned_log_dirs)
            self._log_dirs.check_any()
            self._begin()
        except BaseException:
            self._log_dirs.release_all()
            raise

    def __repr__(self) -> str:
        return one_line(self, self.told)

    def told(self) -> str:
        """Return its directories, counts and state for a repr: from memory, without a lock."""
        topics = self._topics.all().values()  # not ``topics``, which may finish a transaction
        partitions = sum(len(topic.partitions) for topic in topics)
        life = open_or_closed(is_open=not self._registry.is_closed)
        paths = ", ".join(map(repr, self._log_dirs.configured))
        return f"{paths}: topics={len(topics)}, partitions={partitions}, {life}"

    def _make_storage(self, overrides: Mapping[str, str], recovery: RecoveryRules) -> None:
        """Make what knows topics, logs and settings."""
        machine, log_dirs = self.machine, self._log_dirs
        self._topics = Topics(log_dirs, self._config, fs=machine.fs, rng=machine.rng)
        self._topics.overrides = dict(overrides)
        reserve = DiskReserve(
            log_dirs, machine.fs.free_bytes, lambda: self._config.tidelog_reserve_bytes
        )
        self._registry = LogRegistry(Counters(), reserve, machine.new_bell())
        self.cleaning = Cleaning(machine)
        self._checkpointing = OffsetCheckpointing(log_dirs, self._registry)
        self.shared = Shared(
            machine=machine,
            config=lambda: self._config,
            log_dirs=log_dirs,
            topics=self._topics,
            registry=self._registry,
            cleaning=self.cleaning,
            checkpointing=self._checkpointing,
            stores=OpenStores(),
        )
        """What its parts have in common."""
        self._opener = LogOpener(self.shared, recovery)

    def _make_lifecycle(self, watcher: LoadWatcher) -> None:
        """Make what creates, loads, moves and deletes logs."""
        shared, opener = self.shared, self._opener
        self._queue = DeletionQueue(shared)
        self._deleter = LogDeleter(shared, self._queue)
        self._creator = LogCreator(shared, opener=opener, deleter=self._deleter)
        self._first_use = FirstUseLoader(
            shared, opener=opener, creator=self._creator, watcher=watcher
        )
        self._reopener = LogReopener(shared, opener, self._cut_copy)

    def _make_upkeep(self, watcher: LoadWatcher) -> None:
        """Make what commits transactions, with the journals that a crash left behind."""
        self.staged_commits = StagedCommits(
            self.shared,
            creator=self._creator,
            partition_of=self._online,
            create_logs=self._create_logs,
            complete_logs=self._complete_logs,
            watcher=watcher,
        )
        self.staged_commits.read_journals()
        self.coordinated: Callable[[int, TopicPartition], Transaction | None] | None = None
        """Of a broker here: returns a producer's transaction that it is to end in a partition.

        On any thread; KafkaStorageError while that is not known yet.
        """

    # What a commit does without

    @cached_property
    def truncation(self) -> LogTruncation:
        """Truncates logs, and recovers those that take no appends."""
        return LogTruncation(self.shared, self._reopener.current)

    @cached_property
    def on_demand(self) -> OnDemand:
        """Retains and compacts logs when it is asked to."""
        return OnDemand(
            self.shared,
            partition_of=self._online,
            check_open=self._check_open,
            keeps_archives=lambda: self.keeps_archives,
        )

    @property
    def keeps_archives(self) -> bool:
        """Whether a task in background keeps the archives of its logs."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.shutdown()  # an error of the body is not replaced by those of closing

    # Life

    def shutdown(self) -> None:
        """Flush and close all logs, write checkpoints, mark the directories as clean, unlock them.

        A directory where something fails is logged and not marked. A second call does nothing.
        """
        self._shut_down()

    def close(self) -> None:
        """Do as ``shutdown``, then raise the first error that was met.

        Raises KafkaStorageError: not everything that was appended may be durable.
        """
        errors = self._shut_down()
        if errors:
            raise errors[0]

    def stop_background(self) -> None:
        """Let no cleaning begin, and wait for those that run; ``shutdown`` does it too."""
        if not self.is_inherited:
            self.cleaning.stop()

    def _shut_down(self) -> list[OSError | KafkaStorageError]:
        if self.is_inherited or self._is_closing:
            return []
        try:
            self._is_closing = True
            _log.info("Shutting down.")
            self.stop_background()
            # Here, since a second interrupt must unlock all.
            self.staged_commits.finish_interrupted()
            self._reopener.reopen_all()
            with self._registry.change_lock:
                self._registry.is_closed = True
            self._log_dirs.on_offline = None
            return self._close_directories()
        except BaseException:  # an interrupt: a second call would do nothing
            self._release()
            raise
        finally:
            self._queue.stop()
            self._registry.end_all(self._closed())
            _log.info("Shutdown complete.")

    def resize_recovery_threads(self, threads: int) -> None:
        """Use this number of threads a directory the next time logs are loaded or closed."""
        text = "Resizing recovery thread pool size for each data dir from %d to %d"
        _log.info(text, self.recovery_threads, threads)
        self.recovery_threads = threads

    # Looking

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings in force."""
        return self._config

    @property
    def overrides(self) -> Mapping[str, str]:
        """The settings that take precedence over a topic's own."""
        return self._topics.overrides

    def defaults_of_new(self) -> LogConfig:
        """Return what holds for a new topic that sets nothing."""
        return self._config.log_defaults

    @property
    def bell(self) -> Bell:
        """Rings when readers of some log may see more, or less."""
        return self._registry.bell

    @property
    def live_dirs(self) -> list[str]:
        """The directories in use."""
        return [one.path for one in self._log_dirs]

    def describe_log_dirs(self) -> dict[str, LogDirDescription]:
        """Return, by path, each directory's open logs, disk space, or why it is offline."""
        return describe_log_dirs(self.machine.fs, self._log_dirs, self._registry)

    def directory_id(self, path: str) -> UUID:
        """Return the ``directory.id`` of a directory in use.

        Raises LogDirNotFound if it is not configured, KafkaStorageError with the reason if it is
        offline.
        """
        return self._log_dirs.online(path).directory_id

    def get_log(self, topic: str, partition: int, *, is_future: bool = False) -> Log | None:
        """Return an open log, None if there is none; raise what has ended the partition."""
        key = TopicPartition(topic, partition)
        return self._registry.future(key) if is_future else self._registry.current(key)

    def all_logs(self) -> list[Log]:
        """Return all open logs, also those that a partition will move to."""
        return self._registry.all_logs()

    def partition(self, topic: str, partition: int) -> Partition:
        """Return one partition to append to and read from; on first use its log is loaded.

        Raises:
            UnknownTopicOrPartition: there is none, or a directory that is not open here holds it.
            InconsistentTopicId: the files are those of another topic of the same name.
            KafkaStorageError: its directory is offline, or this is closed.
        """
        self.staged_commits.finish_interrupted()
        return self._online(topic, partition)

    def _online(self, topic: str, partition: int) -> Partition:
        """As ``partition``, for the steps of a commit, which may hold locks of partitions."""
        key = TopicPartition(topic, partition)
        found = self._registry.partition(key)
        if found is not None:
            return found if found.is_online else self._reopener.online(found)
        self._topics.get(topic).home_of(partition)
        return self._load_partition(key)

    def is_missing(self, key: TopicPartition) -> bool:
        """Return whether ``partition`` would create a log that the catalogue has; errors as it."""
        return self._first_use.is_missing(key)

    def partitions(self, topic: str) -> Iterator[Partition]:
        """Yield all partitions of a topic, in order of their numbers."""
        for number in sorted(self.topic(topic).partitions):
            yield self.partition(topic, number)

    def topics(self) -> dict[str, Topic]:
        """Return every topic by name."""
        self.staged_commits.finish_interrupted()  # it may create some: a group's positions, for one
        return self._topics.all()

    def topic(self, name: str) -> Topic:
        """Return one topic; raise UnknownTopicOrPartition where there is none."""
        self.staged_commits.finish_interrupted()
        return self._topics.get(name)

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""
        self.topic(topic)
        return self._topics.config_of(topic)

    def metrics(self) -> list[Metric]:
        """Return all metrics as of now, also those of ``metric_sources``."""
        others = (one for source in self.metric_sources for one in source())
        return [*collect(self.shared, self._opener.flush_times, self.progress), *others]

    # Changing

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        is_spread: bool = False,
        path: str | None = None,
        birth: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic of empty logs, durably.

        A repetition of a call that a disk has stopped creates the logs that are missing.

        Args:
            name: 1 to 249 letters, digits, dots, underscores and dashes.
            partitions: how many, from 1 to 10,000.
            config: the topic's own settings, under Kafka's names; an internal topic of Kafka's has
                those that it cannot do without, too.
            is_spread: create each partition where the fewest logs are, instead of all of them in
                one directory. No transaction can then write all of the topic.
            path: create all partitions in this directory.
            birth: the topic's birth values; None: by the settings of this manager.

        Raises:
            InvalidTopic, InvalidPartitions, PolicyViolation, InvalidConfig, TopicAlreadyExists,
            LogDirNotFound, InvalidReplicaAssignment: nothing was created.
            KafkaStorageError: a disk is full, or something lies where the topic would, and nothing
                was created; or the disk failed.
        """
        config = config or {}
        with self.changing():
            topic_id = random_id(self.machine.rng)
            topic = self._checked_new(
                *(name, partitions, config, topic_id), is_spread=is_spread, path=path, birth=birth
            )
            if name in self._topics:
                self._complete_logs(topic)
                return topic
            with self._registry.creating_new([TopicPartition(name, at) for at in topic.partitions]):
                # From here on it exists: directories that a crash leaves out are created later.
                self._topics.add([topic])
                with self._deleter.undoing_creation(topic):
                    self._create_logs(topic, topic.partitions)
        return topic

    def planned_topic(
        self, name: str, partitions: int, config: Mapping[str, str]
    ) -> tuple[Topic, LogConfig]:
        """Return what ``create_topic`` would create, without its id, and its settings in force.

        Errors as there.
        """
        with self.changing():
            topic = self._checked_new(name, partitions, config, ZERO_ID)
        return topic, topic.config_in_force(self._topics.defaults, self._topics.overrides)

    def _checked_new(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, str],
        topic_id: UUID,
        *,
        is_spread: bool = False,
        path: str | None = None,
        birth: Mapping[str, str] | None = None,
    ) -> Topic:
        """Return a topic that may be created now, or the one whose creation a disk has stopped.

        Arguments and errors as ``create_topic``.
        """
        check_topic(name, partitions, config, birth, defaults=self._topics.defaults)
        homes = self._creator.choose_directories(partitions, is_spread=is_spread, path=path)
        ids = [home.directory_id for home in homes]
        topic = self._topics.planned(name, topic_id, ids, config, birth)
        if (begun := self._topics.known_as(topic)) and self._creator.lacks(begun):
            return begun
        self._topics.check_new({name: topic_id})
        self._creator.check_free(name, range(partitions))
        return topic

    def create_partitions(self, name: str, count: int, *, is_spread: bool = False) -> Topic:
        """Add partitions to a topic until it has ``count``, durably.

        Keys go to other partitions from then on, as in Kafka. Raises InvalidPartitions unless the
        topic has fewer and is none of Kafka's own, and errors as ``create_topic``; a repetition
        works as there.
        """
        with self.changing():
            topic = self.topic(name)
            if count == len(topic.partitions) and self._creator.lacks(topic):
                self._complete_logs(topic)
                return topic
            numbers, homes = self._checked_more(topic, count, is_spread=is_spread)
            with self._registry.creating_new([TopicPartition(name, at) for at in numbers]):
                changed = self._topics.extend(name, homes)
                with self._deleter.undoing_creation(changed, numbers):
                    self._create_logs(changed, numbers)
        return changed

    def check_more_partitions(self, name: str, count: int) -> None:
        """Raise unless ``create_partitions`` would add partitions now; errors as there."""
        with self.changing():
            self._checked_more(self.topic(name), count)

    def _checked_more(
        self, topic: Topic, count: int, *, is_spread: bool = False
    ) -> tuple[range, list[UUID]]:
        """Return the partitions that may be added now, and the ids of their directories."""
        check_wider(topic, count, defaults=self._topics.defaults)
        numbers = range(max(topic.partitions) + 1, count)
        homes = self._creator.choose_directories(len(numbers), is_spread=is_spread, topic=topic)
        self._creator.check_free(topic.name, numbers)
        return numbers, [one.directory_id for one in homes]

    def alter_topic(
        self,
        name: str,
        settings: Mapping[str, str],
        unset: Collection[str] = (),
        follow: Collection[str] = (),
    ) -> Topic:
        """Change a topic's own settings, durably; ``unset`` ones return to its birth values.

        Of those in ``follow`` the birth values are dropped, so that the process that opens the
        topic decides. Raises UnknownTopicOrPartition, or one InvalidConfig of every bad setting.
        """
        with self.changing():
            topic = self._topics.alter(name, settings, unset, follow)
            self._apply_config(name)
        return topic

    def update_config(self, config: BrokerConfig) -> None:
        """Replace the broker's settings; open logs and the cleaner follow.

        Raises InvalidConfig, with nothing changed, for a number of cleaners out of reach, and for
        defaults that contradict a topic's own settings.
        """
        self.cleaning.check_settings(config)
        with self.changing():
            self._topics.reconfigure(config)
            self._config = config
            self._log_dirs.cordon(config.cordoned_log_dirs)
            if config.recovery_threads != self.recovery_threads:
                self.resize_recovery_threads(config.recovery_threads)
            for name in {key.topic for key in self._registry.partitions()}:
                self._apply_config(name)
        self.cleaning.reconfigure(config)

    def delete_topic(self, name: str, topic_id: UUID | None = None) -> None:
        """Delete a topic; its files are deleted after ``file.delete.delay.ms``, or at ``close``.

        With an id, only the topic that has it: there may be another one of the name by now.

        Raises UnknownTopicOrPartition, also where a directory that is not open here holds a part,
        and KafkaStorageError. Where a disk fails on the way the topic may be deleted all the same:
        then ``topics`` has it no longer, and the start that finds that disk well deletes the rest.
        """
        with self.changing():
            keys = [TopicPartition(name, number) for number in self.topic(name).partitions]
        # Before the lock is held: a copy to the archive stops once its store has answered, which
        # may take a minute, and the creation of other topics would wait for that.
        with self.cleaning.paused(keys), self.changing():
            topic = self.topic(name)
            if topic_id not in {None, topic.topic_id}:
                raise UnknownTopicOrPartition(f"topic {name} was deleted, and is another one now")
            try:
                self._deleter.delete_topic(name)
            finally:
                if name not in self._topics:
                    self.staged_commits.drop_topic(topic.topic_id)
                    self._forget_moves(topic)
                    self._registry.counters.forget(name)

    def move_partition(self, topic: str, partition: int, path: str) -> bool:
        """Raise InvalidArgument: only a service moves partitions."""
        raise InvalidArgument(
            f"{topic}-{partition} cannot be moved to {path}: only a service moves partitions"
        )

    def check_room_to_move(self, keys: Collection[TopicPartition], path: str) -> None:
        """Do nothing: only a service moves partitions."""

    def moves(self) -> list[MoveStatus]:
        """Return the moves that wait for a service, sorted; raise KafkaStorageError."""
        self._check_open()
        try:
            return moves_in_files(self.machine.fs, self.live_dirs)
        except OSError as error:
            raise KafkaStorageError(f"the directories cannot be listed: {error}") from error

    def cancel_move(self, topic: str, partition: int) -> None:
        """Give a move up, durably: the partition stays as it is, and the copy is deleted.

        Raises InvalidArgument if there is no such move, or if it is decided; KafkaStorageError.
        """
        self._check_open()
        self._creator.cancel_move(TopicPartition(topic, partition))

    def throttle_moves(self, bytes_per_second: int | None) -> None:  # noqa: ARG002 - a service's
        """Raise InvalidArgument: only a service moves partitions."""
        raise InvalidArgument("no service runs here, so nothing is being moved")

    def wait_for_move(
        self, topic: str, partition: int, look_ms: int, on_look: Callable[[], None]
    ) -> None:
        """Return at once: nothing is being moved here."""

    def why_not_moved(self, topic: str, partition: int) -> str:  # noqa: ARG002 - a service's
        """Return an empty text: no move has ended here."""
        return ""

    def finish_deletion(self, name: str, topic_id: UUID) -> None:
        """Complete an earlier deletion of the topic of this id, which is to be created again.

        Raises KafkaStorageError: that is not possible now.
        """
        self._check_open()
        if self._topics.is_deleted(topic_id):
            self._deleter.finish_deleted_topics()
        self.staged_commits.check_not_deleted(name, topic_id)

    def recover_log(
        self, topic: str, partition: int, *, keep: bool = True, watcher: LoadWatcher = SILENT
    ) -> Log:
        """Cut a log where damage keeps it from taking appends, if it does; return the log.

        Args:
            topic: the topic.
            partition: its number.
            keep: whether what is cut is kept in cut files; where there is no space for that,
                KafkaStorageError is raised and nothing is cut.
            watcher: notified of the progress, and of what is cut.
        """
        found = self.partition(topic, partition)
        keep_cuts = KeepCuts.ALWAYS if keep else KeepCuts.NEVER
        rules = RecoveryRules(keep_cuts=keep_cuts, cuts_contradictions=True)
        self.truncation.recover(found, lambda: self._reopener.recover(found, rules, watcher))
        return self.partition(topic, partition).log

    def delete_renamed_logs(self) -> int:
        """Delete the logs renamed to ``-delete`` long enough ago; return the ms until the next."""
        return self._queue.delete_due()

    def flush(self) -> None:
        """Make all that was appended durable and visible to readers of other processes."""
        self._check_open()
        self._reopener.reopen_all()
        for log in self.all_logs():
            log.flush()
        for log_dir in self._loaded_dirs():
            self._checkpointing.write(log_dir)

    # Disks that fail

    def take_dir_offline(self, path: str, error: OSError) -> None:
        """Put a directory out of use, with all logs in it; the others continue."""
        self._log_dirs.take_offline(path, error)

    # Steps of starting and closing

    def abandon(self) -> None:
        """Close everything without writing: the start has failed, and nothing here is in order.

        Nothing if this is closed.
        """
        if not self.is_inherited and not self._is_closing:
            self._is_closing = True
            self.stop_background()
            self._queue.stop()
            self._release()

    def _release(self) -> None:
        """Close all files and unlock the directories, without writing."""
        self._registry.is_closed = True
        for log in self.all_logs():
            log.close_handlers()
        self._log_dirs.release_all()

    def _close_directories(self) -> list[OSError | KafkaStorageError]:
        """Close all logs and mark their directories as clean; return the errors, if any."""
        closer = DirectoryCloser(
            self.shared,
            logs_in=self._registry.in_directory,
            checkpoint=self._checkpoint,
            tidy_up=self._tidy_up,
            threads=self.recovery_threads,
        )
        return closer.close()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock under which logs come and go; raise KafkaStorageError if closed."""
        with self._registry.change_lock:
            self._check_open()
            yield

    def check_not_closed(self) -> None:
        """Raise KafkaStorageError if this is closed."""
        if self._registry.is_closed:
            raise self._closed()

    def _closed(self) -> KafkaStorageError:
        return KafkaStorageError(f"the logs of {', '.join(self._log_dirs.configured)} are closed")

    def _apply_config(self, topic: str) -> None:
        config = self._topics.config_of(topic)
        for log in self._registry.futures(topic).values():
            log.update_config(config)
        for key, log in self._registry.logs(topic).items():
            before = log.update_config(config)
            self.cleaning.config_changed(key, before, config)

    # What a service does in another way

    _has_all_logs: ClassVar = False
    """Whether each log of the directories will be open; only then may a checkpoint be damaged."""

    def _own_machine(self, machine: Machine) -> Machine:
        """Return the machine to work with: what it schedules runs at once, or at the close."""
        return machine._replace(scheduler=self._inline)

    def _begin(self) -> None:
        """Do what is left to do once the directories are locked."""
        self.staged_commits.finish_all()

    def _load_partition(self, key: TopicPartition) -> Partition:
        """Load a log that the catalogue names and that is not open."""
        self._check_open()
        return self._first_use.load(*key)

    def _create_logs(self, topic: Topic, numbers: Collection[int]) -> None:
        """Create the logs of new partitions, which the catalogue names already."""
        self._creator.create_new(topic, numbers, opened=False)

    def _complete_logs(self, topic: Topic) -> None:
        """Create the logs of a topic that an interrupted creation has left out."""
        self._creator.make_directories(topic, sorted(topic.partitions))

    def _cut_copy(self, key: TopicPartition, end: int) -> None:
        """Let the copy of a log that was opened again end no later than the log; none is open."""

    def _forget_moves(self, topic: Topic) -> None:
        """Forget the moves of a topic that was deleted; there are none."""

    def _check_open(self) -> None:
        """Raise KafkaStorageError if this is closed, or no directory is left."""
        self.check_not_closed()
        self._log_dirs.check_any()

    def _loaded_dirs(self) -> list[LogDir]:
        """Return the directories whose checkpoints concern open logs."""
        return [one for one in self._log_dirs if self._registry.in_directory(one.path)]

    def _checkpoint(self, log_dir: LogDir) -> None:
        """Write the checkpoints of a directory at its close, if they concern open logs."""
        if self._registry.in_directory(log_dir.path):
            self._checkpointing.write(log_dir)

    def _tidy_up(self, closed: Collection[LogDir]) -> None:
        """Undo changes that failed, where that is left to do, and delete what waits for it."""
        self._topics.write_where_not_undone()
        changed = [one for one in closed if one.is_changing]
        if not changed:
            return
        self._deleter.finish_deleted_topics()
        self._inline.close()
        for log_dir in changed:
            self._deleter.delete_leftovers(log_dir)
        self._deleter.delete_staged_files(self._config.tidelog_staged_retention_ms)
