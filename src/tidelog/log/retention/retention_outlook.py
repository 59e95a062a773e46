"""When retention will delete each segment that it keeps for now, and what prevents that.

The prediction uses the facts and rules by which retention acts. Kafka has no such answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.codec.shown_rows import (
    AnyInt,
    AnyTime,
    BaseOffset,
    EndOffset,
    SegmentBytes,
    TextOrEmpty,
)
from tidelog.log.retention.retention_rules import Rule, is_past

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.config.log_config import LogConfig
    from tidelog.log.log import Log
    from tidelog.log.retention.retention_rules import SegmentFacts


class SegmentOutlook(NamedTuple):
    """One segment.

    It stays for now. Retention looks each ``log.retention.check.interval.ms``, so it deletes a
    segment up to that much later than it could. ``largest_timestamp`` in ms is looked up on request
    only.
    """

    base_offset: BaseOffset
    end_offset: EndOffset
    size_bytes: SegmentBytes
    due_ms: Annotated[AnyTime | None, "When retention by time deletes it; null: never."]
    more_bytes: Annotated[
        AnyInt | None,
        "Bytes that still have to follow it until retention by size deletes it; null: never.",
    ]
    held_by: Annotated[TextOrEmpty, "What else prevents that it is deleted; null: nothing."]
    rule: Annotated[Rule | None, "The first rule that will delete it; null: none."] = None
    is_on_disk: Annotated[bool, "Whether the disk has it; else only the archive has."] = True
    largest_timestamp: int | None = None


class LateSegment(NamedTuple):
    """The oldest segment, some of whose records are past ``retention.ms`` while others are not."""

    base_offset: BaseOffset
    end_offset: EndOffset
    oldest_ms: Annotated[AnyTime, "Timestamp of its first batch."]
    due_ms: Annotated[AnyTime, "When it can be deleted, if nothing is appended to it."]
    closing_ms: Annotated[
        AnyInt | None,
        "An append after this time, in ms since 1970-01-01, closes it; null: it is closed.",
    ]


class StartSegment(NamedTuple):
    """The segment in which the log starts: its file still holds records that readers do not see."""

    base_offset: BaseOffset
    end_offset: EndOffset
    size_bytes: SegmentBytes
    is_active: Annotated[bool, "Whether it is the active one, which stays while it is."]


def start_segment(facts: Iterable[SegmentFacts], log_start_offset: int) -> StartSegment | None:
    """Return the segment that begins below the log start, and stays; None: there is none.

    A segment is deleted as a whole, and never the active one. ``facts`` are those of the segments
    that are kept, oldest first.
    """
    oldest = next(iter(facts), None)
    if oldest is None or oldest.base_offset >= log_start_offset:
        return None
    return StartSegment(oldest.base_offset, oldest.end_offset, oldest.size_bytes, oldest.is_last)


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
    if not oldest.size_bytes or not is_past(oldest_ms, config.retention_ms, now_ms):
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
        config.local_limits(),
        log.high_watermark,
        log.size_bytes,
        log_start_offset=log.local_log_start_offset,
        pinned_from=log.pinned_from,
        archived_end=log.archived_end,
    )


def predict(
    facts: Iterable[SegmentFacts],
    config: LogConfig,
    high_watermark: int,
    size_bytes: int,
    *,
    log_start_offset: int = 0,
    pinned_from: int | None = None,
    archived_end: int = 0,
    is_on_disk: bool = True,
    with_times: bool = False,
) -> list[SegmentOutlook]:
    """Return the outlook of segments, oldest first: none is deleted before an older one.

    From ``pinned_from`` on, nothing is deleted while a committed transaction is to be applied, nor
    from ``archived_end`` on, of a log that is archived. ``is_on_disk``: whether the disk has the
    segments. ``with_times``: with their largest timestamps.
    """
    outlooks = []
    due_ms: int | None = None
    older_bytes = 0
    by_time = config.is_deleted and config.retention_ms >= 0
    by_size = config.is_deleted and config.retention_bytes >= 0
    for segment in facts:
        if segment.is_empty_active:  # the last one, whose only time is its file's
            by_time, by_size, due_ms = False, False, None
        if by_time:
            timestamp = segment.largest_timestamp()
            by_time = timestamp >= 0
            due_ms = max(due_ms or 0, timestamp + config.retention_ms + 1) if by_time else None
        older_bytes += segment.size_bytes
        more_bytes = max(config.retention_bytes + older_bytes - size_bytes, 0) if by_size else None
        outlooks.append(
            SegmentOutlook(
                segment.base_offset,
                segment.end_offset,
                segment.size_bytes,
                due_ms,
                more_bytes,
                _holder(segment, config, high_watermark, pinned_from, archived_end),
                _rule(segment, log_start_offset, due_ms, more_bytes),
                is_on_disk,
                segment.largest_timestamp() if with_times else None,
            )
        )
    return outlooks


def _rule(
    segment: SegmentFacts, log_start_offset: int, due_ms: int | None, more_bytes: int | None
) -> Rule | None:
    if segment.is_below(log_start_offset):
        return Rule.LOG_START
    if more_bytes == 0 or (more_bytes is not None and due_ms is None):
        return Rule.SIZE
    return None if due_ms is None else Rule.TIME


def _holder(
    segment: SegmentFacts,
    config: LogConfig,
    high_watermark: int,
    pinned_from: int | None,
    archived_end: int,
) -> str:
    if not config.is_policy_known:
        return "unknown cleanup.policy"
    if not config.is_deleted:
        return f"cleanup.policy={','.join(config.cleanup_policy)}"
    if segment.is_empty_active:
        return "the active segment, which is empty"
    if pinned_from is not None and segment.end_offset > pinned_from:
        return f"a transaction that is committed and not applied yet, from {pinned_from:,} on"
    if segment.end_offset > high_watermark:
        return f"the high watermark, {high_watermark:,}"
    if config.is_archived and segment.end_offset > archived_end:
        if segment.is_last:
            return "the archive, which gets it once it is closed"
        return "the archive, which is not known to have it yet"
    return ""
