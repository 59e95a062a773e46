"""Every task of ours in a worker of Spark starts and ends in the same way."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
import gc, json, os, sys, traceback
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

def run(task):
    frozen = []
    for number in range(3):
        if number == 2:
            import wave
        new = [[] for _ in range(10)]
        try:
            exec(task, globals())
        except TidelogError:
            pass
        there = {id(one) for one in gc.get_objects()}
        frozen.append(all(id(one) not in there for one in new))
    return frozen

for name, task in json.loads(sys.argv[2]).items():
    child = os.fork()
    if not child:
        try:
            print(json.dumps([name, run(task)]), flush=True)
        except Exception:
            traceback.print_exc()
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[bool]], str]:
    """Whether each of three tasks kept what was there before; what was printed of errors.

    Each kind of task has a worker of its own, forked as Spark forks them.
    """
    words = [str(tmp_path_factory.mktemp("tasks")), json.dumps(TASKS)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=False
    )
    return dict(map(json.loads, done.stdout.splitlines())), done.stderr


@pytest.mark.parametrize("name", TASKS)
def test_tasks_keep_loaded_objects_out_of_collections(
    name: str, frozen: tuple[dict[str, list[bool]], str]
) -> None:
    """A worker collects garbage after each task: over all that numba and Arrow loaded, for ever.

    After the first task, and each that finds more modules than the one before it. The others leave
    their objects to be collected.
    """
    found, errors = frozen

    assert found.get(name) == [True, False, True], errors
