"""Which batches get an index entry, and what it says.

Owns the rule, the same for appends and for recovery, so that a rebuilt index equals the first one.
Must not know files. Kafka: ``LogSegment.append`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.kernels import columns as rows
from tidelog.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidelog.records.memory import BatchColumns
    from tidelog.segment.offset_index import OffsetIndex
    from tidelog.segment.time_index import TimeIndex

_FEW: Final = 8
"""Up to so many batches a plain loop is faster than calls of NumPy."""


class IndexState(NamedTuple):
    """What is carried from batch to batch.

    ``bytes_since_last_entry`` counts the batches since the one that got an entry, itself included;
    ``offset_of_max_timestamp`` is the last offset of the first batch that has ``max_timestamp``.
    """

    bytes_since_last_entry: int = 0
    max_timestamp: int = NO_TIMESTAMP
    offset_of_max_timestamp: int = NO_TIMESTAMP


class PlannedEntry(NamedTuple):
    """The entry that one batch gets: its last offset, its position, the greatest timestamp."""

    offset: int
    position: int
    timestamp: int
    timestamp_offset: int

    def append_to(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Write the entry, as far as the indexes have room: an index may always be sparser."""
        if not offset_index.is_full:
            offset_index.append(self.offset, self.position)
        if not time_index.is_full:
            time_index.maybe_append(self.timestamp, self.timestamp_offset)


class PlannedEntries(NamedTuple):
    """The entries of some batches, one row each, and the state behind them."""

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    timestamp_offsets: NDArray[np.int64]
    after: IndexState

    @classmethod
    def joined(cls, parts: Sequence[PlannedEntries]) -> PlannedEntries:
        """Put the entries of neighbouring batches behind each other; there is at least one part."""
        offsets, positions, timestamps, timestamp_offsets = (
            np.concatenate(column) for column in zip(*(part[:4] for part in parts), strict=True)
        )
        return cls(offsets, positions, timestamps, timestamp_offsets, parts[-1].after)

    def append_to(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Write the entries, as far as the indexes have room: an index may always be sparser."""
        offset_index.append_all(self.offsets, self.positions)
        time_index.maybe_append_all(self.timestamps, self.timestamp_offsets)


def plan_one(
    state: IndexState, batch: Sequence[int], position: int, interval_bytes: int
) -> tuple[PlannedEntry | None, IndexState]:
    """Do what ``plan_entries`` does for one batch, given by its 14 fields."""
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
        state: as the batch before the first left it.
        batches: one behind the other; where their positions count from does not matter.
        position: byte of the .log file at which the first of them starts.
        interval_bytes: a batch gets an entry once more than this many bytes have passed.
    """
    if len(batches) <= _FEW:
        return _plan_few(state, batches, position, interval_bytes)
    positions = batches.position - (int(batches.position[0]) - position)
    chosen = choose_batches(positions, position - state.bytes_since_last_entry, interval_bytes)
    timestamps, offsets = running_maximum(state, batches.max_timestamp, batches.last_offset)
    last_start = int(positions[chosen[-1]]) if len(chosen) else None
    since = position - state.bytes_since_last_entry if last_start is None else last_start
    end = int(positions[-1]) + int(batches.size[-1])
    return PlannedEntries(
        batches.last_offset[chosen],
        positions[chosen],
        timestamps[chosen],
        offsets[chosen],
        IndexState(end - since, int(timestamps[-1]), int(offsets[-1])),
    )


def choose_batches(
    positions: NDArray[np.int64], last_entry: int, interval_bytes: int
) -> NDArray[np.int64]:
    """Return the indices of those positions that lie over the interval behind the one before.

    ``last_entry`` is the position that got an entry before, or 0 at the start of a segment.
    """
    find = positions.searchsorted
    at = int(find(last_entry + interval_bytes, "right"))
    if _are_wider(positions[at:], interval_bytes):
        return np.arange(at, len(positions))
    chosen: list[int] = []
    while at < len(positions):
        chosen.append(at)
        at = int(find(positions[at] + interval_bytes, "right"))
    return np.array(chosen, np.int64)


def running_maximum(
    state: IndexState, timestamps: NDArray[np.int64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, behind each batch, the greatest timestamp so far and the offset that goes with it."""
    greatest = np.maximum.accumulate(np.maximum(timestamps, state.max_timestamp))
    before = np.concatenate(([state.max_timestamp], greatest[:-1]))
    setter = np.maximum.accumulate(np.where(timestamps > before, np.arange(len(offsets)), -1))
    return greatest, np.where(setter < 0, state.offset_of_max_timestamp, offsets[setter])


def _are_wider(positions: NDArray[np.int64], interval_bytes: int) -> bool:
    return bool((positions[1:] - positions[:-1] > interval_bytes).all())


def _plan_few(
    state: IndexState, batches: BatchColumns, position: int, interval_bytes: int
) -> PlannedEntries:
    entries: list[PlannedEntry] = []
    for batch in batches.array.T.tolist():
        entry, state = plan_one(state, batch, position, interval_bytes)
        if entry is not None:
            entries.append(entry)
        position += batch[rows.SIZE]
    if not entries:
        return PlannedEntries(_NONE, _NONE, _NONE, _NONE, state)
    columns = np.array(entries, np.int64).T
    return PlannedEntries(columns[0], columns[1], columns[2], columns[3], state)


_NONE: Final = np.empty(0, np.int64)
