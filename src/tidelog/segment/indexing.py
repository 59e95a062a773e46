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


class FewEntries(NamedTuple):
    """The entries for a few batches, and the state after them.

    ``places`` are last offsets with positions, ``times`` the maximum timestamps so far with theirs.
    """

    places: list[tuple[int, int]]
    times: list[tuple[int, int]]
    after: IndexState

    @property
    def has_entries(self) -> bool:
        """Whether any of the batches gets an entry."""
        return bool(self.places)

    def append_to(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Write the entries that fit; missing entries only make an index sparser."""
        offset_index.append_few(self.places)
        time_index.maybe_append_few(self.times)


class PlannedEntries(NamedTuple):
    """The entries for some batches, one row each, and the state after them."""

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    timestamp_offsets: NDArray[np.int64]
    after: IndexState

    @property
    def has_entries(self) -> bool:
        """Whether any of the batches gets an entry."""
        return len(self.offsets) > 0

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


def plan_few(
    state: IndexState, batches: Sequence[Sequence[int]], position: int, interval_bytes: int
) -> FewEntries:
    """Choose the batches that get entries, each given by its 14 fields; as ``plan_entries``."""
    passed, greatest, offset_of_greatest = state
    places, times = [], []
    for batch in batches:
        offset, timestamp = batch[rows.LAST_OFFSET], batch[rows.MAX_TIMESTAMP]
        if timestamp > greatest:
            greatest, offset_of_greatest = timestamp, offset
        if passed > interval_bytes:
            places.append((offset, position))
            times.append((greatest, offset_of_greatest))
            passed = 0
        passed += batch[rows.SIZE]
        position += batch[rows.SIZE]
    return FewEntries(places, times, IndexState(passed, greatest, offset_of_greatest))


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
    places, times, after = plan_few(state, array.T.tolist(), position, interval_bytes)
    offsets, positions = np.array(places, np.int64).reshape(-1, 2).T
    timestamps, timestamp_offsets = np.array(times, np.int64).reshape(-1, 2).T
    return PlannedEntries(offsets, positions, timestamps, timestamp_offsets, after)
