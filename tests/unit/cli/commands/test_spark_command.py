"""``tidelog spark``: what is checked before a session of Spark is started."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any

JOBS = {
    "compact": (),
    "verify": (),
    "mirror": ("--to", "other"),
    "repartition": ("--to", "u", "--partitions", 2),
}


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that came as far as a session of Spark would start one: here it is an error."""
    monkeypatch.setitem(sys.modules, "tidelog.spark", None)


@pytest.mark.parametrize("job", JOBS)
def test_a_missing_topic_is_reported_before_spark_starts(cli: Cli, job: str) -> None:
    """The error names the job, the topic and those that are there."""
    cli.on("create", "flights")

    outcome = cli.on("spark", job, "flihgts", *JOBS[job])

    assert outcome.code == 2
    assert outcome.err.startswith(f"tidelog spark {job}: no topic flihgts in")
    assert outcome.err.endswith("it has flights\n")


@pytest.mark.parametrize("job", ["compact", "verify", "mirror"])
def test_a_missing_directory_is_reported_before_spark_starts(
    cli: Cli, job: str, tmp_path: Path
) -> None:
    """It is an error of usage, as for any other command."""
    missing = tmp_path / "missing"

    outcome = cli("spark", job, "-d", missing, *JOBS[job])

    assert (outcome.code, str(missing) in outcome.err) == (2, True)
    assert outcome.err.startswith(f"tidelog spark {job}: ")
    assert not missing.exists()


def test_a_job_that_can_work_goes_on_to_spark(cli: Cli) -> None:
    """What has been checked is not refused."""
    cli.on("create", "flights")

    outcome = cli.on("spark", "verify", "flights")

    assert (outcome.code, "tidelog.spark" in outcome.err) == (2, True)
