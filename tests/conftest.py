"""What tests of several kinds share: one Spark session a process, for it takes seconds to start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


CONNECTOR = Path(__file__).parents[1] / ".peer" / "spark-connector"
"""Spark's own Kafka source, as ``make peer`` installs it."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a local session with two task slots; it has Spark's Kafka source where that is."""
    pytest.importorskip("pyspark")
    from tidelog.spark import session

    conf = {"spark.master": "local[2]", "spark.app.name": "tidelog tests"}
    if CONNECTOR.is_dir():
        conf["spark.jars"] = ",".join(str(path) for path in sorted(CONNECTOR.glob("*.jar")))
    running = session(**conf)
    yield running
    running.stop()


@pytest.fixture
def kernels() -> Iterator[None]:
    """Let compiled code do work of any size; skip what needs it where there is none."""
    from tidelog.kernels.runtime import gate

    gate.force(True)
    is_there = gate.use_kernels(0)
    if is_there:
        yield
    gate.force(None)
    if not is_there:
        pytest.skip("numba is not installed")
