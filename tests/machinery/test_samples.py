"""What the quick run tries of many cases."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet
from tests.machinery.samples import sampled


def quick(cases: list[object]) -> list[object]:
    return [case for case in cases if not isinstance(case, ParameterSet)]


def test_all_cases_are_there_and_a_few_are_quick() -> None:
    """In their order, and the same ones in each run."""
    found = sampled(range(100), 7)

    slow = [case for case in found if isinstance(case, ParameterSet)]
    assert len(quick(found)) == 7
    assert quick(found) == quick(sampled(range(100), 7))
    assert {*quick(found), *(case.values[0] for case in slow)} == set(range(100))
    assert all(case.marks == (pytest.mark.slow,) for case in slow)


def test_few_cases_are_all_quick() -> None:
    """None is left out for want of others."""
    assert sampled("ab", 3) == ["a", "b"]
