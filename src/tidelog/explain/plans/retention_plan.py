"""What retention would delete of a log, computed from a log that is only read.

The rules are those by which the log itself deletes (``tidelog.log.retention``), in the order of
``tidelog.log.retention_pass``; so the plan can be made beside a writer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.explain.plans.operations import ShrunkLog
from tidelog.explain.plans.retention_outlook import predict
from tidelog.log.retention import (
    DeletedSegment,
    SegmentFacts,
    count_below_start,
    count_beyond_size,
    count_expired,
)

if TYPE_CHECKING:
    from tidelog.config.log_config import LogConfig
    from tidelog.readonly.read_only_log import ReadOnlyLog


def plan_retention(log: ReadOnlyLog, config: LogConfig, now_ms: int) -> ShrunkLog:
    """Return what ``tidelog retain`` would do to a log at ``now_ms`` with these settings.

    The high watermark is the log end, as it is once a process that is the only replica has opened
    the log.

    Raises CorruptMessage, KafkaStorageError where timestamps cannot be read.
    """
    end = log.log_end_offset
    facts = segment_facts(log, now_ms)
    start = log.log_start_offset
    deleted: list[DeletedSegment] = []

    def delete(count: int, reason: str) -> None:
        nonlocal facts, start
        deleted.extend(DeletedSegment(*segment[:3], reason) for segment in facts[:count])
        facts = facts[count:] or [_empty_segment(end, now_ms)]
        start = max(start, facts[0].base_offset) if count else start

    delete(count_below_start(facts, end, start), f"log start offset {start} breach")
    if config.is_deleted:
        excess = _size_bytes(facts) - config.retention_bytes
        if config.retention_bytes >= 0 and excess >= 0:
            limit = config.retention_bytes
            delete(count_beyond_size(facts, end, excess), f"log retention size {limit} breach")
        if config.retention_ms >= 0:
            limit_ms = config.retention_ms
            count = count_expired(facts, end, now_ms, limit_ms)
            delete(count, f"log retention time {limit_ms}ms breach")
    size_bytes = _size_bytes(facts)
    kept = predict(facts, config, end, size_bytes)
    return ShrunkLog(log.topic, log.partition, start, end, size_bytes, tuple(deleted), tuple(kept))


def segment_facts(log: ReadOnlyLog, now_ms: int) -> list[SegmentFacts]:
    """Return what retention asks about each segment, oldest first.

    The last one's size is that of its whole, valid batches: opening the log cuts off the rest. A
    log without a segment gets an empty one when it is opened, at ``now_ms``.
    """
    segments = log.segments
    if not segments:
        return [_empty_segment(log.log_end_offset, now_ms)]
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    facts = []
    for segment, end in zip(segments, ends, strict=True):
        is_last = segment is segments[-1]
        size_bytes = log.end_position if is_last else segment.size_bytes
        timestamp = partial(log.largest_timestamp, segment)
        facts.append(SegmentFacts(segment.base_offset, end, size_bytes, is_last, timestamp))
    return facts


def _empty_segment(offset: int, now_ms: int) -> SegmentFacts:
    """Return the segment that is rolled when all others are deleted."""
    return SegmentFacts(offset, offset, 0, is_last=True, largest_timestamp=lambda: now_ms)


def _size_bytes(facts: list[SegmentFacts]) -> int:
    return sum(segment.size_bytes for segment in facts)
