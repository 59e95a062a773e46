"""The tables of the guide are complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.spark.options import source_options

pytestmark = pytest.mark.spark

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_guide_names_every_option() -> None:
    """Every option of a read or a write is in one of the tables, refused ones included."""
    options = {*source_options._READ_OPTIONS, *source_options._WRITE_OPTIONS}
    options |= {"txnId", *source_options._STREAM_RULES, *source_options._REFUSED_IN_WRITES}
    tables = "".join(line for line in GUIDE.read_text("utf-8").splitlines() if line[:1] == "|")

    assert [name for name in sorted(options) if f"`{name}`" not in tables] == []
    assert "kafka.auto.offset.reset" in tables
