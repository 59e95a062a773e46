"""What there was to clean in a log, and what a cleaning did or would do, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.cleaner.stats import DropCause
from tidelog.codec.one_line import Told
from tidelog.codec.shown_rows import AnyTime, PartitionNumber, Range, TopicName

if TYPE_CHECKING:
    from tidelog.cleaner.cleaner import CleaningResult
    from tidelog.cleaner.failed_cleanings import Failure
    from tidelog.cleaner.pick import LogToClean
    from tidelog.cleaner.stats import CleanerStats


class CompactionRow(NamedTuple):
    """One partition.

    What only a cleaning knows is None where nothing was cleaned.
    """

    topic: TopicName
    partition: PartitionNumber
    is_compacted: Annotated[bool, "Whether its `cleanup.policy` is known and has `compact`."]
    first_dirty_offset: Annotated[int, "First offset that is not cleaned yet."]
    first_uncleanable_offset: Annotated[int, "Offset at which a cleaning has to end, exclusive."]
    held_by: Annotated[str, "What keeps the rest from being cleaned."]
    clean_bytes: Annotated[int, "Size of what is clean, in bytes."]
    cleanable_bytes: Annotated[int, "Size of what is dirty and may be cleaned, in bytes."]
    dirty_ratio: Annotated[
        float, Range(0, 1), "Share of `cleanableBytes` in the bytes that are clean or cleanable."
    ]
    size_bytes: Annotated[int, "Size of the `.log` files before, in bytes."]
    failure: Annotated[str | None, "Error of its last cleaning; null: it has not failed."]
    end_offset: Annotated[
        int | None, "Offset up to which it is clean afterwards; null: nothing is cleaned."
    ] = None
    true_dirty_ratio: Annotated[
        float | None,
        Range(None),
        "Share of the bytes read that is dropped; null: nothing was read.",
    ] = None
    records_read: Annotated[int | None, "Records that the cleaning reads; null: none."] = None
    records_kept: Annotated[int | None, "Records that it keeps; null: nothing is cleaned."] = None
    bytes_read: Annotated[int | None, "Bytes that it reads; null: none."] = None
    bytes_kept: Annotated[int | None, "Bytes that it writes; null: nothing is cleaned."] = None
    oldest_tombstone: Annotated[
        AnyTime | None,
        "Least timestamp of the tombstones that stay; null: there is none, or it was not looked"
        " for.",
    ] = None
    dropped: Annotated[
        dict[DropCause, Annotated[int, "Number of records."]],
        "Records that it drops, by their cause.",
    ] = {}  # noqa: RUF012 - it is not changed
    cleanup_policy: Annotated[str | None, "Its `cleanup.policy`; null: unknown."] = None


@dataclass(frozen=True, slots=True, repr=False)
class CompactionFacts(Told):
    """One log and its cleaning: ``to_clean`` as it was before, ``end_offset`` where it ended.

    ``stats`` is None where nothing was done: the log is not compacted, or nothing is dirty.
    ``size_bytes`` is the log's size before; ``cleanup_policy`` None: it is unknown.
    """

    topic: str
    partition: int
    is_compacted: bool
    to_clean: LogToClean
    end_offset: int
    size_bytes: int
    stats: CleanerStats | None
    failure: Failure | None
    cleanup_policy: str | None = None

    def _told(self) -> str:
        failure = "" if self.failure is None else ", failed"
        cleaned = "nothing cleaned" if self.stats is None else f"freed_bytes={self.freed_bytes}"
        return (
            f"{f'{self.topic}-{self.partition}'!r}: {cleaned}, end_offset={self.end_offset},"
            f" size_bytes={self.size_bytes}{failure}"
        )

    @property
    def is_whole(self) -> bool:
        """Whether the cleaning reached all that may be cleaned; else another one has to follow."""
        return self.end_offset >= self.to_clean.offsets.first_uncleanable_offset

    @property
    def is_due(self) -> bool:
        """Whether the log is compacted and has something dirty that may be cleaned."""
        return self.is_compacted and not self.to_clean.offsets.is_empty

    @property
    def limited_by(self) -> str:
        """What keeps the records from ``end_offset`` on from being cleaned."""
        return self.to_clean.held_by if self.is_whole else "the offset map, which was full"

    @property
    def freed_bytes(self) -> int:
        """Bytes that are dropped."""
        return 0 if self.stats is None else self.stats.bytes_read - self.stats.bytes_written

    @property
    def true_dirty_ratio(self) -> float | None:
        """Share of the bytes read that is dropped, known only once all keys were read."""
        if self.stats is None or not self.stats.bytes_read:
            return None
        return self.freed_bytes / self.stats.bytes_read

    def after(self, cleaned: CleaningResult) -> CompactionFacts:
        """Return the facts with what a cleaning did."""
        return replace(self, end_offset=cleaned.end_offset, stats=cleaned.stats)

    def as_row(self) -> CompactionRow:
        """Return the facts as every command shows them."""
        found, stats = self.to_clean, self.stats
        row = CompactionRow(
            *(self.topic, self.partition, self.is_compacted, *found.offsets, found.held_by),
            *(found.clean_bytes, found.cleanable_bytes, found.dirty_ratio, self.size_bytes),
            None if self.failure is None else self.failure.error,
            cleanup_policy=self.cleanup_policy,
        )
        if stats is None:
            return row
        return row._replace(
            end_offset=self.end_offset,
            true_dirty_ratio=self.true_dirty_ratio,
            records_read=stats.records_read,
            records_kept=stats.records_written,
            bytes_read=stats.bytes_read,
            bytes_kept=stats.bytes_written,
            oldest_tombstone=stats.oldest_tombstone_ms,
            dropped=stats.dropped,
        )
