"""A log that is only read, as the cleaner's choice examines it.

So the dirty part of a log is known beside a writer, without a lock and without loading the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.errors import InvariantError
from tidelog.readonly.read_only_log import ReadUpTo
from tidelog.segment.segment import NO_FIRST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.config.log_config import LogConfig
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_segment import ReadOnlySegment


@dataclass(frozen=True, slots=True)
class ReadOnlyExaminedSegment:
    """A segment of a log that is only read; None for the one that opening an empty log makes."""

    log: ReadOnlyLog
    segment: ReadOnlySegment | None
    base_offset: int
    size_bytes: int

    def largest_timestamp(self) -> int:
        """Return the greatest timestamp in ms, the file's time of change if there is none."""
        return 0 if self.segment is None else self.log.largest_timestamp(self.segment)

    def first_batch_timestamp(self) -> int:
        """Return the first batch's greatest timestamp in ms, a very late one if there is none."""
        timestamp = -1 if self.segment is None else self.log.first_batch_timestamp(self.segment)
        return timestamp if timestamp >= 0 else NO_FIRST_TIMESTAMP


@dataclass(frozen=True, slots=True)
class ReadOnlyExaminedSegments:
    """The segments of a log that is only read, in order; at least one."""

    all: tuple[ReadOnlyExaminedSegment, ...]

    def __iter__(self) -> Iterator[ReadOnlyExaminedSegment]:
        return iter(self.all)

    @property
    def active(self) -> ReadOnlyExaminedSegment:
        """The last one."""
        if not self.all:
            raise InvariantError("a log without segments has no active one")
        return self.all[-1]

    def overlapping(
        self, start_offset: int, end_offset: int
    ) -> tuple[ReadOnlyExaminedSegment, ...]:
        """Return the segments that may hold offsets of [start, end)."""
        first = sum(segment.base_offset <= start_offset for segment in self.all) - 1
        return tuple(part for part in self.all[max(first, 0) :] if part.base_offset < end_offset)


class ReadOnlyExaminedLog:
    """A log that is only read, with the settings in force.

    The high watermark is the log end, as it is once a process that is the only replica has opened
    the log.
    """

    def __init__(self, log: ReadOnlyLog, config: LogConfig) -> None:
        self.directory = log.directory
        self.config = config
        self.log_start_offset = log.log_start_offset
        self.log_end_offset = self.high_watermark = log.log_end_offset
        self.last_stable_offset = log.last_stable_offset(ReadUpTo.LOG_END)
        self.segments = ReadOnlyExaminedSegments(tuple(_segments(log)))

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all segments."""
        return sum(segment.size_bytes for segment in self.segments)


def _segments(log: ReadOnlyLog) -> Iterator[ReadOnlyExaminedSegment]:
    for segment in log.segments:
        size = log.end_position if segment is log.segments[-1] else segment.size_bytes
        yield ReadOnlyExaminedSegment(log, segment, segment.base_offset, size)
    if not log.segments:
        yield ReadOnlyExaminedSegment(log, None, log.log_end_offset, 0)
