"""The log cleaner's passes over batch headers: compared with plain code, and on hostile input."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.kernels.compaction.key_batches import (
    collect_stats,
    count_records,
    fill_areas,
    mark_superseded,
    summarize_headers,
)
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.decoding.record_areas import areas_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[Any], Any]

HOSTILE = (-(2**63), -1, 0, 1, 7, 8, 2**31, 2**62, 2**63 - 1)


def batches(*changes: dict[int, int]) -> Any:
    """Make a table of batches of ten records each, ten offsets apart, with these changes."""
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
    """One batch of a kind is enough to set its bit; the records of all batches are counted."""
    assert run(summarize_headers)(batches({}, change, {})) == (found, 30)


def test_unknown_counts_add_no_records(run: Run) -> None:
    """A negative count, as in wrappers of magic 0 and 1, adds nothing."""
    assert run(summarize_headers)(batches({rows.RECORDS_COUNT: -1}, {}))[1] == 10


def test_areas_are_those_of_plain_code(run: Run) -> None:
    """Each area begins after its batch's header and ends with the batch."""
    table = batches({}, {rows.ATTRIBUTES: 8, rows.MAX_TIMESTAMP: 5}, {rows.BASE_TIMESTAMP: 7})
    areas = np.zeros((rows.AREA_COLUMNS, 3), np.int64)

    assert run(fill_areas)(table, areas) == rows.OK

    assert areas_of(BatchColumns(table)).tolist() == areas.tolist()


def test_only_records_to_read_are_counted(run: Run) -> None:
    """FILTER and KEEP count; the count of a batch without either is ignored."""
    areas = areas_of(BatchColumns(batches({}, {rows.RECORDS_COUNT: 2**31}, {})))
    actions = np.array([keys.FILTER, keys.RETAIN_EMPTY, keys.KEEP], np.int64)

    assert run(count_records)(areas, actions) == 20


@pytest.mark.parametrize("count", [-1, 20, 2**31 - 1, 2**62])
def test_more_records_than_the_bytes_hold_are_refused(run: Run, count: int) -> None:
    """139 bytes hold at most 19 records, so 20 are rejected before memory is allocated."""
    areas = areas_of(BatchColumns(batches({rows.RECORDS_COUNT: count})))

    assert run(count_records)(areas, np.array([keys.FILTER], np.int64)) == rows.BAD_COUNT


@pytest.mark.parametrize("missing", [None, *range(20)])
def test_a_batch_is_superseded_whole_if_all_its_bits_are_set(run: Run, missing: int | None) -> None:
    """One offset without its bit, at the start, in the middle or at the end, keeps the batch."""
    bits = np.full(4, 0xFF, np.uint8)
    if missing is not None:
        bits[missing >> 3] &= ~np.uint8(1 << (missing & 7))
    actions = np.array([keys.FILTER | keys.RETAIN_EMPTY, keys.FILTER], np.int64)

    marked = run(mark_superseded)(batches({}, {}), actions, bits, state(20))

    whole = [missing is None or missing >= 10, missing is None or missing < 10]
    assert marked == sum(whole)
    assert [bool(action & keys.SUPERSEDED_WHOLE) for action in actions.tolist()] == whole
    assert [bool(action & keys.FILTER) for action in actions.tolist()] == [not it for it in whole]
    assert actions[0] & keys.RETAIN_EMPTY


@pytest.mark.parametrize(
    ("change", "action"),
    [
        ({rows.RECORDS_COUNT: 9}, keys.FILTER),
        ({rows.MAGIC: 1}, keys.FILTER),
        ({}, keys.KEEP),
        ({}, keys.FILTER | keys.KEEP),
        ({}, 0),
        ({rows.BASE_OFFSET: -1}, keys.FILTER),
        ({rows.LAST_OFFSET: 31}, keys.FILTER),
        ({rows.LAST_OFFSET: -(2**63)}, keys.FILTER),
    ],
)
def test_nothing_else_is_superseded_whole(run: Run, change: dict[int, int], action: int) -> None:
    """Not with gaps, of an old format, with KEEP, without FILTER, or where offsets have no bit."""
    actions = np.array([action], np.int64)

    assert run(mark_superseded)(batches(change), actions, np.full(4, 255, np.uint8), state(31)) == 0

    assert actions.tolist() == [action]


