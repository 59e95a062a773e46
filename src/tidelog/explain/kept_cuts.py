"""What a recovery has cut off a log and kept, as ``tidelog salvage`` lists it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.codec.shown_rows import Named, PartitionNumber, Time

if TYPE_CHECKING:
    from typing import Self

    from tidelog.readonly.missing.salvage import CutFile


class KeptCut(NamedTuple):
    """A file that keeps what a recovery has cut off."""

    topic: Annotated[str | None, "Name of the topic; null: not known."]
    partition: PartitionNumber
    path: Annotated[str, Named("file"), "Its path."]
    stored_bytes: Annotated[int, Named("fileBytes"), "Its size, in bytes."]
    from_offset: Annotated[int, "First offset that was cut off."]
    cut_at_ms: Annotated[Time, "When."]
    source_file: Annotated[str | None, "Name of the file that it was cut off; null: not known."]
    source_byte: Annotated[int | None, "Where in that file, in bytes; null: not known."]
    size_bytes: Annotated[int, Named("bytes"), "How many bytes were cut off."]
    reason: Annotated[str, "Why."]

    @classmethod
    def of(cls, cut: CutFile) -> Self:
        """Return what is shown of a file, without what can be read in it."""
        described = cut.content.description
        return cls(
            cut.topic,
            cut.partition,
            cut.path,
            cut.stored_bytes,
            cut.name.from_offset,
            cut.kept_at_ms,
            None if described is None else described.file,
            None if described is None else described.position,
            cut.size_bytes,
            cut.reason,
        )
