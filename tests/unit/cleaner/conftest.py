"""Fixtures for tests of rules that hold with kernels and in plain code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.kernels.runtime import gate

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=[True, False], ids=["kernels", "plain"])
def both_ways(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Clean with kernels, then in plain code."""
    gate.force(request.param)
    yield request.param
    gate.force(None)
