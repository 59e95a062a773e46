"""Holes between segments: offsets that neither of two neighbours holds, as where a file is lost.

Compaction leaves them too, so what is lost is decided with the topic's settings and the cleaner's
checkpoint. Kafka does not look for them.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.offset_text import offsets_text
from tidelog.errors import CorruptMessage

if TYPE_CHECKING:
    from tidelog.readonly.log_snapshot import LogSnapshot


NO_SEGMENT: Final = "no segment holds them: a file seems to be lost"


class Hole(NamedTuple):
    """Offsets that no segment holds.

    Segments lie before and after them.
    """

    start_offset: Annotated[int, "First offset that is missing."]
    end_offset: Annotated[int, "Next offset that is there."]
    may_be_compacted: Annotated[
        bool, "Whether compaction may have removed them: the cleanup policy is unknown."
    ] = False

    def __str__(self) -> str:
        offsets = offsets_text(self.start_offset, self.end_offset)
        text = f"no segment holds {offsets}: a file seems to be lost"
        return f"{text}, unless the topic is compacted" if self.may_be_compacted else text


def find_holes(snapshot: LogSnapshot, start: int, end: int) -> list[tuple[int, int]]:
    """Return the offsets of ``[start, end)`` that lie between two segments, whatever the cause.

    Of each segment only what lies after its last index entry is read. One with a damaged end is
    left out: reads report it. Raises SnapshotOutdated.
    """
    holes = []
    for segment, behind in pairwise(snapshot.segments):
        if segment.base_offset < end and behind.base_offset > start:
            with suppress(CorruptMessage):
                first = max(segment.next_offset(), start)
                last = min(behind.base_offset, end)
                if first < last:
                    holes.append((first, last))
    return holes
