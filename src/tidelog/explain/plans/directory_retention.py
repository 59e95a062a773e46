"""What retention would delete of each log of one data directory, read from its files.

With a share of the disk the plan of one log depends on all others, so they are planned together.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from tidelog.errors import UnknownTopicOrPartition
from tidelog.explain.plans.disk_share_plan import plan_disk_share
from tidelog.explain.plans.retention_plan import pinned_offsets, plan_retention, retention_config
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.log.retention.shrunk_log import ShrunkLog
    from tidelog.readonly.directory_files import DirectoryFiles
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


class DirectoryRetention:
    """The plans of one directory, as ``tidelog plan retention`` prints them.

    Args:
        directory: the data directories that are read.
        part: the one that the plans are about.
        overrides: settings that take precedence over those of every topic.
        clock: its time of day is that of the retention.
        disk_percent: ``tidelog.retention.disk.percent``; 0: off.
    """

    def __init__(
        self,
        directory: ReadOnlyDirectory,
        part: DirectoryFiles,
        overrides: Mapping[str, str],
        clock: Clock,
        disk_percent: int = 0,
    ) -> None:
        self._directory = directory
        self._part = part
        self._overrides = overrides
        self._clock = clock
        self._percent = disk_percent

    def of(self, key: TopicPartition) -> ShrunkLog:
        """Return the plan of one log.

        Raises UnknownTopicOrPartition, CorruptMessage, KafkaStorageError, and OSError where a
        journal cannot be read.
        """
        if not self._percent:
            return self._plan(key)
        try:
            return self._shared[key]
        except KeyError:
            raise UnknownTopicOrPartition(f"there is no partition {key}") from None

    @cached_property
    def _shared(self) -> dict[TopicPartition, ShrunkLog]:
        """The plans of all logs that are there; with the share of the disk."""
        plans = []
        for key in self._directory.partitions_in(self._part):
            with suppress(UnknownTopicOrPartition):  # it was deleted meanwhile
                plans.append(self._plan(key))
        configs = {plan.topic: self._config(plan.topic) for plan in plans}
        free_bytes = self._part.fs.free_bytes(self._part.path)
        now_ms = self._clock.now_ms()
        share = plan_disk_share(plans, configs, free_bytes, self._percent, now_ms)
        return {TopicPartition(plan.topic, plan.partition): plan for plan in share.logs}

    def _plan(self, key: TopicPartition) -> ShrunkLog:
        return plan_retention(
            lambda: self._directory.open(*key),
            self._config(key.topic),
            self._clock,
            pinned_from=self._pinned.get(key),
            with_times=bool(self._percent),
        )

    @cached_property
    def _pinned(self) -> dict[tuple[str, int], int]:
        return pinned_offsets(self._part.fs, self._part.path)

    def _config(self, topic: str) -> LogConfig:
        config = self._directory.config_in_force(topic, self._overrides)
        return retention_config(config, self._overrides)
