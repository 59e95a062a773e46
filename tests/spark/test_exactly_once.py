"""Every row that Spark writes is in the log once, wherever a job fails, and is run again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException, StreamingQueryException
from tests.machinery.scale import scaled
from tests.spark import stopped_source
from tests.spark.releases import NEEDS_DEFAULTS
from tests.spark.stopped_source import POINTS, StoppedSource
from tests.spark.written_rows import left_over, values, write_lines

import tidelog
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.staging.finished import read_finished
from tidelog.staging.marker import MAX_MARKER_BYTES
from tidelog.staging.staged_file import list_staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.conftest import Enumerated

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TIMEOUT_S = 200
EACH = 40
MANY = 1_000_000
NULLS = ", NULL" * 5
"""Rows that a stream gets at a time."""


@pytest.fixture(scope="module")
def stopping(spark: SparkSession) -> SparkSession:
    """Return the session, which knows the source ``stopped``."""
    cloudpickle.register_pickle_by_value(stopped_source)  # type: ignore[no-untyped-call]  # pyspark has no types for it
    spark.dataSource.register(StoppedSource)
    return spark


def rows(spark: SparkSession, count: int, first: int = 0) -> DataFrame:
    """Return rows with the values from ``first`` on, in two tasks."""
    return spark.range(first, first + count, numPartitions=2).selectExpr(
        "cast(id AS string) AS key", "cast(id AS string) AS value"
    )


def save(frame: DataFrame, path: str, **options: Any) -> None:
    """Write to the topic t with two partitions."""
    given: dict[str, Any] = {"topic": "t", "numPartitions": 2, "commitTimeoutMs": 30_000}
    given |= options
    source = "stopped" if "stopAt" in options else "tidelog"
    frame.write.format(source).options(**given).mode("append").save(path)


# Batch writes


def test_a_write_with_an_id_is_done_once(spark: SparkSession, tmp_path: Path) -> None:
    """A repeat with other rows is skipped; the same id for another topic is an error."""
    path = str(tmp_path)
    save(rows(spark, 50), path, txnId="day 1")
    save(rows(spark, 50, 100), path, txnId="day 1")
    save(rows(spark, 50, 50), path, txnId="day 2")
    with pytest.raises(PySparkException, match="'day 1' was committed before for t, not for u"):
        save(rows(spark, 5), path, txnId="day 1", topic="u")
    save(rows(spark, 0), path, txnId="nothing")
    save(rows(spark, 10, 1000), path, txnId="nothing")

    assert values(path) == list(range(100))
    assert left_over(path) == []


def test_a_repeat_of_a_write_does_not_compute_all_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The driver knows before the tasks start that the id is committed for the same topic."""
    path = str(tmp_path)
    save(rows(spark, 50), path, txnId="day 1")
    # Spark computes some batches ahead of the tasks that take them.
    wide = f"if(key % {MANY} = {MANY - 1}, raise_error('computed'), rpad(value, 100, 'x'))"
    failing = rows(spark, 2 * MANY).selectExpr("key", f"{wide} AS value")

    save(failing, path, txnId="day 1")

    assert values(path) == list(range(50))
    assert left_over(path) == []


def repeated_write(spark: SparkSession, path: str, number: int, **stop: Any) -> bool:
    """Write rows in a job that is stopped, then again; return whether the first one failed."""
    txn = f"job {number}"
    stop = {"stopFile": f"{path}.stop-{number}"} | stop
    has_failed = False
    try:
        save(rows(spark, 20, 20 * number), path, txnId=txn, **stop)
    except (PySparkException, Py4JJavaError):  # the latter if a process died
        has_failed = True
    save(rows(spark, 20, 20 * number), path, txnId=txn)
    assert values(path) == list(range(20 * number + 20))
    assert left_over(path) == []
    return has_failed


