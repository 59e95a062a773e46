"""The stream reader of the data source: Spark's streaming interface over ``StreamPlan``.

Spark keeps one object in a process beside the driver for as long as the query runs; only ``read``
runs in the workers.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.spark.plain_errors import plain_errors
from tidelog.spark.read.batch_reader import OffsetRanges, read_columns, read_task
from tidelog.spark.read.stream_plan import StreamPlan
from tidelog.spark.sessions.parallelism import default_parallelism

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from tidelog.errors import TidelogError
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.stream_offsets import Json

# Spark chooses the names of these methods.
# ruff: noqa: N802, N815


class StreamReader(DataSourceStreamReader):
    """What stream readers have in common in all releases of Spark."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = read_columns(schema)

    @cached_property
    def _plan(self) -> StreamPlan:
        """The query's plan, made on first use: the copies of this object in workers need none."""
        return StreamPlan(
            SYSTEM_FILES, self._options, clock=SYSTEM_CLOCK, cores=default_parallelism()
        )

    @plain_errors()
    def initialOffset(self) -> Json:
        """Return where a new query begins."""
        return self._plan.initial()

    @plain_errors()
    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return one input partition for each task of a batch."""
        return [OffsetRanges(task) for task in self._plan.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task; runs in a worker."""
        return read_task(self._options, partition, self._columns)


class UnlimitedStreamReader(StreamReader):
    """A stream in Spark 4.0 and 4.1, which ask for the end of a batch without saying its start.

    The start is the end of the batch before it. That is not known for the first batch after a start
    of the query: Spark asks for its end before it asks where a new query begins.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._end: Json | None = None

    @plain_errors()
    def latestOffset(self) -> Json:  # type: ignore[override]  # as these releases call it
        """Return the end of the next batch: all that is available."""
        self._end = self._plan.latest(self._end, is_limited=False)
        return self._end

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return one input partition for each task of a batch."""
        self._end = end
        return super().partitions(start, end)


class RefusedStreamReader(DataSourceStreamReader):
    """Raises the error of a stream that cannot be read, at its first use."""

    def __init__(self, error: TidelogError) -> None:
        self._error = error

    @plain_errors()
    def _refuse(self, *_: object) -> NoReturn:
        raise self._error

    initialOffset = partitions = read = _refuse  # type: ignore[assignment]  # it takes any

    def latestOffset(self) -> NoReturn:  # type: ignore[override]  # of all releases
        """Raise the error; by its parameters Spark decides how to call it."""
        self._refuse()
