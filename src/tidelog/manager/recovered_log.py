"""What a recovery did to a log, or would do, as values.

Over an ``OverlayFiles`` the same code changes nothing and its result is the plan.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from tidelog.codec.shown_rows import LogStart, PartitionNumber, TopicName, shown
from tidelog.errors import CorruptMessage
from tidelog.log.loading.load_watch import SILENT, LoadWatcher
from tidelog.log.loading.lost_records import LostBytes, look_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    from tidelog.log.loading.load_watch import Loss, RecoveryProgress
    from tidelog.log.log import Log


class MissingOffsets(NamedTuple):
    """Offsets that no segment holds."""

    start_offset: Annotated[int, "First offset that is missing."]
    end_offset: Annotated[int, "Next offset that is there."]


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """One partition.

    Nothing is checked after a clean shutdown. The high watermark is the line of the checkpoint.
    Offsets are missing between two segments of a log that is not compacted.
    """

    topic: TopicName
    partition: PartitionNumber
    log_start_offset: LogStart
    log_end_offset: Annotated[int, "Offset that the next record gets afterwards."]
    high_watermark: Annotated[
        int | None, "Offset below which readers have seen records; null: not known."
    ]
    checked_bytes: Annotated[int, "Bytes of records that were read and checked."]
    unchecked_bytes: Annotated[int, "Bytes of records below the recovery point, not checked."]
    holes: Annotated[
        tuple[MissingOffsets, ...], "Offsets that no segment holds: a file seems to be lost."
    ]
    losses: Annotated[tuple[LostBytes, ...], "What is cut off, file by file."]

    def packed(self) -> dict[str, Any]:
        """Return the value as a service answers with it, in JSON."""
        return asdict(self)

    @classmethod
    def unpacked(cls, entry: Mapping[str, Any]) -> Self:
        """Return the value that a service has answered with."""
        losses = tuple(LostBytes(**loss) for loss in entry["losses"])
        holes = tuple(MissingOffsets(*hole) for hole in entry["holes"])
        return cls(**{**entry, "losses": losses, "holes": holes})

    @property
    @shown(after="unchecked_bytes")
    def lost_bytes(self) -> int:
        """Bytes that are cut off."""
        return sum(loss.size_bytes for loss in self.losses)

    @property
    @shown(after="lost_bytes")
    def lost_records(self) -> int:
        """Records in them that can be read."""
        return sum(loss.records for loss in self.losses)

    @property
    @shown(after="lost_records")
    def first_lost_offset(self) -> int | None:
        """First offset that is lost; null: none is known to be."""
        return None if self.lost_offsets is None else self.lost_offsets[0]

    @property
    @shown(after="first_lost_offset")
    def last_lost_offset(self) -> int | None:
        """Last offset that is lost, inclusive; null: none is known to be."""
        return None if self.lost_offsets is None else self.lost_offsets[1]

    @property
    def is_damaged(self) -> bool:
        """Whether something other than zeros after the log's end was lost."""
        if self.holes or self.lost_offsets is not None:
            return True
        return any(not loss.is_all_zeros for loss in self.losses)

    @property
    def lost_offsets(self) -> tuple[int, int] | None:
        """First and last offset (inclusive) known to be lost; None if no record is known to be.

        Those that readers have seen are lost where the log ends below them, readable or not.
        """
        cuts = [loss for loss in self.losses if loss.last_offset is not None]
        last = max((loss.last_offset or 0 for loss in cuts), default=-1)
        if self.last_seen_offset is not None:
            last = max(last, self.last_seen_offset)
        first = min((loss.from_offset for loss in cuts), default=self._cut_from)
        return (min(first, last), last) if last >= 0 else None

    @property
    def last_seen_offset(self) -> int | None:
        """Last offset that readers have seen, if it is lost."""
        seen = self.high_watermark
        return seen - 1 if seen is not None and seen > self._cut_from else None

    @property
    def _cut_from(self) -> int:
        """The offset from which on nothing is left; a log that was emptied ends above it."""
        end, is_empty = self.log_end_offset, self.log_start_offset == self.log_end_offset
        return min([end, *(loss.from_offset for loss in self.losses if is_empty)])


class RecoveryNotes(LoadWatcher):
    """Keeps what the loading of one log reports; passes its progress on to another watcher."""

    def __init__(self, other: LoadWatcher = SILENT) -> None:
        self._other = other
        self.checked_bytes = 0
        self.losses: list[LostBytes] = []

    def start(self) -> None:
        """Begin with another log."""
        self.checked_bytes = 0
        self.losses.clear()

    def progressed(self, progress: RecoveryProgress) -> None:
        """Keep the bytes done so far."""
        self.checked_bytes = progress.done_bytes
        self._other.progressed(progress)

    def applied(self, txn: str, done_bytes: int, total_bytes: int) -> None:
        """Pass on how much of a transaction is applied."""
        self._other.applied(txn, done_bytes, total_bytes)

    def losing(self, loss: Loss) -> None:
        """Count what the bytes hold while they can be read."""
        self.losses.append(look_into(loss))


def recovered_log(
    key: tuple[str, int],
    log: Log,
    notes: RecoveryNotes,
    *,
    high_watermark: int | None = None,
    cleaned_to: int = 0,
) -> RecoveredLog:
    """Return what became of a log, by what ``notes`` have taken down.

    ``high_watermark`` is the line of the checkpoint before, and ``cleaned_to`` that of the cleaner:
    holes below it are left by compaction.
    """
    cut_bytes = sum(loss.size_bytes for loss in notes.losses)
    return RecoveredLog(
        *key,
        log.log_start_offset,
        log.log_end_offset,
        high_watermark,
        notes.checked_bytes,
        max(log.size_bytes + cut_bytes - notes.checked_bytes, 0),
        () if log.config.is_compacted else tuple(_holes(log, cleaned_to)),
        tuple(notes.losses),
    )


def _holes(log: Log, cleaned_to: int) -> Iterator[MissingOffsets]:
    segments = list(log.segments)
    for segment, behind in pairwise(segments):
        with suppress(CorruptMessage):
            end = max(segment.read_next_offset(), log.local_log_start_offset, cleaned_to)
            if end < behind.base_offset:
                yield MissingOffsets(end, behind.base_offset)
