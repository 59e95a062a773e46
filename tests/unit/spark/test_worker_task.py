"""Every task of ours in a worker of Spark starts and ends in the same way."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyspark")

TASKS = {
    "read": "list(LogSource(topic_options).reader(schema).read(None))",
    "table": "list(LogSource({'path': PATH, 'table': 'segments'}).reader(segments).read(part))",
    "write": "LogSource({'path': PATH, 'topic': 't'}).writer(values, False).write(iter([]))",
    "stream": "LogSource({'path': PATH, 'topic': 't'}).streamWriter(values, False).write(iter([]))",
    "job": "list(JobReader(Job()).read(JobPartition(0)))",
    "hash": "list(compact._hash(shared, 0))",
    "merge": "list(compact._merge(shared, []))",
    "rewrite": "list(compact._rewrite(shared, shared, 0, []))",
}
SCRIPT = """
import gc, sys
from types import SimpleNamespace
from pyspark.sql.types import BinaryType, StructField, StructType
from tidelog.errors import TidelogError
from tidelog.spark.jobs import compact
from tidelog.spark.jobs.job_tasks import JobPartition, JobReader
from tidelog.spark.read.table_reader import TablePart, table_columns
from tidelog.spark.source import LogSource

PATH = sys.argv[1]
topic_options = {"path": PATH, "subscribe": "t"}
schema = StructType([StructField("key", BinaryType())])
values = StructType([StructField("value", BinaryType())])
segments, part = table_columns("segments"), TablePart((), False)
class Job:
    tasks = [0]
    def run(self, number):
        return number

shared = SimpleNamespace(value=[None])
compact.hash_task = compact.merge_task = compact.rewrite_task = lambda *_: []

frozen = []
for number in range(3):
    if number == 2:
        import wave
    new = [[] for _ in range(10)]
    try:
        TASK
    except TidelogError:
        pass
    there = {id(one) for one in gc.get_objects()}
    frozen.append(all(id(one) not in there for one in new))
print(frozen)
"""


@pytest.mark.parametrize("name", TASKS)
def test_tasks_keep_loaded_objects_out_of_collections(name: str, tmp_path: Path) -> None:
    """A worker collects garbage after each task: over all that numba and Arrow loaded, for ever.

    After the first task, and each that finds more modules than the one before it. The others leave
    their objects to be collected.
    """
    text = SCRIPT.replace("TASK", TASKS[name])

    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "[True, False, True]", done.stderr
