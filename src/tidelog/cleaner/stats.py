"""What one cleaning reads, writes and drops: the numbers for logs, metrics and plans.

Kafka: ``CleanerStats``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class DropCause(Enum):
    """Why a record or a batch is dropped."""

    SUPERSEDED = "superseded"
    TOMBSTONE = "tombstone expired"
    KEYLESS = "no key"
    ABORTED = "aborted"
    MARKER = "marker"
    EMPTY = "empty batch"


_ADDED: Final = (
    *("map_bytes_read", "bytes_read", "bytes_written"),
    *("records_read", "records_written", "invalid_records"),
)
"""The counts that ``CleanerStats.add`` adds."""


@dataclass(slots=True)
class CleanerStats:
    """Counts of one cleaning. "map" counts are those of the pass that only reads keys.

    ``dropped`` counts records by cause; for ``DropCause.EMPTY`` it counts batches without records.
    ``oldest_tombstone_ms`` is the least timestamp of the retained tombstones; it is None unless
    dropped records are reported too. Bytes are those of whole batches, as stored.
    Source: Kafka CleanerStats.
    """

    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    invalid_records: int = 0
    buffer_utilization: float = 0.0
    map_ns: int = 0
    copy_ns: int = 0
    oldest_tombstone_ms: int | None = None
    dropped: dict[DropCause, int] = field(default_factory=dict)

    def add(self, other: CleanerStats) -> None:
        """Add what another part of the same cleaning has read, written and dropped.

        Times and the use of the map are not added.
        """
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for cause, count in other.dropped.items():
            self.count_dropped(cause, count)
        if other.oldest_tombstone_ms is not None:
            self.observe_tombstone(other.oldest_tombstone_ms)

    def observe_tombstone(self, timestamp_ms: int) -> None:
        """Take a retained tombstone into account."""
        if self.oldest_tombstone_ms is None or timestamp_ms < self.oldest_tombstone_ms:
            self.oldest_tombstone_ms = timestamp_ms

    def count_dropped(self, cause: DropCause, count: int) -> None:
        """Count dropped records, or dropped empty batches."""
        if count:
            self.dropped[cause] = self.dropped.get(cause, 0) + count
