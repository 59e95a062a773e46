"""What retention or a deletion of records would do to a log, computed from a snapshot of it.

The log deletes by the same rules (``tidelog.log.retention.retention_rules``), in the order of
``tidelog.log.retention.retention_pass``. The plan can be made beside a writer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.config.deletion_settings import DELETION_SETTINGS
from tidelog.errors import KafkaStorageError
from tidelog.log.retention.retention_outlook import late_segment, predict, start_segment
from tidelog.log.retention.retention_rules import (
    SegmentFacts,
    below_start,
    deletion_target,
    expired,
)
from tidelog.log.retention.shrunk_log import ShrunkLog
from tidelog.readonly.snapshot_log import answer_at_once
from tidelog.staging.journal import journals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.snapshot_log import SnapshotLog, SnapshotSegment


def pinned_offsets(
    fs: FileSystem,
    data_directory: str,
    on_error: Callable[[OSError | KafkaStorageError], None] | None = None,
) -> dict[tuple[str, int], int]:
    """Return the ``pinned_from`` of partitions with a committed transaction to be applied.

    ``on_error`` is called with why a journal cannot be read; None: that is raised.
    """
    pinned: dict[tuple[str, int], int] = {}
    try:
        for journal in journals(fs, data_directory):
            for key in journal.keys:
                base = journal.base_offset(key)
                pinned[key] = min(pinned.get(key, base), base)
    except (OSError, KafkaStorageError) as error:
        if on_error is None:
            raise
        on_error(error)
    return pinned


def retention_config(config: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Return ``config`` as a plan takes it: a limit in ``overrides`` holds for an unknown policy.

    ``overrides`` are applied already.
    """
    has_limit = any(key in DELETION_SETTINGS for key in overrides)
    return config.deleting() if has_limit and not config.is_policy_known else config


def plan_retention(
    open_log: Callable[[], ReadOnlyLog],
    config: LogConfig,
    clock: Clock,
    *,
    pinned_from: int | None = None,
    with_times: bool = False,
) -> ShrunkLog:
    """Return what ``tidelog retain`` would do to a log with these settings.

    The high watermark is the log end, as it is once a process that is the only replica has opened
    the log.

    Args:
        open_log: opens the log, again where its files have changed.
        config: the settings in force.
        clock: its time of day is that of the retention.
        pinned_from: the offset from which on nothing is deleted while a committed transaction is to
            be applied; None: there is none.
        with_times: look up the largest timestamp of each segment that is kept.

    Raises CorruptMessage, KafkaStorageError where timestamps cannot be read.
    """
    question = partial(_plan, pinned_from=pinned_from, with_times=with_times)
    return answer_at_once(open_log, config, clock, question)


def plan_deletion(
    open_log: Callable[[], ReadOnlyLog],
    config: LogConfig,
    clock: Clock,
    before: int,
    *,
    pinned_from: int | None = None,
) -> ShrunkLog:
    """Return what ``tidelog delete-records --before`` would do to a log with these settings.

    Arguments, and the high watermark, are as for ``plan_retention``. Raises PolicyViolation for a
    log that is only compacted, OffsetOutOfRange above the high watermark.
    """
    question = partial(_plan_deletion, before=before, pinned_from=pinned_from)
    return answer_at_once(open_log, config, clock, question)


def _plan_deletion(log: SnapshotLog, *, before: int, pinned_from: int | None) -> ShrunkLog:
    end = _deletable_end(log, pinned_from)
    target = deletion_target(
        *(before, log.config),
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        deletable_end=end,
    )
    start = max(log.log_start_offset, target)
    facts = _segment_facts(log)
    deleted = below_start(facts, end, start)
    kept = facts[len(deleted) :]
    offsets = start, log.log_end_offset
    return ShrunkLog(
        *(log.topic, log.partition, *offsets, _size_bytes(kept), tuple(deleted)),
        start_segment=start_segment(kept, start),
        log_start_offset_before=log.log_start_offset,
    )


def _deletable_end(log: SnapshotLog, pinned_from: int | None) -> int:
    return log.log_end_offset if pinned_from is None else min(log.log_end_offset, pinned_from)


def _plan(log: SnapshotLog, *, pinned_from: int | None, with_times: bool) -> ShrunkLog:
    config, now_ms = log.config, log.now_ms
    end = _deletable_end(log, pinned_from)
    start = log.log_start_offset
    facts = _segment_facts(log)
    deleted = below_start(facts, end, start)
    facts = facts[len(deleted) :]
    archived: list[SegmentFacts] = []  # what only the archive has
    archived_end = 0
    if config.is_archived:
        disk, archived_end = log.disk_and_archive or (0, 0)
        end = min(end, archived_end)
        in_archive = _segment_facts(log, in_archive=True)[len(deleted) :]
        gone = expired(in_archive, config, now_ms, size_bytes=_size_bytes(facts), end=end)
        deleted += gone
        start = max([start, *(one.end_offset for one in gone)])
        archived = [one for one in in_archive[len(gone) :] if one.base_offset < disk]
        facts = facts[len(gone) + len(archived) :]
    limits = config.local_limits()
    which = "local " if config.is_archived else ""
    gone = expired(facts, limits, now_ms, size_bytes=_size_bytes(facts), end=end, which=which)
    deleted += gone
    # A segment is rolled when all others are deleted.
    bounds = log.log_end_offset, log.log_end_offset
    facts = facts[len(gone) :] or [SegmentFacts(*bounds, 0, True, lambda: now_ms, lambda: now_ms)]
    if not config.is_archived and deleted:
        start = max(start, facts[0].base_offset)
    predicted = partial(
        predict, log_start_offset=start, pinned_from=pinned_from, archived_end=archived_end
    )
    every = [*archived, *facts]
    whole, local = _size_bytes(every), _size_bytes(facts)
    kept = predicted(
        *(archived, config, archived_end, whole), is_on_disk=False, with_times=with_times
    )
    kept += predicted(facts, limits, log.log_end_offset, local, with_times=with_times)
    late = late_segment(every, config, now_ms)
    size_bytes = local if config.is_archived else whole
    offsets = start, log.log_end_offset
    return ShrunkLog(
        log.topic, log.partition, *offsets, size_bytes, tuple(deleted), tuple(kept), late
    )


def _segment_facts(log: SnapshotLog, *, in_archive: bool = False) -> list[SegmentFacts]:
    """Return what retention asks about each segment, oldest first."""
    return [
        SegmentFacts(
            segment.base_offset,
            segment.read_next_offset(),
            segment.size_bytes,
            segment is log.segments.active,
            partial(_archived_timestamp, segment) if in_archive else segment.largest_timestamp,
            segment.first_batch_timestamp,
        )
        for segment in log.segments
    ]


def _archived_timestamp(segment: SnapshotSegment) -> int:
    """Return the largest timestamp in ms; without one, when the segment was copied.

    Of one that is on the disk, too, the archive was not asked: its file is a little older.
    """
    if segment.coarse is None:
        return segment.largest_timestamp()
    timestamp = segment.max_timestamp
    return timestamp if timestamp >= 0 else segment.coarse.copied_ms


def _size_bytes(facts: list[SegmentFacts]) -> int:
    return sum(segment.size_bytes for segment in facts)
