"""When retention will delete each segment that it keeps for now, and what prevents that.

The prediction uses the facts and rules by which retention acts. Kafka has no such answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.config.log_config import LogConfig
    from tidelog.log.log import Log
    from tidelog.log.retention import SegmentFacts


class SegmentOutlook(NamedTuple):
    """One segment that stays for now.

    ``due_ms`` is the moment from which retention by time deletes it, if nothing holds it; None:
    never. ``more_bytes`` is how much the log has to grow until retention by size deletes it; None:
    never. ``held_by`` names what else prevents it, empty if nothing.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    due_ms: int | None
    more_bytes: int | None
    held_by: str


def outlook_of(log: Log, config: LogConfig) -> list[SegmentOutlook]:
    """Return the outlook of every segment of a log by the settings ``config``, oldest first."""
    return predict(log.retention_facts(), config, log.high_watermark, log.size_bytes)


def predict(
    facts: Iterable[SegmentFacts], config: LogConfig, high_watermark: int, size_bytes: int
) -> list[SegmentOutlook]:
    """Return the outlook of segments, oldest first: none is deleted before an older one."""
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
                _holder(segment, config, high_watermark),
            )
        )
    return outlooks


def _holder(segment: SegmentFacts, config: LogConfig, high_watermark: int) -> str:
    if not config.is_policy_known:
        return "unknown cleanup.policy"
    if not config.is_deleted:
        return f"cleanup.policy={','.join(config.cleanup_policy)}"
    if segment.is_last and segment.size_bytes == 0:
        return "the active segment, which is empty"
    if segment.end_offset > high_watermark:
        return f"the high watermark, {high_watermark}"
    return ""
