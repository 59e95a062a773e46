"""The jobs of ``tidelog spark``, by their functions and commands, in one local session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog.spark
from tidelog.cli.commands.spark_jobs import verify_job
from tidelog.cli.main import main
from tidelog.cli.parser import make_parser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DATA = Path(__file__).parents[1] / "golden" / "data"


def test_verify_finds_what_the_command_finds(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a directory that Kafka left damaged, each finding once, and the same exit code."""
    directory = str(DATA / "crash" / "flip-middle" / "before")
    code = main(["verify", directory, "--json"])
    expected = capsys.readouterr().out.splitlines()[:-1]
    found = [
        json.dumps(row) for row in map(_as_json, tidelog.spark.verify(spark, directory).collect())
    ]
    args = make_parser(["spark"]).parse_args(["spark", "verify", directory, "--json"])

    assert sorted(found) == sorted(expected)
    assert verify_job.run(args, spark) == code == 1
    *printed, total = capsys.readouterr().out.splitlines()
    assert sorted(printed) == sorted(expected)
    assert json.loads(total)["counts"]["findings"] == len(expected)


def test_verify_prints_how_much_it_checked(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the topics that it was given, also without findings."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 2)
        logs.create_topic("u")
    args = make_parser(["spark"]).parse_args(["spark", "verify", str(tmp_path), "t"])

    assert verify_job.run(args, spark) == 0
    assert capsys.readouterr().out == "2 partitions checked: 0 findings, 0 of damage\n"


def _as_json(row: Any) -> dict[str, Any]:
    names = ("topic", "partition", "severity", "file", "byte", "what", "remedy")
    return {name: row[name] for name in names}