def test_removals_are_counted_by_cause(run: Run) -> None:
    """Records of filtered batches count by verdict, those of other batches all at once."""
    table = batches(
        {}, {}, {rows.ATTRIBUTES: 0x20, rows.RECORDS_COUNT: 1}, {rows.RECORDS_COUNT: 0}, {}
    )
    actions = np.array([keys.FILTER, keys.SUPERSEDED_WHOLE, 0, keys.FILTER, 0], np.int64)
    results = np.array([keys.REWRITTEN, *[keys.DROPPED] * 4], np.int64)
    decided = np.zeros((keys.KEY_COLUMNS, 12), np.int64)
    decided[keys.VERDICT, :10] = [keys.STAYS] * 4 + [keys.SUPERSEDED] * 3 + [keys.EXPIRED] * 2 + [3]
    seen = np.full(keys.SEEN_COLUMNS, 99, np.int64)

    assert run(collect_stats)(table, actions, decided, 10, results, seen) == rows.OK

    assert seen.tolist() == [31, 4, 13, 2, 1, 10, 1, 1, 1000]


@pytest.mark.parametrize("seed", range(40))
def test_hostile_numbers_are_a_status(run: Run, seed: int) -> None:
    """Whatever numbers a table holds, the result is a number and no other array changes."""
    rng = random.Random(seed)
    table = batches({}, {}, {})
    for _ in range(4):
        table[rng.randrange(rows.BATCH_COLUMNS), rng.randrange(3)] = rng.choice(HOSTILE)
    areas, actions = np.zeros((rows.AREA_COLUMNS, 3), np.int64), np.full(3, keys.FILTER, np.int64)
    words = state(rng.choice((0, 8, 24, 32)))
    words[rng.randrange(keys.STATE_WORDS)] = rng.choice(HOSTILE)
    decided, seen = np.zeros((keys.KEY_COLUMNS, 1), np.int64), np.zeros(keys.SEEN_COLUMNS, np.int64)

    assert run(summarize_headers)(table)[0] in range(8)
    assert run(fill_areas)(table, areas) == rows.OK
    assert run(count_records)(areas, actions) >= rows.BAD_COUNT
    assert (
        run(mark_superseded)(table, actions, np.full(4, 255, np.uint8), words) >= rows.BAD_ARGUMENT
    )
    assert run(collect_stats)(table, actions, decided, 1, actions * 0, seen) == rows.OK


def test_arrays_that_do_not_fit_are_refused(run: Run) -> None:
    """Too few rows, actions, bits or columns are BAD_ARGUMENT."""
    table, actions = batches({}, {}), np.full(1, keys.FILTER, np.int64)
    areas, bits = np.zeros((rows.AREA_COLUMNS, 1), np.int64), np.zeros(1, np.uint8)
    decided, seen = np.zeros((keys.KEY_COLUMNS, 1), np.int64), np.zeros(3, np.int64)

    assert run(summarize_headers)(table[:3].copy()) == (0, 0)
    assert run(fill_areas)(table, areas) == rows.BAD_ARGUMENT
    assert (
        run(count_records)(np.zeros((rows.AREA_COLUMNS, 2), np.int64), actions) == rows.BAD_ARGUMENT
    )
    assert run(mark_superseded)(table, actions, bits, state(8)) == rows.BAD_ARGUMENT
    assert run(mark_superseded)(table[:, :1].copy(), actions, bits, state(9)) == rows.BAD_ARGUMENT
    one = table[:, :1].copy()
    assert run(collect_stats)(one, actions, decided, 1, actions, seen) == rows.BAD_ARGUMENT
    enough = np.zeros(keys.SEEN_COLUMNS, np.int64)
    assert run(collect_stats)(one, actions, decided, 2, actions, enough) == rows.BAD_ARGUMENT
