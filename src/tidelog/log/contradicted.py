"""A contradiction of offsets that a recovery has left in a log, which takes no appends for it.

Nothing sound is cut because of one damaged batch. But what the batch was, and where the log ended,
is for an operator to say. Kafka has no such state: it serves what is there, or cuts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import DamagedLog

if TYPE_CHECKING:
    from tidelog.records.damage.contradiction import Contradiction


class OpenContradiction(NamedTuple):
    """A contradiction in the segment that begins at ``base_offset``, of which ``path`` is the file.

    It ends with a recovery that may cut it, or when the log is truncated to ``next_offset`` or
    below; until then the recovery point stays at or below that offset, so that each start finds it
    again.
    """

    base_offset: int
    path: str
    found: Contradiction

    @property
    def next_offset(self) -> int:
        """The first offset that may be missing."""
        return self.found.next_offset

    def error(self, log_name: str) -> DamagedLog:
        """Return the error of what the log does not do meanwhile."""
        return DamagedLog(log_name, self.path, self.found.position, self.found.reason)
