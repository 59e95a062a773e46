"""What every part of one log shares: its directory and settings, the disk, clock and scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.errors import InvalidTopic
from tidelog.log.flush_times import FlushTimes
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.segment.filenames import parse_topic_partition
from tidelog.segment.segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.directory_guard import DirectoryGuard
    from tidelog.segment.filenames import TopicPartition


def log_name_of(directory: str) -> str:
    """Return the topic-partition of a log's directory, as messages name it.

    A directory that is not named after one is named itself.
    """
    name = directory.rpartition("/")[2]
    try:
        return str(parse_topic_partition(name))
    except InvalidTopic:
        return name


@dataclass
class LogContext:
    """One log's directory, settings and machine; a rename and a change of settings happen here.

    Both are made under the log's lock, and seen by all parts since they share this object.
    ``leaving`` are the segments that wait for deletion: their files are still open. ``marks`` are
    the names of the marks of cleaned segments, each with the offset up to which they are clean, as
    long as the cleaner's checkpoint need not say so. ``flush_times`` may be shared with other logs.
    ``log_name`` is the topic-partition, which a rename leaves.
    """

    directory: str
    config: LogConfig
    fs: FileSystem
    clock: Clock
    scheduler: Scheduler
    rng: Random
    guard: DirectoryGuard
    leaving: set[LogSegment] = field(default_factory=set)
    marks: dict[str, int] = field(default_factory=dict)
    flush_times: FlushTimes = field(default_factory=FlushTimes)

    def __post_init__(self) -> None:
        self.log_name = log_name_of(self.directory)
        self.policy = LeaderPolicy.of(self.config)

    @property
    def ident(self) -> str:
        """What Kafka's own log lines about a log begin with. Source: Kafka UnifiedLog.logIdent."""
        return f"[UnifiedLog partition={self.log_name}, dir={self.parent}]"

    def use(self, config: LogConfig) -> LogConfig:
        """Replace the config and return the previous one."""
        old = self.config
        self.policy = LeaderPolicy.of(config)
        self.config = config
        return old

    @property
    def parent(self) -> str:
        """The data directory."""
        return self.directory.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name of the log's directory."""
        return self.directory.rpartition("/")[2]

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition, from the directory's name; InvalidTopic if it has neither."""
        return parse_topic_partition(self.name)

    def path(self, name: str) -> str:
        """Return the path of a file in the log's directory."""
        return f"{self.directory}/{name}"

    def open_segment(
        self,
        base_offset: int,
        *,
        suffix: str = "",
        preallocate: bool = False,
        names: Collection[str] | None = None,
    ) -> LogSegment:
        """Open the segment that starts at ``base_offset``; create its ``.log`` if missing.

        Files that are among ``names`` are there, and opened when they are needed.
        """
        return LogSegment.open(
            self.directory,
            base_offset,
            self.config,
            fs=self.fs,
            clock=self.clock,
            rng=self.rng,
            suffix=suffix,
            preallocate=preallocate and self.config.preallocate,
            names=names,
        )
