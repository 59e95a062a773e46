"""What a cleaning reads, writes and drops, counted.

Owns the numbers that are logged, measured and planned with. Kafka: ``CleanerStats``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Cause(Enum):
    """Why a record or a batch goes."""

    SUPERSEDED = "superseded"
    TOMBSTONE = "tombstone expired"
    KEYLESS = "no key"
    ABORTED = "aborted"
    MARKER = "marker"
    EMPTY = "empty batch"


@dataclass(slots=True)
class Tally:
    """Counts of one cleaning. "map" counts are those of the pass that reads keys only.

    ``gone`` counts records by cause; for ``Cause.EMPTY`` it counts batches that held none.
    ``oldest_tombstone_ms`` is the least timestamp of the tombstones that stay, if that was asked.
    Bytes are those of whole batches as they lie in files. Source: Kafka CleanerStats.
    """

    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    batches_read: int = 0
    batches_written: int = 0
    batches_rewritten: int = 0
    records_read: int = 0
    records_written: int = 0
    invalid_records: int = 0
    buffer_utilization: float = 0.0
    map_ns: int = 0
    copy_ns: int = 0
    oldest_tombstone_ms: int | None = None
    gone: dict[Cause, int] = field(default_factory=dict)

    def meet_tombstone(self, timestamp: int) -> None:
        """Note a tombstone that stays; timestamp in ms."""
        if self.oldest_tombstone_ms is None or timestamp < self.oldest_tombstone_ms:
            self.oldest_tombstone_ms = timestamp

    def drop(self, cause: Cause, count: int) -> None:
        """Count records, or empty batches, that go."""
        if count:
            self.gone[cause] = self.gone.get(cause, 0) + count
