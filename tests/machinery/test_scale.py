"""One variable of the environment says how many cases the long tests try."""

from __future__ import annotations

import pytest
from tests.machinery.scale import examples, scaled, stride

from tidelog.errors import InvalidArgument


def test_a_count_is_multiplied_by_the_scale() -> None:
    """Without ``SCALE`` it stays as it is."""
    assert scaled(200, {}) == 200
    assert scaled(200, {"SCALE": "1"}) == 200
    assert scaled(200, {"SCALE": "10"}) == 2000


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "ten", "²"])
def test_a_scale_is_an_integer_of_at_least_1(text: str) -> None:
    """A run of fewer cases, or of none, cannot be asked for by mistake."""
    with pytest.raises(InvalidArgument, match="SCALE="):
        scaled(200, {"SCALE": text})


def test_a_quick_run_tries_a_third_of_the_examples() -> None:
    """The long run tries all of them, and so does a run of one file."""
    assert examples(150, {}) == 150
    assert examples(150, {"QUICK": "1"}) == 50
    assert examples(150, {"SCALE": "10"}) == 1500


def test_a_quick_run_of_a_sweep_tries_each_third_operation() -> None:
    """The long run tries all of them."""
    assert [*range(0, 7, stride({}))] == [*range(7)]
    assert [*range(0, 7, stride({"QUICK": "1"}))] == [0, 3, 6]
