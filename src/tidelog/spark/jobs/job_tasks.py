"""Runs a job's tasks on Spark: a task is a partition of a data source, its result a row.

So records stay in one Python process; through a DataFrame each would go to Java and back. It works
in sessions of Spark Connect, too.
"""

from __future__ import annotations

import base64
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tidelog.spark.worker_task import worker_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sized

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = "tidelog_job"
_JOB: Final = "job"

Result_co = TypeVar("Result_co", covariant=True)


class Job(Protocol[Result_co]):
    """What tasks do; Spark pickles it for each of them."""

    @property
    def tasks(self) -> Sized:
        """As many as there are tasks."""

    def run(self, number: int) -> Result_co:
        """Return the result of a task, which is pickled; may be called several times."""


@dataclass(frozen=True)
class JobPartition(InputPartition):
    """The number of a task."""

    number: int


class JobReader(DataSourceReader):
    """Runs the tasks; each has one row, with its number and its result."""

    def __init__(self, job: Job[Any]) -> None:
        self._job = job

    def partitions(self) -> list[InputPartition]:
        """Return the tasks; runs on the driver."""
        return [JobPartition(number) for number in range(len(self._job.tasks))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, bytes]]:
        """Run a task, in a worker."""
        if isinstance(partition, JobPartition):
            with worker_task():
                result = self._job.run(partition.number)
            yield partition.number, pickle.dumps(result)


class JobSource(DataSource):
    """Runs the ``Job`` in its option."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of the results."""
        return "number int, result binary"

    def reader(self, schema: StructType) -> JobReader:  # noqa: ARG002 - Spark's signature
        """Return what runs the tasks."""
        options: Mapping[str, str] = self.options
        return JobReader(pickle.loads(base64.b64decode(options[_JOB])))  # noqa: S301 - our own


def run_tasks(spark: SparkSession, job: Job[Result_co]) -> list[Result_co]:
    """Run the tasks on Spark; return their results, in their order. Errors are Spark's."""
    if not len(job.tasks):
        return []
    spark.dataSource.register(JobSource)
    text = base64.b64encode(pickle.dumps(job)).decode("ascii")
    rows = spark.read.format(FORMAT).option(_JOB, text).load().collect()
    return [pickle.loads(row["result"]) for row in sorted(rows, key=lambda row: row["number"])]  # noqa: S301 - our own
