"""What tidelog rests on and Spark does not promise: each test fails first if a release changes it.

``Probe`` is a data source of a few lines, which notes how Spark calls it.
"""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)

from tidelog.arrow.writing.stage_rows import StagedPart
from tidelog.spark import use_in_thread
from tidelog.spark.options.source_options import is_catalog_table
from tidelog.spark.plain_errors import in_worker
from tidelog.spark.sessions.parallelism import PARALLELISM
from tidelog.spark.write.stream_writer import BATCH_ID, QUERY_ID, LogStreamWriter
from tidelog.spark.write.task_write import StagedTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Spark chooses the names of these methods, and what they are passed.
# ruff: noqa: ARG002, N802, N803


class Probe(DataSource):
    """Notes in the folder ``notes``, if it is given one, what Spark does with it."""

    is_copy = False

    @classmethod
    def name(cls) -> str:
        return "probe"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.is_copy = True

    def note(self, what: str, **values: object) -> None:
        folder = self.options.get("notes")
        if folder:
            note = json.dumps({"what": what, "is_in_worker": in_worker(), **values})
            Path(folder, f"{what}-{os.urandom(8).hex()}").write_text(note, "utf-8")

    def schema(self) -> str:
        self.note("schema", is_table=is_catalog_table(self.options))
        return "id bigint"

    def reader(self, schema: object) -> DataSourceReader:
        self.note("reader", parallelism=os.environ.get(PARALLELISM))
        return ProbeReader()

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return ProbeStream(self)

    def streamWriter(self, schema: object, overwrite: bool) -> DataSourceStreamWriter:
        self.note("streamWriter", is_copy=self.is_copy)
        return ProbeWriter(self)


class ProbeReader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (0,)


class ProbeStream(DataSourceStreamReader):
    """Three batches of one row."""

    def __init__(self, source: Probe) -> None:
        self.source = source
        self.end = 0
        self.calls: list[str] = []

    def initialOffset(self) -> dict[str, int]:
        self.calls.append("initial")
        return {"end": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # as old releases call it
        self.calls.append("latest")
        self.end = min(self.end + 1, 3)
        return {"end": self.end}

    def partitions(self, start: object, end: object) -> list[InputPartition]:
        self.source.note("partitions", calls=self.calls, start=start)
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (7,)


class ProbeWriter(LogStreamWriter):
    """Has the base of our sink, which depends on the release."""

    def __init__(self, source: Probe) -> None:
        self.source = source

    def write(self, iterator: Iterator[Any]) -> StagedTask:
        context = TaskContext.get()
        assert context is not None
        query, batch = map(context.getLocalProperty, (QUERY_ID, BATCH_ID))
        kinds = sorted({type(rows).__name__ for rows in iterator})
        self.source.note("write", query=query, batch=batch, kinds=kinds)
        return StagedTask(StagedPart((), {}), "", None)

    def commit(self, messages: object, batchId: int) -> None:
        self.source.note("commit", batch=batchId, is_copy=self.source.is_copy)


@pytest.fixture
def notes(spark: SparkSession, tmp_path: Path) -> Path:
    """Register the source; return the folder for its notes."""
    spark.dataSource.register(Probe)
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def noted(notes: Path, what: str) -> list[dict[str, Any]]:
    """Return the notes of one kind."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(notes.glob(f"{what}-*"))]


def run_stream(spark: SparkSession, notes: Path) -> str:
    """Run three batches into the source; return the id of the query."""
    rows = spark.readStream.format("probe").option("notes", str(notes)).load()
    writer = rows.writeStream.format("probe").option("notes", str(notes))
    query = writer.option("checkpointLocation", str(notes.parent / "checkpoint")).start()
    try:
        for _ in range(600):
            if len(noted(notes, "commit")) >= 3 or not query.isActive:
                break
            threading.Event().wait(0.1)
        assert query.exception() is None
    finally:
        query.stop()
    return str(query.id)


def test_a_stream_is_planned_with_a_new_source_and_committed_with_a_copy(
    spark: SparkSession, notes: Path
) -> None:
    """``LogSource.__setstate__`` rests on it: a copy makes no marker for tasks."""
    run_stream(spark, notes)

    made = [note["is_copy"] for note in noted(notes, "streamWriter")]
    assert {note["is_copy"] for note in noted(notes, "commit")} == {True}
    assert True in made
    assert False in made


def test_a_source_that_is_passed_no_start_is_asked_for_an_end_first(
    spark: SparkSession, notes: Path
) -> None:
    """So ``StreamPlan.latest`` finds the initial offset itself; no later batch asks for it."""
    run_stream(spark, notes)

    planned = sorted((note["start"]["end"], note["calls"]) for note in noted(notes, "partitions"))
    assert planned[0] == (0, ["latest", "initial"])
    assert planned[1][1].count("initial") == 1


def test_a_task_of_a_stream_knows_its_query_and_batch(spark: SparkSession, notes: Path) -> None:
    """By the local properties that ``LogStreamWriter`` makes the transaction's id of."""
    query = run_stream(spark, notes)

    found = {(note["query"], note["batch"]) for note in noted(notes, "write")}
    assert found >= {(query, str(number)) for number in range(3)}


def test_a_sink_of_arrow_is_passed_record_batches(spark: SparkSession, notes: Path) -> None:
    """In Spark 4.0 as well, which has no such sink by name."""
    run_stream(spark, notes)

    assert {kind for note in noted(notes, "write") for kind in note["kinds"]} == {"RecordBatch"}


def test_the_schema_of_a_table_is_asked_for_with_a_provider(
    spark: SparkSession, notes: Path
) -> None:
    """``is_catalog_table`` recognizes CREATE TABLE by it."""
    spark.read.format("probe").option("notes", str(notes)).load()
    loaded = [note["is_table"] for note in noted(notes, "schema")]
    try:
        spark.sql(f"CREATE TABLE probed USING probe OPTIONS (notes '{notes}')")
        both = [note["is_table"] for note in noted(notes, "schema")]
    finally:
        spark.sql("DROP TABLE IF EXISTS probed")

    assert (set(loaded), set(both)) == ({False}, {False, True})


def test_python_that_spark_starts_has_the_variables_of_its_workers(
    spark: SparkSession, notes: Path
) -> None:
    """``plain_errors`` hides tracebacks there, and the parallelism comes the same way."""
    spark.read.format("probe").option("notes", str(notes)).load().collect()
    run_stream(spark, notes)

    for what in ("schema", "reader", "streamWriter", "write", "commit"):
        assert {note["is_in_worker"] for note in noted(notes, what)} == {True}, what
    assert {note["parallelism"] for note in noted(notes, "reader")} == {os.environ[PARALLELISM]}
    assert not in_worker()


def test_a_thread_lacks_the_session_that_finds_a_sink(spark: SparkSession) -> None:
    """``use_in_thread`` is for that; were it not needed, it could go."""
    spark.dataSource.register(Probe)

    def write() -> None:
        spark.range(1).write.format("probe").mode("append").save()

    def write_prepared() -> None:
        use_in_thread(spark)
        write()

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
            pool.submit(write).result()
        with pytest.raises(PySparkException, match="writer"):  # the source has none
            pool.submit(write_prepared).result()
