"""Resolves the start and end that options choose into offsets of one log.

Spark: ``KafkaOffsetReader.getOffsetRangesFromUnresolvedOffsets``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import InvalidArgument
from tidelog.spark.options.offset_choice import EARLIEST, LATEST, STRATEGY
from tidelog.spark.read.data_loss import DataLossPolicy, cause_beyond

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.spark.options.offset_choice import OffsetChoice, TopicPartition
    from tidelog.spark.options.source_options import ReadOptions


def visible_end(log: ReadOnlyLog, options: ReadOptions) -> int:
    """Return the end (exclusive) of the offsets that a reader with these options may read."""
    return log.visible_end(options.up_to, committed=options.committed)


def resolve(choice: OffsetChoice, log: ReadOnlyLog, visible: int) -> int:
    """Return the offset that ``choice`` means for ``log``; an explicit offset is not checked.

    Args:
        choice: an offset, EARLIEST, LATEST, or a timestamp that stands for the first record at or
            after it.
        log: the log to look timestamps up in.
        visible: what LATEST means: the end (exclusive) of what the reader may read.

    Raises:
        InvalidArgument: no record has the timestamp or a later one, and ``choice`` does not accept
            LATEST instead.
    """
    value = choice.of((log.topic, log.partition))
    if not choice.is_time:
        return {EARLIEST: log.log_start_offset, LATEST: visible}.get(value, value)
    found = log.offset_at(value, visible)
    if found is not None:
        return found.offset
    if choice.takes_latest:
        return visible
    raise InvalidArgument(
        f"{log.topic}-{log.partition} has no record at or after timestamp {value} (option "
        f"{choice.option}); set {STRATEGY}=latest to start at its end instead"
    )


def bounds(log: ReadOnlyLog, options: ReadOptions, policy: DataLossPolicy) -> tuple[int, int]:
    """Return the offsets ``[start, end)`` of one log that a batch read reads.

    Raises:
        InvalidArgument: the end is before the start, or beyond what the reader may read yet.
        DataLoss: some of the offsets are lost, and ``policy`` fails on data loss.
    """
    visible = visible_end(log, options)
    start = resolve(options.starting, log, visible)
    end = _clamped_end(log, resolve(options.ending, log, visible), visible, policy)
    if start <= end:
        return policy.available(log, start, end)
    ending = options.ending
    if not ending.is_time and ending.of((log.topic, log.partition)) == LATEST:
        # Nothing to read yet, unless the start is beyond the log end: then offsets are lost.
        policy.report(log.topic, log.partition, log.log_end_offset, start, cause_beyond(log))
        return start, start
    raise InvalidArgument(
        f"{log.topic}-{log.partition}: the end offset {end} (option {options.ending.option}) is "
        f"below the start offset {start} (option {options.starting.option})"
    )


def check_complete(choice: OffsetChoice, found: Iterable[TopicPartition]) -> None:
    """Raise InvalidArgument if ``choice`` names other partitions than those found."""
    if choice.by_partition is None:
        return
    named, expected = set(choice.by_partition), {(topic, number) for topic, number in found}
    if named != expected:
        missing, unknown = _names(expected - named), _names(named - expected)
        raise InvalidArgument(
            f"option {choice.option} must name every partition that is read and no other; "
            f"missing: {missing}; not read: {unknown}"
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions)) or "none"


def _clamped_end(log: ReadOnlyLog, end: int, visible: int, policy: DataLossPolicy) -> int:
    """Return ``end``, or the end of what may be read yet if the log holds offsets beyond that.

    Raises:
        InvalidArgument: ``end`` may not be read yet, and ``policy`` fails on data loss.
    """
    if not visible < end <= log.log_end_offset:
        return end
    if policy.fail_on_data_loss:
        raise InvalidArgument(
            f"{log.topic}-{log.partition} can be read up to offset {visible} now, not to {end}: "
            "later offsets are above the high watermark (readUpTo=logEnd reads these too), or wait "
            "for open transactions"
        )
    return visible
