"""Rebuilding a segment's indexes from its .log file, up to the first bad batch.

Kafka: ``LogSegment.recover``.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    InvariantError,
    RebuildableError,
    SegmentOffsetOverflow,
)
from tidelog.lazy import np
from tidelog.records.batch import INT32_MAX, INT64_MAX
from tidelog.records.damage.contradiction import find_contradiction
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.segment.checked_batches import BatchChecker
from tidelog.segment.indexing import IndexState, PlannedEntries, plan_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from tidelog.env.files import OpenFile
    from tidelog.records.array_rows import Bytes
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.damage.contradiction import Contradiction
    from tidelog.segment.checked_batches import CheckedBatches, Helpers
    from tidelog.segment.segment_reads import SegmentView
    from tidelog.segment.txn_index import AbortedTxn


class RecoveryObserver(Protocol):
    """Receives each batch that recovery keeps, for producer state or leader epochs."""

    def observe(
        self, batches: BatchColumns, data: Bytes, aborted: Callable[[AbortedTxn], object]
    ) -> None:
        """Process valid batches, in file order.

        Args:
            batches: their headers, also of magic 0 and 1; control batches have positions in
                ``data``, the positions of all others have no meaning.
            data: the control batches among them.
            aborted: called for each transaction that a marker among them aborts, in order.

        Raises:
            CorruptMessage: a control batch cannot be read; ``position`` is where it starts in
                ``data``. Recovery keeps it, as Kafka does, and truncates after it.
            InvalidRecord: likewise.
        """


@dataclass(slots=True)
class Recovered:
    """The valid part of a file, and what its indexes should contain, as far as it was read.

    ``state`` is that of the index rule after the last batch, and ``next_offset`` the offset after
    the last one that is not left out. ``reason`` describes the problem after the valid bytes; it is
    empty if the file just ends.
    """

    valid_bytes: int
    state: IndexState
    entries: list[PlannedEntries]
    aborted: list[AbortedTxn]
    next_offset: int
    reason: str = ""

    @classmethod
    def nothing(cls, base_offset: int) -> Self:
        """Return what is recovered of a segment before its first batch."""
        return cls(0, IndexState(offset_of_max_timestamp=base_offset), [], [], base_offset)

    def add(self, kept: BatchColumns, whole: BatchColumns, interval_bytes: int) -> None:
        """Plan the entries for batches; ``whole`` are those and the ones that are left out."""
        for run in kept.runs():
            self._skip(int(run.position[0]))
            self.append(run, interval_bytes)
        if len(whole):
            self._skip(whole.next_position)

    def append(self, run: BatchColumns, interval_bytes: int) -> None:
        """Plan the entries for adjacent batches that follow the valid bytes."""
        plan = plan_entries(self.state, run, self.valid_bytes, interval_bytes)
        self.entries.append(plan)
        self.state, self.next_offset = plan.after, run.next_offset
        self.valid_bytes += int(run.size.sum())

    def _skip(self, end: int) -> None:
        """Count bytes up to ``end`` that are left out."""
        passed = self.state.bytes_since_last_entry + end - self.valid_bytes
        self.state = self.state._replace(bytes_since_last_entry=passed)
        self.valid_bytes = end

    def write_to(self, view: SegmentView) -> None:
        """Write offset and time index, which the caller has reset."""
        if self.entries:
            PlannedEntries.joined(self.entries).append_to(view.offset_index, view.time_index)


class Cut(NamedTuple):
    """Bytes ``[position, end)`` of a .log file that recovery is about to truncate.

    The log ends at ``next_offset`` then.
    """

    file: OpenFile
    position: int
    end: int
    next_offset: int
    reason: str


class ContradictedOffsets(RebuildableError):
    """Offsets of a segment contradict each other; nothing was changed.

    What is done about ``contradiction`` depends on the rest of the log: a ``Treatment`` says it.
    """

    def __init__(self, contradiction: Contradiction) -> None:
        super().__init__(contradiction)
        self.contradiction = contradiction

    def __str__(self) -> str:
        return self.contradiction.reason


class Treatment(NamedTuple):
    """What becomes of a contradiction.

    ``keeps``: its damaged batches stay in the file, and are left out of the indexes and of what an
    observer gets. Otherwise the file is truncated there.
    """

    contradiction: Contradiction
    keeps: bool


class Check(NamedTuple):
    """How a segment is checked.

    ``end_offset`` is the base offset of the next segment. With ``helpers``, several threads check
    the bytes. ``treatment``: of the contradiction that was found before; None: there is none.
    """

    end_offset: int = INT64_MAX
    helpers: Helpers | None = None
    treatment: Treatment | None = None


USUAL_CHECK: Final = Check()


def check(
    view: SegmentView,
    interval_bytes: int,
    observer: RecoveryObserver | None,
    how: Check = USUAL_CHECK,
) -> Recovered:
    """Read the bytes of ``view`` and return what its indexes should contain; changes no file.

    A log that its observer rejects therefore stays unchanged. The observer is called on this
    thread.

    Raises:
        ContradictedOffsets: the offsets of the batches do not rise within those of the segment,
            and ``how`` has no treatment.
        SegmentOffsetOverflow: a batch's last offset does not fit the segment, and the offsets
            after it increase: old versions of Kafka wrote such segments.
    """
    treatment = how.treatment
    found = None if treatment is None else treatment.contradiction
    left_out = () if treatment is None or not treatment.keeps else treatment.contradiction.damaged
    end = view.size_bytes if found is None or left_out else found.position
    checker = BatchChecker(view.file, end, view.base_offset, how.helpers)
    bounds = OffsetBounds.of_segment(view.base_offset, how.end_offset)
    built = Recovered.nothing(view.base_offset)
    reason: CorruptMessage | InvalidRecord | None = None
    with closing(checker.pieces()) as pieces:
        for whole in pieces:
            piece = _without(whole, left_out)
            if bounds.first_unsound(piece.batches) is not None:
                raise _explained(view, how)
            kept, reason = _observe(piece, observer, built.aborted)
            built.add(kept, whole.batches if reason is None else kept, interval_bytes)
            if reason is not None:
                break
            if len(kept):
                bounds = bounds.after(int(kept.last_offset[-1]))
    reason = reason or checker.error
    if reason is None and found is not None and not left_out:
        reason = CorruptMessage(found.reason, found.position)
    built.reason = "" if reason is None else reason.reason
    return built


class Looked(NamedTuple):
    """What the offsets of a segment are like.

    ``first_far`` is the first one that does not fit an int32 above the base offset. ``end`` is the
    byte after the last valid batch.
    """

    contradiction: Contradiction | None
    first_far: int | None
    end: int


def look_through(view: SegmentView, how: Check) -> Looked:
    """Look at the offsets of all valid batches of a segment, whatever they are."""
    first_far: int | None = None
    end = 0

    def read() -> Iterator[BatchColumns]:
        nonlocal first_far, end
        checker = BatchChecker(view.file, view.size_bytes, view.base_offset, how.helpers)
        with closing(checker.pieces()) as pieces:
            for piece in pieces:
                last = piece.batches.last_offset
                far = last[last > view.base_offset + INT32_MAX]
                if len(far) and first_far is None:
                    first_far = int(far[0])
                end = piece.batches.next_position
                yield piece.batches

    found = find_contradiction(read, view.base_offset, how.end_offset)
    return Looked(found, first_far, end)


def _explained(view: SegmentView, how: Check) -> RebuildableError:
    """Return the error of a segment whose offsets are not as usual."""
    found, first_far, _ = look_through(view, how)
    if found is not None:
        return ContradictedOffsets(found)
    if first_far is None:
        raise InvariantError(f"{view.file.path} was changed while it was checked")
    return SegmentOffsetOverflow(view.base_offset, first_far)


def _without(piece: CheckedBatches, left_out: Sequence[int]) -> CheckedBatches:
    """Return a piece without the batches at these positions."""
    if not left_out:
        return piece
    is_kept = ~np.isin(piece.batches.position, left_out)
    batches, in_data = piece.batches.select(is_kept), piece.in_data.select(is_kept)
    return piece._replace(batches=batches, in_data=in_data)


def _observe(
    piece: CheckedBatches, observer: RecoveryObserver | None, aborted: list[AbortedTxn]
) -> tuple[BatchColumns, CorruptMessage | InvalidRecord | None]:
    """Pass a piece to the observer; return the batches to keep, and the observer's error."""
    if observer is None:
        return piece.batches, None
    try:
        observer.observe(piece.in_data, piece.data, aborted.append)
    except (CorruptMessage, InvalidRecord) as error:
        refused = np.flatnonzero(piece.in_data.position == error.position)
        if not len(refused):
            raise
        return piece.batches.slice(0, int(refused[0]) + 1), error
    return piece.batches, None
