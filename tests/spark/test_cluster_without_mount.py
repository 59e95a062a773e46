"""A cluster whose executors see no data directory: they read and stage on a store, and are killed.

Each worker has a mount namespace of its own, in which the folder of the driver is empty.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from tests.machinery.object_server import BUCKET
from tests.machinery.scale import scaled
from tests.machinery.store_servers import MOTO, moto
from tests.spark.releases import NEEDS_LIMITS
from tests.spark.test_cluster import MASTER, WORKER, WORKERS, daemon
from tests.spark.written_rows import left_over, values

import tidelog
from tidelog.cli.main import main
from tidelog.spark import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Enumerated

HIDES = ["unshare", "--mount", "--map-root-user"]
CAN_HIDE = subprocess.run([*HIDES, "true"], capture_output=True, check=False).returncode == 0
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(not CAN_HIDE, reason="mount namespaces are not permitted here"),
    pytest.mark.skipif(not MOTO.exists(), reason="moto is not installed"),
]

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
ROUND_ROWS = 100
PATIENCE_S = 600

SESSION = """
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from tidelog.spark import session_conf

master, folder, spool, lake = sys.argv[1:]
path = f"{folder}/data"
conf = session_conf() | {
    "spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], "spark.task.maxFailures": "1000",
    "spark.excludeOnFailure.enabled": "false", "spark.stage.maxConsecutiveAttempts": "1000",
    "spark.speculation": "true", "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.2", "spark.speculation.quantile": "0.5",
}
builder = SparkSession.builder.master(master)
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

def note(name, number):
    Path(folder, f"{name}.new").write_text(str(number))
    Path(folder, f"{name}.new").rename(Path(folder, name))
"""

WRITES = (
    SESSION
    + f"""
def seen(_):
    return os.path.exists(path)

assert not any(spark.sparkContext.parallelize(range(8), 8).map(seen).collect())
done = Path(folder, "rounds")
settings = {{"numPartitions": "2", "config.internal.segment.bytes": "600", "stagingUri": spool}}
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", {ROUND_ROWS})
stream = stream.option("numPartitions", 2).load().selectExpr("cast(value AS string) AS value")
stream = stream.writeStream.format("tidelog").options(**settings, topic="streamed")
stream = stream.option("checkpointLocation", f"{{folder}}/checkpoint").start(path)
while not Path(folder, "stop").exists():
    number = int(done.read_text()) if done.exists() else 0
    first = number * {ROUND_ROWS}
    rows = spark.range(first, first + {ROUND_ROWS}, numPartitions=4)
    rows = rows.selectExpr("cast(id AS string) AS value").write.format("tidelog").mode("append")
    rows.options(**settings, topic="t", txnId=f"round-{{number}}").save(path)
    note("rounds", number + 1)
    assert stream.exception() is None, stream.exception()
stream.stop()
spark.stop()
"""
)

READS = (
    SESSION
    + """
counts = set()
reads = int(os.environ["READS"])
for number in range(reads):
    topic = ("t", "streamed")[number % 2]
    rows = spark.read.format("tidelog").options(subscribe=topic, minPartitions="5").load(lake)
    counts.add((topic, rows.count(), rows.select("value").distinct().count()))
    note("reads", number + 1)
rows = spark.readStream.format("tidelog").option("subscribe", "t")
rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 150).load(lake)
query = rows.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
while not query.awaitTermination(1):
    note("reads", reads + len(query.recentProgress))
seen = spark.table("seen")
counts.add(("followed", seen.count(), seen.select("value").distinct().count()))
print(sorted(counts))
spark.stop()
"""
)


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a master and two workers; yield the master's URL. ``folder`` is empty for the workers."""
    with ExitStack() as daemons:
        master = daemons.enter_context(daemon(HOME, "127.0.0.1", MASTER))
        for address in WORKERS:
            work = ["--cores", "1", "--memory", "600m", "-d", str(folder.parent / address)]
            daemons.enter_context(daemon(hidden(folder), address, WORKER, *work, master))
        yield master


def hidden(folder: Path) -> Path:
    """Return a home of Spark whose daemons see an empty directory instead of ``folder``."""
    home = folder.parent / "hidden-home"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    script = home / "bin" / "spark-class"
    hide = f"mount -t tmpfs none {shlex.quote(str(folder))}"
    real = f'SPARK_HOME={shlex.quote(str(HOME))} exec {HOME}/bin/spark-class "$@"'
    inner = f"{hide} && {real}"
    script.write_text(f'#!/bin/sh\nexec {" ".join(HIDES)} sh -c {shlex.quote(inner)} sh "$@"\n')
    script.chmod(0o755)
    return home


