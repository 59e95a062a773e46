"""What a cleaning reads of a log and its segments.

A log that is open for writing has it, and so has a snapshot of one that is only read, so that the
same code plans a cleaning beside a writer. Kafka plans no cleaning.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from tidelog.records.damage.sound_offsets import GREATEST_OFFSET
from tidelog.segment.txn_index import HasAborted, collect_aborted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidelog.config.log_config import LogConfig
    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.records.damage.sound_offsets import OffsetBounds
    from tidelog.records.file_records import FileRecords
    from tidelog.segment.txn_index import AbortedTxn


class SourceSegment(HasAborted, Protocol):
    """A segment that a cleaning reads."""

    @property
    def base_offset(self) -> int:
        """First offset it may hold."""

    @property
    def size_bytes(self) -> int:
        """Bytes of records."""

    def largest_timestamp(self) -> int:
        """Return the greatest timestamp in ms, the file's time of change if there is none."""

    def first_batch_timestamp(self) -> int:
        """Return the first batch's greatest timestamp in ms, a very late one if there is none."""

    @property
    def path(self) -> str:
        """The ``.log`` file's path."""

    @property
    def modified_ms(self) -> int:
        """Time of modification of the .log file, in ms since the epoch."""

    def position_before(self, offset: int) -> int:
        """Return a byte where a batch starts that is at or before the one of ``offset``."""

    def file_records(self, start: int = 0, *, bounds: OffsetBounds | None = None) -> FileRecords:
        """Return the batches from byte ``start`` on; read them before asking the next segment.

        ``bounds``: the offsets that they may have; a batch with other ones is damaged.
        """

    def read_next_offset(self) -> int:
        """Return the offset after its last batch."""


class AbortedSearch:
    """Finds aborted transactions for one segment after the other, in order.

    Segments that have none are passed over once, and not again for each segment before them.
    """

    def __init__(self, segments: Iterable[SourceSegment]) -> None:
        """``segments``: those to ask about, and all after them."""
        self._left = deque(each for each in segments if _may_have_aborted(each))

    def between(self, base_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Return those with offsets of the segment [base, end)."""
        while self._left and self._left[0].base_offset < base_offset:
            self._left.popleft()
        return collect_aborted(self._left, base_offset, end_offset)


def _may_have_aborted(segment: SourceSegment) -> bool:
    found = segment.collect_aborted(0, GREATEST_OFFSET)
    return found.is_complete or len(found.aborted) > 0


class SourceSegments(Protocol):
    """The segments of a log, in order."""

    def __iter__(self) -> Iterator[SourceSegment]:
        """Iterate over all, oldest first."""

    @property
    def active(self) -> SourceSegment:
        """The last one."""

    def overlapping(self, start_offset: int, end_offset: int) -> Sequence[SourceSegment]:
        """Return the segments that may hold offsets of [start, end)."""


class SourceLog(Protocol):
    """A log that a cleaning reads, whether it is open for writing or only read."""

    @property
    def directory(self) -> str:
        """The partition directory."""

    @property
    def config(self) -> LogConfig:
        """The settings in force."""

    @property
    def segments(self) -> SourceSegments:
        """The segments."""

    @property
    def log_start_offset(self) -> int:
        """First offset a client may read."""

    @property
    def high_watermark(self) -> int:
        """End (exclusive) of what every replica has."""

    @property
    def last_stable_offset(self) -> int:
        """End (exclusive) of what is decided."""

    @property
    def pinned_from(self) -> int | None:
        """Offset from which on a commit has still to write; None: none does."""

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all segments."""

    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """Return the producers that have not expired, by id."""
