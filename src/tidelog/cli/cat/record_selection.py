"""Which records ``tidelog cat`` prints, and how many.

Modules of NumPy are imported where they are used, so that ``--help`` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.readonly.chosen_records import RecordFilter
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.decoding.record_columns import RecordColumns


class Selection:
    """The records that one command prints; ``left`` counts down to 0 over all logs."""

    def __init__(self, wanted: RecordFilter, limit: int | None) -> None:
        self.wanted: Final = wanted
        self.left = limit

    @property
    def is_complete(self) -> bool:
        """Whether the limit is reached."""
        return self.left == 0

    def records(self, log: ReadOnlyLog, start: int, end: int) -> Iterator[RecordColumns]:
        """Yield the records to print with offsets in ``[start, end)``; errors as of ``columns``."""
        import numpy as np

        if self.is_complete:
            return
        for found in self.wanted.records(log, start, end):
            if self.left is None:
                yield found
                continue
            yield found.select(np.arange(len(found))[: self.left])
            self.left -= min(len(found), self.left)
            if self.is_complete:
                return
