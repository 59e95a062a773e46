"""How many tasks run at once, as a session lets the planner of reads know."""

from __future__ import annotations

import os

import pytest

from tidelog.spark.sessions.parallelism import PARALLELISM, default_parallelism, parallelism_of

CORES = os.cpu_count() or 1


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3,2]"}, 3),
        ({"spark.master": "local[*]"}, CORES),
        ({"spark.master": "local[3]", "spark.default.parallelism": "40"}, 40),
        ({"spark.master": "spark://host:7077", "spark.default.parallelism": "40"}, 40),
        ({"spark.master": "spark://host:7077"}, None),
        ({"spark.master": "local-cluster[2,1,512]"}, None),
    ],
)
def test_the_parallelism_of_a_session_is_spark_s_default(
    settings: dict[str, str], slots: int | None
) -> None:
    """``spark.default.parallelism``, or the threads of a local master; a cluster knows its own."""
    assert parallelism_of(settings) == slots


@pytest.mark.parametrize(("text", "slots"), [("7", 7), ("", CORES), ("0", CORES), ("all", CORES)])
def test_reads_are_split_for_the_parallelism_of_the_session(
    text: str, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner finds it in its environment; where it is not set, the cores count."""
    monkeypatch.setenv(PARALLELISM, text)

    assert default_parallelism() == slots