@pytest.mark.parametrize(
    ("by", "points"),
    [
        ("raise", ["CHECKED", "COMMITTED", "PLACED", "CLEANED"]),
        ("kill", ["COMMITTED"]),
        pytest.param("kill", POINTS, marks=pytest.mark.slow),
        pytest.param("raise", POINTS, marks=pytest.mark.slow),
    ],
)
def test_a_write_whose_commit_fails_can_be_repeated(
    stopping: SparkSession, tmp_path: Path, by: str, points: list[str]
) -> None:
    """At each moment of the commit, whether it raises or its process is killed.

    Spark then calls ``abort`` with all messages.
    """
    for number, point in enumerate(points):
        assert repeated_write(stopping, str(tmp_path / "data"), number, stopAt=point, stopBy=by)


def test_a_disk_that_fills_up_leaves_a_write_committed(
    stopping: SparkSession, tmp_path: Path
) -> None:
    """The error says that it must not be repeated under another id; it is applied later."""
    path = str(tmp_path / "data")
    stop = {"stopAt": "COMMITTED", "stopBy": "full", "stopFile": f"{path}.stop"}
    with pytest.raises(PySparkException, match="is committed, do not repeat it under another id"):
        save(rows(stopping, 20), path, txnId="x", **stop)

    save(rows(stopping, 20), path, txnId="x")
    assert values(path) == list(range(20))


def test_a_task_that_dies_leaves_nothing(stopping: SparkSession, tmp_path: Path) -> None:
    """Its job fails here, as this session retries no task; a repeat writes all."""
    assert repeated_write(stopping, str(tmp_path / "data"), 0, stopAt="task", stopBy="raise")


def test_rows_are_inserted_into_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its options say where to; Spark keeps those of a table in its schema."""
    path = str(tmp_path / "data")
    options = "subscribe 't', topic 't', `config.retention.ms` '-1'"
    try:
        spark.sql(f"CREATE TABLE made USING tidelog OPTIONS ({options}) LOCATION '{path}'")
        spark.sql(f"INSERT INTO made VALUES (X'6B', X'31'{NULLS}), (NULL, X'32'{NULLS})")
        with pytest.raises(PySparkException, match="can only be appended to"):
            spark.sql(f"INSERT OVERWRITE made VALUES (X'6B', X'31'{NULLS})")
        create = f"CREATE TABLE other USING tidelog OPTIONS (topic 'u') LOCATION '{path}' AS"
        for columns, words in (
            ("key, value", "no data directory is named"),
            ("*", "the rows have the columns of a table as they were read"),
        ):
            with pytest.raises(PySparkException, match=words):
                spark.sql(f"{create} SELECT {columns} FROM made")

        assert values(path) == [1, 2]
        assert spark.table("made").count() == 2
    finally:
        spark.sql("DROP TABLE IF EXISTS made")
        spark.sql("DROP TABLE IF EXISTS other")


@NEEDS_DEFAULTS
def test_columns_that_an_insert_leaves_out_are_null(spark: SparkSession, tmp_path: Path) -> None:
    """The rows go to the table's topic."""
    path = str(tmp_path / "data")
    try:
        options = "OPTIONS (subscribe 't', topic 't')"
        spark.sql(f"CREATE TABLE short USING tidelog {options} LOCATION '{path}'")
        spark.sql("INSERT INTO short (key, value) VALUES (X'6B', X'31'), (NULL, X'32')")

        assert values(path) == [1, 2]
    finally:
        spark.sql("DROP TABLE IF EXISTS short")


# Streams


