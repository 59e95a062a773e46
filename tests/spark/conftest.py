"""One Spark session for all tests of a process, which takes seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a local session with two task slots."""
    pytest.importorskip("pyspark")
    from tidelog.spark import session

    running = session(**{"spark.master": "local[2]", "spark.app.name": "tidelog tests"})
    yield running
    running.stop()


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    """Return the path of a data directory that does not exist yet."""
    return str(tmp_path / "data")
