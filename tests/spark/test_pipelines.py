"""A declarative pipeline reads a topic and writes to one: the guide's, run by PySpark's program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.connect_client import client_environment

import tidelog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GUIDE = Path(__file__).parents[2] / "docs" / "recipes.md"
CODE = "from pyspark import pipelines as dp\n"
PROGRAM = """
import json, sys, types
from importlib.machinery import ModuleSpec
from pathlib import Path

try:
    import yaml
except ModuleNotFoundError:  # the specification below is JSON, which is YAML, too
    yaml = sys.modules["yaml"] = types.ModuleType("yaml")
    yaml.__spec__ = ModuleSpec("yaml", None)
    yaml.safe_load = json.load
from pyspark.pipelines.cli import run

run(Path(sys.argv[1]), [], False, [], False)
"""


def test_the_pipeline_of_the_guide_writes_each_row_once(tmp_path: Path) -> None:
    """A second run continues from its checkpoint."""
    environ = client_environment(SPARK_REMOTE="local[1]")
    data = tmp_path / "data"
    with tidelog.open(data) as logs:
        logs.create_topic("orders")
        for item in (b"tea", b"jam", b"green tea"):
            logs.partition("orders", 0).append_records([(-1, None, item, [])])
    code = CODE + GUIDE.read_text("utf-8").partition(CODE)[2].partition("```")[0]
    (tmp_path / "teas.py").write_text(code.replace("/srv/data", str(data)))
    specification = {
        "name": "teas",
        "storage": f"file://{tmp_path}/checkpoints",
        "configuration": {"spark.sql.session.timeZone": "UTC"},
        "libraries": [{"glob": {"include": "teas.py"}}],
    }
    (tmp_path / "spark-pipeline.yml").write_text(json.dumps(specification))

    run(tmp_path, environ)
    with tidelog.open(data) as logs:
        logs.partition("orders", 0).append_records([(-1, None, b"more tea", [])])
    run(tmp_path, environ)

    with tidelog.open_read_only(data / "teas-0") as log:
        values = [record.value for record in log.records()]
    assert values == [b"tea", b"green tea", b"more tea"]


def run(folder: Path, environ: dict[str, str]) -> None:
    """Run the pipeline in a process of its own, with a Spark Connect server of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(folder / "spark-pipeline.yml")],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
