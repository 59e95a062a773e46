"""The tasks of a repartition: each reads ranges of offsets and stages their records.

A task is a partition of a data source of our own, whose rows are the results of the tasks. So the
records stay in one Python process; through a DataFrame each would go to Java and back.
"""

from __future__ import annotations

import base64
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.plain_errors import plain_errors
from tidelog.spark.read.batch_reader import OffsetRanges, read_columns, read_task
from tidelog.spark.write.task_write import stage_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidelog.spark.options.source_options import ReadOptions, WriteOptions
    from tidelog.spark.read.read_plan import Task
    from tidelog.spark.write.task_write import StagedTask
    from tidelog.spark.write.write_plan import WritePlan

FORMAT: Final = "tidelog_repartition"
_JOB: Final = "job"

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
COLUMNS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", ArrayType(_HEADER)),
        StructField("partition", IntegerType()),
    ]
)
"""The columns that a task reads, and stages after it has changed ``partition``."""


@dataclass(frozen=True)
class RepartitionJob:
    """What the tasks need to know.

    ``keeps_source``: records without a key go to the number of their source partition, modulo
    ``partitions``; else they are spread.
    """

    read: ReadOptions
    write: WriteOptions
    plan: WritePlan
    tasks: tuple[Task, ...]
    txn_id: str
    partitions: int
    keeps_source: bool

    def stage(self, number: int) -> StagedTask:
        """Read and stage the records of a task; errors as ``read_task`` and ``stage_rows``."""
        columns = read_columns(COLUMNS)
        records = read_task(self.read, OffsetRanges(self.tasks[number]), columns)
        rows = map(self._with_partition, records)
        return stage_rows(self.write, self.plan, rows, txn=self.txn_id, task_number=number)

    def _with_partition(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Replace the source's partition by the new one, null where the sink chooses it."""
        import numpy as np
        import pyarrow as pa

        at = records.schema.get_field_index("partition")
        if self.keeps_source:
            numbers = records.column(at).to_numpy() % self.partitions
            has_key = records.column("key").is_valid().to_numpy(zero_copy_only=False)
            chosen = pa.array(numbers.astype(np.int32), mask=has_key)
        else:
            chosen = pa.nulls(records.num_rows, pa.int32())
        return records.set_column(at, "partition", chosen)


@dataclass(frozen=True)
class StagingPartition(InputPartition):
    """The number of a task."""

    number: int


class StagingReader(DataSourceReader):
    """Runs the tasks; each has one row, with its number and what it staged."""

    def __init__(self, job: RepartitionJob) -> None:
        self._job = job

    def partitions(self) -> list[InputPartition]:
        """Return the tasks; runs on the driver."""
        return [StagingPartition(number) for number in range(len(self._job.tasks))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, bytes]]:
        """Stage the records of a task; runs in a worker."""
        if isinstance(partition, StagingPartition):
            with plain_errors():
                staged = self._job.stage(partition.number)
            yield partition.number, pickle.dumps(staged)


class StagingSource(DataSource):
    """Runs the ``RepartitionJob`` in its option."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of the results."""
        return "number int, staged binary"

    def reader(self, schema: StructType) -> StagingReader:  # noqa: ARG002 - Spark's signature
        """Return what runs the tasks."""
        options: Mapping[str, str] = self.options
        return StagingReader(pickle.loads(base64.b64decode(options[_JOB])))  # noqa: S301 - our own


def stage_all(spark: SparkSession, job: RepartitionJob) -> list[StagedTask]:
    """Run the tasks on Spark; return what they staged, in their order. Errors are Spark's."""
    if not job.tasks:
        return []
    spark.dataSource.register(StagingSource)
    text = base64.b64encode(pickle.dumps(job)).decode("ascii")
    rows = spark.read.format(FORMAT).option(_JOB, text).load().collect()
    return [pickle.loads(row["staged"]) for row in sorted(rows, key=lambda row: row["number"])]  # noqa: S301 - our own
