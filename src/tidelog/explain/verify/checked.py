"""How much a check has looked at: nothing found may mean that nothing was looked at."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(slots=True)
class Checked:
    """What was read and compared: whole batches, and the records that could be decoded.

    ``bytes`` are those of the batches; ``index_entries`` are those of all three indexes.
    """

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    index_entries: int = 0

    def add(self, other: Checked) -> None:
        """Add what another check has looked at."""
        sums = [mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)]
        self.segments, self.batches, self.records, self.bytes, self.index_entries = sums

    def as_json(self) -> dict[str, int]:
        """Return the numbers under the names that the command prints."""
        return {
            "segments": self.segments,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "indexEntries": self.index_entries,
        }
