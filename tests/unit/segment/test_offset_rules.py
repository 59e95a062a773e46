"""Which offsets a batch of a segment may have."""

from __future__ import annotations

import pytest

from tidelog.kernels import rows
from tidelog.records.batch import INT64_MAX
from tidelog.records.memory import BatchColumns
from tidelog.segment.offset_rules import (
    GREATEST_OFFSET,
    are_usual,
    first_impossible,
    first_too_far,
    reason_of,
)

BASE = 100


def batches(*offsets: tuple[int, int]) -> BatchColumns:
    """Return headers with only these first and last offsets."""
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
def test_increasing_offsets_within_range_are_usual(offsets: list[tuple[int, int]]) -> None:
    """The first batch may start below its segment, as after compaction of old formats."""
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
        ([(99, 99), (105, 105)], 0),
        ([(100, 105), (101, 105)], 1),
        ([(100, 105), (106, 106), (102, 103)], 2),
        ([(INT64_MAX - 5, -(2**63) + 3)], 0),
        ([(100, INT64_MAX)], 0),
    ],
)
def test_impossible_offsets_are_found(offsets: list[tuple[int, int]], bad: int) -> None:
    """Negative, decreasing, below the segment, not after the one before, or without a next."""
    found = batches(*offsets)

    assert not are_usual(found, BASE, BASE - 1)
    assert first_impossible(found, BASE, BASE - 1) == bad


def test_the_preceding_batch_counts() -> None:
    """It may be in another piece of the file."""
    found = batches((105, 105))

    assert are_usual(found, BASE, 104)
    assert not are_usual(found, BASE, 105)
    assert first_impossible(found, BASE, 105) == 0


def test_the_first_offset_of_a_partition_is_usual() -> None:
    """Offsets begin at 0."""
    found = batches((0, 0))

    assert are_usual(found, 0, -1)
    assert first_impossible(found, 0, -1) is None


def test_an_offset_out_of_range_is_not_damage_by_itself() -> None:
    """Old versions of Kafka wrote such segments."""
    found = batches((100, 100), (2**31 + 100, 2**31 + 100))

    assert not are_usual(found, BASE, BASE - 1)
    assert first_impossible(found, BASE, BASE - 1) is None
    assert first_too_far(found, BASE) == 1


def test_a_log_can_end_at_the_greatest_number() -> None:
    """Its last record has the offset before; nothing more can be appended."""
    found = batches((GREATEST_OFFSET, GREATEST_OFFSET))

    assert GREATEST_OFFSET == 2**63 - 2
    assert are_usual(found, GREATEST_OFFSET - 3, GREATEST_OFFSET - 4)
    assert first_impossible(found, GREATEST_OFFSET - 3, GREATEST_OFFSET - 4) is None
    assert first_impossible(batches((INT64_MAX, INT64_MAX)), INT64_MAX, -1) == 0


def test_the_reason_names_the_offsets() -> None:
    """They are reported with the surrounding offsets."""
    assert reason_of(batches((5, 9), (3, 4)), 1, 0) == (
        "batch has impossible offsets 3 to 4 in the segment that starts at 0, after 9"
    )


def test_no_batches_are_usual() -> None:
    """Without batches there is nothing wrong."""
    assert are_usual(batches(), BASE, BASE)
