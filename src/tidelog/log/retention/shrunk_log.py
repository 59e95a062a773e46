"""What retention or a deletion of records did to a log, or would do, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tidelog.codec.one_line import Told
from tidelog.codec.shown_rows import LogEnd, PartitionNumber, TopicName, shown
from tidelog.log.retention.retention_outlook import LateSegment, SegmentOutlook, StartSegment
from tidelog.log.retention.retention_rules import DeletedSegment


@dataclass(frozen=True, slots=True, repr=False)
class ShrunkLog(Told):
    """One partition."""

    topic: TopicName
    partition: PartitionNumber
    log_start_offset: Annotated[int, "First offset that readers may read, afterwards."]
    log_end_offset: LogEnd
    size_bytes: Annotated[int, "Size of the `.log` files afterwards, in bytes."]
    deleted: Annotated[tuple[DeletedSegment, ...], "The segments that are deleted, oldest first."]
    kept: Annotated[
        tuple[SegmentOutlook, ...],
        "The segments that stay, oldest first; empty if not asked for.",
    ] = ()
    late: Annotated[
        LateSegment | None,
        "A segment that keeps records past `retention.ms`, as its newest record is not; null:"
        " none.",
    ] = None
    start_segment: Annotated[
        StartSegment | None,
        "Of a deletion of records, the segment in which the log starts afterwards; null: none.",
    ] = None
    log_start_offset_before: Annotated[
        int | None, "Of a deletion of records, where the log started before; null: no deletion."
    ] = None

    def _told(self) -> str:
        return (
            f"{f'{self.topic}-{self.partition}'!r}: deleted={len(self.deleted)} segments,"
            f" freed_bytes={self.freed_bytes}, log_start_offset={self.log_start_offset},"
            f" log_end_offset={self.log_end_offset}"
        )

    @property
    @shown(after="size_bytes")
    def freed_bytes(self) -> int:
        """Size of the `.log` files that are deleted, in bytes."""
        return sum(segment.size_bytes for segment in self.deleted)