@contextmanager
def driver(
    script: str, master: str, folder: Path, **environ: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a driver in a process group of its own, which is killed at the end of the body."""
    stores = f"s3://{BUCKET}/spool", f"s3://{BUCKET}/lake"
    words = [sys.executable, "-W", "ignore", "-c", script, master, str(folder), *stores]
    with (
        (folder / "driver.err").open("w") as errors,
        subprocess.Popen(
            words,
            env=os.environ | environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def executors(folder: Path) -> list[int]:
    """Return the processes that are executors of the cluster below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if not entry.name.isdigit() or not (entry / "cwd").readlink().is_relative_to(folder):
                continue
            if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def noted(folder: Path, name: str = "rounds") -> int:
    """Return how many batch writes (or ``reads``) a driver has noted as done."""
    path = folder / name
    return int(path.read_text("utf-8")) if path.exists() else 0


def batches(folder: Path) -> int:
    """Return how many batches of the stream Spark has committed."""
    commits = (folder / "checkpoint" / "commits").glob("[0-9]*")
    return max((int(path.name) + 1 for path in commits), default=0)


def wait_for_writes(process: subprocess.Popen[str], folder: Path, rounds: int = 1) -> None:
    """Wait until a number of batch writes are done and a batch of the stream."""
    first = noted(folder), batches(folder)
    for _ in range(PATIENCE_S * 20):
        written, streamed = noted(folder) - first[0], batches(folder) - first[1]
        if written >= rounds and streamed:
            return
        assert process.poll() is None, (folder / "driver.err").read_text("utf-8")[-3000:]
        threading.Event().wait(0.05)
    errors = (folder / "driver.err").read_text("utf-8")[-3000:]
    pytest.fail(f"only {written} rounds and {streamed} batches: {errors}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that only the driver sees; all processes find the store by their environment."""
    path = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    environ = {
        "PYTHONPATH": path,
        "JAVA_HOME": find_java().home,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(HOME),
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    made = tmp_path / "driver"
    made.mkdir()
    return made


def kill_one(process: subprocess.Popen[str], folder: Path, rng: random.Random) -> bool:
    """Kill an executor as soon as there is one; return whether the driver lived to see it."""
    while process.poll() is None:
        if found := executors(folder.parent):
            with suppress(ProcessLookupError):
                os.kill(rng.choice(found), signal.SIGKILL)
            return True
        threading.Event().wait(0.05)
    return False


def kill_readers(process: subprocess.Popen[str], folder: Path, rng: random.Random) -> int:
    """Kill an executor after each read until the driver ends; return how many were killed.

    A kill waits for a read: on a busy machine executors could else die faster than they start.
    """
    killed, reads = 0, 0
    while process.poll() is None:
        if noted(folder, "reads") == reads:
            threading.Event().wait(0.05)
            continue
        reads = noted(folder, "reads")
        threading.Event().wait(rng.uniform(0.1, 2.5))
        killed += kill_one(process, folder, rng)
    return killed


@NEEDS_LIMITS
def test_rows_are_once_in_the_log_whatever_is_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """Drivers and executors, at random moments of batches and streams, with speculative tasks.

    At the end the log is archived, and executors that are killed read it from there.
    """
    rng, killed_executors, killed_drivers = random.Random(7), 0, 0
    with moto() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        with cluster(folder) as master:
            for _ in range(scaled(4)):
                with driver(WRITES, master, folder) as process:
                    wait_for_writes(process, folder)
                    for _ in range(4):
                        threading.Event().wait(rng.uniform(0.1, 2.5))
                        killed_executors += kill_one(process, folder, rng)
                    threading.Event().wait(rng.uniform(0.1, 2.5))
                    killed_drivers += process.poll() is None
            with driver(WRITES, master, folder) as process:
                wait_for_writes(process, folder, 2)
                (folder / "stop").touch()
                assert process.wait(PATIENCE_S) == 0, (folder / "driver.err").read_text("utf-8")

            path = str(folder / "data")
            assert values(path) == list(range(noted(folder) * ROUND_ROWS))
            streamed = values(path, "streamed")
            assert streamed == list(range(len(streamed)))
            assert len(streamed) >= ROUND_ROWS * killed_drivers

            lake = f"s3://{BUCKET}/lake"
            assert main(["archive", "-d", path, "--to", lake, "-q"]) == 0
            with driver(READS, master, folder, READS="15") as process:
                killed_readers = kill_readers(process, folder, rng)
                printed = process.stdout.read() if process.stdout else ""
            archive = tidelog.open_directory_read_only(lake)
            counts = {topic: sum(1 for _ in archive.read(topic)) for topic in ("t", "streamed")}
            assert min(counts.values()) > ROUND_ROWS
            counts["followed"] = counts["t"]
            expected = [(topic, count, count) for topic, count in sorted(counts.items())]
            assert printed.splitlines()[-1:] == [str(expected)]
        assert {Path(name).suffix for name in left_over(path)} <= {".staged", ".archive"}
    enumerated("kills of executors", killed_executors, at_least=15)
    enumerated("kills of executors that read", killed_readers, at_least=5)
    enumerated("kills of drivers", killed_drivers, at_least=3)
