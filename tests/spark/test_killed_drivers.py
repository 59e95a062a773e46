"""Every row that Spark writes is in the log once, wherever its driver is killed or a task retried.

``test_exactly_once`` holds for what fails while the driver lives.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.machinery.scale import scaled
from tests.spark.stopped_source import POINTS
from tests.spark.written_rows import left_over, values, write_lines

import tidelog

if TYPE_CHECKING:
    from tests.conftest import Enumerated

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER = """
import sys
from pyspark import cloudpickle
from tests.spark import stopped_source
from tidelog.spark import session

kind, path, point, by, master, seed = sys.argv[1:]
spark = session(**{"spark.master": master})
cloudpickle.register_pickle_by_value(stopped_source)
spark.dataSource.register(stopped_source.StoppedSource)
options = {"topic": "t", "numPartitions": "2", "stopAt": point, "stopBy": by,
           "stopFile": path + ".stop", "stopSeed": seed}
if kind == "batch":
    rows = spark.range(0, 40, numPartitions=2).selectExpr("cast(id AS string) AS value")
    rows.write.format("stopped").options(**options, txnId=point).mode("append").save(path)
else:
    rows = spark.readStream.format("text").load(path + "-source")
    writer = rows.writeStream.format("stopped").options(**options)
    writer = writer.option("checkpointLocation", path + "-checkpoint")
    assert writer.trigger(availableNow=True).start(path).awaitTermination(200)
spark.stop()
"""


def drive(
    kind: str, path: str, point: str, by: str, *, master: str = "local[2]", seed: int = 0
) -> int:
    """Run a driver of its own; return its exit code."""
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", DRIVER, kind, path, point, by, master, str(seed)]
    return subprocess.run(command, env=environment, check=False, timeout=300).returncode


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("point", POINTS)
def test_a_write_whose_driver_is_killed_can_be_repeated(tmp_path: Path, point: str) -> None:
    """At each moment of the commit.

    What a driver left that was killed before the commit point is deleted once it is old: until then
    its tasks could still run, for all that anybody knows.
    """
    path = str(tmp_path / "data")

    assert drive("batch", path, point, "driver") != 0
    assert drive("batch", path, point, "driver") == 0
    assert values(path) == list(range(40))
    for name in left_over(path):
        os.utime(Path(path, name), (0, 0))
    tidelog.open(path).close()
    assert left_over(path) == []


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("point", POINTS)
def test_a_stream_whose_driver_is_killed_goes_on(tmp_path: Path, point: str) -> None:
    """At each moment of the commit."""
    path = str(tmp_path / "data")
    write_lines(path + "-source", 0, 40)

    assert drive("stream", path, point, "driver") != 0
    assert drive("stream", path, point, "driver") == 0
    assert values(path) == list(range(40))


@pytest.mark.timeout(4000)
@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_driver_that_is_killed_at_random_leaves_its_rows_once(
    tmp_path: Path, kind: str, enumerated: Enumerated
) -> None:
    """While it commits or shortly after; it is run again, killed or not."""
    kills = 0
    for seed in range(scaled(5)):
        path = str(tmp_path / f"data-{seed}")
        write_lines(path + "-source", 0, 40)
        code = drive(kind, path, "random", "driver", seed=seed)
        kills += code != 0
        Path(path + ".stop").touch()
        assert drive(kind, path, "random", "driver", seed=seed) == 0
        assert values(path) == list(range(40))
    enumerated("kills of drivers", kills, at_least=1)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("by", ["raise", "kill"])
def test_a_task_that_is_retried_writes_its_rows_once(tmp_path: Path, by: str) -> None:
    """The staged file of an attempt that died is not committed, and deleted with the commit."""
    path = str(tmp_path / "data")

    assert drive("batch", path, "task", by, master="local[2,3]") == 0
    assert values(path) == list(range(40))
    assert left_over(path) == []
