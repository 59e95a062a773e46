"""A fixed sample of many cases for the quick run; the long one tries all of them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence


def sampled(cases: Sequence[object], count: int, seed: int = 1) -> list[object]:
    """Return the parameters of a test; all but ``count`` of them, chosen by ``seed``, are slow."""
    quick = Random(seed).sample(range(len(cases)), min(count, len(cases)))
    return [
        case if number in quick else pytest.param(case, marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
