"""Which batches get an index entry, and its content.

Appends and recovery share the rule, so that a rebuilt index equals the original. Kafka:
``LogSegment.append`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.records.batch import BATCH_HEADER, NO_TIMESTAMP
from tidelog.segment.index_entries import TimestampOffset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidelog.records.batch_columns import BatchColumns
    from tidelog.segment.offset_index import OffsetIndex
    from tidelog.segment.time_index import TimeIndex


class IndexState(NamedTuple):
    """The state carried from batch to batch.

    ``bytes_since_last_entry`` counts the bytes from the last batch with an entry, inclusive;
    ``offset_of_max_timestamp`` is the last offset of the first batch that has ``max_timestamp``.
    """

    bytes_since_last_entry: int = 0
    max_timestamp: int = NO_TIMESTAMP
    offset_of_max_timestamp: int = NO_TIMESTAMP

    @property
    def largest(self) -> TimestampOffset:
        """The maximum timestamp with its offset."""
        return TimestampOffset(self.max_timestamp, self.offset_of_max_timestamp)


class PlannedEntry(NamedTuple):
    """The entry for one batch: its last offset, its position, the maximum timestamp so far."""

    offset: int
    position: int
    timestamp: int
    timestamp_offset: int

    def append_to(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Write the entry if the indexes have room; missing entries only make an index sparser."""
        if not offset_index.is_full:
            offset_index.append(self.offset, self.position)
        if not time_index.is_full:
            time_index.maybe_append(self.timestamp, self.timestamp_offset)


class PlannedEntries(NamedTuple):
    """The entries for some batches, one row each, and the state after them."""

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    timestamp_offsets: NDArray[np.int64]
    after: IndexState

    @classmethod
    def joined(cls, parts: Sequence[PlannedEntries]) -> PlannedEntries:
        """Concatenate the entries of neighbouring batches; ``parts`` is not empty."""
        offsets, positions, timestamps, timestamp_offsets = (
            np.concatenate(column) for column in zip(*(part[:4] for part in parts), strict=True)
        )
        return cls(offsets, positions, timestamps, timestamp_offsets, parts[-1].after)

    def append_to(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Write the entries that fit; missing entries only make an index sparser."""
        offset_index.append_all(self.offsets, self.positions)
        time_index.maybe_append_all(self.timestamps, self.timestamp_offsets)


def plan_one(
    state: IndexState, batch: Sequence[int], position: int, interval_bytes: int
) -> tuple[PlannedEntry | None, IndexState]:
    """Plan the entry for one batch, given by its 14 fields; as ``plan_entries``."""
    passed, greatest, offset_of_greatest = state
    offset, timestamp = batch[rows.LAST_OFFSET], batch[rows.MAX_TIMESTAMP]
    if timestamp > greatest:
        greatest, offset_of_greatest = timestamp, offset
    entry = None
    if passed > interval_bytes:
        entry = PlannedEntry(offset, position, greatest, offset_of_greatest)
        passed = 0
    return entry, IndexState(passed + batch[rows.SIZE], greatest, offset_of_greatest)


def plan_entries(
    state: IndexState, batches: BatchColumns, position: int, interval_bytes: int
) -> PlannedEntries:
    """Choose the batches that get entries.

    Args:
        state: the state after the previous batch.
        batches: contiguous batches; the base of their positions does not matter.
        position: byte of the .log file at which the first of them starts.
        interval_bytes: a batch gets an entry when more than this many bytes have passed.
    """
    array = np.ascontiguousarray(batches.array)
    if not use_kernels(array.shape[1] * BATCH_HEADER.size):
        return _plan_plain(state, array, position, interval_bytes)
    from tidelog.kernels.survey import plan_index_entries  # noqa: PLC0415 - compiles when imported

    out = np.empty((rows.ENTRY_COLUMNS, array.shape[1]), np.int64)
    found = plan_index_entries(array, position, *state, interval_bytes, out)
    entries = out[:, : found[0]]
    return PlannedEntries(entries[0], entries[1], entries[2], entries[3], IndexState(*found[1:]))


def _plan_plain(
    state: IndexState, array: NDArray[np.int64], position: int, interval_bytes: int
) -> PlannedEntries:
    """The kernel's rule in plain Python."""
    entries: list[PlannedEntry] = []
    for batch in array.T.tolist():
        entry, state = plan_one(state, batch, position, interval_bytes)
        if entry is not None:
            entries.append(entry)
        position += batch[rows.SIZE]
    if not entries:
        none = np.empty(0, np.int64)
        return PlannedEntries(none, none, none, none, state)
    columns = np.array(entries, np.int64).T
    return PlannedEntries(columns[0], columns[1], columns[2], columns[3], state)
