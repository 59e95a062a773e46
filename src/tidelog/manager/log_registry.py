"""The open logs of one process, by partition and by directory.

Kafka: ``LogManager.currentLogs`` and ``futureLogs``.
"""

from __future__ import annotations

from threading import Lock, RLock
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError, TidelogError
from tidelog.log.listeners import LogListener
from tidelog.manager.directories.log_dirs import parent_of
from tidelog.manager.partition import Hold, Partition
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.env.waiting import Bell
    from tidelog.errors import KafkaError
    from tidelog.log.log import Log
    from tidelog.manager.directories.disk_reserve import DiskReserve
    from tidelog.manager.metrics.counters import Counters


class _BellRinger(LogListener):
    """Rings the bell whenever readers of a partition may see more."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell

    def on_high_watermark_updated(self, high_watermark: int) -> None:  # noqa: ARG002 - an override
        self._bell.ring()


class LogRegistry:
    """Current logs, as partitions, and future logs: copies that will replace a current log.

    ``_lock`` guards both maps. A partition is at most once in each, in different directories.
    ``change_lock`` is held while a log is created, deleted or replaced by another. ``copying`` is
    held while a step of a move copies records, and while a current log is truncated: the future one
    never keeps what the current one has dropped. The locks are taken in this order:
    ``change_lock``, that of a partition, ``copying``. ``bell`` rings when readers may see more, or
    less.
    """

    def __init__(self, counters: Counters, reserve: DiskReserve, bell: Bell) -> None:
        self.bell = bell
        self.change_lock = RLock()
        self.copying = Lock()
        self.is_closed = False
        """Set under ``change_lock`` when the manager closes; no log is opened from then on."""
        self.lost: set[TopicPartition] = set()
        """Partitions that had, when they were loaded, less than readers once saw."""
        self.failed: dict[TopicPartition, TidelogError] = {}
        """Partitions whose log could not be loaded, or created, and why.

        They are not served. Once all logs are loaded ``change_lock`` guards this.
        """
        self.new: set[TopicPartition] = set()
        """New partitions that are not served yet: no log of theirs lies in another directory."""
        self.uncut: set[TopicPartition] = set()
        """Partitions whose future log, found after an unclean end, is not cut to what was flushed.

        Any other part of it may be missing, also in the middle, however often it is flushed now.
        """
        self.holds: dict[TopicPartition, Hold] = {}
        """Partitions that wait for a committed transaction, open or not."""
        self.counters = counters
        self._reserve = reserve
        self._lock = Lock()
        self._current: dict[TopicPartition, Partition] = {}
        self._future: dict[TopicPartition, Log] = {}

    def check_open(self) -> None:
        """Raise KafkaStorageError once the manager has been closed; with ``change_lock`` held."""
        if self.is_closed:
            raise KafkaStorageError("the log manager is closed")

    def served(self, key: TopicPartition) -> Partition:
        """Return a partition that was not in service; raise KafkaStorageError if it is not now."""
        self.check_loaded(key)
        partition = self.partition(key)  # loaded late, just now
        if partition is None:
            raise KafkaStorageError(f"{key} lies in a directory that is offline")
        return partition

    def check_loaded(self, key: TopicPartition) -> None:
        """Raise KafkaStorageError if the log of a partition could not be loaded, or created."""
        if (error := self.failed.get(key)) is not None:
            raise KafkaStorageError(f"{key} could not be loaded: {error}") from error

    def partition(self, key: TopicPartition) -> Partition | None:
        """Return a partition."""
        return self._current.get(key)

    def current(self, key: TopicPartition) -> Log | None:
        """Return the log that a partition has."""
        partition = self._current.get(key)
        return None if partition is None else partition.log

    def future(self, key: TopicPartition) -> Log | None:
        """Return the log that a partition will have once it has moved."""
        return self._future.get(key)

    def partitions(self, topic: str | None = None) -> dict[TopicPartition, Partition]:
        """Return all partitions, or those of one topic."""
        with self._lock:
            return {
                key: partition
                for key, partition in self._current.items()
                if topic is None or key.topic == topic
            }

    def logs(self, topic: str | None = None) -> dict[TopicPartition, Log]:
        """Return the current logs of all partitions, or of one topic's, that have not ended."""
        return {
            key: partition.held_log
            for key, partition in self.partitions(topic).items()
            if not partition.has_ended
        }

    def futures(self, topic: str | None = None) -> dict[TopicPartition, Log]:
        """Return all future logs, or those of one topic."""
        with self._lock:
            return {k: log for k, log in self._future.items() if topic is None or k.topic == topic}

    def all_logs(self) -> list[Log]:
        """Return current and future logs."""
        with self._lock:
            return [*(p.held_log for p in self._current.values()), *self._future.values()]

    def in_directory(self, path: str) -> dict[tuple[str, int], Log]:
        """Return the logs that lie in a data directory; no partition has two there."""
        with self._lock:
            current = ((key, partition.held_log) for key, partition in self._current.items())
            logs = (*current, *self._future.items())
            return {key: log for key, log in logs if parent_of(log) == path}

    def to_checkpoint(self, path: str) -> dict[tuple[str, int], Log]:
        """Return the logs of a data directory whose offsets may be written down: not ``uncut``."""
        logs = self.in_directory(path)
        for key in tuple(self.uncut):
            if logs.get(key) is self.future(key):
                logs.pop(key, None)
        return logs

    def serve(self, key: TopicPartition, log: Log) -> Partition:
        """Make ``log`` the partition's current one, all of it visible to readers.

        Raises KafkaStorageError if the partition has one elsewhere.
        """
        reserve = self._reserve
        partition = Partition(
            *key,
            log,
            counters=self.counters,
            check_room=reserve.check,
            on_full=reserve.note_full,
            hold=self.holds.get(key),
        )
        partition.add_listener(_BellRinger(self.bell))
        self._add(partition)
        self.failed.pop(key, None)
        self.new.discard(key)
        return partition

    def _add(self, partition: Partition) -> None:
        """Add a current log; raise KafkaStorageError if the partition has one elsewhere."""
        key = TopicPartition(partition.topic, partition.partition)
        with self._lock:
            if (other := self._current.get(key)) is not None:
                raise KafkaStorageError(
                    f"partition {key.topic}-{key.partition} lies both in {other.log.directory} and"
                    f" in {partition.log.directory}, as after a failure while the first was to be"
                    " replaced by the second, or the reverse; delete one of them"
                )
            self._current[key] = partition

    def hold(self, key: TopicPartition, hold: Hold | None) -> None:
        """Let a partition, open or not, wait for a committed transaction; None: no longer."""
        if hold is None:
            self.holds.pop(key, None)
        else:
            self.holds[key] = hold
        partition = self.partition(key)
        if partition is not None:
            partition.hold(hold)

    def add_future(self, key: TopicPartition, log: Log) -> None:
        """Add a future log; raise KafkaStorageError if the partition has one."""
        with self._lock:
            if (other := self._future.get(key)) is not None:
                raise KafkaStorageError(
                    f"Duplicate log directories found: {other.directory}, {log.directory}"
                )
            self._future[key] = log

    def remove(self, key: TopicPartition) -> Partition | None:
        """Take a current log away."""
        with self._lock:
            return self._current.pop(key, None)

    def end_all(self, error: KafkaError) -> None:
        """Let every later use of a partition raise ``error``."""
        for partition in self.partitions().values():
            partition.end(error)
        self.bell.ring()

    def abandon(self, path: str, error: KafkaError) -> int:
        """Close all logs of a directory without writing; return how many. Their use raises."""
        logs = self.in_directory(path)
        for (topic, number), log in logs.items():
            key = TopicPartition(topic, number)
            partition = self.partition(key)
            if partition is not None and partition.held_log is log:
                self.remove(key)
                partition.end(error)
            else:
                self.remove_future(key)
            log.close_handlers()
        return len(logs)

    def remove_future(self, key: TopicPartition) -> Log | None:
        """Take a future log away."""
        self.uncut.discard(key)
        with self._lock:
            return self._future.pop(key, None)
