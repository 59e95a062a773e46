"""What explains batches of a segment whose offsets contradict each other.

All batches are looked at before anything is decided: one flipped bit in a base offset leaves a
chain that is whole without its batch. Kafka has no such rule; see ``sound_offsets``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernels import rows
from tidelog.records.batch import INT64_MAX
from tidelog.records.damage.sound_offsets import Damaged, OffsetBounds, damaged_of, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import FileRecords


class Contradiction(NamedTuple):
    """The first contradiction of offsets in a segment, and what it says about the others.

    ``damaged`` are the bytes at which the damaged batch begins, or each of the two neighbours of
    which one is damaged. ``next_offset`` is the first offset that may be missing: the one after
    the last batch before them. The next sound batch begins at ``following_offset``; None: there is
    none. ``end_offset`` is where the segment ends: a damaged batch at its end counts by its number
    of offsets. ``is_explained``: without one batch all others, up to the end, are in order.
    ``is_torn_end``: that one is the last batch, so that nothing sound is kept by leaving it out.
    """

    damaged: tuple[int, ...]
    next_offset: int
    following_offset: int | None
    end_offset: int
    is_explained: bool
    is_torn_end: bool
    reason: str

    @property
    def position(self) -> int:
        """The byte from which on the batches cannot be relied on."""
        return self.damaged[0]


def find_contradiction(
    read: Callable[[], Iterable[BatchColumns]], base_offset: int, end_offset: int = INT64_MAX
) -> Contradiction | None:
    """Return the first contradiction of the batches of a segment; None if all offsets rise.

    An offset more than an int32 above ``base_offset`` alone contradicts nothing, since old
    versions of Kafka wrote such segments, which can be split. A segment cannot be split where
    offsets contradict each other, so there such an offset is damage.

    Args:
        read: reads the valid batches, up to the end of the file or the first bad one; is called
            twice if there is a contradiction.
        base_offset: of the segment, or the least offset that the first of the batches may have.
        end_offset: the base offset of the next segment.
    """
    if _chain(read(), OffsetBounds(base_offset, end_offset)).is_whole:
        return None
    return _chain(read(), OffsetBounds.of_segment(base_offset, end_offset)).contradiction()


def contradiction_from(records: FileRecords, base_offset: int) -> Contradiction | None:
    """Return the first contradiction of some batches of the last segment, as above."""

    def read() -> Iterator[BatchColumns]:
        return (piece.batches for piece in records.pieces(check_crc=True))

    return find_contradiction(read, base_offset)


def _chain(pieces: Iterable[BatchColumns], bounds: OffsetBounds) -> _Chain:
    chain = _Chain(bounds)
    for batches in pieces:
        chain.follow(batches)
    return chain


class _Chain:
    """Follows batches; from the first contradiction on it follows the chains without one of them.

    ``_bounds`` are those of the next batch, and ``_before`` those of ``_last``, the last one seen.
    After a contradiction ``_first`` is the earlier of two neighbours that disagree, None for a
    batch that is impossible by itself, and ``_second`` the later one; ``_following`` are the
    offsets of the batch after them. ``_ways`` are the bounds of the next batch in each chain that
    is still whole.
    """

    def __init__(self, bounds: OffsetBounds) -> None:
        self._bounds = self._before = bounds
        self._last: Sequence[int] | None = None
        self._first: Sequence[int] | None = None
        self._second: Sequence[int] | None = None
        self._segment = bounds
        self._following: tuple[int, int] | None = None
        self._ways: list[OffsetBounds] = []

    @property
    def is_whole(self) -> bool:
        """Whether no batch contradicts another."""
        return self._second is None

    def follow(self, batches: BatchColumns) -> None:
        """Look at the next batches."""
        if self._second is None:
            unsound = self._bounds.first_unsound(batches)
            sound = batches.slice(0, unsound)
            if len(sound):
                self._before = self._bounds
                if len(sound) > 1:
                    self._before = self._bounds.after(int(sound.last_offset[-2]))
                self._last = sound.row(-1)
                self._bounds = self._bounds.after(self._last[rows.LAST_OFFSET])
            if unsound is None:
                return
            self._part(batches.row(unsound))
            batches = batches.slice(unsound + 1)
        if not len(batches):
            return
        if self._following is None:
            self._following = batches.first_offset, int(batches.last_offset[0])
        last_offset = int(batches.last_offset[-1])
        ways = [way for way in self._ways if way.first_unsound(batches) is None]
        self._ways = [way.after(last_offset) for way in ways]

    def _part(self, second: Sequence[int]) -> None:
        """Begin to follow the chain without ``second`` and, if it disagrees, that without the last.

        A batch that cannot be in the segment at all says nothing about the one before it.
        """
        self._second = second
        self._ways = [self._bounds]
        offsets = second[rows.BASE_OFFSET], second[rows.LAST_OFFSET]
        if self._last is not None and self._segment.hold(*offsets):
            self._first = self._last
            if self._before.hold(*offsets):
                self._ways.append(self._before.after(offsets[1]))

    def contradiction(self) -> Contradiction | None:
        """Return what was found by the end of the batches."""
        first, second = self._first, self._second
        if second is None:
            return None
        damaged, suspects = Damaged.SECOND, [second]
        if first is None:
            reason = self._bounds.reason(second[rows.BASE_OFFSET], second[rows.LAST_OFFSET])
        else:
            following, after = self._following, self._before.end
            if following is not None and self._before.hold(*following):
                after = following[0]
            damaged = damaged_of(first, second, self._before, after)
            reason = reason_of(damaged, first, second, self._before, after)
            if damaged is not Damaged.SECOND:
                suspects = [first] if damaged is Damaged.FIRST else [first, second]
        lowest = (self._bounds if damaged is Damaged.SECOND else self._before).lowest
        return Contradiction(
            tuple(row[rows.POSITION] for row in suspects),
            lowest,
            None if self._following is None else self._following[0],
            self._end_offset(damaged),
            bool(self._ways),
            damaged is Damaged.SECOND and self._following is None,
            reason,
        )

    def _end_offset(self, damaged: Damaged) -> int:
        """Return the offset after the last batch, which may be a damaged one."""
        second = self._second
        assert second is not None
        if self._following is not None:
            return max((way.lowest for way in self._ways), default=self._bounds.lowest)
        end = self._bounds.lowest + max(second[rows.LAST_OFFSET] - second[rows.BASE_OFFSET], 0) + 1
        # Where either may be damaged the later one counts: it ends higher after the earlier one.
        if damaged is Damaged.FIRST:
            end = second[rows.LAST_OFFSET] + 1
        return min(end, self._segment.end)
