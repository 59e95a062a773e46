"""What the cleaner asks of batch headers, in one call each: against plain code, and hostile."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.kernels.compaction.key_batches import (
    count_outcome,
    count_records,
    fill_areas,
    look_over,
    mark_superseded,
)
from tidelog.records.memory import BatchColumns
from tidelog.records.record_areas import areas_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[Any], Any]

HOSTILE = (-(2**63), -1, 0, 1, 7, 8, 2**31, 2**62, 2**63 - 1)


def batches(*changes: dict[int, int]) -> Any:
    """Make a table of batches of ten records each, ten offsets apart, with such differences."""
    table = np.zeros((rows.BATCH_COLUMNS, len(changes)), np.int64)
    for index, change in enumerate(changes):
        usual = {
            rows.POSITION: 200 * index,
            rows.SIZE: 200,
            rows.BASE_OFFSET: 10 * index,
            rows.LAST_OFFSET: 10 * index + 9,
            rows.MAGIC: 2,
            rows.RECORDS_COUNT: 10,
        }
        for field, value in (usual | change).items():
            table[field, index] = value
    return table


def state(end: int) -> Any:
    """Make the state of a map that has bits for the offsets below ``end``."""
    words = np.zeros(keys.STATE_WORDS, np.int64)
    words[keys.BITS_END] = end
    return words


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, 0),
        ({rows.MAGIC: 1}, keys.HAS_OLD),
        ({rows.MAGIC: 0, rows.ATTRIBUTES: 1}, keys.HAS_OLD | keys.HAS_COMPRESSED),
        ({rows.MAGIC: 1, rows.ATTRIBUTES: 0x30}, keys.HAS_OLD),
        ({rows.ATTRIBUTES: 4}, keys.HAS_COMPRESSED),
        ({rows.ATTRIBUTES: 0x10}, keys.HAS_SPECIAL),
        ({rows.ATTRIBUTES: 0x20}, keys.HAS_SPECIAL),
        ({rows.ATTRIBUTES: 0x48}, 0),
    ],
)
def test_rare_kinds_are_seen_among_others(run: Run, change: dict[int, int], found: int) -> None:
    """One batch of a kind suffices; records are those of all."""
    assert run(look_over)(batches({}, change, {})) == (found, 30)


def test_counts_that_nobody_knows_are_no_records(run: Run) -> None:
    """A count below zero, as old wrappers have it, adds nothing."""
    assert run(look_over)(batches({rows.RECORDS_COUNT: -1}, {}))[1] == 10


def test_areas_are_those_of_plain_code(run: Run) -> None:
    """Each area begins behind its header and ends with its batch."""
    table = batches({}, {rows.ATTRIBUTES: 8, rows.MAX_TIMESTAMP: 5}, {rows.BASE_TIMESTAMP: 7})
    areas = np.zeros((rows.AREA_COLUMNS, 3), np.int64)

    assert run(fill_areas)(table, areas) == rows.OK

    assert areas_of(BatchColumns(table)).tolist() == areas.tolist()


def test_only_records_that_are_looked_at_count(run: Run) -> None:
    """JUDGE and KEEP count; a batch without either may state what it will."""
    areas = areas_of(BatchColumns(batches({}, {rows.RECORDS_COUNT: 2**31}, {})))
    marks = np.array([keys.JUDGE, keys.RETAIN_EMPTY, keys.KEEP], np.int64)

    assert run(count_records)(areas, marks) == 20


@pytest.mark.parametrize("count", [-1, 20, 2**31 - 1, 2**62])
def test_more_records_than_the_bytes_hold_are_refused(run: Run, count: int) -> None:
    """139 bytes hold 19 records, so nobody makes room for 20."""
    areas = areas_of(BatchColumns(batches({rows.RECORDS_COUNT: count})))

    assert run(count_records)(areas, np.array([keys.JUDGE], np.int64)) == rows.BAD_COUNT


@pytest.mark.parametrize("missing", [None, *range(20)])
def test_a_batch_is_superseded_whole_if_all_its_bits_are_set(run: Run, missing: int | None) -> None:
    """One offset without its bit, at the start, in the middle or at the end, and it is not."""
    bits = np.full(4, 0xFF, np.uint8)
    if missing is not None:
        bits[missing >> 3] &= ~np.uint8(1 << (missing & 7))
    marks = np.array([keys.JUDGE | keys.RETAIN_EMPTY, keys.JUDGE], np.int64)

    marked = run(mark_superseded)(batches({}, {}), marks, bits, state(20))

    whole = [missing is None or missing >= 10, missing is None or missing < 10]
    assert marked == sum(whole)
    assert [bool(mark & keys.SUPERSEDED_WHOLE) for mark in marks.tolist()] == whole
    assert [bool(mark & keys.JUDGE) for mark in marks.tolist()] == [not it for it in whole]
    assert marks[0] & keys.RETAIN_EMPTY


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        ({rows.RECORDS_COUNT: 9}, keys.JUDGE),
        ({rows.MAGIC: 1}, keys.JUDGE),
        ({}, keys.KEEP),
        ({}, keys.JUDGE | keys.KEEP),
        ({}, 0),
        ({rows.BASE_OFFSET: -1}, keys.JUDGE),
        ({rows.LAST_OFFSET: 31}, keys.JUDGE),
        ({rows.LAST_OFFSET: -(2**63)}, keys.JUDGE),
    ],
)
def test_nothing_else_is_superseded_whole(run: Run, change: dict[int, int], mark: int) -> None:
    """Not with gaps, nor old, nor to be kept, nor unseen, nor where offsets have no bit."""
    marks = np.array([mark], np.int64)

    assert run(mark_superseded)(batches(change), marks, np.full(4, 255, np.uint8), state(31)) == 0

    assert marks.tolist() == [mark]


def test_outcomes_are_counted_by_cause(run: Run) -> None:
    """Verdicts of records that were looked at; all records of batches that were not."""
    table = batches(
        {}, {}, {rows.ATTRIBUTES: 0x20, rows.RECORDS_COUNT: 1}, {rows.RECORDS_COUNT: 0}, {}
    )
    marks = np.array([keys.JUDGE, keys.SUPERSEDED_WHOLE, 0, keys.JUDGE, 0], np.int64)
    fates = np.array([keys.REWRITTEN, *[keys.DROPPED] * 4], np.int64)
    judged = np.zeros((keys.KEY_COLUMNS, 12), np.int64)
    judged[keys.VERDICT, :10] = [keys.STAYS] * 4 + [keys.SUPERSEDED] * 3 + [keys.EXPIRED] * 2 + [3]
    seen = np.full(keys.SEEN_COLUMNS, 99, np.int64)

    assert run(count_outcome)(table, marks, judged, 10, fates, seen) == rows.OK

    assert seen.tolist() == [31, 4, 13, 2, 1, 10, 1, 1, 1, 1000]


@pytest.mark.parametrize("seed", range(40))
def test_hostile_numbers_are_a_status(run: Run, seed: int) -> None:
    """Whatever stands in a table, the answer is a number and no other array changes."""
    rng = random.Random(seed)
    table = batches({}, {}, {})
    for _ in range(4):
        table[rng.randrange(rows.BATCH_COLUMNS), rng.randrange(3)] = rng.choice(HOSTILE)
    areas, marks = np.zeros((rows.AREA_COLUMNS, 3), np.int64), np.full(3, keys.JUDGE, np.int64)
    words = state(rng.choice((0, 8, 24, 32)))
    words[rng.randrange(keys.STATE_WORDS)] = rng.choice(HOSTILE)
    judged, seen = np.zeros((keys.KEY_COLUMNS, 1), np.int64), np.zeros(keys.SEEN_COLUMNS, np.int64)

    assert run(look_over)(table)[0] in range(8)
    assert run(fill_areas)(table, areas) == rows.OK
    assert run(count_records)(areas, marks) >= rows.BAD_COUNT
    assert run(mark_superseded)(table, marks, np.full(4, 255, np.uint8), words) >= rows.BAD_ARGUMENT
    assert run(count_outcome)(table, marks, judged, 1, marks * 0, seen) == rows.OK


def test_arrays_that_do_not_fit_are_refused(run: Run) -> None:
    """Too few rows, marks, bits or columns are BAD_ARGUMENT."""
    table, marks = batches({}, {}), np.full(1, keys.JUDGE, np.int64)
    areas, bits = np.zeros((rows.AREA_COLUMNS, 1), np.int64), np.zeros(1, np.uint8)
    judged, seen = np.zeros((keys.KEY_COLUMNS, 1), np.int64), np.zeros(3, np.int64)

    assert run(look_over)(table[:3].copy()) == (0, 0)
    assert run(fill_areas)(table, areas) == rows.BAD_ARGUMENT
    assert (
        run(count_records)(np.zeros((rows.AREA_COLUMNS, 2), np.int64), marks) == rows.BAD_ARGUMENT
    )
    assert run(mark_superseded)(table, marks, bits, state(8)) == rows.BAD_ARGUMENT
    assert run(mark_superseded)(table[:, :1].copy(), marks, bits, state(9)) == rows.BAD_ARGUMENT
    one = table[:, :1].copy()
    assert run(count_outcome)(one, marks, judged, 1, marks, seen) == rows.BAD_ARGUMENT
    enough = np.zeros(keys.SEEN_COLUMNS, np.int64)
    assert run(count_outcome)(one, marks, judged, 2, marks, enough) == rows.BAD_ARGUMENT
