"""Which batch is damaged where offsets contradict each other, and what leaving it out explains."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels import rows
from tidelog.records.batch import INT64_MAX
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.builder import BatchSpec
from tidelog.records.damage.contradiction import (
    Contradiction,
    contradiction_from,
    find_contradiction,
)
from tidelog.records.file_records import FileRecords
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SIZE = 10


def columns(*offsets: tuple[int, int]) -> BatchColumns:
    """Return headers with these offsets, each ``SIZE`` bytes after the one before."""
    made = BatchColumns.of_rows([[0] * rows.BATCH_COLUMNS for _ in offsets])
    for at, (first, last) in enumerate(offsets):
        made.position[at], made.size[at] = at * SIZE, SIZE
        made.base_offset[at], made.last_offset[at] = first, last
    return made


def singles(*offsets: int) -> list[tuple[int, int]]:
    return [(offset, offset) for offset in offsets]


def found(
    offsets: list[tuple[int, int]], base: int = 0, end: int = INT64_MAX, piece: int = 100
) -> Contradiction | None:
    """Return the contradiction, with the batches read some at a time."""
    batches = columns(*offsets)

    def read() -> Iterator[BatchColumns]:
        for start in range(0, len(batches), piece):
            yield batches.slice(start, start + piece)

    return find_contradiction(read, base, end)


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "offsets", [[], singles(0), singles(0, 1, 5, 6), [(3, 7), (8, 8), (2**31 + 9, 2**31 + 9)]]
)
def test_offsets_that_rise_are_in_order(offsets: list[tuple[int, int]], piece: int) -> None:
    """Also far above the base offset: such a segment can be split."""
    assert found(offsets, piece=piece) is None


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("offsets", "damaged", "next_offset", "following"),
    [
        # The earlier one of two is too high.
        (singles(0, 1, 12, 3, 4, 5), [2], 2, 4),
        ([(0, 4), (13, 17), (10, 14), (15, 18)], [1], 5, 15),
        # The later one is too low.
        (singles(0, 1, 2, 1, 4, 5), [3], 3, 4),
        ([(0, 4), (5, 9), (2, 6), (15, 15)], [2], 10, 15),
        # One is outside of the segment, or nothing follows it.
        (singles(-7, 1, 2), [0], 0, 1),
        (singles(0, 1, -(2**63)), [2], 2, None),
        (singles(0, 1, INT64_MAX), [2], 2, None),
        ([(0, 0), (3, 1), (4, 4)], [1], 1, 4),
        (singles(0, 100, 2, 3), [1], 1, 2),
        # A segment cannot be split where offsets contradict each other.
        (singles(0, 2**40, 2), [1], 1, 2),
    ],
)
def test_the_damaged_one_is_left_out(
    offsets: list[tuple[int, int]],
    damaged: list[int],
    next_offset: int,
    following: int | None,
    piece: int,
) -> None:
    """Without it all others are in order; what may be missing begins after the last one before."""
    contradiction = found(offsets, end=100 if (100, 100) in offsets else INT64_MAX, piece=piece)

    assert contradiction is not None
    assert contradiction.damaged == tuple(at * SIZE for at in damaged)
    assert contradiction.position == damaged[0] * SIZE
    assert contradiction.next_offset == next_offset
    assert contradiction.following_offset == following
    assert contradiction.is_explained
    assert contradiction.is_torn_end == (following is None)
    assert "impossible offsets" in contradiction.reason


@pytest.mark.parametrize("piece", [1, 2, 100])
@pytest.mark.parametrize(
    ("offsets", "damaged", "next_offset"),
    [
        # Either fits the gap that it would leave, or neither does.
        (singles(0, 3, 2), [1, 2], 1),
        (singles(0, 1, 1, 2), [1, 2], 1),
    ],
)
def test_both_are_named_where_either_may_be_damaged(
    offsets: list[tuple[int, int]], damaged: list[int], next_offset: int, piece: int
) -> None:
    """Nothing is known of where either of them belongs."""
    contradiction = found(offsets, piece=piece)

    assert contradiction is not None
    assert contradiction.damaged == tuple(at * SIZE for at in damaged)
    assert contradiction.position == damaged[0] * SIZE
    assert contradiction.next_offset == next_offset
    assert contradiction.is_explained
    assert not contradiction.is_torn_end
    assert "one of the two is damaged" in contradiction.reason


@pytest.mark.parametrize("piece", [1, 2, 100])
@pytest.mark.parametrize(
    "offsets",
    [
        singles(0, 12, 2, 3, 20, 5),
        singles(0, 12, 2, -1),
        singles(0, 5, 5, 5),
        singles(9, 0, 1, 0),
        singles(0, 12, 14, 3, 4),
        singles(0, 12, 2, 3, 4, 8, 6, 9),
        [(0, 0), (12, 12), (2, 5), (3, 3)],
    ],
)
def test_more_than_one_damaged_batch_explains_nothing(
    offsets: list[tuple[int, int]], piece: int
) -> None:
    """Whichever single one is left out, the others are not in order."""
    contradiction = found(offsets, piece=piece)

    assert contradiction is not None
    assert not contradiction.is_explained


@pytest.mark.parametrize(
    ("offsets", "end_offset"),
    [
        # What follows the damaged one says it.
        (singles(0, 12, 2, 3), 4),
        # At the end a damaged one counts by its number of offsets.
        (singles(0, 1, -1), 3),
        ([(0, 1), (2, 3), (0, 4)], 9),
        (singles(0, 1, INT64_MAX), 3),
        ([(0, 0), (9, 5)], 2),
        # Of two at the end the later one is right if the earlier one is not.
        ([(0, 0), (40, 44), (6, 7), (8, 8)], 9),
        # If that is not known, the log ends behind whatever is possible.
        (singles(0, 300, 2), 302),
    ],
)
def test_the_end_counts_the_damaged_batch(offsets: list[tuple[int, int]], end_offset: int) -> None:
    """So that a reader that begins there meets the damage."""
    contradiction = found(offsets)

    assert contradiction is not None
    assert contradiction.end_offset == end_offset


def test_the_earlier_one_may_be_damaged_at_the_end() -> None:
    """The later one is sound then: it is where the log ends, and it is kept."""
    contradiction = found([(0, 0), (7, 11), (6, 7)], end=12)

    assert contradiction is not None
    assert (contradiction.damaged, contradiction.end_offset) == ((SIZE,), 8)
    assert not contradiction.is_torn_end


def test_the_batch_after_the_two_decides_and_not_a_later_one() -> None:
    """What comes after it may be damaged as well."""
    contradiction = found([(0, 4), (7, 11), (10, 14), (15, 15), (16, 200)], end=100)

    assert contradiction is not None
    assert contradiction.damaged == (SIZE,)


def test_a_batch_with_a_wrong_checksum_contradicts_nothing(tmp_path: Path) -> None:
    """The batches end there: nothing in it can be relied on."""
    batches = [build_batch([(1, b"k", b"v", ())], BatchSpec(base_offset=at)) for at in (0, 5, 3)]
    path = tmp_path / "log"
    for flipped, is_found in ((0, True), (1, False)):
        path.write_bytes(b"".join(batches)[:-1] + bytes([batches[-1][-1] ^ flipped]))
        with closing(SYSTEM_FILES.open(str(path))) as file:
            assert (contradiction_from(FileRecords(file), 0) is not None) == is_found


def test_the_end_is_not_beyond_the_segments() -> None:
    """The next one begins there."""
    contradiction = found([(0, 0), (1, 1), (-9, 5)], end=10)

    assert contradiction is not None
    assert contradiction.end_offset == 10


def test_whatever_bit_flips_its_batch_is_named(enumerated: Callable[..., None]) -> None:
    """And no other one alone, in whichever of some batches of various sizes."""
    seen = 0
    for spans in ([1] * 6, [3, 1, 2, 5, 1, 4], [2, 2, 7, 1, 3, 2]):
        starts = [100 + sum(spans[:at]) for at in range(len(spans))]
        sound = [(start, start + span - 1) for start, span in zip(starts, spans, strict=True)]
        for flipped, (start, last) in enumerate(sound):
            for bit in range(63):
                base = start ^ 1 << bit
                offsets = [*sound]
                offsets[flipped] = base, base + last - start
                contradiction = found(offsets, 100)
                if contradiction is None:
                    assert flipped == len(sound) - 1  # the end of the log, that nothing bounds
                    continue
                seen += 1
                assert flipped * SIZE in contradiction.damaged
                assert contradiction.is_explained
                assert len(contradiction.damaged) == 1 or flipped >= len(sound) - 2
    enumerated("flips", seen, at_least=900)
