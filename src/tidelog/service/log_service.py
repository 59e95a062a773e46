"""A log manager that keeps its logs open and in order by itself.

Kafka: ``LogManager``, with what ``ReplicaManager`` does for moves between directories.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.datadir.metadata_files import UNKNOWN_BROKER_EPOCH
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.manager.log_manager import LogManager
from tidelog.manager.metrics.group_lag import GroupLag
from tidelog.segment.filenames import TopicPartition
from tidelog.service.background_tasks import BackgroundTasks
from tidelog.service.late_loading import LateLoader
from tidelog.service.loading import LogLoading
from tidelog.service.mover import PartitionMover
from tidelog.service.reconciliation import Reconciler
from tidelog.service.requests.request_service import RequestService

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.env.machine import Machine
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.lifecycle.move_status import MoveStatus
    from tidelog.manager.metrics.metric import Metric
    from tidelog.manager.partition import Partition
    from tidelog.service.archive_upkeep import Archiving

_log = logging.getLogger(__name__)

STORE_PATIENCE_MS: Final = 3000
"""How long a stop waits for the stores in which passes and commands archive logs."""


class LogService(LogManager):
    """All logs of the directories, open for as long as the process runs. Any thread may call it.

    ``startup`` loads the logs and starts the background tasks, which flush, retain, compact, move
    and checkpoint them, and answer what other processes request.

    Arguments and errors as ``LogManager``, but the machine's scheduler is used; and:

    Args:
        on_halt: called when no directory is left.
    """

    def __init__(
        self,
        config: BrokerConfig,
        machine: Machine,
        *,
        overrides: Mapping[str, str] = NO_SETTINGS,
        on_halt: Callable[[], None] | None = None,
    ) -> None:
        self._on_halt = on_halt
        super().__init__(config, machine, overrides=overrides)

    def _make_upkeep(self, watcher: LoadWatcher) -> None:
        super()._make_upkeep(watcher)
        shared, registry = self.shared, self._registry
        self._group_lag = GroupLag(registry, self._topics)
        self._mover = PartitionMover(shared, creator=self._creator, deleter=self._deleter)
        self.tasks = BackgroundTasks(
            shared,
            deleter=self._deleter,
            requests=RequestService(self),
            reopener=self._reopener,
            late=LateLoader(shared, first_use=self._first_use, mover=self._mover),
            staged=self.staged_commits,
            archiving=self._archiving if self._config.tidelog_archive_uri else None,
        )

    @property
    def keeps_archives(self) -> bool:
        """Whether it has a ``tidelog.archive.uri``."""
        return self.tasks.archiving is not None

    def _archiving(self, should_stop: Callable[[], bool]) -> Archiving:
        from tidelog.service.archive_upkeep import Archiving  # noqa: PLC0415 - few services need a store

        return Archiving(self.shared, should_stop)

    def _log_not_archived(self) -> None:
        """Log the topics that are to be archived, though this service has no archive."""
        logs = self._registry.logs().items()
        for name in sorted({key.topic for key, log in logs if log.config.remote_storage_enable}):
            reason = "tidelog.archive.uri is not set: nothing is copied, nor deleted here"
            _log.warning("topic-not-archived topic=%s reason=%s", name, reason)

    def metrics(self) -> list[Metric]:
        """Return all metrics as of now."""
        return [*self.state_metrics(), *self._group_lag.metrics()]

    def state_metrics(self) -> list[Metric]:
        """Return those that need no records: a probe of the service's health asks often."""
        archiving = self.tasks.archiving
        return [*super().metrics(), *(archiving.metrics() if archiving is not None else ())]

    def _begin(self) -> None:
        """Let failures of directories be handled; the logs are loaded by ``startup``."""
        self._log_dirs.on_offline = self._schedule_failures

    def startup(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Load all logs and start the background tasks.

        ``should_stop`` is called, on any thread, between logs and between pieces of a log.

        Raises:
            StartAborted: ``should_stop`` returned True; what was recovered until then stays so.
            KafkaStorageError: a partition lies in two directories, no directory is left, or file
                descriptors or memory ran out.
        """
        try:
            self._load(should_stop)
            self.staged_commits.finish_all()
            self.handle_failures()
            self._log_dirs.check_any()
            self._start_background()
        except BaseException:
            self.abandon()
            raise

    def _start_background(self) -> None:
        self._topics.log_elsewhere()
        self._topics.log_unknown_settings()
        if self.tasks.archiving is None:
            self._log_not_archived()
        self.tasks.delete_old_files()
        if self._config.log_cleaner_enable:
            self.cleaning.start(self._config, self._current_logs, self.machine)
        self._mover.resume_all()
        self.tasks.start()  # one of them resumes moves, too
        self._queue.start(self._config.log_initial_task_delay_ms)

    def __exit__(self, *_: object) -> None:
        """Do as ``shutdown``; ``close`` raises what could not be closed, too."""
        self.shutdown()

    def stop_background(self) -> None:
        """Stop cleaning, moves and background tasks; wait for what runs. ``shutdown`` does it too.

        The owner of the scheduler calls it first, then ends the scheduler, then calls ``shutdown``:
        no task of a log runs once its directory is unlocked. Source: Kafka BrokerServer.shutdown.
        """
        if self.is_inherited:
            return
        giving_up = None
        if not self.tasks.have_stopped:
            # Before all that waits for a pass or a command: a store that does not answer would hold
            # it for long. The archive is as after a kill: a segment that is put late is an orphan,
            # which a later claim sweeps, a version that is committed late is found by the next
            # start, and nothing here counts as archived.
            giving_up = self.machine.scheduler.schedule(
                "tidelog-store-give-up", self.shared.stores.give_up, delay_ms=STORE_PATIENCE_MS
            )
        try:
            super().stop_background()
            self.tasks.stop()
        finally:
            if giving_up is not None:
                giving_up.cancel()
        self._mover.stop()
        self._queue.stop()

    # Moves

    def move_partition(self, topic: str, partition: int, path: str) -> bool:
        """Begin to move a partition to the data directory ``path``; see ``PartitionMover.move``.

        Appends and reads continue meanwhile. Raises UnknownTopicOrPartition, too.
        """
        self.partition(topic, partition)
        return self._mover.move(TopicPartition(topic, partition), path)

    def check_room_to_move(self, keys: Collection[TopicPartition], path: str) -> None:
        """Raise DirectoryFull unless ``path`` has space; see ``PartitionMover.check_room``.

        Each move checks it for itself: this is for several of which none is to begin without.
        """
        self._check_open()
        self._mover.check_room(keys, path)

    def moves(self) -> list[MoveStatus]:
        """Return the moves in flight, sorted; raise KafkaStorageError."""
        self._check_open()
        return self._mover.moves()

    def cancel_move(self, topic: str, partition: int) -> None:
        """Give a move up, durably: the partition stays as it is, and the copy is deleted.

        Raises InvalidArgument if there is no such move, or if it is decided; KafkaStorageError.
        """
        self._check_open()
        self._mover.cancel_on_request(TopicPartition(topic, partition))

    def throttle_moves(self, bytes_per_second: int | None) -> None:
        """Limit what all moves together copy, until the process ends; None: as the settings do.

        Raises InvalidArgument for a limit below 1.
        """
        if bytes_per_second is not None and bytes_per_second < 1:
            raise InvalidArgument(f"{bytes_per_second} bytes per second is not a rate above 0")
        self._mover.throttle.set_rate(bytes_per_second)

    def wait_for_move(
        self, topic: str, partition: int, look_ms: int, on_look: Callable[[], None]
    ) -> None:
        """Wait until a partition is no longer moved; ``on_look`` is called before each look again.

        A copy may be left that nobody continues: its source has failed. Raises what has ended the
        partition, if that keeps the move from its end.
        """
        key, registry = TopicPartition(topic, partition), self._registry
        while registry.future(key) is not None and key not in self._mover.ended:
            if registry.current(key) is None:  # raises
                return
            on_look()
            registry.bell.wait(registry.bell.rings, look_ms)
        with registry.change_lock:
            pass  # until the log that was moved is put away, too: else its space would stay taken

    def why_not_moved(self, topic: str, partition: int) -> str:
        """Return why the last move of a partition ended without success; empty if it did not."""
        return self._mover.ended.get(TopicPartition(topic, partition), "")

    def handle_failures(self) -> None:
        """Close the logs of directories that failed, without writing; a task does this soon after.

        Source: Kafka LogManager.handleLogDirFailure.
        """
        for failed in self._log_dirs.take_failed():
            with self._registry.change_lock:  # no log is just being replaced by another
                self._close_failed(failed)
            self._registry.bell.ring()
        if not len(self._log_dirs) and self._on_halt is not None:
            self._on_halt()

    def _close_failed(self, failed: LogDir) -> None:
        count = self._registry.abandon(failed.path, self._log_dirs.offline_error(failed.path))
        self._queue.drop(failed.path)
        failed.release()
        _log.warning("log-dir-failed directory=%s logs=%d", failed.path, count)

    def _schedule_failures(self) -> None:
        task = self.tasks.guarded(self.handle_failures)
        self.machine.scheduler.schedule("log-dir-failure", task)

    # In another way than short-lived writers

    _has_all_logs: ClassVar = True

    def _own_machine(self, machine: Machine) -> Machine:
        return machine

    def _load_partition(self, key: TopicPartition) -> Partition:
        registry = self._registry
        # Where an interrupt has broken off its creation, the first use completes that.
        life = registry.life(key)
        if life.error is not None or not life.is_new:
            return self._reopener.online(registry.served(key))
        return super()._load_partition(key)

    def _create_logs(self, topic: Topic, numbers: Collection[int]) -> None:
        self._creator.create_new(topic, numbers, opened=True)

    def _complete_logs(self, topic: Topic) -> None:
        self._creator.create_missing(topic)

    def _cut_copy(self, key: TopicPartition, end: int) -> None:
        self._mover.cut_copy(key, end)

    def _forget_moves(self, topic: Topic) -> None:
        for number in topic.partitions:
            self._mover.forget(TopicPartition(topic.name, number))

    def _check_open(self) -> None:
        self.check_not_closed()

    def _loaded_dirs(self) -> list[LogDir]:
        return list(self._log_dirs)

    def _close_directories(self) -> list[OSError | KafkaStorageError]:
        self._queue.stop()  # reopening a log may have begun it again
        return super()._close_directories()

    def _checkpoint(self, log_dir: LogDir) -> None:
        log_dir.broker_epoch = UNKNOWN_BROKER_EPOCH  # no controller has given it one
        self._checkpointing.write(log_dir)

    def _tidy_up(self, closed: Collection[LogDir]) -> None:  # noqa: ARG002 - a short-lived writer's
        """Undo changes that failed, where that is left to do; deletions wait for the next start."""
        self._topics.write_where_not_undone()

    def _load(self, should_stop: Callable[[], bool]) -> None:
        loading = LogLoading(
            self.shared,
            self._opener,
            threads=self.recovery_threads,
            should_stop=should_stop,
        )
        self.progress = loading.progress
        loaded = loading.run()
        self.progress = None
        reconciler = Reconciler(
            self.shared, creator=self._creator, deleter=self._deleter, queue=self._queue
        )
        try:
            reconciler.reconcile(loaded)
        except BaseException:
            loading.close_all()  # also what is not registered yet
            raise

    def _current_logs(self) -> dict[tuple[str, int], Log]:
        return dict(self._registry.logs().items())
