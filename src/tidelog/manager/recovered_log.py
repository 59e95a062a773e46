"""What a recovery did to a log, or would do, as values.

Over an ``OverlayFiles`` the same code changes nothing and its result is the plan.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tidelog.errors import CorruptMessage
from tidelog.log.loading.load_watch import SILENT, LoadWatcher
from tidelog.log.loading.lost_records import LostBytes, look_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    from tidelog.log.loading.load_watch import Loss, RecoveryProgress
    from tidelog.log.log import Log


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """One log after it was loaded; offsets as then, the end exclusive.

    ``checked_bytes`` were read to find out; none after a clean shutdown. ``unchecked_bytes`` of
    records are believed, as they were flushed before. ``high_watermark`` is the line of the
    checkpoint, the end (exclusive) of what readers have seen; None without one.
    """

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    checked_bytes: int
    unchecked_bytes: int
    high_watermark: int | None
    losses: tuple[LostBytes, ...]
    holes: tuple[tuple[int, int], ...] = ()
    """Offsets ``[start, end)`` between two segments that neither holds, in a log that is not
    compacted: a file seems to be lost."""

    def packed(self) -> dict[str, Any]:
        """Return the value as a service answers with it, in JSON."""
        return asdict(self)

    @classmethod
    def unpacked(cls, entry: Mapping[str, Any]) -> Self:
        """Return the value that a service has answered with."""
        losses = tuple(LostBytes(**loss) for loss in entry["losses"])
        holes = tuple((start, end) for start, end in entry["holes"])
        return cls(**{**entry, "losses": losses, "holes": holes})

    @property
    def lost_bytes(self) -> int:
        """Bytes of all losses."""
        return sum(loss.size_bytes for loss in self.losses)

    @property
    def lost_records(self) -> int:
        """Records that could still have been read, in all losses."""
        return sum(loss.records for loss in self.losses)

    @property
    def is_damaged(self) -> bool:
        """Whether something other than zeros behind the log's end was lost."""
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
        if self.high_watermark is not None and self.high_watermark > self.log_end_offset:
            last = max(last, self.high_watermark - 1)
        first = min((loss.from_offset for loss in cuts), default=self.log_end_offset)
        return (min(first, last), last) if last >= 0 else None


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
        notes.checked_bytes,
        max(log.size_bytes + cut_bytes - notes.checked_bytes, 0),
        high_watermark,
        tuple(notes.losses),
        () if log.config.is_compacted else tuple(_holes(log, cleaned_to)),
    )


def _holes(log: Log, cleaned_to: int) -> Iterator[tuple[int, int]]:
    segments = list(log.segments)
    for segment, behind in pairwise(segments):
        with suppress(CorruptMessage):
            end = max(segment.read_next_offset(), log.log_start_offset, cleaned_to)
            if end < behind.base_offset:
                yield end, behind.base_offset
