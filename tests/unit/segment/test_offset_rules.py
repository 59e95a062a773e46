"""Which offsets a batch of a segment may state."""

from __future__ import annotations

import pytest

from tidelog.kernels import rows
from tidelog.records.memory import BatchColumns
from tidelog.segment.offset_rules import (
    GREATEST_OFFSET,
    INT64_MAX,
    are_usual,
    first_impossible,
    first_too_far,
    reason_of,
)

BASE = 100


def batches(*offsets: tuple[int, int]) -> BatchColumns:
    """Return headers with these first and last offsets, and nothing else."""
    made = BatchColumns.of_rows([[0] * rows.BATCH_COLUMNS for _ in offsets])
    for at, (first, last) in enumerate(offsets):
        made.base_offset[at], made.last_offset[at] = first, last
    return made


@pytest.mark.parametrize(
    "offsets",
    [
        [(100, 100)],
        [(98, 104), (105, 105)],
        [(100, 100), (2**31 + 99, 2**31 + 99)],
    ],
)
def test_rising_offsets_within_reach_are_usual(offsets: list[tuple[int, int]]) -> None:
    """The first batch may begin below its segment, as the compaction of old formats leaves it."""
    found = batches(*offsets)

    assert are_usual(found, BASE, BASE - 1)
    assert first_impossible(found, BASE, BASE - 1) is None
    assert first_too_far(found, BASE) is None


@pytest.mark.parametrize(
    ("offsets", "bad"),
    [
        ([(100, 100), (-1, 101)], 1),
        ([(103, 102)], 0),
        ([(99, 99)], 0),
        ([(100, 105), (101, 105)], 1),
        ([(100, 105), (106, 106), (102, 103)], 2),
        ([(INT64_MAX - 5, -(2**63) + 3)], 0),
        ([(100, INT64_MAX)], 0),
    ],
)
def test_impossible_offsets_are_found(offsets: list[tuple[int, int]], bad: int) -> None:
    """Negative, backwards, below the segment, not behind the one before, or without a next one."""
    found = batches(*offsets)

    assert not are_usual(found, BASE, BASE - 1)
    assert first_impossible(found, BASE, BASE - 1) == bad


def test_the_batch_before_counts() -> None:
    """Also where it lies in another piece of the file."""
    found = batches((105, 105))

    assert are_usual(found, BASE, 104)
    assert first_impossible(found, BASE, 105) == 0


def test_an_offset_out_of_reach_is_no_damage_by_itself() -> None:
    """Old versions of Kafka made such segments."""
    found = batches((100, 100), (2**31 + 100, 2**31 + 100))

    assert not are_usual(found, BASE, BASE - 1)
    assert first_impossible(found, BASE, BASE - 1) is None
    assert first_too_far(found, BASE) == 1


def test_a_log_may_end_at_the_greatest_number() -> None:
    """Its last record then has the offset before; nothing more can be appended."""
    found = batches((GREATEST_OFFSET, GREATEST_OFFSET))

    assert are_usual(found, GREATEST_OFFSET - 3, GREATEST_OFFSET - 4)
    assert first_impossible(batches((INT64_MAX, INT64_MAX)), INT64_MAX, -1) == 0


def test_the_reason_names_the_offsets() -> None:
    """With what is around them, for whoever looks into the file."""
    assert reason_of(batches((5, 9), (3, 4)), 1, 0) == (
        "a batch states offsets 3 to 4 in the segment that starts at 0, behind 9"
    )


def test_no_batches_are_usual() -> None:
    """There is nothing wrong with them."""
    assert are_usual(batches(), BASE, BASE)
