"""What lies in bytes that recovery cuts off: batches and records that can be read, and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tidelog.codec.shown_rows import Named
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.lazy import np
from tidelog.log.reading.record_count import count_records
from tidelog.records.damage.past_damage import BadBytes, walk_past_damage
from tidelog.segment.unfinished_end import only_zeros

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from tidelog.log.loading.load_watch import Loss
    from tidelog.records.file_records import Piece

ReadableBatches = Annotated[int, "Batches in them that can be read."]
ReadableRecords = Annotated[int, "Records in them that can be read."]
FirstReadable = Annotated[int | None, "First offset of those; null: there are none."]
LastReadable = Annotated[int | None, "Last offset of those, inclusive; null: there are none."]
UnreadableBytes = Annotated[int, "Bytes in no valid batch."]


@dataclass(frozen=True, slots=True)
class LostBytes:
    """Bytes that are cut off.

    ``from_offset`` is the offset of the first record that is cut off, readable or not. Batches and
    records that can be read lie after the bad bytes.
    """

    path: Annotated[str, Named("file"), "Path of the file that they are cut off."]
    position: Annotated[int, Named("byte"), "Where they begin in it, in bytes."]
    size_bytes: Annotated[int, Named("bytes"), "How many they are."]
    reason: Annotated[str, "Why they are cut off."]
    is_segment: Annotated[bool, Named("wholeSegment"), "Whether the whole segment is removed."]
    from_offset: int
    batches: ReadableBatches
    records: ReadableRecords
    first_offset: FirstReadable
    last_offset: LastReadable
    unreadable_bytes: UnreadableBytes
    is_all_zeros: Annotated[
        bool, Named("onlyZeros"), "Whether all of them are 0: space that was never written."
    ]
    kept_in: Annotated[str | None, "Path of the file that keeps them; null: none does."]


@dataclass(slots=True)
class ReadableContent:
    """What can be read in some bytes."""

    batches: ReadableBatches = 0
    records: ReadableRecords = 0
    first_offset: FirstReadable = None
    last_offset: LastReadable = None
    unreadable_bytes: UnreadableBytes = 0

    @classmethod
    def of(cls, content: Iterable[Piece | BadBytes]) -> Self:
        """Count what a walk past damage yields."""
        counted = cls()
        for found in content:
            if isinstance(found, BadBytes):
                counted.unreadable_bytes += found.end - found.position
            else:
                counted._add(found)
        return counted

    def _add(self, piece: Piece) -> None:
        # A damaged batch may state a higher offset than the sound ones after it.
        first, last = int(piece.batches.base_offset.min()), int(piece.batches.last_offset.max())
        self.batches += len(piece.batches)
        self.first_offset = first if self.first_offset is None else min(first, self.first_offset)
        self.last_offset = int(piece.batches.last_offset[-1])
        try:
            shown = np.ones(len(piece.batches), np.bool_)
            counted = count_records([(piece, shown)], min(first, 0), max(last, first) + 1)
        except (InvalidRecord, CorruptMessage):
            return  # an old batch whose records are unreadable counts as a batch only
        self.records += counted.records + counted.aborted


def look_into(loss: Loss) -> LostBytes:
    """Count what lies in bytes that are about to be cut off, past the bad ones too."""
    content = ReadableContent.of(walk_past_damage(loss.file, loss.position, loss.end))
    return LostBytes(
        path=loss.path,
        position=loss.position,
        size_bytes=loss.end - loss.position,
        reason=loss.reason,
        is_segment=loss.is_segment,
        from_offset=loss.from_offset,
        batches=content.batches,
        records=content.records,
        first_offset=content.first_offset,
        last_offset=content.last_offset,
        unreadable_bytes=content.unreadable_bytes,
        is_all_zeros=not content.batches and only_zeros(loss.file, loss.position, loss.end),
        kept_in=loss.kept_in,
    )
