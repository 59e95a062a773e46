"""The log cleaner as the rest of the manager sees it: there may be none.

States and checkpoint lines are alike with a cleaner and without one (short-lived writers,
``log.cleaner.enable=false``), as compaction on demand has them, too; without one all lines are
kept. Kafka: ``LogManager.cleaner``, which may be null.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.cleaner.cleaner_manager import LogCleanerManager
from tidelog.cleaner.log_cleaner import LogCleaner
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.env.machine import Machine
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.segment.filenames import TopicPartition

    Key = tuple[str, int]


class Cleaning:
    """A log cleaner, or none."""

    def __init__(self, machine: Machine) -> None:
        self.cleaner: LogCleaner | None = None
        self._is_stopped = False
        self._in_use: set[TopicPartition] = set()
        self.manager: Final = LogCleanerManager(
            None, fs=machine.fs, clock=machine.clock, sleep_ms=machine.sleep_ms
        )
        """Of the states and lines of all partitions, with a cleaner and without one."""

    def start(
        self, config: BrokerConfig, logs: Callable[[], Mapping[Key, Log]], machine: Machine
    ) -> None:
        """Start a cleaner of the logs that ``logs`` returns at each call."""
        self.manager.logs_of = logs
        self.cleaner = LogCleaner(config, self.manager, machine)
        self.cleaner.startup()

    def stop(self) -> None:
        """Stop the cleaner and wait for the cleanings that run."""
        self._is_stopped = True
        if self.cleaner is not None:
            self.cleaner.shutdown()
        for key in list(self._in_use):
            self.manager.abort(key)

    @contextmanager
    def exclusive(self, key: TopicPartition) -> Iterator[Callable[[], None]]:
        """Keep the cleaner and others that ask away from a partition in the body.

        Yields what raises CleaningAborted once the body has to stop. Raises CleaningAborted, too,
        if the partition does not get free, and KafkaStorageError once this was stopped.
        """
        manager, owner = self.manager, object()
        try:
            manager.begin(key, lambda: self._is_stopped, owner)
            self._in_use.add(key)
            if self._is_stopped:
                raise KafkaStorageError("the log manager was shut down")
            yield lambda: manager.check(key)
        finally:
            self._in_use.discard(key)
            self._end_use(owner, key)

    @contextmanager
    def exclusive_if_free(self, key: Key) -> Iterator[bool]:
        """Yield whether a partition was free; if so it is in exclusive use during the body."""
        owner = object()
        try:
            yield self.manager.maybe_begin(key, owner)
        finally:
            self._end_use(owner, key)

    def _end_use(self, owner: object, key: Key) -> None:
        """End the exclusive use of a partition, if it has begun."""
        # Else ``stop`` would wait for ever, also where an interrupt breaks off the first try.
        try:
            self.manager.done_by(owner, key)
        except BaseException:
            self.manager.done_by(owner, key)
            raise

    def check_settings(self, config: BrokerConfig) -> None:
        """Raise InvalidConfig if the running cleaner cannot take these settings."""
        if self.cleaner is not None:
            self.cleaner.check_settings(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Restart the cleaner with other settings."""
        if self.cleaner is not None:
            self.cleaner.reconfigure(config)

    def config_changed(self, key: TopicPartition, before: LogConfig, config: LogConfig) -> None:
        """Stop cleaning a log that is no longer compacted; retry one that failed before."""
        if before == config:
            return
        if before.is_compacted and not config.is_compacted:
            self.manager.abort(key)
        self.manager.retry(key)

    @contextmanager
    def paused(self, keys: Sequence[TopicPartition]) -> Iterator[None]:
        """Keep the cleaner and others that ask away from partitions in the body."""
        self.manager.abort_and_pause(*keys)
        try:
            yield
        finally:
            self.manager.resume(keys)

    @contextmanager
    def paused_for_truncation(
        self, key: TopicPartition, log: Log, active_base: Callable[[], int]
    ) -> Iterator[None]:
        """Pause cleaning while a log is truncated.

        Its checkpoint is lowered before to ``active_base()``, where its active segment will begin:
        wherever the truncation stops, no offset that is written again counts as clean. Kafka lowers
        it after.
        """
        with self.paused([key]):
            self.manager.maybe_truncate_checkpoint(key, log, max(active_base(), 0))
            yield

    def settle_line(self, log: Log, key: Key) -> None:
        """Bring the line of a log in line with what its opening has found.

        It is raised to where a cleaning came that a crash has stopped before it was, and lowered
        where a recovery has cut the log: records appended there later are dirty. A tombstone that
        counted as clean would be dropped, and the values that it deletes would stay.
        """
        marked_end = log.swap.marked_end
        if marked_end is not None:
            if marked_end:
                self.manager.note_swapped(key, log, marked_end)
            log.swap.delete_marks()
        with log.watch("lowering the cleaner's checkpoint"):
            self.manager.checkpoints.lower_to_end(
                log.data_dir, key, log.log_end_offset, log.segments.active.base_offset
            )

    @contextmanager
    def not_compacted(
        self, logs: Mapping[TopicPartition, Log]
    ) -> Iterator[Sequence[tuple[Key, Log]]]:
        """Yield those of ``logs`` that retention deletes from; none is cleaned meanwhile."""
        chosen = self.manager.pause_not_compacted(logs.items())
        try:
            yield chosen
        finally:
            self.manager.resume(key for key, _ in chosen)

    def forget_lines(self, log_dir: LogDir, keys: Sequence[TopicPartition]) -> None:
        """Remove the lines of partitions from all checkpoints of a directory, durably.

        The line of a deleted log would truncate a new one of the same name.
        """
        log_dir.checkpoints.forget(keys)
        self.manager.checkpoints.drop(log_dir.path, keys)

    def carry_line(
        self, key: TopicPartition, source: LogDir, target: LogDir, log_dirs: LogDirs
    ) -> None:
        """Write a log's line in the cleaner's checkpoint for the directory that is to hold it, too.

        Raises KafkaStorageError; unless its disk was full that directory is offline then.
        """

        def failing(path: str) -> AbstractContextManager[None]:
            return log_dirs.failing(path, f"moving the cleaner's line of {key}")

        self.manager.checkpoints.carry(key, source.path, target.path, failing)

    def leave_line(self, key: TopicPartition, source: LogDir, log_dirs: LogDirs) -> None:
        """Remove a log's line where it has left; errors as ``carry_line``."""
        with log_dirs.failing(source.path, f"moving the cleaner's line of {key}"):
            self.manager.checkpoints.drop(source.path, [key])
