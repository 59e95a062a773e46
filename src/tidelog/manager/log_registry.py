"""The open logs of one process, by partition and by directory.

Kafka: ``LogManager.currentLogs`` and ``futureLogs``.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from threading import Lock, RLock
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.log.listeners import LogListener
from tidelog.manager.partition import Hold, Partition
from tidelog.manager.partition_states import UNKNOWN, Life
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tidelog.env.waiting import Bell
    from tidelog.errors import KafkaError, TidelogError
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
    """The lives of partitions; those that are served have a log, those that move a copy as well.

    ``_lock`` guards ``_lives``. ``change_lock`` is held while a log is created, deleted or replaced
    by another. ``copying`` is held while a step of a move copies records, and while a current log
    is truncated: the future one never keeps what the current one has dropped. The locks are taken
    in this order: ``change_lock``, the partition's lock, ``copying``. ``bell`` rings when readers
    may see more, or less.
    """

    def __init__(self, counters: Counters, reserve: DiskReserve, bell: Bell) -> None:
        self.bell = bell
        self.change_lock = RLock()
        self.copying = Lock()
        self.is_closed = False
        """Set under ``change_lock`` when the manager closes; no log is opened from then on."""
        self.lost: set[TopicPartition] = set()
        """Partitions that had, when they were loaded, less than readers once saw."""
        self.holds: dict[TopicPartition, Hold] = {}
        """Partitions that wait for a committed transaction, open or not."""
        self.creating: frozenset[TopicPartition] = frozenset()
        """Partitions that the catalogue may name already, until all that are created together are
        in service; replaced under ``change_lock``."""
        self.counters = counters
        self.reserve = reserve
        self._lock = Lock()
        self._lives: dict[TopicPartition, Life] = {}

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
        if (error := self.life(key).error) is not None:
            raise KafkaStorageError(f"{key} could not be loaded: {error}") from error

    # Looking

    def life(self, key: TopicPartition) -> Life:
        """Return what is known of a partition, perhaps nothing."""
        return self._lives.get(key, UNKNOWN)

    def partition(self, key: TopicPartition) -> Partition | None:
        """Return a partition."""
        return self._lives.get(key, UNKNOWN).partition

    def current(self, key: TopicPartition) -> Log | None:
        """Return the log that a partition has."""
        partition = self._lives.get(key, UNKNOWN).partition
        return None if partition is None else partition.log

    def future(self, key: TopicPartition) -> Log | None:
        """Return the log that a partition will have once it has moved."""
        return self.life(key).copy

    def failed(self) -> dict[TopicPartition, TidelogError]:
        """Return the partitions whose log could not be loaded, or created, and why."""
        return {key: life.error for key, life in self._all() if life.error is not None}

    def partitions(self, topic: str | None = None) -> dict[TopicPartition, Partition]:
        """Return all partitions, or those of one topic."""
        return {key: life.partition for key, life in self._all(topic) if life.partition is not None}

    def logs(self, topic: str | None = None) -> dict[TopicPartition, Log]:
        """Return the current logs of all partitions, or of one topic's, that have not ended."""
        return {
            key: partition.held_log
            for key, partition in self.partitions(topic).items()
            if not partition.has_ended
        }

    def futures(self, topic: str | None = None) -> dict[TopicPartition, Log]:
        """Return all future logs, or those of one topic."""
        return {key: life.copy for key, life in self._all(topic) if life.copy is not None}

    def all_logs(self) -> list[Log]:
        """Return current and future logs."""
        return [log for _, log in self._open_logs()]

    def _all(self, topic: str | None = None) -> list[tuple[TopicPartition, Life]]:
        with self._lock:
            return [one for one in self._lives.items() if topic is None or one[0].topic == topic]

    def _open_logs(self) -> Iterator[tuple[TopicPartition, Log]]:
        lives = self._all()
        yield from ((key, life.partition.held_log) for key, life in lives if life.partition)
        yield from ((key, life.copy) for key, life in lives if life.copy)

    def in_directory(self, path: str) -> dict[tuple[str, int], Log]:
        """Return the logs that lie in a data directory; no partition has two there."""
        return {key: log for key, log in self._open_logs() if log.data_dir == path}

    def to_checkpoint(self, path: str) -> dict[tuple[str, int], Log]:
        """Return the logs of a data directory whose offsets may be written down: not uncut ones."""
        logs = self.in_directory(path)
        for key, life in self._all():
            if life.is_uncut and logs.get(key) is life.copy:
                del logs[key]
        return logs

    # Changing

    def expect_new(self, keys: Iterable[TopicPartition]) -> None:
        """Note that partitions never existed before: no directory elsewhere has a log of theirs."""
        for key in keys:
            if self.life(key).partition is None:
                self._change(key, lambda life: replace(life, is_new=True))

    @contextmanager
    def creating_new(self, keys: Collection[TopicPartition]) -> Iterator[None]:
        """Create partitions in the body, which adds them to the catalogue; see ``expect_new``."""
        self.expect_new(keys)
        before = self.creating
        self.creating = before.union(keys)
        try:
            yield
        finally:
            self.creating = before

    def begin_loading(self, key: TopicPartition) -> None:
        """Note that the log of a partition is about to be opened, or created."""
        self._change(key, Life.loading)

    def serve(self, key: TopicPartition, log: Log) -> Partition:
        """Make ``log``, which was being loaded, the partition's; readers see all of it."""
        reserve = self.reserve
        partition = Partition(
            *key,
            log,
            counters=self.counters,
            check_room=reserve.check,
            on_full=reserve.note_full,
            hold=self.holds.get(key),
        )
        partition.add_listener(_BellRinger(self.bell))
        self._change(key, lambda life: life.served(partition))
        return partition

    def fail(self, key: TopicPartition, error: TidelogError) -> None:
        """Note why the log of a partition is not served."""
        self._change(key, lambda life: life.failed(error))

    def hold(self, key: TopicPartition, hold: Hold | None) -> None:
        """Let a partition, open or not, wait for a committed transaction; None: no longer."""
        if hold is None:
            self.holds.pop(key, None)
        else:
            self.holds[key] = hold
        partition = self.partition(key)
        if partition is not None:
            partition.hold(hold)

    def add_future(self, key: TopicPartition, log: Log, *, is_uncut: bool = False) -> None:
        """Add a future log; raise KafkaStorageError if the partition has one."""
        if (other := self.future(key)) is not None:
            raise KafkaStorageError(
                f"Duplicate log directories found: {other.directory}, {log.directory}"
            )
        self._change(key, lambda life: life.copied_to(log, is_uncut=is_uncut))

    def note_cut(self, key: TopicPartition) -> None:
        """Note that a future log holds nothing any more that may be missing in part."""
        self._change(key, lambda life: replace(life, is_uncut=False))

    def remove(self, key: TopicPartition) -> Partition | None:
        """Take a current log away; a future one stays."""
        partition = self.partition(key)
        if partition is not None:
            self._change(key, Life.left)
        return partition

    def forget_failure(self, key: TopicPartition) -> None:
        """Forget that a log could not be loaded, or created: its partition is deleted."""
        if self.life(key).may_be_half_recovered:
            self._change(key, Life.left)

    def remove_future(self, key: TopicPartition) -> Log | None:
        """Take a future log away."""
        copy = self.future(key)
        if copy is not None:
            self._change(key, Life.without_copy)
        return copy

    def _change(self, key: TopicPartition, change: Callable[[Life], Life]) -> None:
        with self._lock:
            after = change(self._lives.get(key, UNKNOWN))
            if after == UNKNOWN:
                self._lives.pop(key, None)
            else:
                self._lives[key] = after

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
