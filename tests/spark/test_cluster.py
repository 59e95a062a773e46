"""A cluster of a master and two workers on loopback addresses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import threading
import zipfile
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyspark
import pytest
from packaging.requirements import Requirement
from tests.spark.releases import NEEDS_LIMITS

import tidelog
from tidelog.cli.main import main
from tidelog.spark import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
WORKERS = ("127.0.0.2", "127.0.0.3")
TIMEOUT_S = 500
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
READY = re.compile(r"(?:Starting Spark|registered with) master (?:at )?(spark://\S+)")

JOB = """
import os, sys
import tidelog
from pyspark.sql import SparkSession
from tidelog.spark import session_conf

master, path = sys.argv[1:]
with tidelog.open(path) as logs:
    logs.create_topic("t", 4)
    for number in range(4):
        for first in range(0, 5000, 500):
            logs.partition("t", number).append_records(
                [(-1, b"%d" % n, bytes(100), ()) for n in range(first, first + 500)])
conf = session_conf() | {"spark.ui.enabled": "false", "spark.executor.memory": "512m",
                         "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "4"}
builder = SparkSession.builder.master(master)
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
options = {"subscribe": "t", "startingOffsets": "earliest", "maxSplitBytes": "200000"}
read = spark.read.format("tidelog").options(**options).load(path)
where = spark.sparkContext.parallelize(range(64), 64).map(
    lambda _: (os.environ["SPARK_LOCAL_IP"], __import__("tidelog").__file__)).distinct().collect()
rows = spark.readStream.format("tidelog").options(**options, maxOffsetsPerTrigger=7000).load(path)
query = rows.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
query.awaitTermination()
print("rows", read.count(), read.rdd.getNumPartitions(),
      spark.table("seen").select("partition", "offset").distinct().count(),
      len([each for each in query.recentProgress if each["numInputRows"]]))
copied = read.select("key", "value").write.format("tidelog").option("topic", "copy")
copied.mode("append").save(path)
print("copied", spark.read.format("tidelog").option("subscribe", "copy").load(path).count())
for address, file in sorted(where):
    print("worker", address, file)
spark.stop()
"""


JOBS = """
import shutil, sys
import tidelog
import tidelog.spark
from pyspark.sql import SparkSession

master, path = sys.argv[1:]
settings = {"cleanup.policy": "compact", "internal.segment.bytes": "20000",
            "file.delete.delay.ms": "0"}
with tidelog.open(path, log_cleaner_enable=False) as logs:
    logs.create_topic("compacted", 2, config=settings)
    for number in range(2):
        for first in range(0, 4000, 100):
            logs.partition("compacted", number).append_records(
                [(-1, b"key-%d" % (n % 300), b"%d" % n, ()) for n in range(first, first + 100)])
    logs.create_topic("plain", 4)
    for number in range(4):
        for first in range(0, 3000, 500):
            logs.partition("plain", number).append_records(
                [(-1, b"%d" % n, bytes(100), ()) for n in range(first, first + 500)])
shutil.copytree(path, path + ".alone")
conf = tidelog.spark.session_conf() | {
    "spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
builder = SparkSession.builder.master(master)
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
context = spark.sparkContext
store = context._jsc.sc().statusStore()
sums = {}

def ended():
    # A worker that has just started is not among the executors yet.
    found = store.executorList(False)
    return {one.hostPort().split(":")[0]: one.completedTasks()
            for one in map(found.apply, range(found.size())) if one.id() != "driver"}

def done(job, *words):
    global sums
    before, sums = sums, ended()
    hosts = [host for host in sorted(sums) if sums[host] > before.get(host, 0)]
    print(job, *words, *hosts)

while len(ended()) < 2:
    context.parallelize(range(8), 8).map(lambda n: n).collect()
sums = ended()

now_ms = max(row.timestamp.timestamp() for row in
             spark.read.format("tidelog").option("subscribe", "compacted").load(path)
             .select("timestamp").collect()) * 1000 + 60_000
facts = tidelog.spark.compact(spark, path, now_ms=int(now_ms), min_bytes=0)
done("compact", int(now_ms), sum(one.why_local is None for one in facts))
findings = tidelog.spark.verify(spark, path)
done("verify", findings.count())
copied = tidelog.spark.repartition(spark, path, "plain", to="wider", partitions=5,
                                   max_split_bytes=65536)
done("repartition", copied.records)
mirrored = tidelog.spark.mirror(spark, path, path + ".mirror", max_split_bytes=65536)
done("mirror", sum(one.batches for one in mirrored))
for table in ("segments", "batches", "topics", "plan_retention", "plan_compaction"):
    rows = spark.read.format("tidelog").option("table", table).load(path)
    done(table, rows.filter("topic = 'compacted'").count() > 0)
spark.stop()
"""


SPECULATION = """
import os, sys, time
import tidelog
from pyspark import TaskContext
from pyspark.sql import SparkSession
from tidelog.spark import session_conf
from tidelog.spark.source import LogSource
from tidelog.spark.write.batch_writer import LogWriter

master, path = sys.argv[1:]
SLOW_S = 600

class SlowWriter(LogWriter):
    def write(self, iterator):
        context = TaskContext.get()
        message = super().write(iterator)
        ran = f"{path}.ran-{context.partitionId()}-{context.attemptNumber()}"
        with open(ran, "w") as file:
            file.write(os.environ["SPARK_LOCAL_IP"])
        if (context.partitionId(), context.attemptNumber()) == (0, 0):
            time.sleep(SLOW_S)  # its rows are staged, as are those of the attempt that overtakes it
            open(f"{path}.not-overtaken", "w").close()
        return message

class SlowSource(LogSource):
    @classmethod
    def name(cls):
        return "slow"

    def writer(self, schema, overwrite):
        made = LogSource.writer(self, schema, overwrite)
        made.__class__ = SlowWriter
        return made

conf = session_conf() | {
    "spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.speculation": "true", "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.2", "spark.speculation.quantile": "0.5",
}
builder = SparkSession.builder.master(master)
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.dataSource.register(SlowSource)
rows = spark.range(0, 4000, numPartitions=4).selectExpr("cast(id AS string) AS value")
rows.write.format("slow").option("topic", "t").option("numPartitions", 2).mode("append").save(path)
print("overtaken", not os.path.exists(f"{path}.not-overtaken"))
read = spark.read.format("tidelog").option("subscribe", "t").load(path)
print("rows", read.count(), read.select("value").distinct().count())
spark.stop()
"""


class Wheel(NamedTuple):
    """A Python into which only the wheel is installed, its packages, and variables to run it."""

    python: str
    packages: Path
    environ: dict[str, str]


def needed_for(name: str, extra: str = "") -> set[str]:
    """Return the packages that ``name`` requires, directly or indirectly."""
    found = set()
    for text in requires(name) or ():
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            found |= {wanted.name, *needed_for(wanted.name)}
    return found


def make_python(folder: Path) -> tuple[str, Path]:
    """Make a Python with the wheel and its requirements only; return it and its site-packages."""
    build = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "-o"]
    build += [str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    paths = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(packages)
    for name in needed_for("tidelog", "spark"):
        installed = distribution(name)
        for top in {path.parts[0] for path in installed.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(installed.locate_file(top)))
    return str(folder / "venv" / "bin" / "python"), packages


def without_own_path() -> dict[str, str]:
    """Return the environment without packages that these tests may have from ``PYTHONPATH``."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@contextmanager
def daemon(home: Path, address: str, *words: str) -> Iterator[str]:
    """Run a Spark daemon during the block; yield the address of the master that it prints."""
    environ = without_own_path() | {
        "JAVA_HOME": find_java().home,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": address,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), *words]
    command += ["--host", address, "--port", "0", "--webui-port", "0"]
    with subprocess.Popen(
        command,
        env=environ,
        cwd=home.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if named := READY.search(line):
                break
        else:
            pytest.fail("".join(lines[-30:]))
        threading.Thread(target=list, args=[process.stdout], daemon=True).start()
        try:
            yield named[1]
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def cluster(home: Path, folder: Path) -> Iterator[str]:
    """Run a master and two workers with a core each during the block; yield the master's URL."""
    with ExitStack() as daemons:
        master = daemons.enter_context(daemon(home, "127.0.0.1", MASTER))
        for address in WORKERS:
            work = ["--cores", "1", "--memory", "600m", "-d", str(folder / address), master]
            daemons.enter_context(daemon(home, address, WORKER, *work))
        yield master


def run_job(
    python: str, job: str, master: str, folder: Path, environ: dict[str, str]
) -> list[list[str]]:
    """Run a driver to its end; return the words of the lines that it printed."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", job, master, str(folder / "data")],
        env=environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split() for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """A Python with the wheel and what it requires, for drivers and workers."""
    python, packages = make_python(tmp_path_factory.mktemp("wheel"))
    environ = without_own_path() | {
        "JAVA_HOME": find_java().home,
        "PYSPARK_PYTHON": python,
        "SPARK_HOME": str(packages / "pyspark"),
    }
    return Wheel(python, packages, environ)


@NEEDS_LIMITS
def test_a_cluster_with_the_wheel_reads_streams_and_writes(wheel: Wheel, tmp_path: Path) -> None:
    """Only ``session_conf`` is set; tasks run on both workers, with the package of the wheel."""
    with cluster(wheel.packages / "pyspark", tmp_path) as master:
        lines = run_job(wheel.python, JOB, master, tmp_path, wheel.environ)

    printed = {words[0]: words[1:] for words in lines if words[0] != "worker"}
    assert printed == {"rows": ["20000", printed["rows"][1], "20000", "3"], "copied": ["20000"]}
    assert int(printed["rows"][1]) > 4
    file = str(wheel.packages / "tidelog" / "__init__.py")
    assert [words[1:] for words in lines if words[0] == "worker"] == [[at, file] for at in WORKERS]


def test_every_job_runs_on_all_workers_of_a_cluster(wheel: Wheel, tmp_path: Path) -> None:
    """All jobs and the tables; a compacted log equals one that was cleaned alone."""
    with cluster(wheel.packages / "pyspark", tmp_path) as master:
        lines = run_job(wheel.python, JOBS, master, tmp_path, wheel.environ)

    printed = {words[0]: words[1:] for words in lines}
    now_ms = printed["compact"][0]
    assert printed["compact"] == [now_ms, "2", *WORKERS]
    assert printed["verify"] == ["0", *WORKERS]
    alone = tmp_path / "data.alone"
    assert main(["compact", str(alone), "--now", now_ms]) == 0
    compacted = [
        {file.name: file.read_bytes() for file in (path / f"compacted-{number}").iterdir()}
        for path in (tmp_path / "data", alone)
        for number in range(2)
    ]
    assert compacted[:2] == compacted[2:]
    assert printed["repartition"] == ["12000", *WORKERS]
    assert int(printed["mirror"][0]) > 100
    assert printed["mirror"][1:] == [*WORKERS]
    logs = tidelog.open_directory_read_only(tmp_path / "data")
    assert sum(1 for number in range(5) for _ in logs.read("wider", number)) == 12000
    for table in ("segments", "batches", "topics", "plan_retention", "plan_compaction"):
        assert printed[table][0] == "True"


def test_rows_of_a_task_that_runs_twice_at_once_are_written_once(tmp_path: Path) -> None:
    """By speculation: the attempt that is slow has staged its rows, too, on the other host."""
    home = Path(pyspark.__file__).parent
    environ = os.environ | {
        "JAVA_HOME": find_java().home,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))),
        "SPARK_HOME": str(home),
    }
    with cluster(home, tmp_path) as master:
        lines = run_job(sys.executable, SPECULATION, master, tmp_path, environ)

    assert lines == [["overtaken", "True"], ["rows", "4000", "4000"]]
    hosts = [Path(f"{tmp_path}/data.ran-0-{attempt}").read_text("utf-8") for attempt in (0, 1)]
    assert sorted(hosts) == list(WORKERS)
    with tidelog.open(tmp_path / "data") as logs:
        assert sum(logs.partition("t", number).log.log_end_offset for number in range(2)) == 4000
