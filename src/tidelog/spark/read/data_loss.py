"""Offsets that were asked for and are not there: why, and what then.

Owns the verdict on the ends of a range. Must not know Spark. A hole inside a log is no loss: the
cleaner, aborted transactions and control records leave such. Spark: ``KafkaDataConsumer``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DataLoss
from tidelog.readonly.gaps import find_gaps
from tidelog.readonly.read_only_log import open_read_only
from tidelog.segment.filenames import log_directory_name

if TYPE_CHECKING:
    from os import PathLike

    from tidelog.readonly.gaps import Gap
    from tidelog.readonly.read_only_log import ReadOnlyLog

_log = logging.getLogger(__name__)

HINT: Final = "; failOnDataLoss=false goes on with what is there"
RECREATED: Final = "the topic was deleted and made again"
DELETED: Final = "its directory is gone: the topic was deleted, or the partition moved"


class LossPolicy(NamedTuple):
    """What to do about lost offsets: fail, or warn and go on."""

    is_strict: bool

    def report(
        self, topic: str, partition: int, start_offset: int, end_offset: int | None, cause: str
    ) -> None:
        """Raise DataLoss, or log it as a warning; an empty range is none. None: end unknown."""
        if end_offset is not None and start_offset >= end_offset:
            return
        if self.is_strict:
            raise DataLoss(topic, partition, start_offset, end_offset, cause + HINT)
        loss = DataLoss(topic, partition, start_offset, end_offset, cause)
        _log.warning("offsets-lost: %s", loss)

    def held(self, log: ReadOnlyLog, start: int, end: int) -> tuple[int, int]:
        """Return the part of ``[start, end)`` that the log holds; report what it does not."""
        held_start = min(max(start, log.log_start_offset), end)
        self.report(log.topic, log.partition, start, held_start, cause_below(log))
        held_end = end
        # A damaged log is read up to the damage, which then says what is wrong.
        if held_start < end and end > log.log_end_offset and log.damage is None:
            held_end = max(log.log_end_offset, held_start)
            self.report(log.topic, log.partition, held_end, end, cause_beyond(log))
        return held_start, held_end


def cause_below(log: ReadOnlyLog) -> str:
    """Say why offsets below the log start are not there."""
    start = log.log_start_offset
    first = log.segments[0].base_offset if log.segments else start
    if first < start:
        return f"delete-records moved the log start to {start}, inside the segment of {first}"
    return f"retention or delete-records removed the segments below {start}"


def cause_beyond(log: ReadOnlyLog) -> str:
    """Say why offsets at or beyond the log end are not there."""
    return (
        f"the log ends at {log.log_end_offset}: it was truncated, or the offsets were never written"
    )


def gaps(
    path: str | PathLike[str],
    topic: str,
    partition: int,
    start_offset: int = 0,
    end_offset: int | None = None,
    *,
    committed: bool = False,
) -> list[Gap]:
    """Return which offsets ``[start_offset, end_offset)`` hold no record for a reader, and why.

    Args:
        path: the data directory.
        topic: the topic's name.
        partition: the partition's number.
        start_offset: inclusive.
        end_offset: exclusive; None: the high watermark.
        committed: for a reader of committed records.

    Raises:
        FileNotFoundError: there is no such partition.
        CorruptMessage: the range is damaged.
    """
    directory = os.path.join(os.fspath(path), log_directory_name(topic, partition))
    with open_read_only(directory, fs=SYSTEM_FILES) as log:
        end = log.high_watermark if end_offset is None else end_offset
        return list(find_gaps(log, start_offset, end, fs=SYSTEM_FILES, committed=committed))
