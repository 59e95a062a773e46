"""Gathers the batches of a log into the spans of its picture, in one pass and in bounded memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.explain.pictures.log_picture import (
    MAX_CELLS,
    MAX_SPANS,
    OTHERS,
    BatchSpan,
)
from tidelog.explain.segment_contents import SegmentContents
from tidelog.records.batch import NO_PRODUCER_ID, NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.cleaner.rewriting.filter_result import DroppedRecords
    from tidelog.explain.describe import SegmentFacts
    from tidelog.explain.pictures.log_picture import SegmentBlock
    from tidelog.records.array_rows import Ints
    from tidelog.records.batch_columns import BatchColumns

_MAX_PRODUCERS: Final = 64
"""Producers that one span counts apart."""
_MAX_KNOWN_PRODUCERS: Final = 100_000
"""Producers that are counted at all."""
_LEGACY_WRAPPER: Final = -1
"""Count of records of a compressed batch of magic 0 or 1, whose first offset is not stored."""


class SpanGatherer:
    """Takes the batches of a log in order.

    ``first_byte`` is the one of the only segment at which the axis begins, where it is shown in
    part; ``segments`` then has the size of that part. ``contents`` holds what is in each block,
    ``unplaced`` counts batches that lie outside of the segments as they were listed, and so are not
    drawn.
    """

    def __init__(
        self,
        segments: Sequence[SegmentFacts],
        blocks: Sequence[SegmentBlock],
        first_byte: int = 0,
    ) -> None:
        sizes = [segment.log_bytes for segment in segments]
        self._first_byte = first_byte
        self._bases = np.array([segment.base_offset for segment in segments], np.int64)
        self._sizes = np.array(sizes, np.int64)
        self._starts = np.cumsum([0, *sizes], dtype=np.int64)[:-1]
        self._total = max(sum(sizes), 1)
        self._block_starts = np.array([block.position for block in blocks], np.int64)
        self._spans: list[BatchSpan] = []
        self._cells: list[tuple[int, int]] = []
        self._is_joining = False
        self._end_offset = 0
        self._end_position = 0
        self._producers: set[int] = set()
        self.contents = [SegmentContents() for _ in blocks]
        self.unplaced = 0

    @property
    def producers(self) -> int:
        """Number of producers seen, without those beyond 100,000."""
        return len(self._producers)

    def add(self, batches: BatchColumns) -> None:
        """Take the next batches, with their positions in their files."""
        segments = np.searchsorted(self._bases, batches.base_offset, "right") - 1
        positions = self._starts[segments] + batches.position - self._first_byte
        is_inside = (segments >= 0) & (batches.end - self._first_byte <= self._sizes[segments])
        is_inside &= positions >= self._end_position
        if not is_inside.all():
            self.unplaced += int((~is_inside).sum())
            batches, positions = batches.select(is_inside), positions[is_inside]
        if not len(batches):
            return
        self._end_position = int(positions[-1] + batches.size[-1])
        # An empty block begins where the next one does; the last of them has the bytes.
        blocks = np.searchsorted(self._block_starts, positions, "right") - 1
        for block in np.unique(blocks).tolist():
            self.contents[block].add(batches.select(blocks == block))
        if len(self._producers) < _MAX_KNOWN_PRODUCERS:
            self._producers.update(np.unique(batches.producer_id).tolist())
            self._producers.discard(-1)
        if len(self._spans) + len(batches) > MAX_SPANS and not self._is_joining:
            self._join()
        self._add_spans(batches, blocks, positions)

    def _add_spans(self, batches: BatchColumns, blocks: Ints, positions: Ints) -> None:
        """Add a span for each batch or, once there are many, for those of each cell."""
        starts = list(range(len(batches)))
        cells = positions * MAX_CELLS // self._total
        if self._is_joining:
            is_new = (np.diff(cells) != 0) | (np.diff(blocks) != 0)
            starts = [0, *(np.flatnonzero(is_new) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], len(batches)], strict=True):
            part, cell = batches.slice(start, end), (int(blocks[start]), int(cells[start]))
            span = _span_of(part, _first_offset(part, self._end_offset), int(positions[start]))
            self._end_offset = span.end_offset
            self._append(cell, span)

    def _append(self, cell: tuple[int, int], span: BatchSpan) -> None:
        if self._is_joining and self._cells and self._cells[-1] == cell:
            self._spans[-1] = _joined(self._spans[-1], span)
            return
        self._spans.append(span)
        self._cells.append(cell)

    def _join(self) -> None:
        """Join what is there, and from now on what begins in the same cell."""
        spans, cells = self._spans, self._cells
        self._is_joining, self._spans, self._cells = True, [], []
        for cell, span in zip(cells, spans, strict=True):
            self._append(cell, span)

    def finish(self) -> tuple[BatchSpan, ...]:
        """Return the spans, once all batches are added."""
        return tuple(self._spans)


def _span_of(batches: BatchColumns, start_offset: int, position: int) -> BatchSpan:
    """Return a span of neighbours; the first one begins at ``position``."""
    held = SegmentContents()
    held.add(batches)
    ids, counts = np.unique(batches.producer_id, return_counts=True)
    producers = dict(zip(ids.tolist(), counts.tolist(), strict=True))
    producers.pop(NO_PRODUCER_ID, None)
    return BatchSpan(
        start_offset=start_offset,
        end_offset=batches.next_offset,
        position=position,
        size_bytes=int(batches.end[-1] - batches.position[0]),
        batches=held.batches,
        records=held.records,
        markers=held.control_batches,
        transactional=held.transactional_batches,
        codecs=held.codecs,
        producers=_few(producers),
        min_timestamp=held.min_timestamp,
        max_timestamp=held.max_timestamp,
    )


def _joined(first: BatchSpan, second: BatchSpan) -> BatchSpan:
    """Return two neighbours as one span."""
    known = [time for time in (first.min_timestamp, second.min_timestamp) if time >= 0]
    codecs = Counter(first.codecs) + Counter(second.codecs)
    return BatchSpan(
        start_offset=first.start_offset,
        end_offset=second.end_offset,
        position=first.position,
        size_bytes=second.end_position - first.position,
        batches=first.batches + second.batches,
        records=first.records + second.records,
        markers=first.markers + second.markers,
        transactional=first.transactional + second.transactional,
        codecs=dict(sorted(codecs.items())),
        producers=_few(Counter(first.producers) + Counter(second.producers)),
        min_timestamp=min(known, default=NO_TIMESTAMP),
        max_timestamp=max(first.max_timestamp, second.max_timestamp),
    )


def _few(producers: Mapping[int, int]) -> dict[int, int]:
    """Return batches by producer; where there are too many, some of them together."""
    if len(producers) <= _MAX_PRODUCERS:
        return dict(sorted(producers.items()))
    in_order = sorted(producers.items(), key=lambda item: (item[0] == OTHERS, -item[1], item[0]))
    rest = sum(count for _, count in in_order[_MAX_PRODUCERS:])
    return dict(sorted([*in_order[:_MAX_PRODUCERS], (OTHERS, rest)]))


def _first_offset(batches: BatchColumns, end_before: int) -> int:
    """Return the first offset; that of a compressed batch of an old format is not stored."""
    first = batches.first_offset
    is_wrapper = int(batches.records_count[0]) == _LEGACY_WRAPPER
    return min(end_before, first) if is_wrapper else first


class DroppedCounter:
    """Counts the records of each span that a compaction would drop."""

    def __init__(self, spans: Sequence[BatchSpan]) -> None:
        self._starts: Ints = np.array([span.start_offset for span in spans], np.int64)
        self._counts: Ints = np.zeros(len(spans), np.int64)

    def add(self, dropped: DroppedRecords) -> None:
        """Count some records."""
        numbers = np.searchsorted(self._starts, dropped.offsets, "right") - 1
        known = numbers[numbers >= 0]
        self._counts += np.bincount(known, minlength=len(self._counts))

    @property
    def counts(self) -> list[int]:
        """Records dropped of each span."""
        found: list[int] = self._counts.tolist()
        return found
