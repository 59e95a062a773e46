"""Entries of keys from many processes: merged in any order, and looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.kernels.compaction.key_merge import (
    entries_by_bucket,
    find_superseded,
    hash_keys,
    merge_entries,
    move_entries,
)
from tidelog.kernels.compaction.key_walk import find_keys

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Run = Callable[[Any], Any]


def entries(*found: tuple[int, int]) -> Any:
    """Return entries of keys, given as small numbers, with their offsets."""
    words = [(key << 32, key, offset) for key, offset in found]
    return np.ascontiguousarray(np.array(words, np.int64).reshape(-1, 3).T)


def slots(count: int) -> Any:
    return np.zeros(count * keys.SLOT_WORDS, np.int64)


def test_in_any_order_the_greatest_offset_of_each_key_stays(run: Run, rng: random.Random) -> None:
    """All other offsets are superseded, each once."""
    found = [(rng.randrange(8), offset) for offset in range(60)]
    last = dict(sorted(found, key=lambda one: one[1]))
    rng.shuffle(found)
    table, lost = slots(16), np.zeros(60, np.int64)

    done, superseded, added = run(merge_entries)(entries(*found), 0, 16, table, lost)

    assert (done, added) == (60, len(last))
    assert sorted([*last.values(), *lost[:superseded].tolist()]) == list(range(60))
    held = table.reshape(-1, 3)
    assert {int(one): int(at) - 1 for _, one, at in held[held[:, 2] != 0]} == last


def test_an_entry_that_comes_twice_supersedes_nothing(run: Run) -> None:
    """As the same record may, if a task is repeated."""
    done, superseded, added = run(merge_entries)(
        entries((1, 5), (1, 5)), 0, 4, slots(4), np.zeros(2, np.int64)
    )

    assert (done, superseded, added) == (2, 0, 1)


def test_a_merge_ends_before_the_key_that_has_no_room(run: Run) -> None:
    """What is known is still merged; the caller makes a larger table and continues there."""
    table, lost = slots(8), np.zeros(4, np.int64)

    found = run(merge_entries)(entries((1, 1), (2, 2), (1, 3), (3, 4)), 0, 2, table, lost)

    assert found == (3, 1, 2)
    assert lost[0] == 1


def test_clean_records_are_superseded_by_greater_offsets_only(run: Run) -> None:
    """Not by themselves, nor by keys that are not there."""
    table = slots(8)
    run(merge_entries)(entries((1, 10), (2, 4)), 0, 8, table, np.zeros(2, np.int64))
    lost = np.zeros(4, np.int64)

    count = run(find_superseded)(entries((1, 3), (2, 4), (3, 1), (1, 11)), table, lost)

    assert lost[:count].tolist() == [3]


def test_a_larger_table_has_all_entries_of_the_one_before(run: Run) -> None:
    """Where a search finds them; also those that were after the end of the smaller one."""
    found = entries(*((key << 28, key) for key in range(7)), (-1, 7), (-2, 8))
    table, larger, lost = slots(9), slots(20), np.zeros(9, np.int64)
    run(merge_entries)(found, 0, 9, table, lost)

    assert run(move_entries)(table, larger) == 9
    assert run(merge_entries)(found, 0, 0, larger, lost) == (9, 0, 0)
    assert run(move_entries)(larger, slots(8)) == rows.BAD_ARGUMENT


def test_entries_are_taken_bucket_by_bucket(run: Run) -> None:
    """The second half of a hash selects the bucket; an empty one has no entries."""
    words = np.array([[1 << 40, 2 << 50, 3], [0, -1, 1 << 62], [5, 6, 7]], np.int64)
    table, bounds, taken = slots(8), np.zeros((3, 8), np.int64), np.zeros(9, np.int64)
    run(merge_entries)(words, 0, 3, table, np.zeros(3, np.int64))

    assert run(entries_by_bucket)(table, bounds, taken) == 3
    assert bounds.tolist() == [[0, 1, 1, 2, 2, 2, 2, 2], *[[1, 0, 1, 0, 0, 0, 0, 1]] * 2]
    assert taken.tolist() == [1 << 40, 0, 5, 3, 1 << 62, 7, 2 << 50, -1, 6]
    assert run(entries_by_bucket)(table, bounds, taken[:8]) == rows.BAD_ARGUMENT
    assert run(entries_by_bucket)(table, bounds[:, :0].copy(), taken) == rows.BAD_ARGUMENT
    assert run(entries_by_bucket)(table, bounds[:2].copy(), taken) == rows.BAD_ARGUMENT


def test_the_hash_is_that_of_the_offset_map(run: Run) -> None:
    """So that both divide keys alike; a null key is hashed as an empty one."""
    data, table = np.frombuffer(b"one two " + bytes(64), np.uint8), np.zeros((10, 3), np.int64)
    table[keys.KEY_AT], table[keys.KEY_SIZE] = [0, 4, 0], [3, 3, -1]
    state = np.arange(keys.STATE_WORDS)
    hashes, expected = np.zeros((2, 3), np.int64), np.zeros((2, 3), np.int64)
    find_keys(data, table, 0, 3, expected, slots(1), state)

    assert run(hash_keys)(data, table, 3, state, hashes) == rows.OK
    assert hashes.tolist() == expected.tolist()
    assert len(set(hashes[0].tolist())) == 3


def test_arrays_that_do_not_fit_are_refused(run: Run) -> None:
    """Tables of no slot or of part of one, and results without room, give a status."""
    one, lost = entries((1, 1)), np.zeros(1, np.int64)
    for words in (0, 2, 4):
        table = np.zeros(words, np.int64)
        assert run(merge_entries)(one, 0, 1, table, lost)[0] == rows.BAD_ARGUMENT
        assert run(find_superseded)(one, table, lost) == rows.BAD_ARGUMENT
        assert run(move_entries)(table, slots(2)) == rows.BAD_ARGUMENT
        assert run(move_entries)(slots(2), table) == rows.BAD_ARGUMENT
        assert run(entries_by_bucket)(table, np.zeros((3, 1), np.int64), lost) == rows.BAD_ARGUMENT
    assert run(merge_entries)(one, 2, 1, slots(1), lost)[0] == rows.BAD_ARGUMENT
    assert run(merge_entries)(one, 0, 1, slots(1), lost[:0])[0] == rows.BAD_ARGUMENT
    assert run(find_superseded)(one, slots(1), lost[:0]) == rows.BAD_ARGUMENT
    wide = np.zeros((keys.KEY_COLUMNS, 1), np.int64)
    state = np.zeros(keys.STATE_WORDS, np.int64)
    assert run(hash_keys)(np.zeros(0, np.uint8), wide, 2, state, one) == rows.BAD_ARGUMENT
