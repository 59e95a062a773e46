"""Which of a log's oldest segments may be deleted: rules over values.

Kafka: ``UnifiedLog.deletableSegments`` and the ``deleteRetention…`` methods.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.given_values import is_integer
from tidelog.codec.shown_rows import BaseOffset, EndOffset, SegmentBytes, shown
from tidelog.errors import InvalidArgument, OffsetOutOfRange, PolicyViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.config.log_config import LogConfig

DELETE_ALL: Final = -1
"""As an offset for ``Log.delete_records``: everything up to the high watermark."""
HIGH_WATERMARK_WORD: Final = "highWatermark"
"""The name of that end for users, as -1 may also be the result of a mistake."""


class SegmentFacts(NamedTuple):
    """What retention asks of a segment; ``end_offset`` is the next base, or the log's end.

    Timestamps are in ms. ``largest_timestamp`` returns -1 for a segment that never expires by age,
    ``first_timestamp`` that of its first batch, a very late one if there is none.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    is_last: bool
    largest_timestamp: Callable[[], int]
    first_timestamp: Callable[[], int]

    @property
    def is_empty_active(self) -> bool:
        """Whether no record is in the active segment: then nothing ever deletes it."""
        return self.is_last and not self.size_bytes

    def is_below(self, log_start_offset: int) -> bool:
        """Return whether it holds only offsets below the log start; the last one never does."""
        return not self.is_last and self.end_offset <= log_start_offset


class Rule(Enum):
    """The rule by which retention deletes a segment; the first one that will, if several do."""

    LOG_START = "log start offset"
    SIZE = "size"
    TIME = "time"
    DISK = "share of the disk"
    """``tidelog.retention.disk.percent``, of all logs of a directory together."""

    @classmethod
    def of_reason(cls, reason: str) -> Rule:
        """Return the rule that a deletion is logged with; see ``retention_pass``."""
        if reason.startswith("log start offset"):
            return cls.LOG_START
        if reason.startswith("share of the disk"):
            return cls.DISK
        of_size = reason.removeprefix("local ").startswith("log retention size")
        return cls.SIZE if of_size else cls.TIME


class DeletedSegment(NamedTuple):
    """One segment."""

    base_offset: BaseOffset
    end_offset: EndOffset
    size_bytes: SegmentBytes
    reason: Annotated[str, "Why it is deleted."]

    @property
    @shown(after="reason")
    def rule(self) -> Rule:
        """The rule that deletes it."""
        return Rule.of_reason(self.reason)


def deletion_end(before_offset: int | str) -> int:
    """Return the offset for ``Log.delete_records`` that a user's offset or word stands for.

    Raises InvalidArgument for negative numbers and any other word.
    """
    if isinstance(before_offset, str) and before_offset == HIGH_WATERMARK_WORD:
        return DELETE_ALL
    if not is_integer(before_offset) or int(before_offset) < 0:
        raise InvalidArgument(
            f"{before_offset!r} is not an offset to delete records before: give one, or"
            f' "{HIGH_WATERMARK_WORD}" to delete all that readers see'
        )
    return int(before_offset)


def deletion_target(
    before_offset: int,
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    deletable_end: int,
) -> int:
    """Return the log start that a deletion of the records below ``before_offset`` asks for.

    ``deletable_end`` is the high watermark, or below it where a committed transaction is to be
    applied from there on. Raises PolicyViolation if the log is compacted only, OffsetOutOfRange
    above ``deletable_end`` and for negative offsets other than ``DELETE_ALL``.
    """
    if config.is_compacted and not config.is_deleted:
        raise PolicyViolation(
            "records of a log that is only compacted cannot be deleted (cleanup.policy)"
        )
    target = deletable_end if before_offset == DELETE_ALL else before_offset
    if not 0 <= target <= deletable_end:
        raise OffsetOutOfRange(target, log_start_offset, log_end_offset, limit=deletable_end)
    return target


def deletable(
    segments: Iterable[SegmentFacts], end: int, why: Callable[[SegmentFacts], str | None]
) -> list[DeletedSegment]:
    """Return the oldest segments for which ``why`` has a reason, up to the first that stays.

    Nothing at or above offset ``end`` is ever deleted, nor an empty last segment.
    """
    found = []
    for segment in segments:
        is_kept = segment.end_offset > end or segment.is_empty_active
        if is_kept or (reason := why(segment)) is None:
            break
        found.append(DeletedSegment(*segment[:3], reason))
    return found


def below_start(
    segments: Iterable[SegmentFacts], end: int, log_start_offset: int
) -> list[DeletedSegment]:
    """Return the oldest segments that hold only offsets below the log start."""
    reason = f"log start offset {log_start_offset} breach"
    return deletable(segments, end, lambda one: reason if one.is_below(log_start_offset) else None)


def expired(
    segments: Iterable[SegmentFacts],
    config: LogConfig,
    now_ms: int,
    *,
    size_bytes: int,
    end: int,
    which: str = "",
) -> list[DeletedSegment]:
    """Return the oldest segments that have expired by size or by age, up to offset ``end``.

    They are deleted as a whole, none before an older one: by size while the log, of ``size_bytes``,
    is not below its limit without them, then by age. ``which`` is of the reasons. Timestamps are
    looked up only where the size decides nothing.
    """
    if not config.is_deleted:
        return []
    limit_bytes, limit_ms = config.retention_bytes, config.retention_ms
    left = size_bytes - limit_bytes

    def why(segment: SegmentFacts) -> str | None:
        nonlocal left
        left -= segment.size_bytes
        if limit_bytes >= 0 and left >= 0:
            return f"{which}log retention size {limit_bytes} breach"
        if limit_ms >= 0 and is_past(segment.largest_timestamp(), limit_ms, now_ms):
            return too_old(limit_ms, which)
        return None

    return deletable(segments, end, why)


def is_past(timestamp: int, limit_ms: int, now_ms: int) -> bool:
    """Return whether ``timestamp`` is more than ``limit_ms`` ago; -1 of either: never."""
    return timestamp >= 0 and 0 <= limit_ms < now_ms - timestamp


def too_old(limit_ms: int, which: str = "") -> str:
    """Return the reason for which a segment is deleted by its age."""
    return f"{which}log retention time {limit_ms}ms breach"
