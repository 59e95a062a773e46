"""Holes between segments: offsets that neither of two neighbours holds, as where a file is lost.

Compaction leaves them too, so what is lost is decided with the topic's settings and the cleaner's
checkpoint. Kafka does not look for them.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.offset_text import offsets_text
from tidelog.datadir.effective_config import POLICY
from tidelog.datadir.offset_checkpoints import CLEANER_OFFSET_FILE, cleaned_end
from tidelog.errors import CorruptMessage, DataLoss

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.readonly.log_snapshot import LogSnapshot
    from tidelog.segment.filenames import TopicPartition


NO_SEGMENT: Final = "no segment holds them: a file seems to be lost"
_REMEDY: Final = (
    "; what lies after them was read, and `tidelog verify` says whether an archive has these"
)


_log = logging.getLogger(__name__)


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


def unexplained_holes(
    holes: Iterable[tuple[int, int]],
    key: TopicPartition,
    data_dir: str,
    fs: FileSystem,
    *,
    is_compacted: bool,
    unknown_settings: Collection[str],
) -> tuple[Hole, ...]:
    """Return those of a partition's holes that compaction does not explain.

    Raises KafkaStorageError for a malformed checkpoint of the cleaner.
    """
    if is_compacted:
        return ()
    cleaned = cleaned_end(fs, data_dir, key)
    # A broker's cleaner keeps a line here for each log that it compacts.
    has_lines = fs.exists(os.path.join(data_dir, CLEANER_OFFSET_FILE))
    may_be_compacted = POLICY in unknown_settings and not has_lines
    clipped = ((max(start, cleaned), end) for start, end in holes)
    return tuple(Hole(*hole, may_be_compacted) for hole in clipped if hole[0] < hole[1])


def surely_lost(holes: Iterable[Hole]) -> list[Hole]:
    """Return the holes that compaction cannot have left."""
    return [hole for hole in holes if not hole.may_be_compacted]


def check_none_lost(key: tuple[str, int], lost: Sequence[Hole]) -> None:
    """Raise DataLoss for the first of the holes, with what a reader may do."""
    if lost:
        raise DataLoss(*key, *lost[0][:2], NO_SEGMENT + _REMEDY)


def warn_of_lost(directory: str, lost: Iterable[Hole]) -> None:
    """Log the holes of a log that are read over."""
    for hole in lost:
        text = "offset-gap directory=%s start_offset=%d end_offset=%d"
        _log.warning(text, directory, hole.start_offset, hole.end_offset)


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
