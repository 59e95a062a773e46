"""What a cleaning reads, writes and drops, counted.

Owns the numbers that are logged, measured and planned with. Kafka: ``CleanerStats``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
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
    gone: dict[Cause, int] = field(default_factory=dict)

    def drop(self, cause: Cause, count: int) -> None:
        """Count records, or empty batches, that go."""
        if count:
            self.gone[cause] = self.gone.get(cause, 0) + count

    def add(self, other: Tally) -> None:
        """Add the counts of another cleaning; utilization is that of the fuller map."""
        for part in fields(self):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            if part.name == "buffer_utilization":
                self.buffer_utilization = max(mine, theirs)
            elif isinstance(mine, dict):
                for cause, count in theirs.items():
                    mine[cause] = mine.get(cause, 0) + count
            else:
                setattr(self, part.name, mine + theirs)
