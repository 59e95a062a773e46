"""The batch reader of the data source: plans on the driver, decodes to Arrow in the workers.

There is no filter pushdown: Spark 4.3 reuses the partitions planned for one filtered query for
later queries of the same DataFrame. Source: ``docs/decisions/0009-no-filter-pushdown.md``.
"""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.spark.read.read_plan import OffsetRange, plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

    from tidelog.spark.options.source_options import ReadOptions

COLUMN_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Columns with their types, as Spark's ``simpleString`` spells them."""

_NULLABLE: Final = ("key", "value", "headers")
_FREEZES: Final = 2

Columns = list[tuple[str, bool]]
"""The name of each column to read, and whether it is nullable."""


@dataclass(frozen=True)
class OffsetRanges(InputPartition):
    """The offset ranges of one task: plain values, so that Spark can pickle them."""

    ranges: tuple[OffsetRange, ...]


class LogReader(DataSourceReader):
    """Reads the columns of ``schema``, in its order, from the topics that ``options`` select."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = read_columns(schema)

    def partitions(self) -> list[InputPartition]:
        """Return one input partition for each task; runs on the driver."""
        tasks = plan(SYSTEM_FILES, self._options, os.cpu_count() or 1)
        return [OffsetRanges(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task; runs in a worker.

        If ``partitions`` returned none, Spark passes an empty partition of its own.
        """
        return read_task(self._options, partition, self._columns)


def read_columns(schema: StructType) -> Columns:
    """Return the columns to read; InvalidArgument for an unknown or mistyped one."""
    for field in schema.fields:
        _check_column(field)
    return [(field.name, field.nullable) for field in schema.fields]


def read_task(
    options: ReadOptions, partition: InputPartition, columns: Columns
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one task, then prepare the worker for the next one."""
    ranges = partition.ranges if isinstance(partition, OffsetRanges) else ()
    try:
        yield from _record_batches(options, ranges, columns)
    finally:
        _freeze_loaded_objects()


def _check_column(field: StructField) -> None:
    """Raise InvalidArgument for a column that is unknown, mistyped or wrongly NOT NULL."""
    expected = COLUMN_TYPES.get(field.name)
    if expected is None:
        columns = ", ".join(f"{name} {type_name}" for name, type_name in COLUMN_TYPES.items())
        raise InvalidArgument(f"unknown column {field.name!r}; the columns are {columns}")
    found = field.dataType.simpleString()
    if found != expected:
        raise InvalidArgument(
            f"column {field.name} has type {expected}, not {found}; cast it after load()"
        )
    if not field.nullable and field.name in _NULLABLE:
        raise InvalidArgument(f"column {field.name} may be null; remove NOT NULL from the schema")


def _record_batches(
    options: ReadOptions, ranges: tuple[OffsetRange, ...], columns: Columns
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from tidelog.arrow.decode import ArrowDecoder
    from tidelog.arrow.schema import select
    from tidelog.spark.read.live_batches import RangeReader

    if not ranges:
        return
    fields = select(name for name, _ in columns)
    schema = pa.schema([fields.field(name).with_nullable(null) for name, null in columns])
    reader = RangeReader(SYSTEM_FILES, options)
    for part in ranges:
        decoder = ArrowDecoder(schema, part.topic, part.partition)
        for piece in reader.read(part):
            batches = piece.batches_in_data
            yield from decoder.tables_of(piece.data, batches, part.start_offset, part.end_offset)


class _Worker:
    """The number of tasks after which this process has frozen its objects."""

    frozen_tasks = 0


def _freeze_loaded_objects() -> None:
    """Exempt the objects loaded so far from garbage collection, after the first and second task.

    Spark's worker collects garbage after every task; traversing numba's and Arrow's objects each
    time would make a task of one row take 33 ms instead of 4.
    """
    if _Worker.frozen_tasks < _FREEZES:
        _Worker.frozen_tasks += 1
        gc.freeze()