class Copying:
    """A stream that copies the lines of files, a file in each batch, to the topic t."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.source = str(folder / "source")
        self.target = str(folder / "target")
        self.checkpoint = str(folder / "checkpoint")
        self.stop_file = str(folder / "stop")
        self.count = 0
        self.columns = ["value"]
        self.is_shared = False
        """Whether a service holds the target: it deletes later what a killed process left there."""

    def append(self, count: int = EACH) -> None:
        """Add rows to what is to be copied."""
        write_lines(self.source, self.count, count)
        self.count += count

    def run(self, value: str | None = None, checkpoint: str | None = None, **options: Any) -> None:
        """Copy what is there; raise what fails the query."""
        reader = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1)
        given: dict[str, Any] = {"topic": "t", "numPartitions": 2} | options
        given.setdefault("checkpointLocation", self.checkpoint)
        if checkpoint is not None:
            given["checkpointLocation"] = checkpoint
        columns = self.columns if value is None else [f"{value} AS value"]
        frame = reader.load(self.source).selectExpr(*columns)
        source = "stopped" if "stopAt" in options else "tidelog"
        writer = frame.writeStream.format(source).options(**given)
        query = writer.trigger(availableNow=True).start(self.target)
        assert query.awaitTermination(TIMEOUT_S)

    def stopped(self, **stop: Any) -> bool:
        """Copy until a commit is stopped, then continue; return whether the query failed."""
        has_failed = False
        with suppress(FileNotFoundError):
            os.unlink(self.stop_file)
        try:
            self.run(stopFile=self.stop_file, **stop)
        except StreamingQueryException:
            has_failed = True
            self.run()
        self.check()
        return has_failed

    def was_stopped(self) -> bool:
        """Return whether the stop happened; a later one would be that of the next query."""
        for _ in range(20):
            if os.path.exists(self.stop_file):
                return True
            threading.Event().wait(0.01)
        return False

    def check(self) -> None:
        """All rows are there once, and nothing is left over."""
        assert values(self.target) == list(range(self.count))
        if self.is_shared:
            return
        assert [name for name in left_over(self.target) if not name.endswith(".staged")] == []
        staged = [f"{self.target}/{name}" for name in list_staged(SYSTEM_FILES, self.target)]
        sizes = map(os.path.getsize, staged)
        assert [size for size in sizes if size > MAX_MARKER_BYTES] == []


@pytest.fixture
def copying(stopping: SparkSession, tmp_path: Path) -> Copying:
    """Return a stream over some rows."""
    made = Copying(stopping, tmp_path)
    made.append()
    return made


def test_a_batch_that_is_repeated_with_other_rows_is_skipped(copying: Copying) -> None:
    """After a restart Spark repeats a batch that it does not know to be committed."""
    copying.run()
    assert left_over(copying.target) == []
    os.unlink(f"{copying.checkpoint}/commits/0")
    copying.run(value="concat('9', value)")
    copying.append()
    copying.run()

    copying.check()
    (last,) = read_finished(SYSTEM_FILES, copying.target).values()
    assert last.stream is not None
    assert (last.stream.batch_id, last.total) == (1, EACH)


def test_a_batch_none_of_whose_tasks_succeeds_leaves_nothing(copying: Copying) -> None:
    """However often it is tried: no task can say where the marker of the batch is."""
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="no row is good"):
            copying.run(value="if(value >= 0, raise_error('no row is good'), value)")
        assert left_over(copying.target) == []

    copying.run()
    copying.check()


def test_a_checkpoint_that_was_copied_or_rolled_back_is_an_error(copying: Copying) -> None:
    """Unless the stream is to skip old batches; it then continues where the other one is."""
    copying.run()
    copy = copying.checkpoint + "-copy"
    shutil.copytree(copying.checkpoint, copy)
    copying.append()
    copying.append()
    copying.run()

    with pytest.raises(StreamingQueryException, match=r"batch 1 of stream .* older than batch 2"):
        copying.run(checkpoint=copy)
    copying.run(checkpoint=copy, skipOldBatches="true")
    copying.check()


@pytest.mark.parametrize(
    ("by", "points"),
    [
        ("raise", ["CHECKED", "VISIBLE"]),
        ("kill", ["COMMITTED"]),
        pytest.param("kill", [*POINTS, "task"], marks=pytest.mark.slow),
        pytest.param("raise", [*POINTS, "task"], marks=pytest.mark.slow),
        pytest.param("full", ["COMMITTED", "CREATED"], marks=pytest.mark.slow),
    ],
)
def test_a_stream_goes_on_after_a_commit_that_failed(
    copying: Copying, by: str, points: list[str]
) -> None:
    """At each moment of the commit, whether it raises, its process is killed or a disk is full."""
    copying.run()
    for point in points:
        copying.append()
        assert copying.stopped(stopAt=point, stopBy=by), point


@pytest.mark.parametrize(
    "count", [4, pytest.param(scaled(100), marks=[pytest.mark.slow, pytest.mark.timeout(4000)])]
)
def test_a_stream_whose_processes_are_killed_at_random_copies_all_rows_once(
    copying: Copying, count: int, enumerated: Enumerated
) -> None:
    """The process that commits and one of a task in turn, at a random moment or shortly after it.

    A kill is counted once it has happened, so none is left out. On a fast machine all of a few
    may come after the end of what they kill: then there are more of them.
    """
    copying.run()
    kills = {"random": 0, "random task": 0}
    failed = seed = 0
    while sum(kills.values()) < count or failed == 0:
        assert seed < 64 + 4 * count
        point = list(kills)[seed % 2]
        copying.append()
        failed += copying.stopped(stopAt=point, stopBy="kill", stopSeed=seed)
        kills[point] += copying.was_stopped()
        seed += 1

    enumerated("kills of the process that commits", kills["random"], at_least=count // 4)
    enumerated("kills of a task's process", kills["random task"], at_least=count // 4)
    enumerated("queries that failed by a kill", failed, at_least=1)


def test_a_stream_writes_into_a_directory_that_is_in_use(copying: Copying) -> None:
    """Its holder commits for it; a reader that follows sees each row once."""
    seen: list[int] = []
    with tidelog.open(copying.target) as logs:
        logs.create_topic("t", 1)

        def follow() -> None:
            for record in logs.follow("t", idle_ms=TIMEOUT_S * 1000):
                seen.append(int(record.value or b""))
                if len(seen) == 3 * EACH:
                    return

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        copying.append()
        copying.append()
        copying.run(numPartitions=1)
        reader.join(TIMEOUT_S)
    assert sorted(seen) == list(range(3 * EACH))
    copying.check()


@contextmanager
def service(path: str) -> Iterator[None]:
    """Let a service hold a data directory during the block."""
    command = [sys.executable, "-m", "tidelog", "run", "-d", path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any("ready " in line for line in process.stderr)
            threading.Thread(target=list, args=[process.stderr], daemon=True).start()
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


class Follower(threading.Thread):
    """Reads both partitions again and again, the one first and then the other.

    ``faults`` is what readers must not see: rows that vanish or change places, or a batch that is
    not whole where a later one is visible.
    """

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.is_over = threading.Event()
        self.faults: list[str] = []
        self.looks = 0
        self.seen: list[list[int]] = [[], []]

    def run(self) -> None:
        while not self.is_over.is_set():
            self.look()
            self.looks += 1

    def look(self) -> None:
        order = (0, 1) if self.looks % 2 else (1, 0)
        for number in order:
            with tidelog.open_read_only(f"{self.path}/t-{number}") as log:
                found = [int(record.value or b"") for record in log.records()]
            if found[: len(self.seen[number])] != self.seen[number]:
                self.faults.append(f"{number}: {self.seen[number]} became {found}")
            self.seen[number] = found
        first, second = self.seen[order[0]], self.seen[order[1]]
        last = max(first, default=-1) // EACH  # the partition read second has all before it
        before = sorted(value for value in first + second if value // EACH < last)
        if before != list(range(max(last, 0) * EACH)):
            self.faults.append(f"batch {last} is visible, but before it only {before}")
        for rows_of_one in (first, second):
            batches = [value // EACH for value in rows_of_one]
            if batches != sorted(batches):
                self.faults.append(f"batches in the order {batches}")


@pytest.mark.slow
def test_a_stream_into_the_directory_of_a_service_is_seen_whole_and_in_order(
    copying: Copying,
) -> None:
    """Also while the processes that wait for the service's commits are killed.

    No row is lost or doubled, and a batch is visible only where all before it are.
    """
    with tidelog.open(copying.target) as logs:
        logs.create_topic("t", 2)
    follower = Follower(copying.target)
    copying.is_shared = True
    copying.columns = ["value AS key", "value"]
    failed = 0
    with service(copying.target):
        follower.start()
        for _ in range(4):
            copying.append()
        copying.run()
        for seed in range(6):
            copying.append()
            failed += copying.stopped(stopAt="random", stopBy="kill", stopSeed=seed)
        follower.is_over.set()
        follower.join(TIMEOUT_S)

    assert follower.faults == []
    assert follower.looks > 10
    assert failed > 0
    follower.look()
    assert sorted(follower.seen[0] + follower.seen[1]) == list(range(copying.count))
    assert min(len(rows_of_one) for rows_of_one in follower.seen) > 0
    assert follower.faults == []
