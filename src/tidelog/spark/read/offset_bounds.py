"""From what options say of start and end to the offsets of one log.

Owns the resolution of words and times into offsets. Must not know tasks or Spark. Spark:
``KafkaOffsetReader.getOffsetRangesFromUnresolvedOffsets``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import InvalidArgument
from tidelog.readonly.time_lookup import find_offset
from tidelog.spark.options.offset_choice import EARLIEST, LATEST
from tidelog.spark.read.data_loss import LossPolicy, cause_beyond

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.spark.options.offset_choice import OffsetChoice, TopicPartition
    from tidelog.spark.options.source_options import ReadOptions


def visible_end(log: ReadOnlyLog, options: ReadOptions) -> int:
    """Return the exclusive end of what the options let a reader see."""
    if options.committed:
        return log.last_stable_offset(options.up_to)
    return log.end_offset(options.up_to)


def resolve(choice: OffsetChoice, log: ReadOnlyLog, visible: int, *, fs: FileSystem) -> int:
    """Return the offset that ``choice`` means for ``log``; an offset is taken as it is.

    Raises:
        InvalidArgument: no record is as late as the time asked for, and that is not accepted.
    """
    value = choice.of((log.topic, log.partition))
    if not choice.is_time:
        return {EARLIEST: log.log_start_offset, LATEST: visible}.get(value, value)
    found = find_offset(log, value, visible, fs=fs)
    if found is not None:
        return found.offset
    if choice.takes_latest:
        return visible
    raise InvalidArgument(
        f"{choice.option}: {log.topic}-{log.partition} has no record at or after timestamp "
        f"{value}; startingOffsetsByTimestampStrategy=latest would start at its end"
    )


def bounds(
    log: ReadOnlyLog, options: ReadOptions, policy: LossPolicy, *, fs: FileSystem
) -> tuple[int, int]:
    """Return the offsets ``[start, end)`` that a batch read takes of one log.

    Raises:
        InvalidArgument: the end lies before the start, or beyond what may be seen by now.
        DataLoss: some of the offsets are gone, and ``policy`` is strict.
    """
    visible = visible_end(log, options)
    start = resolve(options.starting, log, visible, fs=fs)
    end = _clamped_end(log, resolve(options.ending, log, visible, fs=fs), visible, policy)
    if start <= end:
        return policy.held(log, start, end)
    if not _is_given(options.ending, log):
        # Nothing to read yet; but what lies beyond the log's end is lost, or never was.
        policy.report(log.topic, log.partition, log.log_end_offset, start, cause_beyond(log))
        return start, start
    raise InvalidArgument(
        f"{log.topic}-{log.partition} would be read from offset {start} to {end}, which is less"
    )


def check_complete(choice: OffsetChoice, found: Iterable[TopicPartition]) -> None:
    """Raise InvalidArgument if offsets are given for other partitions than those found."""
    if choice.by_partition is None:
        return
    given, chosen = set(choice.by_partition), {(topic, number) for topic, number in found}
    if given != chosen:
        differing = ", ".join(f"{topic}-{n}" for topic, n in sorted(given ^ chosen))
        raise InvalidArgument(
            f"{choice.option} must name each partition that is read and no other; "
            f"differing: {differing}"
        )


def _is_given(choice: OffsetChoice, log: ReadOnlyLog) -> bool:
    return choice.is_time or choice.of((log.topic, log.partition)) != LATEST


def _clamped_end(log: ReadOnlyLog, end: int, visible: int, policy: LossPolicy) -> int:
    """Return an end that may be seen by now, where offsets up to ``end`` exist."""
    if not visible < end <= log.log_end_offset:
        return end
    if policy.is_strict:
        raise InvalidArgument(
            f"{log.topic}-{log.partition} may be read up to offset {visible} by now, not to {end}: "
            "the rest waits for its transactions or for the high watermark (readUpTo=logEnd "
            "reads beyond that)"
        )
    return visible
