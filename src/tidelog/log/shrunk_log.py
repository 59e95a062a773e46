"""What retention or a deletion of records did to a log, or would do, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.log.retention_outlook import Rule

if TYPE_CHECKING:
    from tidelog.log.retention import DeletedSegment
    from tidelog.log.retention_outlook import LateSegment, SegmentOutlook


@dataclass(frozen=True, slots=True)
class ShrunkLog:
    """One log after some of its segments were deleted; ``size_bytes`` is what is left.

    ``late``: the segment that keeps records past ``retention.ms``, if one does.
    """

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    deleted: tuple[DeletedSegment, ...]
    kept: tuple[SegmentOutlook, ...] = ()
    late: LateSegment | None = None

    @property
    def freed_bytes(self) -> int:
        """Bytes of records in the deleted segments."""
        return sum(segment.size_bytes for segment in self.deleted)

    def as_json(self) -> dict[str, Any]:
        """Return it under the names that every command uses in JSON."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "logStartOffset": self.log_start_offset,
            "logEndOffset": self.log_end_offset,
            "sizeBytes": self.size_bytes,
            "freedBytes": self.freed_bytes,
            "deleted": [
                {
                    "baseOffset": segment.base_offset,
                    "endOffset": segment.end_offset,
                    "sizeBytes": segment.size_bytes,
                    "reason": segment.reason,
                    "rule": Rule.of_reason(segment.reason).value,
                }
                for segment in self.deleted
            ],
            "kept": [
                {
                    "baseOffset": segment.base_offset,
                    "endOffset": segment.end_offset,
                    "sizeBytes": segment.size_bytes,
                    "dueMs": segment.due_ms,
                    "moreBytes": segment.more_bytes,
                    "heldBy": segment.held_by or None,
                    "rule": None if segment.rule is None else segment.rule.value,
                }
                for segment in self.kept
            ],
            "late": None if self.late is None else self.late.as_json(),
        }
