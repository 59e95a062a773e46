"""The summary of an append's batches, and their index entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.kernels import rows
from tidelog.kernels.survey import plan_index_entries, survey_batches

if TYPE_CHECKING:
    from collections.abc import Callable


def table(count: int, **fields: list[int]) -> Any:
    made = np.zeros((rows.BATCH_COLUMNS, count), np.int64)
    made[rows.MAGIC] = 2
    made[rows.LAST_OFFSET] = np.arange(count)
    for name, values in fields.items():
        made[getattr(rows, name.upper())] = values
    return made


def surveyed(kernel: Any, batches: Any) -> list[int]:
    out = np.full(rows.SURVEY_COLUMNS, -99, np.int64)
    assert kernel(batches, out) == rows.OK
    found: list[int] = out.tolist()
    return found


def test_a_survey_has_the_greatest_of_each(run: Callable[[Any], Any]) -> None:
    """Size, timestamp, epoch, producer and codec, wherever they are."""
    batches = table(
        3,
        size=[9, 100, 8],
        max_timestamp=[-1, 5, 7],
        leader_epoch=[3, 3, 3],
        producer_id=[-1, 12, -1],
        attributes=[4, 2, 0x38],
    )

    found = surveyed(run(survey_batches), batches)

    assert found == [100, 7, 3, 12, 4, 2, 0, 1, 1]


def test_a_survey_sees_what_differs(run: Callable[[Any], Any]) -> None:
    """A base offset other than 0, offsets that do not rise, another epoch or magic."""
    survey = run(survey_batches)

    based, falling = table(2, base_offset=[0, 1]), table(2, last_offset=[4, 4])
    epochs, magics = table(3, leader_epoch=[1, 1, 2]), table(2, magic=[1, 2])
    old = table(2, magic=[1, 1], base_offset=[5, 6])

    assert [surveyed(survey, based)[6], surveyed(survey, old)[6]] == [1, 0]
    assert surveyed(survey, falling)[7] == 0
    assert [surveyed(survey, one)[8] for one in (based, epochs, magics)] == [1, 0, 0]


def test_a_survey_needs_batches_and_room(run: Callable[[Any], Any]) -> None:
    """No batches, or too small an output, is BAD_ARGUMENT."""
    survey = run(survey_batches)

    assert survey(table(0), np.zeros(rows.SURVEY_COLUMNS, np.int64)) == rows.BAD_ARGUMENT
    assert survey(table(1), np.zeros(rows.SURVEY_COLUMNS - 1, np.int64)) == rows.BAD_ARGUMENT


def test_entries_are_due_when_more_than_the_interval_has_passed(run: Callable[[Any], Any]) -> None:
    """Each entry has last offset, position, and the greatest timestamp with its offset."""
    batches = table(4, size=[10, 10, 10, 10], max_timestamp=[5, 9, 9, 7])
    out = np.zeros((rows.ENTRY_COLUMNS, 4), np.int64)

    found = run(plan_index_entries)(batches, 100, 11, 6, 3, 10, out)

    assert found == (2, 20, 9, 1)
    assert out[:, :2].T.tolist() == [[0, 100, 6, 3], [2, 120, 9, 1]]


def test_without_room_for_all_no_entry_is_made(run: Callable[[Any], Any]) -> None:
    """The output needs a column for every batch, since the number of entries is not known."""
    batches = table(2, size=[10, 10])
    out = np.zeros((rows.ENTRY_COLUMNS, 1), np.int64)

    assert run(plan_index_entries)(batches, 0, 99, 1, 2, 5, out) == (rows.BAD_ARGUMENT, 99, 1, 2)
    assert not out.any()
