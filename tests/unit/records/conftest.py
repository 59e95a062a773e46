"""Tests of records run twice: in plain code and with compiled kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.kernels.runtime import gate

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=[False, True], ids=["plain", "kernels"])
def engine(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Force plain code or kernels for one test."""
    gate.force(request.param)
    yield request.param
    gate.force(None)
