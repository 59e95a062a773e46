"""Data sources to compare with: one returns rows from memory, one starts Python as Spark does.

The first shows what a Python data source costs if reading costs nothing. Spark's workers import
this file, so it must be on their path: ``add_to_workers_path``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from tidelog.spark.source import LogSource
from tidelog.spark.source_columns import record_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

TASKS = 4
TABLE_ROWS = 10_000
FREEZES = 2

Json = dict[str, int]


class _Worker:
    """What a worker process keeps between tasks."""

    table: pa.RecordBatch | None = None
    tasks = 0


def add_to_workers_path() -> None:
    """Let the workers of a session that is started later import this file."""
    python_path = os.environ.get("PYTHONPATH")
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = f"{here}{os.pathsep}{python_path}" if python_path else here


def tables(rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same table repeatedly, ``rows`` rows in all."""
    import gc

    if _Worker.table is None:
        _Worker.table = table()
    left = rows
    while left > 0:
        yield _Worker.table[: min(left, TABLE_ROWS)]
        left -= TABLE_ROWS
    _Worker.tasks += 1
    if _Worker.tasks <= FREEZES:
        gc.freeze()  # as tidelog does, since a worker collects garbage after each task


def table() -> pa.RecordBatch:
    """Make the table: random keys of 16 bytes and values of 100."""
    from random import Random

    import pyarrow as pa

    from tidelog.arrow.schema import SCHEMA

    rng, count = Random(20130101), TABLE_ROWS
    columns = [
        pa.array([rng.randbytes(16) for _ in range(count)], pa.binary()),
        pa.array([rng.randbytes(100) for _ in range(count)], pa.binary()),
        pa.array(["bench"] * count, pa.string()),
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        pa.array([1_700_000_000_000_000] * count, SCHEMA.field("timestamp").type),
        pa.array([0] * count, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def input_partitions(rows: int) -> list[InputPartition]:
    """Return input partitions with ``rows`` rows in all."""
    tasks = min(rows, TASKS)
    return [InputPartition(rows // tasks) for _ in range(tasks)]


class MemoryReader(DataSourceReader):
    """Reads ``rows`` rows from memory."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        return input_partitions(self._rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield tables with the number of rows of the partition."""
        return tables(partition.value)


class MemoryStream(DataSourceStreamReader):
    """Has ``rows`` new rows in each micro-batch."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the first offset."""
        return {"rows": 0}

    def latestOffset(self, start: Json, _limit: Any) -> Json:  # noqa: ANN401, N802 - Spark's name
        """Return the end of the next batch."""
        return {"rows": start["rows"] + self._rows}

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return the tasks of a batch."""
        return input_partitions(end["rows"] - start["rows"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield tables with the number of rows of the partition."""
        return tables(partition.value)


class MemorySource(DataSource):
    """Rows from memory with a log's columns: ``rows`` in a read, or in each batch of a stream."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "memory_rows"

    def schema(self) -> StructType:
        """Return the log's columns."""
        return record_columns(has_headers=False)

    def reader(self, schema: StructType) -> MemoryReader:  # noqa: ARG002 - Spark's signature
        """Return the reader."""
        return MemoryReader(int(self.options["rows"]))

    def streamReader(self, schema: StructType) -> MemoryStream:  # noqa: ARG002, N802 - Spark's
        """Return the reader of a stream."""
        return MemoryStream(int(self.options["rows"]))


class NothingWriter(DataSourceStreamArrowWriter):
    """Takes rows and does nothing with them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Count the rows."""
        sum(batch.num_rows for batch in iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Do nothing."""


class NothingBatchWriter(DataSourceArrowWriter):
    """The same for a batch query."""

    write = NothingWriter.write


class NothingSink(DataSource):
    """What a sink in Python costs if writing costs nothing."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "nothing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> NothingWriter:  # noqa: ARG002, FBT001, N802 - Spark's
        """Return the writer of a stream."""
        return NothingWriter()

    def writer(self, schema: StructType, overwrite: bool) -> NothingBatchWriter:  # noqa: ARG002, FBT001 - Spark's
        """Return the writer of a batch query."""
        return NothingBatchWriter()


class PlainSource(LogSource):
    """``tidelog`` in Python processes that are started as in any other session."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "tidelog_plain"


def register(spark: SparkSession, plain_python: str) -> None:
    """Register both sources; ``plain_python`` runs the plain one."""
    context = spark.sparkContext
    spark.dataSource.register(MemorySource)
    usual, context.pythonExec = context.pythonExec, plain_python
    spark.dataSource.register(PlainSource)
    context.pythonExec = usual
