"""What the header after a batch says about the batch's offsets.

A bit that flips upward in a base offset shows only there, so a walk that checks offsets looks at
one header more before it hands a batch out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import CorruptMessage
from tidelog.kernels import rows
from tidelog.records.batch import BATCH_HEADER, BATCH_PREFIX
from tidelog.records.damage.sound_offsets import Damaged, OffsetBounds, damaged_of, reason_of
from tidelog.records.scan import WRONG_CRC, batch_row, crc_matches, whole_batch_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.env.files import OpenFile


_NOTHING: Final = memoryview(b"")


class Dispute(NamedTuple):
    """Two neighbours whose offsets contradict each other, and what is wrong with which of them.

    Bytes ``[position, end)`` are those of the damaged one; of both, if that is undecided.
    """

    damaged: Damaged
    position: int
    end: int
    reason: str


def base_offset_at(
    file: OpenFile, position: int, read: memoryview = _NOTHING, end: int = 0
) -> int | None:
    """Return the base offset of the batch at ``position``, of an old one the last offset.

    None for a header that is incomplete, zero, or of no batch: it contradicts nothing.

    Args:
        file: the batch may be in it.
        position: where it would begin.
        read: what was read of the file from there on. It is read again if it has no whole header.
        end: the file is known to have the bytes up to there.
    """
    if len(read) < BATCH_HEADER.size:
        read = memoryview(file.pread(BATCH_HEADER.size, position))
    size = _whole_size(read, end - position) or _whole_size(read, file.size() - position)
    return BATCH_PREFIX.unpack(read).offset if size else None


def settle(
    file: OpenFile, first: Sequence[int], bounds: OffsetBounds, *, is_checked: bool
) -> Dispute | None:
    """Decide between a batch and the next one; None if that is bad, or does not contradict it.

    Args:
        file: both batches are in it.
        first: the header row of the earlier batch, with its position in the file.
        bounds: the offsets that are possible for it.
        is_checked: whether its CRC was compared.
    """
    position, next_position = first[rows.POSITION], first[rows.POSITION] + first[rows.SIZE]
    if not is_checked and not _is_valid(file, first):
        return Dispute(Damaged.FIRST, position, next_position, WRONG_CRC)
    second = _header(file, next_position)
    if second is None or not _is_valid(file, second):
        return None
    first_is, second_is = _offsets(first), _offsets(second)
    if not first_is[1] >= second_is[0] <= second_is[1] < bounds.end:
        return None
    end = next_position + second[rows.SIZE]
    behind = _header(file, end)
    after = bounds.end
    if behind is not None and bounds.hold(*_offsets(behind)):
        after = behind[rows.BASE_OFFSET]
    damaged = damaged_of(first, second, bounds, after)
    reason = reason_of(damaged, first, second, bounds, after)
    if damaged is Damaged.FIRST:
        return Dispute(damaged, position, next_position, reason)
    if damaged is Damaged.SECOND:
        return Dispute(damaged, next_position, end, reason)
    return Dispute(damaged, position, end, reason)


def _offsets(row: Sequence[int]) -> tuple[int, int]:
    return row[rows.BASE_OFFSET], row[rows.LAST_OFFSET]


def _header(file: OpenFile, position: int) -> tuple[int, ...] | None:
    """Return the header row of the batch at ``position``; None if no whole batch begins there."""
    data = memoryview(file.pread(BATCH_HEADER.size, position))
    size = _whole_size(data, file.size() - position)
    return (position, *batch_row(data, 0, size)[1:]) if size else None


def _whole_size(data: memoryview, left: int) -> int:
    """Return the size of the batch at the start of ``data``; 0 if none ends within ``left`` bytes.

    ``data`` may hold only its header.
    """
    if len(data) <= BATCH_PREFIX.size:
        return 0
    try:
        return whole_batch_size(data, 0, left, in_memory=False)
    except CorruptMessage:
        return 0


def _is_valid(file: OpenFile, row: Sequence[int]) -> bool:
    data = file.pread(row[rows.SIZE], row[rows.POSITION])
    return len(data) == row[rows.SIZE] and crc_matches(data, (0, *row[1:]))
