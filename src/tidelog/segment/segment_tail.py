"""The end of a segment after a clean shutdown, checked with one read.

This is the fast path for the usual case: a few whole batches after the last index entry. Kafka
reads only the headers there: ``LogSegment.readNextOffset``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.crc32c import crc32c
from tidelog.records.batch import BATCH_HEADER, LOG_OVERHEAD
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.scan import CRC_COVERS_FROM
from tidelog.segment.header_scan import confirmed_position
from tidelog.segment.index_entries import OffsetPosition

if TYPE_CHECKING:
    from tidelog.segment.segment_reads import SegmentView

_MOST_BYTES: Final = 256 << 10


def tail_end(view: SegmentView) -> int | None:
    """Return the offset after the last batch; None if the end needs a closer check.

    The batches from the last index entry on are verified in full. They must reach the end of the
    file, with increasing offsets that fit the segment, and the last entries of both indexes must
    point to such offsets; an empty segment ends at its base offset.
    """
    last_entry = view.offset_index.last()
    start = 0 if last_entry is None else last_entry[1]
    size = view.size_bytes - start
    if start < 0 or not 0 <= size <= _MOST_BYTES:
        return None
    data = memoryview(view.file.pread(size, start))
    if len(data) != size:
        return None
    last = _last_offset(data, view.base_offset)
    if last is None or _wrong_index(view, last + 1, last_entry) is not None:
        return None
    return last + 1


def wrong_index(view: SegmentView, end_offset: int) -> str | None:
    """Return the path of an index whose last entry points to nothing in a segment; None: neither.

    ``end_offset`` is the offset after the last batch.
    """
    return _wrong_index(view, end_offset, view.offset_index.last())


def _wrong_index(
    view: SegmentView, end_offset: int, offset_entry: tuple[int, int] | None
) -> str | None:
    time_entry = view.time_index.last()
    if offset_entry is not None:
        relative, position = offset_entry
        entry = OffsetPosition(view.base_offset + relative, position)
        is_inside = 0 <= relative < end_offset - view.base_offset and position >= 0
        if not is_inside or confirmed_position(view.file, entry, view.size_bytes) != position:
            return view.offset_index.path
    if time_entry is not None and not 0 <= time_entry[1] < end_offset - view.base_offset:
        return view.time_index.path
    return None


def _last_offset(data: memoryview, base_offset: int) -> int | None:
    """Return the last offset of whole batches; one below ``base_offset`` if there are none."""
    at, bounds = 0, OffsetBounds.of_segment(base_offset)
    while at < len(data):
        if at + BATCH_HEADER.size > len(data):
            return None
        header = BATCH_HEADER.unpack(data, at)
        end = at + header.length + LOG_OVERHEAD
        last = header.base_offset + header.last_offset_delta
        is_whole = header.magic == 2 and at + BATCH_HEADER.size <= end <= len(data)
        is_fitting = bounds.hold(header.base_offset, last)
        if not (is_whole and is_fitting and crc32c(data[at + CRC_COVERS_FROM : end]) == header.crc):
            return None
        at, bounds = end, bounds.after(last)
    return bounds.lowest - 1
