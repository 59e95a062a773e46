"""By leader epochs it is known whether a log still has what was read of it."""

from __future__ import annotations

import pytest

from tidelog.readonly.epoch_lineage import (
    MOST,
    Epochs,
    cause_of_parting,
    lineage,
    other_records,
    parting,
)


@pytest.mark.parametrize(
    ("known", "offset", "now", "expected"),
    [
        # The log has grown, also in later epochs, or forgot what lies below its start.
        (((0, 0),), 50, ((0, 0),), None),
        (((0, 0),), 50, ((0, 0), (3, 50)), None),
        (((0, 0),), 50, ((0, 20),), None),
        (((0, 0), (2, 10)), 50, ((2, 30), (3, 60)), None),
        (((0, 20),), 50, ((0, 0),), None),
        # Nothing is known, of the position or of the log; or the log begins after the position.
        ((), 50, ((0, 0),), None),
        (((0, 0),), 50, (), None),
        (((0, 0),), 50, ((4, 50),), None),
        # It was restored to offset 30.
        (((0, 0),), 50, ((0, 0), (9, 30)), 30),
        # Twice, to other ends: all from the lower one on is new.
        (((0, 0), (9, 30)), 50, ((0, 0), (7, 20)), 20),
        (((0, 0), (9, 30)), 50, ((0, 0), (7, 40)), 30),
        (((0, 0), (9, 30)), 50, ((0, 0), (9, 30), (12, 45)), 45),
        # It was put back from a copy in which no epoch begins.
        (((0, 0), (9, 30)), 50, ((0, 0),), 30),
        # The same epoch that begins elsewhere is another one.
        (((0, 0), (9, 30)), 50, ((0, 0), (9, 20)), 20),
        # It was lost as a whole, and began again.
        (((0, 0),), 50, ((9, 0),), 0),
        (((0, 0),), 50, ((9, 10), (11, 40)), 10),
        # Whatever was read of it: all that it has from where that began.
        (((0, 0), (9, 30)), 50, ((4, 0), (7, 20)), 0),
        # Of a consumer group one epoch is known, and that it holds the last record.
        (((0, 49),), 50, ((0, 0),), None),
        (((0, 49),), 50, ((0, 0), (9, 30)), 30),
        (((5, 49),), 50, ((0, 0), (9, 30)), 30),
        (((12, 49),), 50, ((0, 0), (9, 30)), 30),
    ],
)
def test_a_log_parts_from_a_position_where_the_epochs_differ(
    known: Epochs, offset: int, now: Epochs, expected: int | None
) -> None:
    """That is the first offset at which it may have other records than were read."""
    assert parting(known, offset, now) == expected


def test_the_newest_epochs_below_a_position_are_kept() -> None:
    """One that begins at the position has no record that was read."""
    epochs = tuple((number, 10 * number) for number in range(40))

    assert lineage(epochs, 20) == ((0, 0), (1, 10))
    assert lineage(epochs, 0) == ()
    assert lineage(epochs, 301) == epochs[31 - MOST : 31]


@pytest.mark.parametrize(
    ("log_end_offset", "said"),
    [
        (30, "and ends at 30 now"),
        (31, "and others have those below 31 now"),
        (49, "and others have those below 49 now"),
        (50, "and others have them now"),
        (90, "and others have them now"),
    ],
)
def test_the_cause_says_which_offsets_others_have(log_end_offset: int, said: str) -> None:
    """None of those that were read, before anything is appended after a restore."""
    cause = cause_of_parting(30, 50, log_end_offset)

    assert cause == f"the log was restored, or lost its end, since they were read, {said}"


def test_the_loss_names_the_offsets_and_what_to_do() -> None:
    """Both are in its text, and the offsets in its fields."""
    error = other_records(("t", 3), 30, 50, 90, remedy="; read them again")

    assert (error.topic, error.partition, error.start_offset, error.end_offset) == ("t", 3, 30, 50)
    assert str(error).endswith("and others have them now; read them again")
