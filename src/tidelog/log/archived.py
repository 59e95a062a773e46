"""What an archive holds of a log, as far as the log itself must know it.

The log's files are all that it reads and writes. Its owner says here which offsets lie in an
archive, too: they may be deleted on the disk, and the log then begins in the archive. Kafka:
``UnifiedLog.highestOffsetInRemoteStorage`` and its local log start offset.
"""

from __future__ import annotations

from typing import NamedTuple


class ArchivedOffsets(NamedTuple):
    """Offsets ``[start, end)`` are archived, and ``start`` is the first one of the whole log.

    ``equal_end``: every closed segment of the disk that ends at or below it is in the archive, byte
    for byte; 0 as long as that was not checked.
    """

    start: int
    end: int
    equal_end: int = 0

    def from_start(self, offset: int) -> ArchivedOffsets:
        """Return the same with a start that is not below ``offset``."""
        return self._replace(start=max(self.start, offset))

    def whole_start(self, local_start_offset: int) -> int:
        """Return the first offset of the whole log, which the disk has from an offset on.

        What is archived stays in the log, also where the disk lacks what comes after that: only a
        decision raises ``start``.
        """
        is_empty = self.end <= self.start
        return local_start_offset if is_empty else min(self.start, local_start_offset)
