"""When retention will delete each segment that it keeps for now, and what prevents that.

The prediction uses the facts and rules by which retention acts. Kafka has no such answer.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.config.log_config import LogConfig
    from tidelog.log.log import Log
    from tidelog.log.retention import SegmentFacts


class Rule(Enum):
    """The rule by which retention deletes a segment; the first one that will, if several do."""

    LOG_START = "log start offset"
    SIZE = "size"
    TIME = "time"
    DISK = "share of the disk"
    """``tidelog.retention.disk.percent``, of all logs of a directory together."""

    @classmethod
    def of_reason(cls, reason: str) -> Rule:
        """Return the rule that a deletion is logged with; see ``retention_pass``."""
        if reason.startswith("log start offset"):
            return cls.LOG_START
        if reason.startswith("share of the disk"):
            return cls.DISK
        return cls.SIZE if reason.startswith("log retention size") else cls.TIME


class SegmentOutlook(NamedTuple):
    """One segment that stays for now.

    ``due_ms`` is the moment from which retention by time deletes it, if nothing holds it; None:
    never. ``more_bytes`` is how much the log has to grow until retention by size deletes it; None:
    never. ``held_by`` names what else prevents it, empty if nothing. ``rule``: by which it will be
    deleted, if that is known; None: by none. Retention looks each
    ``log.retention.check.interval.ms``, so it deletes a segment up to that much later.
    ``largest_timestamp`` in ms is looked up on request only.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    due_ms: int | None
    more_bytes: int | None
    held_by: str
    rule: Rule | None = None
    largest_timestamp: int | None = None


class LateSegment(NamedTuple):
    """The oldest segment, some of whose records are past ``retention.ms`` while others are not.

    Times are in ms since the epoch. ``oldest_ms`` is that of its first batch. ``due_ms``: from
    then on retention deletes the segment, if nothing more is appended to it. An append after
    ``closing_ms`` closes it, for ``segment.ms``, if it is not full before; None: it is closed.
    """

    base_offset: int
    end_offset: int
    oldest_ms: int
    due_ms: int
    closing_ms: int | None

    def as_json(self) -> dict[str, int | None]:
        """Return it under the names that every command uses in JSON."""
        return {
            "baseOffset": self.base_offset,
            "endOffset": self.end_offset,
            "oldestMs": self.oldest_ms,
            "dueMs": self.due_ms,
            "closingMs": self.closing_ms,
        }


def late_segment(
    facts: Iterable[SegmentFacts], config: LogConfig, now_ms: int
) -> LateSegment | None:
    """Return the segment that retention by time waits for although it has expired records.

    A segment is deleted as a whole, once its newest record has expired. So records outlive
    ``retention.ms`` by up to ``segment.ms``, as in Kafka. ``facts`` are those of the segments that
    are kept, oldest first.
    """
    oldest = next(iter(facts), None)
    if oldest is None or not config.is_deleted or config.retention_ms < 0:
        return None
    oldest_ms = oldest.first_timestamp()
    if not oldest.size_bytes or now_ms - oldest_ms <= config.retention_ms:
        return None
    return LateSegment(
        oldest.base_offset,
        oldest.end_offset,
        oldest_ms,
        oldest.largest_timestamp() + config.retention_ms + 1,
        oldest_ms + config.max_segment_ms if oldest.is_last else None,
    )


def outlook_of(log: Log, config: LogConfig) -> list[SegmentOutlook]:
    """Return the outlook of every segment of a log by the settings ``config``, oldest first."""
    return predict(
        log.retention_facts(),
        config,
        log.high_watermark,
        log.size_bytes,
        log_start_offset=log.log_start_offset,
        pinned_from=log.pinned_from,
    )


def predict(
    facts: Iterable[SegmentFacts],
    config: LogConfig,
    high_watermark: int,
    size_bytes: int,
    *,
    log_start_offset: int = 0,
    pinned_from: int | None = None,
    with_times: bool = False,
) -> list[SegmentOutlook]:
    """Return the outlook of segments, oldest first: none is deleted before an older one.

    From ``pinned_from`` on, nothing is deleted while a committed transaction is to be applied.
    ``with_times``: with their largest timestamps.
    """
    outlooks = []
    due_ms: int | None = None
    older_bytes = 0
    by_time = config.is_deleted and config.retention_ms >= 0
    by_size = config.is_deleted and config.retention_bytes >= 0
    for segment in facts:
        if by_time:
            own_ms = segment.largest_timestamp() + config.retention_ms + 1
            due_ms = own_ms if due_ms is None else max(due_ms, own_ms)
        older_bytes += segment.size_bytes
        more_bytes = max(config.retention_bytes + older_bytes - size_bytes, 0) if by_size else None
        outlooks.append(
            SegmentOutlook(
                segment.base_offset,
                segment.end_offset,
                segment.size_bytes,
                due_ms,
                more_bytes,
                _holder(segment, config, high_watermark, pinned_from),
                _rule(segment, log_start_offset, due_ms, more_bytes),
                segment.largest_timestamp() if with_times else None,
            )
        )
    return outlooks


def _rule(
    segment: SegmentFacts, log_start_offset: int, due_ms: int | None, more_bytes: int | None
) -> Rule | None:
    if not segment.is_last and segment.end_offset <= log_start_offset:
        return Rule.LOG_START
    if more_bytes == 0 or (more_bytes is not None and due_ms is None):
        return Rule.SIZE
    return None if due_ms is None else Rule.TIME


def _holder(
    segment: SegmentFacts, config: LogConfig, high_watermark: int, pinned_from: int | None
) -> str:
    if not config.is_policy_known:
        return "unknown cleanup.policy"
    if not config.is_deleted:
        return f"cleanup.policy={','.join(config.cleanup_policy)}"
    if segment.is_last and segment.size_bytes == 0:
        return "the active segment, which is empty"
    if pinned_from is not None and segment.end_offset > pinned_from:
        return f"a transaction that is committed and not applied yet, from {pinned_from:,} on"
    if segment.end_offset > high_watermark:
        return f"the high watermark, {high_watermark:,}"
    return ""
