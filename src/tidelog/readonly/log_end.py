"""Where a log ends that somebody else may be writing, and whether what lies there is damage.

Owns the verdict. Must not know how far a reader may go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import CorruptMessage
from tidelog.readonly.read_only_segment import position_for, walk_segment
from tidelog.readonly.segment_listing import SegmentGone
from tidelog.records.batch import INT64_MAX
from tidelog.segment.unfinished_end import ends_here

if TYPE_CHECKING:
    from tidelog.readonly.segment_listing import ReadOnlyFiles


class LogEnd(NamedTuple):
    """The offset after the last whole, valid batch, and what is wrong behind it, if it is."""

    offset: int
    damage: CorruptMessage | None


def find_end(files: ReadOnlyFiles, start_offset: int, promised_offset: int) -> LogEnd:
    """Find the log's end; what looks like damage is looked at twice, as a writer may be at work.

    Args:
        files: the segments; listed anew, for good, if the last one is gone.
        start_offset: the log start as checkpointed; no log ends below it.
        promised_offset: the high watermark as checkpointed: that it is missing is damage, too.
    """
    try:
        found = _find(files, start_offset, promised_offset)
    except SegmentGone:
        files.segments = files.list_again()
        found = _find(files, start_offset, promised_offset)
    return found if found.damage is None else _find(files, start_offset, promised_offset)


def _find(files: ReadOnlyFiles, start_offset: int, promised_offset: int) -> LogEnd:
    """Walk from the last place known to the log end and look at what lies there."""
    offset, position, damage = start_offset, None, None
    path = files.directory
    if files.segments:
        segment = files.segments[-1]
        path, offset = segment.path, segment.base_offset
        with files.opened(segment) as file:
            position = position_for(file, files.hints_of(segment), INT64_MAX)
            try:
                for piece in walk_segment(file, position):
                    offset = int(piece.batches.last_offset[-1]) + 1
                    position = int(piece.batches.end[-1])
            except CorruptMessage as bad:
                damage = None if ends_here(file, bad.position or position) else bad
        start_offset = max(start_offset, files.segments[0].base_offset)
    offset = max(offset, start_offset)
    if damage is None and offset < promised_offset:
        reason = f"offsets {offset} to {promised_offset - 1}, below the high watermark, are missing"
        damage = CorruptMessage(reason, position, path)
    return LogEnd(offset, damage)
