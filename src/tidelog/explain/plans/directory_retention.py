"""What retention would delete of each log of one data directory, read from its files.

With a share of the disk the plan of one log depends on all others, so they are planned together.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from tidelog.errors import UnknownTopicOrPartition
from tidelog.explain.plans.disk_share_plan import plan_disk_share
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.explain.plans.disk_share_plan import SharePlan
    from tidelog.explain.plans.plan_terms import PlanTerms
    from tidelog.log.retention.shrunk_log import ShrunkLog
    from tidelog.readonly.directory_files import DirectoryFiles


class DirectoryRetention:
    """The plans of one directory, as ``tidelog plan retention`` prints them.

    Args:
        terms: what the plans depend on, with the data directories that are read.
        part: the one that the plans are about.
        disk_percent: ``tidelog.retention.disk.percent``; 0: off.
    """

    def __init__(self, terms: PlanTerms, part: DirectoryFiles, disk_percent: int = 0) -> None:
        self._terms = terms
        self._part = part
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
        return {TopicPartition(plan.topic, plan.partition): plan for plan in self.share.logs}

    @cached_property
    def share(self) -> SharePlan:
        """The plans of all logs that are there, with what the share of the disk deletes."""
        plans = []
        for key in self._terms.directory.partitions_in(self._part):
            with suppress(UnknownTopicOrPartition):  # it was deleted meanwhile
                plans.append(self._plan(key))
        configs = {plan.topic: self._terms.retention_config(plan.topic) for plan in plans}
        free_bytes = self._part.fs.free_bytes(self._part.path)
        now_ms = self._terms.clock.now_ms()
        return plan_disk_share(plans, configs, free_bytes, self._percent, now_ms)

    def _plan(self, key: TopicPartition) -> ShrunkLog:
        opened = partial(self._terms.directory.open, *key)
        return self._terms.retention_of(key, opened, with_times=bool(self._percent))
