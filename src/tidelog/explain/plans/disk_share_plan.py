"""What ``tidelog.retention.disk.percent`` would delete, of all logs of a directory together.

The rule is that of ``manager.directories.disk_reserve``, which deletes the oldest segments first.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.log.retention.retention_rules import DeletedSegment

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
    limits_ms = {name: one.retention_ms for name, one in configs.items() if one.is_deleted}
    members = [_Member(log, limits_ms.get(log.topic)) for log in logs]
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
    """A log of the directory with what is left of it.

    ``limit_ms`` is None where the policy does not delete.
    """

    def __init__(self, log: ShrunkLog, limit_ms: int | None) -> None:
        self.log = log
        self.kept = deque(log.kept)
        self.size_bytes = log.size_bytes
        self._limit_ms = limit_ms
        self._deleted: list[DeletedSegment] = []

    @property
    def may_give(self) -> bool:
        """Whether its oldest segment may be deleted: never the active one."""
        return self._limit_ms is not None and len(self.kept) > 1 and not self.kept[0].held_by

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
        limit_ms = self._limit_ms
        while self.kept and not self.kept[0].held_by and limit_ms is not None and limit_ms >= 0:
            if now_ms - self.oldest_ms <= limit_ms:
                return
            self.delete(f"log retention time {limit_ms}ms breach")

    def shrunk(self) -> ShrunkLog:
        """Return the plan of the log with what is deleted."""
        if not self._deleted:
            return self.log
        return replace(
            self.log,
            log_start_offset=max(self.log.log_start_offset, self._deleted[-1].end_offset),
            size_bytes=self.size_bytes,
            deleted=(*self.log.deleted, *self._deleted),
            kept=tuple(self.kept),
        )
