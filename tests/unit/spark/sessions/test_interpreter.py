"""The Python interpreter that Spark starts its workers with."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.spark.sessions.interpreter import make_script, worker_python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the script needs a POSIX shell")

SHOW = "import os, sys; print({name: os.environ.get(name) for name in sys.argv[1:]})"


def echo(tmp_path: Path) -> str:
    """Write a program that prints its PYTHONPATH and its arguments, a line each."""
    program = tmp_path / "it's python"
    program.write_text('#!/bin/sh\necho "[$PYTHONPATH]"\nfor word do echo "$word"; done\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("{lib}/pyspark.zip:{lib}/py4j-0.10.9.9-src.zip:/a b:/c*", "/a b:/c*"),
        ("/a:{lib}/pyspark.zip:/b:{lib}/pyspark.zip", "/a:/b"),
        ("/other/pyspark.zip:/a", "/other/pyspark.zip:/a"),
        ("{lib}/pyspark.zip", ""),
        ("", ""),
    ],
)
def test_the_script_removes_sparks_zips_from_the_path(
    path: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own zips are removed wherever they are; other entries and arguments stay."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lib = str(tmp_path / "a lib")
    script = make_script(lib, echo(tmp_path)) or ""

    done = subprocess.run(
        [script, "-m", "a b", "*"],
        env={"PYTHONPATH": path.format(lib=lib)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert [f"[{kept}]", "-m", "a b", "*"] == done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
def test_the_script_changes_no_other_variable_of_the_environment(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job's own variables reach its workers, whatever they are called."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = make_script("/lib", sys.executable) or ""
    variables = {"path": "mine", "entry": "mine"}

    done = subprocess.run(
        [shell, script, "-c", SHOW, *variables, "PYTHONPATH"],
        env=variables | {"PYTHONPATH": "/a:/lib/pyspark.zip:/b"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert variables | {"PYTHONPATH": "/a:/b"} == ast.literal_eval(done.stdout)


def test_workers_find_the_pyspark_of_this_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If PySpark is installed here, workers start through a script around this interpreter."""
    pytest.importorskip("pyspark")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)

    python = worker_python()

    assert python.startswith(str(tmp_path))
    assert f"exec {sys.executable} " in Path(python).read_text()


def test_a_spark_from_elsewhere_keeps_its_zips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If SPARK_HOME names another Spark, its PySpark may differ from the one installed here."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    assert sys.executable == worker_python()


def test_pyspark_that_is_not_installed_here_keeps_its_zips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers need Spark's zip if PySpark is on the path of this process only."""
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)

    assert sys.executable == worker_python()
