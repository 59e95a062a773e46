"""What the parts of a log manager share.

Owns nothing but these references. Must not know what the parts do with them. Kafka: the fields of
``LogManager``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING

from tidelog.env.waiting import ThreadBell
from tidelog.errors import KafkaStorageError
from tidelog.manager.log_registry import LogSet, parent_of
from tidelog.manager.metrics.counters import Counters
from tidelog.manager.partition import Partition

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tidelog.cleaner.log_cleaner import LogCleaner, Machine
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.env.waiting import Bell
    from tidelog.log.log import Log
    from tidelog.manager.directories.disk_reserve import DiskReserve
    from tidelog.manager.directories.live_dirs import LiveDir, LiveDirs
    from tidelog.manager.lifecycle.log_factory import LogFactory
    from tidelog.manager.lifecycle.logs_to_delete import DoomedLogs
    from tidelog.manager.topics.topics import Topics
    from tidelog.segment.filenames import TopicPartition


@dataclass
class Parts:
    """The parts of one log manager.

    ``creation`` is held while a log is made, deleted, or put in the place of another. ``bell``
    rings when readers may see more, or less. ``cleaner`` is None where logs are not compacted.
    """

    config: BrokerConfig
    machine: Machine
    dirs: LiveDirs
    topics: Topics
    doomed: DoomedLogs
    factory: LogFactory
    reserve: DiskReserve
    logs: LogSet = field(default_factory=LogSet)
    cleaner: LogCleaner | None = None
    counters: Counters = field(default_factory=Counters)
    bell: Bell = field(default_factory=ThreadBell)
    creation: AbstractContextManager[object] = field(default_factory=RLock)
    preferred: dict[TopicPartition, str] = field(default_factory=dict)
    """Where a partition goes that is to be made, or is about to move."""
    lost: set[TopicPartition] = field(default_factory=set)
    """Partitions that had, when they were loaded, less than readers once saw."""
    on_halt: Callable[[], None] | None = None
    """Told that no directory is left."""

    def home_of(self, log: Log) -> LiveDir:
        """Return the directory a log lies in; raise KafkaStorageError if that has failed."""
        path = parent_of(log)
        home = self.dirs.get(path)
        if home is None:
            raise KafkaStorageError(f"{path} is offline: {self.dirs.failures.get(path)}")
        return home

    def serve(self, key: TopicPartition, log: Log) -> Partition:
        """Make ``log`` the partition's, and let its readers see all of it."""
        reserve = self.reserve
        partition = Partition(
            *key,
            log,
            counters=self.counters,
            check_room=reserve.check,
            on_full=reserve.note_full,
        )
        self.logs.add(partition)
        self.watch(log)
        return partition

    def watch(self, log: Log) -> None:
        """Ring when readers of the log may see more."""
        log.on_high_watermark(lambda _: self.bell.ring())

    def write_checkpoints(self, home: LiveDir) -> None:
        """Write down the offsets of all logs of a directory, which goes offline if that fails."""
        try:
            home.checkpoints.write(self.logs.in_directory(home.path))
        except OSError as error:
            self.dirs.take_offline(home.path, error)
            raise KafkaStorageError(f"writing checkpoints of {home.path}: {error}") from error
