"""The stream reader of the data source: Spark's streaming interface over ``StreamPlan``.

Spark keeps one object in a process beside the driver for as long as the query runs; only ``read``
runs in the workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

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
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from tidelog.errors import TidelogError
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.stream_offsets import Json

# Spark chooses the names of these methods.
# ruff: noqa: N802


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the topics that ``options`` select, with the columns of ``schema``."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = read_columns(schema)
        self._cached_plan: StreamPlan | None = None

    @property
    def _plan(self) -> StreamPlan:
        """The query's plan, made on first use: the copies of this object in workers need none."""
        if self._cached_plan is None:
            self._cached_plan = StreamPlan(
                SYSTEM_FILES, self._options, clock=SYSTEM_CLOCK, cores=default_parallelism()
            )
        return self._cached_plan

    @plain_errors()
    def initialOffset(self) -> Json:
        """Return where a new query begins."""
        return self._plan.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return one limit for Spark to pass to ``latestOffset``; the plan applies all of them."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    @plain_errors()
    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Return the end of the batch that begins at ``start``."""
        return self._plan.latest(start, is_limited=not isinstance(limit, ReadAllAvailable))

    @plain_errors()
    def reportLatestOffset(self) -> Json | None:
        """Return the end of the available offsets, which shows the lag in the query's progress."""
        return self._plan.report()

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        """End the query at the offsets that are available now."""
        self._plan.bound()

    @plain_errors()
    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return one input partition for each task of a batch."""
        return [OffsetRanges(task) for task in self._plan.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task; runs in a worker."""
        return read_task(self._options, partition, self._columns)


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error of a stream that cannot be read, at its first use."""

    def __init__(self, error: TidelogError) -> None:
        self._error = error

    @plain_errors()
    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> NoReturn:
        """Raise the error."""
        self._refuse()

    def getDefaultReadLimit(self) -> NoReturn:
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: Json, limit: ReadLimit) -> NoReturn:  # noqa: ARG002 - Spark's signature
        """Raise the error."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> NoReturn:
        """Raise the error."""
        self._refuse()

    def partitions(self, start: Json, end: Json) -> NoReturn:  # noqa: ARG002 - Spark's signature
        """Raise the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002 - Spark's signature
        """Raise the error."""
        self._refuse()
