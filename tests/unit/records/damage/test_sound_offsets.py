"""Which offsets a batch may have, and which of two neighbours is damaged."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptMessage
from tidelog.kernels import rows
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.batch import INT64_MAX
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.builder import BatchSpec
from tidelog.records.damage.sound_offsets import (
    GREATEST_OFFSET,
    Damaged,
    OffsetBounds,
    damaged_of,
    reason_of,
)
from tidelog.records.file_records import FileRecords
from tidelog.records.isolation import Isolation
from tidelog.records.memory import walk
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidelog.records.record import Record


def row(first: int, last: int) -> list[int]:
    """Return a header row with only these offsets."""
    made = [0] * rows.BATCH_COLUMNS
    made[rows.BASE_OFFSET], made[rows.LAST_OFFSET] = first, last
    return made


@pytest.mark.parametrize(
    ("offsets", "is_possible"),
    [
        ((100, 100), True),
        ((100, 199), True),
        ((99, 104), False),
        ((103, 102), False),
        ((150, 200), False),
        ((-1, 101), False),
    ],
)
def test_offsets_lie_in_their_segment_and_rise(offsets: tuple[int, int], is_possible: bool) -> None:
    """They begin at or above the segment's base, and end below the next one's."""
    assert OffsetBounds(100, 200).hold(*offsets) == is_possible


def test_a_log_can_end_at_the_greatest_number() -> None:
    """Its last record has the offset before; nothing more can be appended."""
    assert GREATEST_OFFSET == 2**63 - 2
    assert OffsetBounds(0).hold(GREATEST_OFFSET, GREATEST_OFFSET)
    assert not OffsetBounds(0).hold(INT64_MAX, INT64_MAX)


def test_the_reason_names_the_offsets() -> None:
    """They are reported with those that would be possible."""
    assert OffsetBounds(10, 20).reason(3, 4) == (
        "batch has impossible offsets 3 to 4; it needs from 10 to 19"
    )
    assert OffsetBounds(10).reason(3, 4) == (
        "batch has impossible offsets 3 to 4; it needs 10 or above"
    )


def test_the_reason_names_offsets_beyond_64_bits_as_they_are() -> None:
    """The columns of batches hold them as negative numbers, as Java would."""
    (batch,) = [walk(greatest(3)).batches.row(0)]
    offsets = batch[rows.BASE_OFFSET], batch[rows.LAST_OFFSET]

    assert offsets == (2**63 - 2, -(2**63))
    assert not OffsetBounds(0).hold(*offsets)
    assert OffsetBounds(0).reason(*offsets) == (
        f"batch has impossible offsets {2**63 - 2} to {2**63}; it needs 0 or above"
    )


def greatest(count: int) -> bytes:
    """Make a batch whose header says that it begins at the greatest offset of a record."""
    batch = build_batch([(0, None, b"value", ())] * count)
    return GREATEST_OFFSET.to_bytes(8, "big") + batch[8:]


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("clean", [True, False])
def test_no_reader_is_given_an_offset_that_has_wrapped(
    before: int, after: int, *, clean: bool
) -> None:
    """A batch whose offsets leave 64 bits is damaged, wherever it is; those before it are read."""
    value = [(0, None, b"value", ())]
    sound = [build_batch(value, base_offset=number) for number in range(before)]
    behind = [build_batch(value, base_offset=before + 3 + number) for number in range(after)]
    home = LogHome()
    data = b"".join([*sound, greatest(3), *behind])
    home.write(f"{0:020d}.log", data)

    with open_read_only(home.directory, fs=home.fs) as log:
        seen, error = read_to_damage(log.records())
    assert (seen, error) == (list(range(before)), True)
    opened = home.open(clean=clean)

    seen, _ = read_to_damage(opened.records(isolation=Isolation.LOG_END))
    assert seen == list(range(before))
    assert before <= opened.log_end_offset <= before + 3 + after


def read_to_damage(records: Iterator[Record]) -> tuple[list[int], bool]:
    """Return the offsets of the records before damage, and whether there is any."""
    seen: list[int] = []
    try:
        seen.extend(record.offset for record in records)
    except CorruptMessage:
        return seen, True
    return seen, False


@pytest.mark.parametrize(
    ("first", "second", "after", "damaged"),
    [
        ((4101, 4105), (10, 14), 15, Damaged.FIRST),
        ((5, 9), (2, 6), 15, Damaged.SECOND),
        ((5, 9), (2, 6), 10, Damaged.SECOND),
        # Without either of the two, the others are in order: only one fits the gap it leaves.
        ((7, 11), (10, 14), 15, Damaged.FIRST),
        ((5, 9), (8, 12), 15, Damaged.SECOND),
        # At the end of a log whose end is not known both may be.
        ((7, 11), (10, 14), INT64_MAX, Damaged.UNDECIDED),
        ((5, 9), (9, 9), 10, Damaged.UNDECIDED),
        # The bounds: the lowest offset may be had, that of what follows may not.
        ((50, 54), (5, 9), 10, Damaged.FIRST),
        ((5, 9), (6, 15), 15, Damaged.SECOND),
        ((5, 15), (6, 8), 15, Damaged.FIRST),
    ],
)
def test_the_damaged_neighbour_fits_the_gap_that_it_would_leave(
    first: tuple[int, int], second: tuple[int, int], after: int, damaged: Damaged
) -> None:
    """The order of the others decides, then the number of offsets, which the checksum covers."""
    assert damaged_of(row(*first), row(*second), OffsetBounds(5), after) is damaged


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (Damaged.FIRST, "batch has impossible offsets 7 to 11; it needs from 5 to 9"),
        (Damaged.SECOND, "batch has impossible offsets 10 to 14; it needs from 12 to 29"),
        (
            Damaged.UNDECIDED,
            (
                "offsets 7 to 11 of a batch contradict those of the next one, at byte 77,"
                " 10 to 14: one of the two is damaged"
            ),
        ),
    ],
)
def test_the_reason_says_what_the_damaged_one_needs(damaged: Damaged, reason: str) -> None:
    """Up to the next one, or from the end of the one before; of two, both are named."""
    first, second = row(7, 11), row(10, 14)
    second[rows.POSITION] = 77

    assert reason_of(damaged, first, second, OffsetBounds(5), 30) == reason


def test_what_follows_a_batch_begins_after_it() -> None:
    """But not below what was possible before; by default any offset is that is not negative."""
    assert OffsetBounds(5, 10).after(7) == (8, 10)
    assert OffsetBounds(5, 10).after(3) == (5, 10)
    assert OffsetBounds() == (0, INT64_MAX)


def simulated(spans: list[int], start: int, flipped: int, bit: int) -> Damaged | None:
    """Return the decision after a flip in one of gapless batches; None if nothing contradicts."""
    rows_of, offset = [], start
    for span in spans:
        rows_of.append(row(offset, offset + span - 1))
        offset += span
    rows_of.append(row(offset, offset))
    base = rows_of[flipped][rows.BASE_OFFSET] ^ 1 << bit
    rows_of[flipped] = row(base, base + spans[flipped] - 1)
    before = start - 1
    for at in range(len(spans)):
        first, second = rows_of[at], rows_of[at + 1]
        if second[rows.BASE_OFFSET] <= first[rows.LAST_OFFSET]:
            after = rows_of[at + 2][rows.BASE_OFFSET] if at + 2 < len(rows_of) else INT64_MAX
            found = damaged_of(first, second, OffsetBounds(before + 1), after)
            blamed = {Damaged.FIRST: at, Damaged.SECOND: at + 1}.get(found, flipped)
            assert blamed == flipped, (spans, start, flipped, bit)
            return found
        before = first[rows.LAST_OFFSET]
    return None


def test_the_sound_neighbour_is_never_blamed(enumerated: Callable[..., None]) -> None:
    """Whatever bit flips in whichever of some gapless batches of various sizes."""
    decided = undecided = 0
    for start in (0, 7, 100):
        for a in (1, 2, 3, 5, 8):
            for b in (1, 2, 3, 5, 8):
                for flipped in range(1, 4):
                    for bit in range(63):
                        found = simulated([4, a, b, a, 3, 2], start, flipped, bit)
                        decided += found in {Damaged.FIRST, Damaged.SECOND}
                        undecided += found is Damaged.UNDECIDED
    enumerated("decided", decided, at_least=5000)
    assert undecided == 0


@pytest.mark.parametrize("in_one_piece", [True, False])
def test_a_walk_looks_at_one_header_more(tmp_path: Path, in_one_piece: bool) -> None:
    """A batch is not handed out if the header after it says that its offsets are wrong."""
    path = tmp_path / "a"
    batches = [build_batch([(1, b"k", b"v", ())], BatchSpec(base_offset=at)) for at in (0, 5, 2, 3)]
    path.write_bytes(b"".join(batches))
    size = len(batches[0])

    with closing(SYSTEM_FILES.open(str(path))) as file:
        end = None if in_one_piece else 2 * size
        records = FileRecords(file, end=end, bounds=OffsetBounds())
        pieces = list(records.pieces(check_crc=True))

    assert [piece.batches.base_offset.tolist() for piece in pieces] == [[0]]
    assert records.error is not None
    assert (records.error.position, records.next_position) == (size, size)


def columns(*offsets: tuple[int, int]) -> BatchColumns:
    """Return headers with only these first and last offsets."""
    return BatchColumns.of_rows([row(*each) for each in offsets])


@pytest.mark.parametrize(
    ("offsets", "unsound"),
    [
        ([], None),
        ([(100, 100)], None),
        ([(100, 104), (105, 105), (180, 199)], None),
        ([(100, 100), (-1, 101)], 1),
        ([(103, 102)], 0),
        ([(99, 105)], 0),
        ([(100, 105), (101, 106)], 1),
        ([(100, 105), (106, 106), (102, 103)], 2),
        ([(100, 105), (106, 200)], 1),
        ([(INT64_MAX - 5, -(2**63) + 3)], 0),
        ([(99, 99), (100, 100)], 0),
        ([(100, 105), (105, 106)], 1),
        ([(100, 100), (110, 120), (115, 125)], 2),
    ],
)
def test_the_first_unsound_of_many_batches_is_found(
    offsets: list[tuple[int, int]], unsound: int | None
) -> None:
    """It is the one at which a walk would stop."""
    assert OffsetBounds(100, 200).first_unsound(columns(*offsets)) == unsound


def test_a_segment_reaches_an_int32_above_its_base() -> None:
    """Or up to the next one, if that begins before."""
    assert OffsetBounds.of_segment(100) == (100, 100 + 2**31)
    assert OffsetBounds.of_segment(100, 200) == (100, 200)


def test_offsets_do_not_count_where_no_bounds_are_given() -> None:
    """Batches of an append have none yet."""
    data = b"".join(build_batch([(1, b"k", b"v", ())], BatchSpec(base_offset=at)) for at in (5, 0))

    assert len(walk(data).batches) == 2
    assert len(walk(data, bounds=OffsetBounds()).batches) == 1
