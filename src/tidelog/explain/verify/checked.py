"""How much a check has looked at: nothing found may mean that nothing was looked at."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Annotated


@dataclass(slots=True)
class Checked:
    """How much was read and compared: whole batches, and the records that could be decoded."""

    segments: Annotated[int, "Segments that were checked."] = 0
    batches: Annotated[int, "Batches that were read."] = 0
    records: Annotated[int, "Records that were decoded."] = 0
    bytes: Annotated[int, "Bytes of these batches."] = 0
    index_entries: Annotated[int, "Entries of the three indexes that were compared."] = 0

    def add(self, other: Checked) -> None:
        """Add what another check has looked at."""
        sums = [mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)]
        self.segments, self.batches, self.records, self.bytes, self.index_entries = sums
