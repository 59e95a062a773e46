"""What ``tidelog.retention.disk.percent`` would delete, of all logs of a directory together.

The rule is that of ``manager.directories.disk_reserve``, which deletes the oldest segments first.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.log.retention.retention_rules import DeletedSegment, is_past, too_old

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.config.log_config import LogConfig
    from tidelog.log.retention.shrunk_log import ShrunkLog


class SharePlan(NamedTuple):
    """The plans of all logs with what the share deletes; ``excess_bytes`` are still above it."""

    logs: list[ShrunkLog]
    excess_bytes: int


def plan_disk_share(
    logs: Iterable[ShrunkLog],
    configs: Mapping[str, LogConfig],
    free_bytes: int,
    percent: int,
    now_ms: int,
) -> SharePlan:
    """Return the plans of all logs of a directory with what its share of the disk deletes.

    Args:
        logs: the plans of retention, with the largest timestamps of what is kept.
        configs: the settings in force of each topic.
        free_bytes: those of the disk.
        percent: the share, of the space that the logs take and could still take.
        now_ms: the time of the pass.
    """
    members = [_Member(log, configs[log.topic]) for log in logs]
    total = sum(member.log.size_bytes for member in members)
    excess = total - (total + free_bytes) * percent // 100
    heap = [(one.oldest_ms, number) for number, one in enumerate(members) if one.may_give]
    heapq.heapify(heap)
    reason = f"share of the disk {percent}% breach"
    while excess > 0 and heap:
        _, number = heapq.heappop(heap)
        member = members[number]
        before = member.size_bytes
        member.delete(reason)
        member.delete_expired(now_ms)
        excess -= before - member.size_bytes
        if member.may_give:
            heapq.heappush(heap, (member.oldest_ms, number))
    return SharePlan([member.shrunk() for member in members], max(excess, 0))


class _Member:
    """A log of the directory with what is left of it on the disk."""

    def __init__(self, log: ShrunkLog, config: LogConfig) -> None:
        self.log = log
        self.kept = deque(one for one in log.kept if one.is_on_disk)
        self.size_bytes = log.size_bytes
        self._is_archived = config.is_archived
        self._is_deleted = config.is_deleted
        self._limit_ms = config.local_limits().retention_ms
        self._deleted: list[DeletedSegment] = []

    @property
    def may_give(self) -> bool:
        """Whether its oldest segment may be deleted: never the active one."""
        return self._is_deleted and len(self.kept) > 1 and not self.kept[0].held_by

    @property
    def oldest_ms(self) -> int:
        """The largest timestamp of the oldest segment."""
        return self.kept[0].largest_timestamp or 0

    def delete(self, reason: str) -> None:
        """Delete the oldest segment."""
        gone = DeletedSegment(*self.kept.popleft()[:3], reason)
        self._deleted.append(gone)
        self.size_bytes -= gone.size_bytes

    def delete_expired(self, now_ms: int) -> None:
        """Delete what has expired, now that no older segment is in its way."""
        limit_ms, which = self._limit_ms, "local " if self._is_archived else ""
        while self.kept and not self.kept[0].held_by:
            if not is_past(self.oldest_ms, limit_ms, now_ms):
                return
            self.delete(too_old(limit_ms, which))

    def shrunk(self) -> ShrunkLog:
        """Return the plan of the log with what is deleted; the archive keeps it in the log."""
        if not self._deleted:
            return self.log
        start = self.log.log_start_offset
        if not self._is_archived:
            start = max(start, self._deleted[-1].end_offset)
        archived = (one for one in self.log.kept if not one.is_on_disk)
        return replace(
            self.log,
            log_start_offset=start,
            size_bytes=self.size_bytes,
            deleted=(*self.log.deleted, *self._deleted),
            kept=(*archived, *self.kept),
        )
