"""Why offsets of a range hold no record for a reader, as far as the directory shows.

The log start shows what was deleted, the cleaner's checkpoint how far compaction came, and batches
the rest.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.datadir.offset_checkpoints import cleaned_end
from tidelog.readonly.read_files import reading
from tidelog.records.decoding.bounded_decode import decode_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.array_rows import Bools
    from tidelog.records.file_records import Piece


class GapCause(StrEnum):
    """What took the records, or what is there instead of some."""

    DELETE_RECORDS = "delete-records"
    RETENTION = "retention or delete-records"
    COMPACTION = "compaction"
    CONTROL = "control records"
    ABORTED = "aborted transactions"
    BEYOND_END = "beyond the log end: truncated, or never written"
    UNKNOWN = "unknown: a loss, or compaction of which there is no checkpoint"


LOSSES: Final = (GapCause.DELETE_RECORDS, GapCause.RETENTION, GapCause.BEYOND_END)


class Gap(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` without a record, and why."""

    start_offset: int
    end_offset: int
    cause: GapCause

    @property
    def is_loss(self) -> bool:
        """Whether a reader that asks for these offsets misses records that it should have had."""
        return self.cause in LOSSES


def find_gaps(
    log: ReadOnlyLog, start: int, end: int, *, fs: FileSystem, committed: bool = False
) -> Iterator[Gap]:
    """Yield the gaps of offsets ``[start, end)``, in order; neighbours of one cause are one.

    Args:
        log: the log.
        start: inclusive.
        end: exclusive.
        fs: the file system of the log.
        committed: for a reader of committed records; else aborted ones are records like others.

    Raises:
        CorruptMessage: there is damage in the range.
        KafkaStorageError: as ``ReadOnlyLog.pieces``, or the cleaner's checkpoint is malformed.
    """
    data_dir = os.path.dirname(log.directory)
    cleaned = cleaned_end(reading(fs), data_dir, (log.topic, log.partition))
    yield from _joined(_below(log, start, end))
    first = min(max(start, log.log_start_offset), end)
    last = max(min(end, log.log_end_offset), first)
    yield from _joined(_holes(log, first, last, cleaned, committed=committed))
    log.check_undamaged(last)
    if last < end:
        yield Gap(last, end, GapCause.BEYOND_END)


def _below(log: ReadOnlyLog, start: int, end: int) -> Iterator[Gap]:
    base = log.segments[0].base_offset if log.segments else log.log_start_offset
    # An archived log may begin in a gap, before its first segment: those offsets are holes.
    base = min(base, log.log_start_offset)
    yield Gap(start, min(base, end), GapCause.RETENTION)
    yield Gap(max(start, base), min(log.log_start_offset, end), GapCause.DELETE_RECORDS)


def _holes(
    log: ReadOnlyLog, start: int, end: int, cleaned: int, *, committed: bool
) -> Iterator[Gap]:
    """Yield what lies between the records, some of it empty or next to each other."""

    def hole(from_offset: int, to_offset: int) -> Iterator[Gap]:
        middle = min(max(from_offset, cleaned), to_offset)
        yield Gap(from_offset, middle, GapCause.COMPACTION)
        yield Gap(middle, to_offset, GapCause.UNKNOWN)

    reached = start
    if start < end:
        for piece, is_shown in log.pieces_with_visibility(start, end, committed=committed):
            for run_start, run_end, cause in _runs(piece, is_shown):
                begin, until = max(run_start, reached), min(run_end, end)
                if begin < until:
                    yield from hole(reached, begin)
                    if cause is not None:
                        yield Gap(begin, until, cause)
                    reached = until
    yield from hole(reached, end)


def _runs(piece: Piece, is_shown: Bools) -> list[tuple[int, int, GapCause | None]]:
    """Return runs of offsets that hold something, in order, and what; None for records."""
    batches = piece.batches_in_data
    is_control = batches.is_control
    is_aborted = ~is_shown
    runs: list[tuple[int, int, GapCause | None]] = []
    marked = ((is_control, GapCause.CONTROL), (is_aborted & ~is_control, GapCause.ABORTED))
    for chosen, cause in marked:
        some = batches.select(chosen & (batches.records_count != 0))
        bounds = zip(some.base_offset.tolist(), some.last_offset.tolist(), strict=True)
        runs += [(first, last + 1, cause) for first, last in bounds]
    for group in decode_bounded(piece.data, batches.select(~(is_control | is_aborted))):
        offsets = group.offset
        if len(offsets):
            breaks = np.flatnonzero(np.diff(offsets) != 1)
            firsts = offsets[np.append(0, breaks + 1)].tolist()
            lasts = offsets[np.append(breaks, len(offsets) - 1)].tolist()
            runs += [(first, last + 1, None) for first, last in zip(firsts, lasts, strict=True)]
    return sorted(runs, key=lambda run: run[0])


def _joined(gaps: Iterator[Gap]) -> Iterator[Gap]:
    """Leave out empty gaps and join neighbours of one cause."""
    waiting: Gap | None = None
    for gap in gaps:
        if gap.start_offset >= gap.end_offset:
            continue
        if waiting is None:
            waiting = gap
        elif waiting.cause == gap.cause and waiting.end_offset == gap.start_offset:
            waiting = waiting._replace(end_offset=gap.end_offset)
        else:
            yield waiting
            waiting = gap
    if waiting is not None:
        yield waiting
