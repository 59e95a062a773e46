"""What tests of several kinds share: one Spark session a process, for it takes seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a local session with two task slots."""
    pytest.importorskip("pyspark")
    from tidelog.spark import session

    running = session(**{"spark.master": "local[2]", "spark.app.name": "tidelog tests"})
    yield running
    running.stop()
