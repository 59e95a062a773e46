"""How a range of a log's offsets is cut into shares of about equal bytes, at index entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.readonly.read_only_segment import Hints
    from tidelog.records.array_rows import Ints


class Split(NamedTuple):
    """A share of a log: offsets ``[start_offset, end_offset)`` in about ``size_bytes`` bytes."""

    start_offset: int
    end_offset: int
    size_bytes: int


class CutPoints(NamedTuple):
    """Offsets at which one may cut, and the bytes from the one before to each."""

    offsets: Ints
    size_bytes: Ints


def cut_points(hints: Hints, start: int, end: int, next_base: int, size_bytes: int) -> CutPoints:
    """Return where offsets ``[start, end)`` of one segment may be cut, its own end included.

    Args:
        hints: the segment's index entries, or estimates of them.
        start: inclusive.
        end: exclusive.
        next_base: the offset after the segment's last one.
        size_bytes: of the segment.
    """
    known, places = np.asarray(hints.offsets, np.int64), np.asarray(hints.positions, np.int64)
    first, last = np.searchsorted(known, (start, end)).tolist()
    begin = places.item(first - 1) if first else 0
    is_cut = last < len(places)
    segment_end = places.item(last) if is_cut else size_bytes
    # The batch at a position goes to the share on the left: its end is not known here.
    offsets = np.append(known[first:last] + 1, min(next_base, end))
    positions = np.concatenate(([begin], places[first:last], [segment_end]))
    return CutPoints(offsets, np.maximum(np.diff(positions), 0))


def cut(points: Iterable[CutPoints], start: int, end: int, target_bytes: int) -> list[Split]:
    """Cut ``[start, end)`` where a share reaches ``target_bytes``; one step a share.

    ``points`` are those of the segments of the range, in order.
    """
    parts = list(points)
    if not parts:
        return [Split(start, end, 0)] if start < end else []
    # Bad hints may fall back from one segment to the next; such places are not for cutting.
    offsets = np.maximum.accumulate(np.concatenate([part.offsets for part in parts]))
    sums = np.cumsum(np.concatenate([part.size_bytes for part in parts]))
    cuts: list[Split] = []
    before = 0
    while True:
        at = int(np.searchsorted(sums, before + target_bytes))
        at += int(np.searchsorted(offsets[at:], start, "right"))
        if at >= len(offsets) or offsets[at] >= end:
            break
        offset, reached = int(offsets[at]), int(sums[at])
        cuts.append(Split(start, offset, reached - before))
        start, before = offset, reached
    if start < end:
        cuts.append(Split(start, end, int(sums[-1]) - before))
    return cuts
