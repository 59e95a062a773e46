"""What tests of several kinds share.

One Spark session per process, as it takes seconds to start; the count of what a test enumerates.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession


class Enumerated(Protocol):
    """Asserts that a test went over ``at_least`` things, and reports their count."""

    def __call__(self, what: str, count: int, *, at_least: int) -> None:
        """``what`` names the things in the plural; ``at_least`` is more than 0."""


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


@pytest.fixture
def enumerated(record_property: Callable[[str, object], None]) -> Enumerated:
    """Keep a test that goes over what it computes from passing when that is nothing.

    The counts are printed at the end of the run, summed over the parameters of a test.
    """

    def check(what: str, count: int, *, at_least: int) -> None:
        assert at_least > 0
        record_property(f"enumerated {what}", count)
        assert count >= at_least, f"{count} {what}"

    return check


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how much each test enumerated."""
    counts: dict[str, int] = {}
    for report in terminalreporter.getreports("passed"):
        for name, count in getattr(report, "user_properties", ()):
            if name.startswith("enumerated "):
                test = report.nodeid.partition("[")[0]
                line = f"{test}: {{}} {name.removeprefix('enumerated ')}"
                counts[line] = counts.get(line, 0) + count
    if counts:
        terminalreporter.section("enumerated")
        for line, count in sorted(counts.items()):
            terminalreporter.write_line(line.format(count))
