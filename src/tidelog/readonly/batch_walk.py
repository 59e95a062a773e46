"""The batches of a range of offsets, segment by segment, while the files may change.

Owns what a reader does where a segment has gone or a batch is bad. Must not know how far it may go,
transactions, or records. Kafka has no such reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.readonly.read_only_segment import NO_HINTS, position_for, walk_segment
from tidelog.readonly.segment_listing import SegmentGone, overlapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.readonly.read_only_segment import ReadOnlySegment
    from tidelog.readonly.segment_listing import ReadOnlyFiles
    from tidelog.records.file_records import Piece


class _Wanted(NamedTuple):
    """Offsets below ``end``, of a log that ends at ``log_end_offset``."""

    end: int
    log_end_offset: int
    check_crc: bool


def walk_range(
    files: ReadOnlyFiles, start: int, end: int, *, log_end_offset: int, check_crc: bool
) -> Iterator[tuple[str, Piece]]:
    """Yield pieces of batches that hold offsets of ``[start, end)``, each with its file's path.

    A segment that is gone is looked for once in a new listing. Bad bytes at or behind
    ``log_end_offset`` just end the last piece: what they are was found out before.

    Raises:
        OffsetOutOfRange: retention was faster than the reader.
        CorruptMessage: damage below the log's end, after all pieces before it.
        KafkaStorageError: a segment went away again, or the directory did.
    """
    wanted = _Wanted(end, log_end_offset, check_crc)
    waiting = overlapping(files.segments, start, end)
    gone_at = -1
    while waiting:
        segment = waiting.pop(0)
        try:
            for piece in _pieces_of(files, segment, start, wanted):
                yield segment.path, piece
                start = max(start, int(piece.batches.last_offset[-1]) + 1)
        except SegmentGone:
            if gone_at == start:
                reason = f"{segment.path} was deleted while the log was read"
                raise KafkaStorageError(reason) from None
            gone_at = start
            segments = files.list_again()
            if not segments or segments[0].base_offset > start:
                first = segments[0].base_offset if segments else end
                raise OffsetOutOfRange(start, first, log_end_offset) from None
            waiting = overlapping(segments, start, end)


def _pieces_of(
    files: ReadOnlyFiles, segment: ReadOnlySegment, start: int, wanted: _Wanted
) -> Iterator[Piece]:
    """Yield the segment's pieces; a bad batch is read twice before it counts as damage."""
    end, reached, last = wanted.end, start, -1
    with files.opened(segment) as file:
        hints = files.hints_of(segment) if start > segment.base_offset else NO_HINTS
        position, doubted = position_for(file, hints, start), -1
        while reached < end:
            try:
                walk = walk_segment(file, position, check_crc=wanted.check_crc, before=last)
                for piece in walk:
                    last = int(piece.batches.last_offset[-1])
                    reached = max(reached, last + 1)
                    if found := _between(piece, start, end):
                        yield found
                    if reached >= end:
                        return
            except CorruptMessage as bad:
                if reached >= wanted.log_end_offset:
                    return
                if bad.position is None or bad.position == doubted:
                    raise
                position = doubted = bad.position
            else:
                return


def _between(piece: Piece, start: int, end: int) -> Piece | None:
    """Return the part of a piece whose batches hold offsets of ``[start, end)``, if any does."""
    batches = piece.batches
    first = int(np.searchsorted(batches.last_offset, start))
    last = int(np.searchsorted(batches.base_offset, end))
    return piece._replace(batches=batches.slice(first, last)) if first < last else None
