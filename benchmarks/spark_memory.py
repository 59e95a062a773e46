"""Data sources to compare with: one hands over rows from memory, one starts Python as Spark does.

The first is what a Python data source costs when reading costs nothing. Spark's workers import this
file, so it must lie on their path: ``on_workers_path``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from tidelog.spark.source import COLUMNS_DDL, LogSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

TASKS = 4
TABLE_ROWS = 10_000
SETTLED_AFTER = 2

Json = dict[str, int]


class _Kept:
    """What a worker keeps between tasks."""

    table: pa.RecordBatch | None = None
    tasks = 0


def on_workers_path() -> None:
    """Let the workers of a session that starts later import this file."""
    given = os.environ.get("PYTHONPATH")
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = f"{here}{os.pathsep}{given}" if given else here


def tables(rows: int) -> Iterator[pa.RecordBatch]:
    """Yield one table over and over until so many rows are through."""
    import gc

    if _Kept.table is None:
        _Kept.table = table()
    left = rows
    while left > 0:
        yield _Kept.table[: min(left, TABLE_ROWS)]
        left -= TABLE_ROWS
    _Kept.tasks += 1
    if _Kept.tasks <= SETTLED_AFTER:
        gc.freeze()  # as tidelog does, for a worker collects garbage after each task


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


def shared_out(rows: int) -> list[InputPartition]:
    """Return the input partitions of so many rows."""
    tasks = min(rows, TASKS)
    return [InputPartition(rows // tasks) for _ in range(tasks)]


class MemoryReader(DataSourceReader):
    """Reads so many rows from memory."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        return shared_out(self._rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield tables until the partition's rows are through."""
        return tables(partition.value)


class MemoryStream(DataSourceStreamReader):
    """Has so many rows more whenever it is asked."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the first offset."""
        return {"rows": 0}

    def latestOffset(self, start: Json, _limit: Any) -> Json:  # noqa: ANN401, N802 - Spark's name
        """Return the end of one batch more."""
        return {"rows": start["rows"] + self._rows}

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return the tasks of a batch."""
        return shared_out(end["rows"] - start["rows"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield tables until the partition's rows are through."""
        return tables(partition.value)


class MemorySource(DataSource):
    """The same columns as the log's, from memory: ``rows`` of them, in a stream in each batch."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "memory_rows"

    def schema(self) -> str:
        """Return the log's columns."""
        return COLUMNS_DDL

    def reader(self, schema: StructType) -> MemoryReader:  # noqa: ARG002 - Spark's signature
        """Return the reader."""
        return MemoryReader(int(self.options["rows"]))

    def streamReader(self, schema: StructType) -> MemoryStream:  # noqa: ARG002, N802 - Spark's
        """Return the reader of a stream."""
        return MemoryStream(int(self.options["rows"]))


class PlainSource(LogSource):
    """``tidelog`` in Python processes as Spark starts them in any other session."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "tidelog_plain"


def register(spark: SparkSession, plain_python: str) -> None:
    """Make both sources known; the plain one runs in that Python."""
    context = spark.sparkContext
    spark.dataSource.register(MemorySource)
    usual, context.pythonExec = context.pythonExec, plain_python
    spark.dataSource.register(PlainSource)
    context.pythonExec = usual
