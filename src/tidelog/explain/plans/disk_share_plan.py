"""What ``tidelog.retention.disk.percent`` would delete, of all logs of a directory together.

The rule is ``log.retention.disk_share``, as a service runs it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.log.retention.disk_share import shrink_to_share
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
    reason = f"share of the disk {percent}% breach"
    members = [_Member(log, configs[log.topic], reason, now_ms) for log in logs]
    excess = shrink_to_share(members, free_bytes, percent)
    return SharePlan([member.shrunk() for member in members], excess)


class _Member:
    """A log of the directory with what is left of it on the disk."""

    def __init__(self, log: ShrunkLog, config: LogConfig, reason: str, now_ms: int) -> None:
        self.log = log
        self._reason = reason
        self._now_ms = now_ms
        self.kept = deque(one for one in log.kept if one.is_on_disk)
        self.size_bytes = log.size_bytes
        self._is_archived = config.is_archived
        self._is_deleted = config.is_deleted
        self._limit_ms = config.local_limits().retention_ms
        self._deleted: list[DeletedSegment] = []

    def oldest_ms(self) -> int | None:
        """Return the largest timestamp of the oldest segment: never that of the active one."""
        if not self._is_deleted or len(self.kept) < 2 or self.kept[0].held_by:
            return None
        return self.kept[0].largest_timestamp or 0

    def give(self) -> int:
        """Delete the oldest segment, and what has expired, now that no older one is in its way."""
        before, which = len(self.kept), "local " if self._is_archived else ""
        self._delete(self._reason)
        while self.kept and not self.kept[0].held_by:
            if not is_past(self.kept[0].largest_timestamp or 0, self._limit_ms, self._now_ms):
                break
            self._delete(too_old(self._limit_ms, which))
        return before - len(self.kept)

    def _delete(self, reason: str) -> None:
        gone = DeletedSegment(*self.kept.popleft()[:3], reason)
        self._deleted.append(gone)
        self.size_bytes -= gone.size_bytes

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
