"""Data loss: requested offsets below the start or beyond the end of a log, with the cause.

A gap inside a segment is not a data loss: compaction, aborted transactions and control records
leave gaps. One between segments is, unless compaction explains it. Spark: ``KafkaDataConsumer``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DataLoss
from tidelog.readonly.absent_partitions import BY_NOTHING
from tidelog.readonly.missing.gaps import find_gaps
from tidelog.readonly.missing.holes import NO_SEGMENT
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.spark.options.option_values import absolute_paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.paths import Paths
    from tidelog.readonly.missing.gaps import Gap
    from tidelog.readonly.missing.holes import Hole
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_topic import MissingPartition

_log = logging.getLogger(__name__)

HINT: Final = "; set failOnDataLoss=false to read the offsets that are left"
REPLAN_HINT: Final = (
    "; a DataFrame or view keeps the offsets that its first query planned: call load() again to "
    "plan them again, or set failOnDataLoss=false to read the offsets that are left"
)
NEW_TOPIC_HINT: Final = (
    "; failOnDataLoss=false reads the new topic from its start, so after tidelog restore records"
    " that were read before come again: restore with --keep-ids"
)
MOVED_BACK_HINT: Final = (
    "; failOnDataLoss=false continues at the end that it finds; to read what was appended below"
    " that since, begin a new checkpoint with startingOffsets"
)
OTHERS_HINT: Final = "; failOnDataLoss=false continues at the first of these offsets"
RECREATED: Final = "the topic was deleted and recreated"
DELETED: Final = "its directory is gone: the topic was deleted, or the partition moved"
NOT_SELECTED: Final = (
    "the stream read it before, and its options (subscribe, subscribePattern or assign) no longer "
    "select it"
)
MISSING: Final = "tidelog.topics.json lists it, but its directory is missing"


class DataLossPolicy(NamedTuple):
    """Whether data loss fails the query, or is logged as a warning and skipped.

    ``hint`` is added to the error: what the user can do about it.
    """

    fail_on_data_loss: bool
    hint: str = HINT

    def report(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int | None,
        cause: str,
        *,
        hint: str | None = None,
    ) -> None:
        """Raise DataLoss for offsets ``[start_offset, end_offset)``, or log it as a warning.

        An empty range is not reported. ``end_offset`` None: unknown. ``hint`` is added to the error
        in place of the policy's.
        """
        if end_offset is not None and start_offset >= end_offset:
            return
        if self.fail_on_data_loss:
            raise DataLoss(topic, partition, start_offset, end_offset, cause + (hint or self.hint))
        error = DataLoss(topic, partition, start_offset, end_offset, cause)
        _log.warning("data-loss: %s", error)

    def report_missing(self, missing: Iterable[MissingPartition]) -> None:
        """Report partitions that the catalogue lists and whose directories are missing.

        One that no checkpoint names was never written as far as is known, or is being created:
        that is logged only.
        """
        for gone in missing:
            if gone.high_watermark is None:
                _log.warning("partition-missing: %s", gone)
            else:
                self.report(gone.topic, gone.partition, 0, gone.high_watermark, MISSING)

    def report_holes(self, log: ReadOnlyLog, holes: Iterable[Hole]) -> None:
        """Report holes between the segments of a log; those that may be compaction's are logged."""
        for hole in holes:
            if hole.may_be_compacted:
                _log.warning("offset-gap: %s-%d: %s", log.topic, log.partition, hole)
            else:
                range_lost = hole.start_offset, hole.end_offset
                self.report(log.topic, log.partition, *range_lost, NO_SEGMENT)

    def available(self, log: ReadOnlyLog, start: int, end: int) -> tuple[int, int]:
        """Return the part of ``[start, end)`` that the log holds; report the rest as lost."""
        first = min(max(start, log.log_start_offset), end)
        self.report(log.topic, log.partition, start, first, cause_below(log))
        # A damaged log is read up to the damage; the read then raises the error.
        if first >= end or end <= log.log_end_offset or log.damage is not None:
            return first, end
        log_end = max(log.log_end_offset, first)
        self.report(log.topic, log.partition, log_end, end, cause_beyond(log))
        return first, log_end


def cause_below(log: ReadOnlyLog) -> str:
    """Return why the log has no offsets below its log start offset."""
    start = log.log_start_offset
    first = log.segments[0].base_offset if log.segments else start
    if first < start:
        return f"delete-records moved the log start offset to {start}, inside segment {first}"
    return f"retention or delete-records deleted the segments below offset {start}"


def cause_beyond(log: ReadOnlyLog) -> str:
    """Return why the log has no offsets at or beyond its log end offset."""
    return f"the log ends at {log.log_end_offset}: it was truncated, or they were never written"


def gaps(
    path: Paths,
    topic: str,
    partition: int,
    start_offset: int = 0,
    end_offset: int | None = None,
    *,
    committed: bool = False,
) -> list[Gap]:
    """Return the gaps in offsets ``[start_offset, end_offset)``: no record to read, and why.

    Args:
        path: the data directory, or a list of several that belong together.
        topic: the topic's name.
        partition: the partition's number.
        start_offset: inclusive.
        end_offset: exclusive; None: the high watermark.
        committed: whether the reader's isolation level is read_committed.

    Raises:
        UnknownTopicOrPartition: the partition does not exist.
        PartitionsElsewhere: it is in another data directory.
        KafkaStorageError: the disk failed.
        CorruptMessage: the range is damaged.
    """
    directory = open_directory_read_only(*absolute_paths(path), fs=SYSTEM_FILES, accept=BY_NOTHING)
    directory.check_present({topic: [partition]})
    with directory.open(topic, partition) as log:
        end = log.high_watermark if end_offset is None else end_offset
        return list(find_gaps(log, start_offset, end, fs=SYSTEM_FILES, committed=committed))
