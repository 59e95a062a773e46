"""The examples in the README run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
CODE = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = CODE.findall(README)
SPARK, PLAIN = (text for language, text in BLOCKS if language == "python")
COMMANDS = next(text for _, text in BLOCKS if "tidelog describe" in text).splitlines()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with the topic that the README's commands name."""
    path = tmp_path / "data"
    with tidelog.open(path) as logs:
        logs.create_topic("flights", partitions=4)
        for partition in range(4):
            logs.partition("flights", partition).append_records([(5, b"N14228", b"EWR-IAH", [])])
    return path


def test_the_first_example_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has ten lines at most, and shows the records that it wrote."""
    code = SPARK.replace('"data"', repr(str(tmp_path / "data")))

    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out

    assert len(SPARK.split("\n\n", 1)[1].splitlines()) <= 10
    assert sorted(re.findall(r"[A-Z]{3}-[A-Z]{3}", shown)) == ["EWR-IAH", "IAH-EWR", "LGA-IAH"]
    assert spark.range(1).count() == 1


def test_the_example_without_spark_runs(tmp_path: Path) -> None:
    """It runs in a new process, as a reader would try it."""
    done = subprocess.run(
        [sys.executable, "-c", PLAIN], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout == "0 b'Brest' b'high at 06:12'\n0 1 1\n"


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_runs(line: str, data: Path) -> None:
    """Each command works on the example's directory; ``run``, which does not end, is left out."""
    command, _, _ = line.partition("#")
    if " run " in command:
        return
    program = shlex.quote(str(Path(sys.executable).with_name("tidelog")))

    done = subprocess.run(
        command.replace(".venv/bin/tidelog", program),
        shell=True,
        cwd=data.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
